//! What we sign: passes and receipts for the line, tickets for the gate, assertions for upstreams,
//! challenges and waits before a join; and what a shop signs for us: its accounts.
//!
//! All of it is pure, given a key and a time. Keys come from one root secret (`keyring.rs`).

pub mod account;
pub mod assertion;
pub mod challenge;
pub mod keyring;
pub mod pass;
pub mod receipt;
pub mod ticket;
pub mod wait;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// HMAC-SHA-256 over parts, each preceded by its length, so that no two lists of parts collide.
pub(crate) fn hmac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    hmac_with(&prepared(key), parts)
}

/// A key to which half the work of an HMAC has been done.
pub(crate) fn prepared(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

/// The same with a prepared key.
pub(crate) fn hmac_with(prepared: &Hmac<Sha256>, parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = prepared.clone();
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac
}

/// Base64url without padding.
pub(crate) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Base64url without padding, refusing stray trailing bits: one spelling for each value.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// The same of as many bytes as are expected, and no others.
pub(crate) fn decode_array<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let decoded = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes);
    (decoded == Ok(N)).then_some(bytes)
}
