//! Keys: one root secret, and by label the keys that sign passes and tickets.
//!
//! Signing keys rotate by label: a new label becomes active, the old one stays accepted until the
//! last token that it signed has run out. What must never change in an edition (ticket ids, fan ids
//! from idempotency keys) derives from the root itself and does not rotate.

use std::collections::BTreeMap;

use hmac::{Hmac, Mac};
use jsonwebtoken::jwk::{Jwk, JwkSet, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use sha2::{Digest, Sha256};

use crate::base::ids::{Edition, FanId, ShowId, TicketId};
use crate::base::secret::Secret;
use crate::token::account::Account;
use crate::token::{hmac, prepared};

/// Bytes a root secret must have at least.
pub const SECRET_BYTES_MIN: usize = 32;

/// PKCS #8 (RFC 8410) wrapping of a 32-byte Ed25519 seed.
const ED25519_PKCS8_HEAD: [u8; 16] = [
    0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
];

/// Why a key ring cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The root secret is too short to be one.
    #[error("keys.secret has {0} bytes; it must have at least {SECRET_BYTES_MIN}")]
    ShortSecret(usize),
    /// A label that is empty, too long or of other characters than `a-z0-9-`.
    #[error("key label {0:?} must be 1 to 32 of a-z, 0-9 and -")]
    BadLabel(String),
    /// The same label twice.
    #[error("key label {0:?} is given twice")]
    SameLabel(String),
    /// The cryptographic library refused a key it was given.
    #[error("the signing library refused a derived key: {0}")]
    Library(String),
}

/// The keys under one label.
pub(crate) struct Keys {
    pub(crate) pass: Hmac<Sha256>,
    pub(crate) mint: EncodingKey,
    pub(crate) verify: DecodingKey,
    public: Jwk,
}

/// Every key that a process signs with or accepts.
pub struct KeyRing {
    root: [u8; 32],
    active: String,
    keys: BTreeMap<String, Keys>,
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyRing")
            .field("labels", &self.keys.keys())
            .finish_non_exhaustive()
    }
}

impl KeyRing {
    /// A ring that signs under `active` and also accepts what `accepted` signed.
    ///
    /// # Errors
    /// [`KeyError`] for a short secret or a bad label.
    pub fn new(secret: &Secret, active: &str, accepted: &[String]) -> Result<Self, KeyError> {
        let bytes = secret.expose().as_bytes();
        if bytes.len() < SECRET_BYTES_MIN {
            return Err(KeyError::ShortSecret(bytes.len()));
        }
        let root: [u8; 32] = Sha256::digest(bytes).into();
        let mut keys = BTreeMap::new();
        for label in std::iter::once(active).chain(accepted.iter().map(String::as_str)) {
            let well_formed = (1..=32).contains(&label.len())
                && label
                    .bytes()
                    .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
            if !well_formed {
                return Err(KeyError::BadLabel(label.to_owned()));
            }
            if keys
                .insert(label.to_owned(), keys_of(&root, label)?)
                .is_some()
            {
                return Err(KeyError::SameLabel(label.to_owned()));
            }
        }
        Ok(Self {
            root,
            active: active.to_owned(),
            keys,
        })
    }

    /// The label that signs.
    pub fn active(&self) -> &str {
        &self.active
    }

    /// The public keys that verify tickets, as RFC 7517 has them.
    pub fn jwks(&self) -> JwkSet {
        JwkSet {
            keys: self.keys.values().map(|keys| keys.public.clone()).collect(),
        }
    }

    /// The id of a fan's ticket: the same on every claim and after every loss, whichever number the fan shows.
    pub fn ticket_id(&self, show: &ShowId, edition: Edition, fan: FanId) -> TicketId {
        TicketId(self.id(&[
            b"ticket id",
            show.as_str().as_bytes(),
            &edition.0.to_be_bytes(),
            &fan.0,
        ]))
    }

    /// The fan that an idempotency key stands for, so that a lost answer makes no second fan.
    pub fn fan_of_key(&self, show: &ShowId, edition: Edition, key: &str) -> FanId {
        FanId(self.id(&[
            b"fan of key",
            show.as_str().as_bytes(),
            &edition.0.to_be_bytes(),
            key.as_bytes(),
        ]))
    }

    /// The fan that an account of the shop stands for, so that it has one place wherever it joins.
    /// `turn` counts the turns of that account in this edition, from 0.
    pub fn fan_of_account(
        &self,
        show: &ShowId,
        edition: Edition,
        account: &Account,
        turn: u32,
    ) -> FanId {
        FanId(self.id(&[
            b"seller",
            show.as_str().as_bytes(),
            &edition.0.to_be_bytes(),
            account.issuer.as_bytes(),
            account.subject.as_bytes(),
            &turn.to_be_bytes(),
        ]))
    }

    /// The secret shared with the upstream of this name where the operator set none.
    pub fn upstream_secret(&self, upstream: &str) -> Secret {
        let bytes = derive(&self.root, &[b"upstream", upstream.as_bytes()]);
        Secret::new(crate::token::encode(&bytes))
    }

    /// A key for what lives no longer than minutes, and so need not rotate.
    pub(crate) fn short_lived(&self, what: &'static str) -> [u8; 32] {
        derive(&self.root, &[b"short-lived", what.as_bytes()])
    }

    pub(crate) fn signing(&self) -> &Keys {
        &self.keys[&self.active]
    }

    pub(crate) fn accepted(&self, label: &str) -> Option<&Keys> {
        self.keys.get(label)
    }

    fn id(&self, parts: &[&[u8]]) -> [u8; 16] {
        derive(&self.root, parts)[..16]
            .try_into()
            .expect("sixteen bytes of thirty-two")
    }
}

fn keys_of(root: &[u8; 32], label: &str) -> Result<Keys, KeyError> {
    let library = |error: jsonwebtoken::errors::Error| KeyError::Library(error.to_string());
    let seed = derive(root, &[b"ticket key", label.as_bytes()]);
    let mint = EncodingKey::from_ed_der(&[&ED25519_PKCS8_HEAD[..], &seed].concat());
    let mut public = Jwk::from_encoding_key(&mint, Algorithm::EdDSA).map_err(library)?;
    public.common.key_id = Some(label.to_owned());
    public.common.key_algorithm = Some(KeyAlgorithm::EdDSA);
    public.common.public_key_use = Some(PublicKeyUse::Signature);
    Ok(Keys {
        pass: prepared(&derive(root, &[b"pass key", label.as_bytes()])),
        verify: DecodingKey::from_jwk(&public).map_err(library)?,
        mint,
        public,
    })
}

fn derive(root: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    hmac(root, parts).finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(active: &str, accepted: &[&str]) -> Result<KeyRing, KeyError> {
        let accepted: Vec<String> = accepted.iter().map(|&label| label.to_owned()).collect();
        KeyRing::new(&Secret::new("x".repeat(32)), active, &accepted)
    }

    #[test]
    fn bad_rings_say_why() {
        assert_eq!(
            KeyRing::new(&Secret::new("short"), "k1", &[]).unwrap_err(),
            KeyError::ShortSecret(5)
        );
        assert_eq!(
            ring("K1", &[]).unwrap_err(),
            KeyError::BadLabel("K1".into())
        );
        assert_eq!(
            ring("k1", &["k1"]).unwrap_err(),
            KeyError::SameLabel("k1".into())
        );
    }

    #[test]
    fn ids_do_not_rotate() {
        let (show, fan) = ("s".parse().unwrap(), FanId([7; 16]));
        let id = |ring: KeyRing| ring.ticket_id(&show, Edition(1), fan);
        assert_eq!(
            id(ring("k1", &[]).unwrap()),
            id(ring("k2", &["k1"]).unwrap())
        );
    }

    #[test]
    fn the_jwks_lists_every_accepted_key_and_no_private_part() {
        let json = serde_json::to_value(ring("k2", &["k1"]).unwrap().jwks()).unwrap();
        let labels: Vec<_> = json["keys"]
            .as_array()
            .unwrap()
            .iter()
            .map(|k| &k["kid"])
            .collect();
        assert_eq!(labels, ["k1", "k2"]);
        assert_eq!(json["keys"][0]["crv"], "Ed25519");
        assert_eq!(json["keys"][0].get("d"), None);
    }
}
