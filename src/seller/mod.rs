//! The shop's accounts: whose place it is, where the shop can say so.
//!
//! ```text
//! join with the shop's JWT ── accounts ── keys kept here, read anew now and then ── source
//! ```
//!
//! The keys are public, so where they come from is one text: a file, or an address.

pub mod accounts;
pub mod in_file;
pub mod settings;
pub mod via_http;

use std::fmt::Debug;

use async_trait::async_trait;

pub use crate::seller::accounts::{Accounts, NoAccount};
pub use crate::seller::settings::Settings;

/// Where the shop publishes its keys.
#[async_trait]
pub trait Source: Send + Sync + Debug {
    /// Reads the JWKS. Reading twice changes nothing.
    ///
    /// # Errors
    /// It cannot be read just now, is longer than `SELLER_JWKS_BYTES_MAX`, or did not come within
    /// `SELLER_DEADLINE_MS`.
    async fn read(&self) -> anyhow::Result<Vec<u8>>;
}
