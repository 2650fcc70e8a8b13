//! Forged tickets: a good one, changed in every way that a careless reader overlooks.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use catraca::base::ids::{Edition, FanId, Generation, TicketId};
use catraca::base::time::{Clock, SystemClock};
use catraca::token::keyring::KeyRing;
use catraca::token::ticket::Ticket;
use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::e2e::hostile::site::Buyer;

/// The order of Ed25519's group, little-endian: added to a signature's second half, it makes another
/// signature that a careless reader takes for good.
const GROUP_ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

/// What a header claims, beside what is right.
const HEADERS: [(u8, &str); 25] = [
    (57, r#"{"alg": "HS512"}"#),
    (57, r#"{"alg": "ES256"}"#),
    (57, r#"{"alg": "ES256K"}"#),
    (57, r#"{"alg": "RS256"}"#),
    (57, r#"{"alg": ["EdDSA"]}"#),
    (57, r#"{"alg": 1}"#),
    (57, r#"{"alg": null}"#),
    (58, r#"{"kid": null}"#),
    (58, r#"{"kid": "k2"}"#),
    (58, r#"{"kid": "K1"}"#),
    (58, r#"{"kid": "../../dev/null"}"#),
    (58, r#"{"kid": "k1' OR '1'='1"}"#),
    (58, r#"{"kid": "http://evil/key"}"#),
    (58, r#"{"kid": "k1\r\nGET x"}"#),
    (58, r#"{"kid": 1}"#),
    (59, r#"{"jku": "http://evil/jwks"}"#),
    (59, r#"{"x5u": "http://evil/x"}"#),
    (59, r#"{"x5c": ["AA=="]}"#),
    (
        59,
        r#"{"jwk": {"kty": "OKP", "crv": "Ed25519", "x": "AA"}}"#,
    ),
    (60, r#"{"crit": ["x"], "x": 1}"#),
    (60, r#"{"crit": ["b64"], "b64": false}"#),
    (64, r#"{"typ": "JWT"}"#),
    (64, r#"{"typ": "receipt+jwt"}"#),
    (64, r#"{"typ": null}"#),
    (64, r#"{"typ": "ADMISSION+JWT"}"#),
];

/// A ticket in its three parts, to be put together differently.
pub(crate) struct Parts<'a> {
    header: &'a str,
    claims: &'a str,
    signature: &'a str,
}

impl<'a> Parts<'a> {
    pub(crate) fn of(ticket: &'a str) -> Self {
        let [header, claims, signature] = ticket.split('.').collect::<Vec<_>>()[..] else {
            panic!("{ticket}");
        };
        Self {
            header,
            claims,
            signature,
        }
    }

    fn with_header(&self, header: &str) -> String {
        format!(
            "{}.{}.{}",
            BASE64.encode(header),
            self.claims,
            self.signature
        )
    }

    fn with_claims(&self, claims: &str) -> String {
        format!(
            "{}.{}.{}",
            self.header,
            BASE64.encode(claims),
            self.signature
        )
    }

    fn with_signature(&self, signature: &[u8]) -> String {
        format!(
            "{}.{}.{}",
            self.header,
            self.claims,
            BASE64.encode(signature)
        )
    }
}

/// Rows 55 to 60: what a header of a token may claim.
pub(crate) fn headers(parts: &Parts<'_>, public_key: &[u8]) -> Vec<(u8, String)> {
    let mut forged = Vec::new();
    for alg in "none | None | nOnE | NONE | ".split(" | ") {
        let header = json!({ "alg": alg, "typ": "admission+jwt", "kid": "k1" }).to_string();
        let head = BASE64.encode(&header);
        forged.push((55, format!("{head}.{}.", parts.claims)));
        forged.push((55, parts.with_header(&header)));
    }
    let header = json!({ "alg": "HS256", "typ": "admission+jwt", "kid": "k1" }).to_string();
    let signed = format!("{}.{}", BASE64.encode(header), parts.claims);
    for key in [public_key, BASE64.encode(public_key).as_bytes(), b"", b"k1"] {
        let mac = Hmac::<Sha256>::new_from_slice(key)
            .unwrap()
            .chain_update(&signed);
        forged.push((
            56,
            format!("{signed}.{}", BASE64.encode(mac.finalize().into_bytes())),
        ));
    }
    for (number, change) in HEADERS {
        let mut header = json!({ "alg": "EdDSA", "typ": "admission+jwt", "kid": "k1" });
        let change: Value = serde_json::from_str(change).unwrap();
        for (member, value) in change.as_object().unwrap() {
            header[member] = value.clone();
        }
        forged.push((number, parts.with_header(&header.to_string())));
    }
    forged.push((57, parts.with_header("[]")));
    let long = json!({ "alg": "EdDSA", "typ": "admission+jwt", "kid": "k".repeat(10_240) });
    forged.push((58, parts.with_header(&long.to_string())));
    forged
}

/// Rows 61 to 65: claims that are not those which were signed.
pub(crate) fn claims(parts: &Parts<'_>) -> Vec<(u8, String)> {
    let signed = String::from_utf8(BASE64.decode(parts.claims).unwrap()).unwrap();
    let claims: serde_json::Value = serde_json::from_str(&signed).unwrap();
    let mut forged = Vec::new();
    for name in ["exp", "nbf", "iat"] {
        let all = "\"x\" | null | 1.5 | -1 | 1e308 | [] | {} | 9223372036854775807 | \"1\"";
        for value in all.split(" | ") {
            let was = claims[name].to_string();
            let text = signed.replacen(
                &format!("\"{name}\":{was}"),
                &format!("\"{name}\":{value}"),
                1,
            );
            assert_ne!(text, signed);
            forged.push((61, parts.with_claims(&text)));
        }
        let mut fewer = claims.clone();
        fewer.as_object_mut().unwrap().remove(name);
        forged.push((61, parts.with_claims(&fewer.to_string())));
    }
    for (number, name, value) in [
        (62, "exp", json!(1)),
        (63, "nbf", json!(4_000_000_000_u64)),
        (63, "iat", json!(4_000_000_000_u64)),
        (64, "aud", json!("other")),
        (64, "aud", json!(["gala", "other"])),
        (64, "iss", json!("evil")),
        (64, "ed", json!(2)),
        (64, "sub", json!("00000000000000000000000000000000")),
    ] {
        let mut other = claims.clone();
        other[name] = value;
        forged.push((number, parts.with_claims(&other.to_string())));
    }
    for twin in ["{\"sub\":\"x\",", "{\"aud\":\"gala\",", "{\"exp\":1,"] {
        forged.push((65, parts.with_claims(&signed.replacen('{', twin, 1))));
    }
    forged
}

/// Rows 66 and 67: spellings of a token, and of its signature.
pub(crate) fn spellings(ticket: &str, parts: &Parts<'_>) -> Vec<(u8, String)> {
    let Parts {
        header,
        claims,
        signature,
    } = parts;
    let mut forged: Vec<(u8, String)> = [
        format!("{ticket}="),
        format!("{header}=.{claims}.{signature}"),
        format!("{ticket}=="),
        format!("{ticket}."),
        format!(".{ticket}"),
        format!("{header}.{claims}"),
        format!("{header}..{claims}.{signature}"),
        format!("{header}.{claims}.{signature}.x"),
        format!("{header}.{claims}. {signature}"),
        format!("{header} .{claims}.{signature}"),
        format!("{header}.{claims}.+{}", &signature[1..]),
        format!("{ticket}A"),
        ticket[..ticket.len() - 1].to_owned(),
        format!("{header}.{claims}."),
        "..".to_owned(),
        "x".to_owned(),
        "x".repeat(60_000),
        format!("{}.{claims}.{signature}", BASE64.encode("[".repeat(1_000))),
        format!(
            "{header}.{}.{signature}",
            BASE64.encode("{\"a\":".repeat(300))
        ),
        format!("Bearer {ticket}"),
        ticket.to_lowercase(),
        format!("\"{ticket}\""),
    ]
    .map(|text| (66, text))
    .into();
    let bytes = BASE64.decode(signature).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        forged.push((67, parts.with_signature(&flipped)));
    }
    forged.push((67, parts.with_signature(&bytes[..63])));
    forged.push((67, parts.with_signature(&[0; 64])));
    let mut carry = 0;
    let mut twin = bytes;
    for (byte, order) in twin[32..].iter_mut().zip(GROUP_ORDER) {
        let sum = u16::from(*byte) + u16::from(order) + carry;
        (*byte, carry) = (sum.to_le_bytes()[0], sum >> 8);
    }
    forged.push((67, parts.with_signature(&twin)));
    forged
}

/// Rows 64, 73, 74 and 75: tickets with a good signature that opens nothing here.
pub(crate) fn well_signed(keys: &KeyRing, buyer: &Buyer) -> Vec<(u8, String)> {
    let good = Ticket::verify(&buyer.ticket, &"gala".parse().unwrap(), keys).unwrap();
    let other_fan = FanId([7; 16]);
    [
        (
            73,
            Ticket {
                show: "other".parse().unwrap(),
                ..good.clone()
            },
        ),
        (
            74,
            Ticket {
                edition: Edition(2),
                ..good.clone()
            },
        ),
        (
            74,
            Ticket {
                edition: Edition(0),
                ..good.clone()
            },
        ),
        (
            75,
            Ticket {
                fan: other_fan,
                id: TicketId([7; 16]),
                ..good.clone()
            },
        ),
        (
            70,
            Ticket {
                fan: other_fan,
                ..good.clone()
            },
        ),
        (
            75,
            Ticket {
                fan: other_fan,
                generation: Generation(9),
                issued_at: SystemClock.now(),
                ..good
            },
        ),
    ]
    .map(|(number, ticket)| (number, ticket.mint(keys)))
    .into()
}
