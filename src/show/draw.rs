//! The draw of one edition, as SQL keeps it: sealed before anybody joins, opened once.
//!
//! ```text
//! secret, commitment ──► size ──► beacon value, if there is to be one ──► seed
//! ```
//!
//! Each fact is written once and never changes: a step that is repeated, by whoever, finds it and goes
//! on from there. What follows from these facts is computed in `room/draw.rs`.

use crate::base::ids::{Commitment, DrawSecret, Number, Seed};
use crate::base::limits::BEACON_BYTES_MAX;

/// What seals a draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// Nobody's but ours until the seed is there.
    pub secret: DrawSecret,
    /// What is published of it.
    pub commitment: Commitment,
}

/// A draw, as far as it has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draw {
    /// What seals it.
    pub sealed: Sealed,
    /// Numbers up to this one take part; none: the line has not been frozen.
    pub size: Option<Number>,
    /// The beacon's number, as an operator entered it.
    pub beacon_value: Option<String>,
    /// What every place follows from; none: the draw has not been held.
    pub seed: Option<Seed>,
}

/// What is to be kept of a draw, in this order; between size and seed comes the beacon's value, which
/// an operator enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrawFact {
    /// It is sealed, before anybody joins.
    Sealed(Sealed),
    /// How many numbers take part, as the room has frozen them.
    Size(Number),
    /// It has been held.
    Seed(Seed),
}

/// What became of a beacon's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entered {
    /// It is kept.
    Now,
    /// The very same was entered before.
    Before,
    /// The show has no draw that waits for a beacon.
    NoBeacon,
    /// The line has not been frozen: a number that is known before could have been chosen.
    TooEarly,
    /// Another one was entered before, and it stays.
    Other,
}

/// What is to become of a beacon's value, where the draw has come so far.
pub fn enter(beacon: Option<&str>, draw: Option<&Draw>, value: &str) -> Entered {
    let (Some(_), Some(draw)) = (beacon, draw) else {
        return Entered::NoBeacon;
    };
    match &draw.beacon_value {
        Some(known) if known == value => Entered::Before,
        Some(_) => Entered::Other,
        None if draw.size.is_none() => Entered::TooEarly,
        None => Entered::Now,
    }
}

/// The first rule that a show's draw breaks, as a sentence.
///
/// # Errors
/// The sentence.
pub(super) fn check(draw: bool, beacon: Option<&str>) -> Result<(), String> {
    match beacon {
        None => Ok(()),
        Some(_) if !draw => Err("beacon needs draw = true".to_owned()),
        Some(beacon) => check_line("beacon", beacon),
    }
}

/// A line that a person can compare with another, character by character.
///
/// # Errors
/// A sentence that names `key`.
pub fn check_line(key: &str, text: &str) -> Result<(), String> {
    let is_plain = text.bytes().all(|b| matches!(b, b' '..=b'~'));
    if is_plain && text.trim() == text && (1..=BEACON_BYTES_MAX).contains(&text.len()) {
        return Ok(());
    }
    Err(format!(
        "{key} must have 1 to {BEACON_BYTES_MAX} printable ASCII characters, and no space at its ends"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beacon_is_entered_after_the_freeze_and_once() {
        let beacon = "drand quicknet, round 7";
        let draw = |size: Option<u64>, value: Option<&str>| Draw {
            sealed: Sealed {
                secret: DrawSecret([2; 32]),
                commitment: Commitment([1; 32]),
            },
            size: size.map(Number),
            beacon_value: value.map(str::to_owned),
            seed: None,
        };
        let sealed = draw(None, None);
        let frozen = draw(Some(9), None);
        let known = draw(Some(9), Some("42"));
        for (beacon, draw, entered) in [
            (None, Some(&frozen), Entered::NoBeacon),
            (Some(beacon), None, Entered::NoBeacon),
            (Some(beacon), Some(&sealed), Entered::TooEarly),
            (Some(beacon), Some(&frozen), Entered::Now),
            (Some(beacon), Some(&known), Entered::Before),
        ] {
            assert_eq!(enter(beacon, draw, "42"), entered);
        }
        assert_eq!(enter(Some(beacon), Some(&known), "43"), Entered::Other);
    }

    #[test]
    fn a_line_can_be_compared() {
        for (text, is_good) in [
            ("drand quicknet", true),
            ("", false),
            (" x", false),
            ("x\n", false),
            ("número", false),
        ] {
            assert_eq!(check_line("k", text).is_ok(), is_good, "{text:?}");
        }
        assert!(check_line("k", &"x".repeat(201)).is_err());
    }
}
