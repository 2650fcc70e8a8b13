//! An account of the shop, as the shop's own JWT names it: so that one account has one place.
//!
//! The shop signs, we verify with its public keys (JWKS). Which algorithm counts is settled by the
//! key, never by the token: a key of one kind verifies one algorithm, secrets are no keys here, and
//! what a token says of itself must agree. Time is room time, like that of every token.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;

use crate::base::limits::{SELLER_KEYS_MAX, TOKEN_BYTES_MAX};
use crate::base::time::Timestamp;

/// How far the shop's clock may be from ours.
const LEEWAY_S: f64 = 5.0;
/// Longest issuer and subject: each becomes part of a fan's id and is kept nowhere.
const NAME_BYTES_MAX: usize = 255;

/// One account of a shop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Who says so; empty where the token does not name anybody.
    pub issuer: String,
    /// Whose account it is.
    pub subject: String,
}

/// What a token must say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected<'a> {
    /// One of these must be among the token's audiences.
    pub audiences: &'a [&'a str],
    /// Who must have issued it; none: whoever has the keys.
    pub issuer: Option<&'a str>,
}

/// The public keys of a shop that we take.
#[derive(Debug, Clone, Default)]
pub struct SellerKeys {
    keys: Vec<SellerKey>,
}

#[derive(Debug, Clone)]
struct SellerKey {
    id: Option<String>,
    algorithm: Algorithm,
    verify: DecodingKey,
}

/// Why there is no account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// The token is not one of the shop's for here and now. Why is nobody's business.
    #[error("not a token of the shop")]
    Refused,
    /// The token names a key that is not among these: they may have been changed since.
    #[error("not a known key of the shop")]
    UnknownKey,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    #[serde(default)]
    iss: String,
    exp: f64,
    nbf: Option<f64>,
    iat: Option<f64>,
}

impl SellerKeys {
    /// The keys of a JWKS that can verify: EdDSA (Ed25519), ES256 (P-256) and RS256. Others are passed
    /// over, as RFC 7517 §5 wants.
    ///
    /// # Errors
    /// A sentence, where the text is no JWKS or has no key that we take.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        let set: serde_json::Value =
            serde_json::from_slice(text).map_err(|_| "it is no JSON".to_owned())?;
        let listed = set["keys"].as_array();
        let listed = listed.ok_or_else(|| "it has no list of keys".to_owned())?;
        if SELLER_KEYS_MAX < listed.len() {
            return Err(format!("it has more than {SELLER_KEYS_MAX} keys"));
        }
        let set = JwkSet {
            // A key of a kind that nobody here knows must not spoil the others.
            keys: listed
                .iter()
                .filter_map(|key| serde_json::from_value(key.clone()).ok())
                .collect(),
        };
        let keys: Vec<SellerKey> = set.keys.iter().filter_map(SellerKey::of).collect();
        if keys.is_empty() {
            return Err("it has no key for EdDSA, ES256 or RS256".to_owned());
        }
        Ok(Self { keys })
    }

    /// Verifies a token and reads whose it is.
    ///
    /// # Errors
    /// [`AccountError`].
    pub fn account(
        &self,
        token: &str,
        expected: &Expected<'_>,
        now: Timestamp,
    ) -> Result<Account, AccountError> {
        if TOKEN_BYTES_MAX < token.len() {
            return Err(AccountError::Refused);
        }
        let header = decode_header(token).map_err(|_| AccountError::Refused)?;
        let key = self.key(header.kid.as_deref())?;
        if header.alg != key.algorithm {
            return Err(AccountError::Refused);
        }
        let mut rules = Validation::new(key.algorithm);
        rules.set_audience(expected.audiences);
        rules.set_required_spec_claims(&["exp", "sub", "aud"]);
        if let Some(issuer) = expected.issuer {
            rules.set_issuer(&[issuer]);
            rules.required_spec_claims.insert("iss".to_owned());
        }
        rules.validate_exp = false; // by room time, below
        let claims = decode::<Claims>(token, &key.verify, &rules)
            .map_err(|_| AccountError::Refused)?
            .claims;
        claims.account(now).ok_or(AccountError::Refused)
    }

    /// The key that a token names, or the only one.
    fn key(&self, id: Option<&str>) -> Result<&SellerKey, AccountError> {
        match (id, self.keys.as_slice()) {
            (None, [only]) => Ok(only),
            (None, _) => Err(AccountError::Refused),
            (Some(id), keys) => keys
                .iter()
                .find(|key| key.id.as_deref() == Some(id))
                .ok_or(AccountError::UnknownKey),
        }
    }
}

impl SellerKey {
    /// The key, where it is one that we take.
    fn of(key: &Jwk) -> Option<Self> {
        let (algorithm, named) = match &key.algorithm {
            AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
                (Algorithm::EdDSA, KeyAlgorithm::EdDSA)
            }
            AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P256 => {
                (Algorithm::ES256, KeyAlgorithm::ES256)
            }
            AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
            AlgorithmParameters::OctetKeyPair(_)
            | AlgorithmParameters::EllipticCurve(_)
            | AlgorithmParameters::OctetKey(_) => return None,
            _ => return None, // whatever kinds the library may learn of
        };
        if key.common.key_algorithm.is_some_and(|says| says != named) {
            return None;
        }
        Some(Self {
            id: key.common.key_id.clone(),
            algorithm,
            verify: DecodingKey::from_jwk(key).ok()?,
        })
    }
}

impl Claims {
    #[expect(
        clippy::cast_precision_loss,
        reason = "seconds; JWTs may have fractions"
    )]
    fn account(self, now: Timestamp) -> Option<Account> {
        let now_s = now.as_millis() as f64 / 1_000.0;
        let is_running = now_s < self.exp + LEEWAY_S;
        let has_begun = [self.nbf, self.iat]
            .into_iter()
            .flatten()
            .all(|begins| begins - LEEWAY_S <= now_s);
        let is_named = (1..=NAME_BYTES_MAX).contains(&self.sub.len());
        let is_good = is_running && has_begun && is_named && self.iss.len() <= NAME_BYTES_MAX;
        is_good.then_some(Account {
            issuer: self.iss,
            subject: self.sub,
        })
    }
}
