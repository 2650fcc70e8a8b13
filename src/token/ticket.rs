//! The admission ticket: a JWT that says who may buy, minted at the claim.
//!
//! EdDSA only, with its own `typ` (RFC 8725 §3.11). The gate asks the room whether the admission is
//! still live, so time is not checked here: `exp` is for those who verify without us.

use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header, encode};
use serde::{Deserialize, Serialize};

use crate::base::ids::{Edition, FanId, Generation, ShowId, TicketId};
use crate::base::limits::TOKEN_BYTES_MAX;
use crate::base::time::Timestamp;
use crate::token::keyring::{KeyError, KeyRing};

const TYPE: &str = "admission+jwt";
const ISSUER: &str = "catraca";

/// What a ticket says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The show it opens.
    pub show: ShowId,
    /// The fan it is bound to.
    pub fan: FanId,
    /// The same for every claim of one admission.
    pub id: TicketId,
    /// The edition of the room.
    pub edition: Edition,
    /// The generation of the room at minting.
    pub generation: Generation,
    /// When it was minted, in room time.
    pub issued_at: Timestamp,
    /// When the admission ends unless it is extended, in room time.
    pub expires_at: Timestamp,
}

/// The text is no ticket of ours for this show. Why is nobody's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a valid ticket")]
pub struct TicketError;

#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: ShowId,
    sub: FanId,
    jti: TicketId,
    ed: u64,
    r#gen: u64,
    iat: i64,
    nbf: i64,
    exp: i64,
}

impl Ticket {
    /// Mints the JWT with the ring's active key. Seconds are rounded down, so a ticket never
    /// outlives its admission.
    pub fn mint(&self, ring: &KeyRing) -> String {
        let header = Header {
            typ: Some(TYPE.to_owned()),
            kid: Some(ring.active().to_owned()),
            ..Header::new(Algorithm::EdDSA)
        };
        let claims = Claims {
            iss: ISSUER.to_owned(),
            aud: self.show.clone(),
            sub: self.fan,
            jti: self.id,
            ed: self.edition.0,
            r#gen: self.generation.0,
            iat: self.issued_at.unix_seconds(),
            nbf: self.issued_at.unix_seconds(),
            exp: self.expires_at.unix_seconds(),
        };
        encode(&header, &claims, &ring.signing().mint)
            .expect("signing was tried when the key ring was checked")
    }

    /// Whether this is within the time that the ticket itself says.
    pub fn covers(&self, at: Timestamp) -> bool {
        self.issued_at <= at && at < self.expires_at
    }

    /// Checks signature, kind, issuer and show, and reads the ticket.
    ///
    /// # Errors
    /// [`TicketError`] for anything but a ticket of this show signed with a key of the ring.
    pub fn verify(text: &str, show: &ShowId, ring: &KeyRing) -> Result<Self, TicketError> {
        if TOKEN_BYTES_MAX < text.len() {
            return Err(TicketError);
        }
        let header = decode_header(text).map_err(|_| TicketError)?;
        if header.alg != Algorithm::EdDSA || header.typ.as_deref() != Some(TYPE) {
            return Err(TicketError);
        }
        let keys = header
            .kid
            .as_deref()
            .and_then(|kid| ring.accepted(kid))
            .ok_or(TicketError)?;
        let mut rules = Validation::new(Algorithm::EdDSA);
        rules.set_required_spec_claims(&["exp", "nbf", "aud", "iss", "sub"]);
        rules.set_audience(&[show.as_str()]);
        rules.set_issuer(&[ISSUER]);
        rules.validate_exp = false; // the live admission decides
        let claims = decode::<Claims>(text, &keys.verify, &rules)
            .map_err(|_| TicketError)?
            .claims;
        Ok(Self {
            show: claims.aud,
            fan: claims.sub,
            id: claims.jti,
            edition: Edition(claims.ed),
            generation: Generation(claims.r#gen),
            issued_at: Timestamp::from_unix_seconds(claims.iat),
            expires_at: Timestamp::from_unix_seconds(claims.exp),
        })
    }
}

/// Signs and verifies once. jsonwebtoken finds out at its first use whether it was built with a
/// cryptographic backend; that must be at start, not at the first claim.
///
/// # Errors
/// [`KeyError::Library`] where a freshly minted ticket does not verify.
pub fn self_test(ring: &KeyRing) -> Result<(), KeyError> {
    let ticket = Ticket {
        show: "self-test".parse().expect("a well-formed show id"),
        fan: FanId([0; 16]),
        id: TicketId([0; 16]),
        edition: Edition(1),
        generation: Generation(1),
        issued_at: Timestamp::from_unix_seconds(1),
        expires_at: Timestamp::from_unix_seconds(2),
    };
    match Ticket::verify(&ticket.mint(ring), &ticket.show, ring) {
        Ok(read) if read == ticket => Ok(()),
        Ok(_) | Err(_) => Err(KeyError::Library(
            "a minted ticket does not verify".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::secret::Secret;
    use jsonwebtoken::EncodingKey;

    fn ring(active: &str, accepted: &[&str]) -> KeyRing {
        let accepted: Vec<String> = accepted.iter().map(|&label| label.to_owned()).collect();
        KeyRing::new(&Secret::new("z".repeat(40)), active, &accepted).unwrap()
    }

    fn show() -> ShowId {
        "stadium-show".parse().unwrap()
    }

    fn ticket() -> Ticket {
        Ticket {
            show: show(),
            fan: FanId([9; 16]),
            id: TicketId([8; 16]),
            edition: Edition(2),
            generation: Generation(3),
            issued_at: Timestamp::from_unix_seconds(1_800_000_000),
            expires_at: Timestamp::from_unix_seconds(1_800_000_300),
        }
    }

    fn signed(ring: &KeyRing, header: &Header, claims: &serde_json::Value) -> String {
        encode(header, claims, &ring.signing().mint).unwrap()
    }

    #[test]
    fn a_ticket_reads_back_for_its_show_only() {
        let ring = ring("k1", &[]);
        self_test(&ring).unwrap();
        let jwt = ticket().mint(&ring);
        assert_eq!(Ticket::verify(&jwt, &show(), &ring), Ok(ticket()));
        assert_eq!(
            Ticket::verify(&jwt, &"other".parse().unwrap(), &ring),
            Err(TicketError)
        );
    }

    #[test]
    fn keys_rotate_with_an_overlap() {
        let old = ticket().mint(&ring("k1", &[]));
        assert_eq!(
            Ticket::verify(&old, &show(), &ring("k2", &["k1"])),
            Ok(ticket())
        );
        assert_eq!(
            Ticket::verify(&old, &show(), &ring("k2", &[])),
            Err(TicketError)
        );
    }

    #[test]
    fn headers_and_claims_must_be_exactly_ours() {
        let ring = ring("k1", &[]);
        let good = serde_json::json!({"iss": "catraca", "aud": "stadium-show", "sub": ticket().fan,
            "jti": ticket().id, "ed": 2, "gen": 3, "iat": 1, "nbf": 1, "exp": 2});
        let ours = Header {
            typ: Some(TYPE.into()),
            kid: Some("k1".into()),
            ..Header::new(Algorithm::EdDSA)
        };
        assert!(Ticket::verify(&signed(&ring, &ours, &good), &show(), &ring).is_ok());
        for header in [
            Header {
                typ: None,
                ..ours.clone()
            },
            Header {
                typ: Some("JWT".into()),
                ..ours.clone()
            },
            Header {
                kid: None,
                ..ours.clone()
            },
            Header {
                kid: Some("../../dev/null".into()),
                ..ours.clone()
            },
        ] {
            let bad = signed(&ring, &header, &good);
            assert_eq!(
                Ticket::verify(&bad, &show(), &ring),
                Err(TicketError),
                "{header:?}"
            );
        }
        for claim in ["iss", "aud", "sub", "jti", "ed", "gen", "iat", "nbf", "exp"] {
            for value in [
                None,
                Some(serde_json::json!("x")),
                Some(serde_json::json!([1.5])),
            ] {
                let mut claims = good.clone();
                match &value {
                    Some(value) => claims[claim] = value.clone(),
                    None => drop(claims.as_object_mut().unwrap().remove(claim)),
                }
                let bad = signed(&ring, &ours, &claims);
                assert_eq!(
                    Ticket::verify(&bad, &show(), &ring),
                    Err(TicketError),
                    "{claim} {value:?}"
                );
            }
        }
    }

    #[test]
    fn other_algorithms_and_keys_are_refused() {
        let ring = ring("k1", &[]);
        let jwt = ticket().mint(&ring);
        let payload = jwt.split('.').nth(1).unwrap();
        let none = crate::token::encode(br#"{"alg":"none","typ":"admission+jwt","kid":"k1"}"#);
        let public = serde_json::to_value(ring.jwks()).unwrap()["keys"][0]["x"].to_string();
        let confused = Header {
            typ: Some(TYPE.into()),
            kid: Some("k1".into()),
            ..Header::new(Algorithm::HS256)
        };
        let claims: serde_json::Value =
            serde_json::from_slice(&crate::token::decode(payload).unwrap()).unwrap();
        let hs256 = encode(
            &confused,
            &claims,
            &EncodingKey::from_secret(public.as_bytes()).unwrap(),
        );
        for bad in [
            format!("{none}.{payload}."),
            hs256.unwrap(),
            format!("{jwt}A"),
            jwt[1..].into(),
        ] {
            assert_eq!(
                Ticket::verify(&bad, &show(), &ring),
                Err(TicketError),
                "{bad}"
            );
        }
    }
}
