//! What an `Idempotency-Key` means: proceed, replay, in progress, or reused for something else.
//!
//! A key belongs to one fan and one route. The first request with it leaves a mark for
//! [`KEY_IN_FLIGHT_MS`] and, in the transaction that does its work, the answer for
//! [`KEY_KEPT_MS`]. A process that dies in between blocks the key no longer than the mark lasts; one
//! that merely slept finds its mark taken over and writes nothing.
//!
//! Kept are answers that are true for good: what was done, and refusals that the same request would
//! always meet. Failures and refusals that time may lift (seats in a cart, a payment under way)
//! release the key, so that the same request may succeed later.

use crate::base::ids::{FanId, ShowId};
use crate::base::limits::{KEY_BYTES_MAX, KEY_IN_FLIGHT_MS, KEY_KEPT_MS};
use crate::base::time::Timestamp;

/// A request's key with what it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The show of the fan whose key it is.
    pub show: ShowId,
    /// Whose key it is.
    pub fan: FanId,
    /// The act it is for: the same key on another route is another key.
    pub route: &'static str,
    /// The header's value.
    pub key: String,
    /// A digest of what is asked.
    pub fingerprint: String,
}

/// A key whose request may proceed, until a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The key.
    pub key: Key,
    /// Until when it is taken for in flight: also what tells this claim from a later one.
    pub until: Timestamp,
}

/// An answer as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// What `Catraca-Admission` says.
    pub admission: Option<String>,
    /// The body; of a refusal, its word.
    pub body: String,
}

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// A digest of what was asked first.
    pub fingerprint: String,
    /// The answer, once there is one.
    pub answer: Option<Answer>,
    /// Until when the request is taken for in flight.
    pub in_flight_until: Timestamp,
    /// When the key was first used.
    pub at: Timestamp,
}

/// What a request with a key may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// It may proceed.
    Proceed(Claimed),
    /// It was done before: the same answer again.
    Replay(Answer),
    /// It is being done.
    InProgress,
    /// The key was used for something else.
    KeyReused,
}

/// Decides what a request with a key may do. What it asks is compared first: a key used for
/// something else is a mistake whether or not the first request is finished.
pub fn begin(key: &Key, known: Option<&Known>, now: Timestamp) -> Begun {
    let proceed = || {
        Begun::Proceed(Claimed {
            key: key.clone(),
            until: now.plus_ms(KEY_IN_FLIGHT_MS),
        })
    };
    let Some(known) = known else {
        return proceed();
    };
    if KEY_KEPT_MS <= now.ms_since(known.at) {
        return proceed();
    }
    if known.fingerprint != key.fingerprint {
        return Begun::KeyReused;
    }
    match &known.answer {
        Some(answer) => Begun::Replay(answer.clone()),
        None if now < known.in_flight_until => Begun::InProgress,
        None => proceed(),
    }
}

/// Whether a text may be a key: visible ASCII, so that it survives every proxy and log. It need not
/// be hard to guess, for it counts only together with its fan.
pub fn is_well_formed(key: &str) -> bool {
    (1..=KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);

    fn key(fingerprint: &str) -> Key {
        Key {
            show: "show".parse().unwrap(),
            fan: FanId([1; 16]),
            route: "hold",
            key: "k".to_owned(),
            fingerprint: fingerprint.to_owned(),
        }
    }

    fn known(answered: Option<&Answer>) -> Known {
        Known {
            fingerprint: "a".to_owned(),
            answer: answered.cloned(),
            in_flight_until: NOW.plus_ms(KEY_IN_FLIGHT_MS),
            at: NOW,
        }
    }

    #[test]
    fn each_state_of_a_key_has_its_answer() {
        let answer = Answer {
            status: 201,
            admission: None,
            body: "{}".to_owned(),
        };
        let (flying, done) = (known(None), known(Some(&answer)));
        let proceed = |asked, after| {
            Begun::Proceed(Claimed {
                key: key(asked),
                until: NOW.plus_ms(after + KEY_IN_FLIGHT_MS),
            })
        };
        let replay = Begun::Replay(answer);
        for (name, known, asked, after, expected) in [
            ("new", None, "a", 0, proceed("a", 0)),
            ("in flight", Some(&flying), "a", 29_999, Begun::InProgress),
            (
                "other body in flight",
                Some(&flying),
                "b",
                0,
                Begun::KeyReused,
            ),
            (
                "left behind",
                Some(&flying),
                "a",
                30_000,
                proceed("a", 30_000),
            ),
            (
                "other body, left behind",
                Some(&flying),
                "b",
                30_000,
                Begun::KeyReused,
            ),
            ("done", Some(&done), "a", 1, replay.clone()),
            (
                "done, a day less a moment ago",
                Some(&done),
                "a",
                KEY_KEPT_MS - 1,
                replay,
            ),
            ("other body", Some(&done), "b", 1, Begun::KeyReused),
            (
                "forgotten",
                Some(&done),
                "b",
                KEY_KEPT_MS,
                proceed("b", KEY_KEPT_MS),
            ),
        ] {
            assert_eq!(
                begin(&key(asked), known, NOW.plus_ms(after)),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn keys_are_visible_ascii() {
        for good in [
            "a",
            "\"8e03978e-40d5-43dd-bc93-6894a57f9324\"",
            &"k".repeat(255),
        ] {
            assert!(is_well_formed(good), "{good}");
        }
        for bad in ["", " ", "a b", "é", "a\t", &"k".repeat(256)] {
            assert!(!is_well_formed(bad), "{bad}");
        }
    }
}
