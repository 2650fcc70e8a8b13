//! What an operator decides about the shop's accounts.

use std::path::PathBuf;

use serde::Deserialize;

use crate::base::bound::within;
use crate::base::limits::{SELLER_PAUSE_MS, SELLER_TURNS_MAX, WAIT_MS_MAX};

/// `[gateway.seller]`: who signs accounts.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where the shop's JWKS is: an https address, or a file. Empty: there are no accounts.
    pub jwks: String,
    /// PEM certificates to trust beside those of the machine for an https address; empty: none.
    pub ca_file: PathBuf,
    /// Who must have issued a token; empty: whoever has the keys.
    pub issuer: String,
    /// Audiences of which a token must have one; none: the show's id.
    pub audiences: Vec<String>,
    /// Whether nobody joins without an account.
    pub required: bool,
    /// Turns that an account may have in an edition, one after the other.
    pub turns_max: u32,
    /// How old keys may be before they are read anew.
    pub refresh_ms: u64,
    /// How long keys count that cannot be read anew.
    pub keys_max_age_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            jwks: String::new(),
            ca_file: PathBuf::new(),
            issuer: String::new(),
            audiences: Vec::new(),
            required: false,
            turns_max: 10,
            refresh_ms: 300_000,
            keys_max_age_ms: 3_600_000,
        }
    }
}

impl Settings {
    /// The first rule that the settings break.
    ///
    /// # Errors
    /// A sentence that names key and value.
    pub fn check(&self) -> Result<(), String> {
        if self.required && self.jwks.is_empty() {
            return Err("seller.required needs seller.jwks: without keys nobody could join".into());
        }
        within("seller.turns_max", self.turns_max, &SELLER_TURNS_MAX)?;
        let refresh = SELLER_PAUSE_MS..=WAIT_MS_MAX;
        within("seller.refresh_ms", self.refresh_ms, &refresh)?;
        let age = self.refresh_ms..=WAIT_MS_MAX; // else there would be none between two readings
        within("seller.keys_max_age_ms", self.keys_max_age_ms, &age)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sellers_that_cannot_be_meant_are_refused() {
        let good = Settings::default;
        good().check().unwrap();
        for (settings, names) in [
            (
                Settings {
                    required: true,
                    ..good()
                },
                "seller.required",
            ),
            (
                Settings {
                    turns_max: 0,
                    ..good()
                },
                "seller.turns_max (0) must be between 1 and 100",
            ),
            (
                Settings {
                    keys_max_age_ms: 1,
                    ..good()
                },
                "seller.keys_max_age_ms (1) must be between 300000 and 86400000",
            ),
            (
                Settings {
                    refresh_ms: 0,
                    ..good()
                },
                "seller.refresh_ms (0) must be between 5000 and 86400000",
            ),
        ] {
            let says = settings.check().unwrap_err();
            assert!(says.starts_with(names), "{says}");
        }
    }
}
