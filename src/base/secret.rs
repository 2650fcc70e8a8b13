//! A text that never prints: keys, bearer tokens, passwords.

use std::fmt;

use serde::{Deserialize, Deserializer};
use subtle::ConstantTimeEq;

/// A secret. `Debug` and `Display` show asterisks; only [`Secret::expose`] shows the text.
#[derive(Clone, Default)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself. Every caller is a place to look at in a review.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether `text` is this secret, in a time that does not depend on where they differ.
    pub fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print() {
        let secret = Secret::new("swordfish");
        assert_eq!(format!("{secret} {secret:?}"), "*** ***");
        assert!(secret.is("swordfish") && !secret.is("sword") && !secret.is("swordfisH"));
    }
}
