//! The receipt: what a pass says, as a JWT that anybody can verify with the published keys.
//!
//! A pass is signed with a secret of ours, so it proves something to us only. A receipt proves to a
//! third party which number a fan was given, when, and which draw was sealed at that time. It opens
//! nothing and never expires: its own `typ` keeps it from being taken for a ticket (RFC 8725 §3.11).

use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header, encode};
use serde::{Deserialize, Serialize};

use crate::base::ids::{Commitment, Edition, FanId, Generation, Number, ShowId};
use crate::base::limits::TOKEN_BYTES_MAX;
use crate::base::time::Timestamp;
use crate::token::keyring::KeyRing;
use crate::token::pass::Pass;

const TYPE: &str = "receipt+jwt";
const ISSUER: &str = "catraca";

/// What a receipt says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The show.
    pub show: ShowId,
    /// The fan.
    pub fan: FanId,
    /// The number issued at join.
    pub number: Number,
    /// The edition that issued the number.
    pub edition: Edition,
    /// The generation of the room when the pass was signed.
    pub generation: Generation,
    /// When the pass was signed, in room time; whole seconds.
    pub issued_at: Timestamp,
    /// The draw that was sealed at that time; `None` where the show has none.
    pub commitment: Option<Commitment>,
}

/// The text is no receipt that one of these keys has signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a valid receipt")]
pub struct ReceiptError;

#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: ShowId,
    sub: FanId,
    number: Number,
    ed: Edition,
    r#gen: Generation,
    iat: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    commitment: Option<Commitment>,
}

impl Receipt {
    /// The receipt for a pass: the same facts.
    pub fn of(pass: &Pass) -> Self {
        Self {
            show: pass.show.clone(),
            fan: pass.fan,
            number: pass.number,
            edition: pass.edition,
            generation: pass.generation,
            issued_at: pass.issued_at,
            commitment: pass.commitment,
        }
    }

    /// Signs the JWT with the ring's active key.
    pub fn sign(&self, ring: &KeyRing) -> String {
        let header = Header {
            typ: Some(TYPE.to_owned()),
            kid: Some(ring.active().to_owned()),
            ..Header::new(Algorithm::EdDSA)
        };
        let claims = Claims {
            iss: ISSUER.to_owned(),
            aud: self.show.clone(),
            sub: self.fan,
            number: self.number,
            ed: self.edition,
            r#gen: self.generation,
            iat: self.issued_at.unix_seconds(),
            commitment: self.commitment,
        };
        encode(&header, &claims, &ring.signing().mint)
            .expect("signing was tried when the key ring was checked")
    }

    /// Checks signature, kind and issuer, and reads the receipt. Whether the show fits is the
    /// caller's check.
    ///
    /// # Errors
    /// [`ReceiptError`] for anything but a receipt that one of the published keys has signed.
    pub fn verify(text: &str, keys: &JwkSet) -> Result<Self, ReceiptError> {
        if TOKEN_BYTES_MAX < text.len() {
            return Err(ReceiptError);
        }
        let header = decode_header(text).map_err(|_| ReceiptError)?;
        if header.alg != Algorithm::EdDSA || header.typ.as_deref() != Some(TYPE) {
            return Err(ReceiptError);
        }
        let jwk = header.kid.as_deref().and_then(|kid| keys.find(kid));
        let key = jwk.and_then(|jwk| DecodingKey::from_jwk(jwk).ok());
        let mut rules = Validation::new(Algorithm::EdDSA);
        rules.set_required_spec_claims(&["iss", "aud", "sub"]);
        rules.set_issuer(&[ISSUER]);
        rules.validate_aud = false;
        rules.validate_exp = false; // a proof of what was is good for ever
        let claims = decode::<Claims>(text, &key.ok_or(ReceiptError)?, &rules)
            .map_err(|_| ReceiptError)?
            .claims;
        Ok(claims.into())
    }

    /// What a text claims to be a receipt of, its signature not looked at: for those who have no keys
    /// and believe their own receipt.
    ///
    /// # Errors
    /// [`ReceiptError`] for anything that is not written like a receipt.
    pub fn claimed(text: &str) -> Result<Self, ReceiptError> {
        let payload = text.split('.').nth(1).and_then(crate::token::decode);
        let claims = payload.and_then(|payload| serde_json::from_slice::<Claims>(&payload).ok());
        claims.map(Into::into).ok_or(ReceiptError)
    }
}

impl From<Claims> for Receipt {
    fn from(claims: Claims) -> Self {
        Self {
            show: claims.aud,
            fan: claims.sub,
            number: claims.number,
            edition: claims.ed,
            generation: claims.r#gen,
            issued_at: Timestamp::from_unix_seconds(claims.iat),
            commitment: claims.commitment,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::TicketId;
    use crate::base::secret::Secret;
    use crate::token::ticket::Ticket;

    fn ring(active: &str, accepted: &[&str]) -> KeyRing {
        let accepted: Vec<String> = accepted.iter().map(|&label| label.to_owned()).collect();
        KeyRing::new(&Secret::new("r".repeat(40)), active, &accepted).unwrap()
    }

    fn receipt(commitment: Option<Commitment>) -> Receipt {
        Receipt::of(&Pass {
            show: "stadium-show".parse().unwrap(),
            fan: FanId([9; 16]),
            number: Number(45_000),
            edition: Edition(2),
            generation: Generation(3),
            issued_at: Timestamp::from_unix_seconds(1_800_000_000),
            eta: Some((75, 105)),
            commitment,
        })
    }

    #[test]
    fn a_receipt_is_verified_with_what_is_published() {
        let ring = ring("k1", &[]);
        for receipt in [receipt(None), receipt(Some(Commitment([7; 32])))] {
            let jwt = receipt.sign(&ring);
            assert_eq!(Receipt::claimed(&jwt), Ok(receipt.clone()));
            assert_eq!(Receipt::verify(&jwt, &ring.jwks()), Ok(receipt));
        }
        assert_eq!(Receipt::claimed("a.b.c"), Err(ReceiptError));
    }

    #[test]
    fn keys_rotate_and_strangers_sign_nothing() {
        let jwt = receipt(None).sign(&ring("k1", &[]));
        let overlap = ring("k2", &["k1"]).jwks();
        assert_eq!(Receipt::verify(&jwt, &overlap), Ok(receipt(None)));
        let after = ring("k2", &[]).jwks();
        assert_eq!(Receipt::verify(&jwt, &after), Err(ReceiptError));
        let stranger = KeyRing::new(&Secret::new("s".repeat(40)), "k1", &[]).unwrap();
        assert_eq!(Receipt::verify(&jwt, &stranger.jwks()), Err(ReceiptError));
    }

    #[test]
    fn every_changed_character_is_noticed_and_a_ticket_is_none() {
        let ring = ring("k1", &[]);
        let good = receipt(Some(Commitment([7; 32]))).sign(&ring);
        for at in 0..good.len() {
            let mut bytes = good.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let bad = String::from_utf8(bytes).unwrap();
            assert_eq!(
                Receipt::verify(&bad, &ring.jwks()),
                Err(ReceiptError),
                "character {at}"
            );
        }
        let ticket = Ticket {
            show: "stadium-show".parse().unwrap(),
            fan: FanId([9; 16]),
            id: TicketId([8; 16]),
            edition: Edition(2),
            generation: Generation(3),
            issued_at: Timestamp::from_unix_seconds(1),
            expires_at: Timestamp::from_unix_seconds(2),
        };
        let ticket = ticket.mint(&ring);
        assert_eq!(Receipt::verify(&ticket, &ring.jwks()), Err(ReceiptError));
        let show = "stadium-show".parse().unwrap();
        assert!(Ticket::verify(&good, &show, &ring).is_err());
    }
}
