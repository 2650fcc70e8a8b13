//! Identifiers, each its own type, and the one place where they are made up.
//!
//! An identifier is parsed once, at the edge; past that a value of the type is proof that its text
//! was well-formed. [`IdSource`] is random in life and seeded in tests, so that a run replays.

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::base::limits::SHOW_ID_BYTES_MAX;
use crate::base::time::Timestamp;

/// A text that is not the identifier it was taken for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid {what}")]
pub struct Malformed {
    /// The kind of identifier that was expected, for the message.
    pub what: &'static str,
}

/// One sale and its waiting room: `^[a-z0-9]([a-z0-9-]{0,62})$`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShowId(String);

impl ShowId {
    /// The text of the identifier.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ShowId {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let well_formed = !text.is_empty()
            && text.len() <= SHOW_ID_BYTES_MAX
            && !text.starts_with('-')
            && text
                .bytes()
                .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        if well_formed {
            Ok(Self(text.to_owned()))
        } else {
            Err(Malformed { what: "show id" })
        }
    }
}

impl fmt::Display for ShowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Bytes that are written as twice as many lower-case hexadecimal digits.
macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $bytes]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex(&self.0))
            }
        }

        impl FromStr for $name {
            type Err = Malformed;

            fn from_str(text: &str) -> Result<Self, Malformed> {
                parse_hex(text).map(Self).ok_or(Malformed { what: $what })
            }
        }
    };
}

hex_id!(
    /// Someone in line. Belongs to one show and one number for ever.
    FanId,
    16,
    "fan id"
);
hex_id!(
    /// An admission ticket's identity: derived from show, edition, fan and number, so every claim
    /// of the same admission names the same ticket.
    TicketId,
    16,
    "ticket id"
);
hex_id!(
    /// What the operator keeps of a draw until it is open. `Debug` does not show it; `Display` does,
    /// for the store that keeps it and for the reveal.
    DrawSecret,
    32,
    "draw secret"
);
hex_id!(
    /// Binds the operator to a draw's secret and beacon before anybody can know the outcome.
    Commitment,
    32,
    "commitment"
);
hex_id!(
    /// What the whole order of a draw follows from.
    Seed,
    32,
    "seed"
);

impl fmt::Debug for DrawSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// `Debug` as a tuple struct of the text.
macro_rules! debug_as_text {
    ($($name:ident),+) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
    )+};
}

debug_as_text!(FanId, TicketId, Commitment, Seed);

/// Bytes as twice as many lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |at: u8| b"0123456789abcdef"[usize::from(at)];
    let pairs = bytes.iter().map(|byte| [byte >> 4, byte & 15].map(digit));
    let text = pairs.collect::<Vec<_>>().into_flattened();
    String::from_utf8(text).expect("digits are ASCII")
}

/// The bytes that are written so, in their one spelling.
pub fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
    }
    Some(bytes)
}

fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// A UUID of version 7: sorts by the time it was made.
macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = Malformed;

            fn from_str(text: &str) -> Result<Self, Malformed> {
                // One spelling only: the hyphenated lower-case form that we print ourselves.
                match Uuid::try_parse(text) {
                    Ok(id) if id.hyphenated().to_string() == text => Ok(Self(id)),
                    Ok(_) | Err(_) => Err(Malformed { what: $what }),
                }
            }
        }
    };
}

uuid_id!(
    /// Seats set aside until a time.
    HoldId,
    "hold id"
);
uuid_id!(
    /// A purchase.
    OrderId,
    "order id"
);
uuid_id!(
    /// One event. Consumers forget a second delivery by it, and mail carries it as Message-ID.
    EventId,
    "event id"
);
uuid_id!(
    /// One request at the gateway, for logs and for the upstream's nonce check.
    RequestId,
    "request id"
);

/// Serde by `Display` and `FromStr`, the same text everywhere.
macro_rules! serde_as_text {
    ($($name:ident),+) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}

serde_as_text!(
    ShowId, FanId, TicketId, DrawSecret, Commitment, Seed, HoldId, OrderId, EventId, RequestId
);

/// A count with a meaning, which must not be mistaken for another.
macro_rules! counter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

counter!(
    /// What a fan drew at join: 1, 2, 3… Never issued twice in an edition.
    Number
);
counter!(
    /// The order in which fans are called. A type of its own: a number says who came when.
    Place
);
counter!(
    /// Rises when an operator resets a room; passes of another edition are void.
    Edition
);
counter!(
    /// Rises when a room's data was lost; passes of this edition stay good.
    Generation
);
counter!(
    /// Rises with each new holder of a lease. Whoever names an older one has been replaced.
    FencingToken
);

/// Where new identifiers come from: random in life, seeded in tests.
#[derive(Debug)]
pub struct IdSource {
    random: Mutex<StdRng>,
}

impl IdSource {
    /// Identifiers that nobody can guess.
    pub fn random() -> Self {
        Self {
            random: Mutex::new(StdRng::from_rng(&mut rand::rng())),
        }
    }

    /// The same identifiers on every run with the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self {
            random: Mutex::new(StdRng::seed_from_u64(seed)),
        }
    }

    /// A new fan.
    pub fn fan(&self) -> FanId {
        FanId(self.bytes())
    }

    /// A new hold.
    pub fn hold(&self, now: Timestamp) -> HoldId {
        HoldId(self.uuid(now))
    }

    /// A new order.
    pub fn order(&self, now: Timestamp) -> OrderId {
        OrderId(self.uuid(now))
    }

    /// A new event.
    pub fn event(&self, now: Timestamp) -> EventId {
        EventId(self.uuid(now))
    }

    /// A new request.
    pub fn request(&self, now: Timestamp) -> RequestId {
        RequestId(self.uuid(now))
    }

    /// 64 random bits, for seeds and jitter.
    pub fn seed(&self) -> u64 {
        let bytes: [u8; 16] = self.bytes();
        u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes of sixteen"))
    }

    /// 32 random bytes.
    pub fn nonce(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.bytes());
        bytes[16..].copy_from_slice(&self.bytes());
        bytes
    }

    /// 32 random bytes as 64 hexadecimal digits: a secret or a bearer token.
    pub fn secret(&self) -> String {
        format!("{}{}", FanId(self.bytes()), FanId(self.bytes()))
    }

    /// The secret of a draw.
    pub fn draw_secret(&self) -> DrawSecret {
        DrawSecret(self.nonce())
    }

    fn uuid(&self, now: Timestamp) -> Uuid {
        let bytes = self.bytes();
        let tail = bytes[..10].try_into().expect("ten bytes of sixteen");
        uuid::Builder::from_unix_timestamp_millis(now.unix_ms(), tail).into_uuid()
    }

    fn bytes(&self) -> [u8; 16] {
        let mut random = self
            .random
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        random.random()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn show_ids_are_lower_case_and_bounded() {
        for good in ["a", "stadium-show", "2027", "a--b", &"x".repeat(63)] {
            assert!(good.parse::<ShowId>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "-a",
            "A",
            "a_b",
            "a/b",
            "{a}",
            "é",
            "a b",
            &"x".repeat(64),
        ] {
            assert!(bad.parse::<ShowId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn each_identifier_has_one_spelling() {
        let ids = IdSource::seeded(7);
        let fan = ids.fan();
        assert_eq!(fan.to_string().parse(), Ok(fan));
        assert!(fan.to_string().to_uppercase().parse::<FanId>().is_err());
        let order = ids.order(Timestamp::from_unix_ms(1_800_000_000_000));
        assert_eq!(order.to_string().parse(), Ok(order));
        assert!(order.0.simple().to_string().parse::<OrderId>().is_err());
        assert!(format!("{{{order}}}").parse::<OrderId>().is_err());
    }

    #[test]
    fn a_seed_replays() {
        assert_eq!(IdSource::seeded(1).fan(), IdSource::seeded(1).fan());
        assert_ne!(IdSource::seeded(1).fan(), IdSource::seeded(2).fan());
    }
}
