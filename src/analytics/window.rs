//! Minutes of event time, and when they are closed.
//!
//! A partition is as far as its newest event says: no clock is asked, so that reading the log again comes
//! to the same. An event from the future closes minutes early; what then comes is late, and still counted.

use crate::base::time::Timestamp;

/// The length of a window, in milliseconds.
pub const MINUTE_MS: u64 = 60_000;
/// How long after its end a minute takes events, in milliseconds: more than a relay waits for a log that
/// does not answer before another takes over.
pub const LATENESS_MS: u64 = 120_000;

/// Whether an event belongs to a minute that is still open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It does.
    InTime,
    /// Its minute was closed before it came.
    Late,
}

/// The beginning of the minute of an instant.
pub const fn minute_of(at: Timestamp) -> Timestamp {
    let length = MINUTE_MS.cast_signed();
    Timestamp::from_unix_ms(at.as_millis().div_euclid(length).saturating_mul(length))
}

/// How an event comes to a partition whose newest event is that old; `None`: it is the first.
pub fn arrival(at: Timestamp, newest: Option<Timestamp>) -> Arrival {
    let closes_at = minute_of(at).plus_ms(MINUTE_MS + LATENESS_MS);
    match newest {
        Some(newest) if closes_at <= newest => Arrival::Late,
        Some(_) | None => Arrival::InTime,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_closes_when_its_partition_is_past_the_lateness() {
        let at = Timestamp::from_unix_ms;
        for (event, newest, expected) in [
            (0, None, Arrival::InTime),
            (0, Some(179_999), Arrival::InTime),
            (0, Some(180_000), Arrival::Late),
            (59_999, Some(180_000), Arrival::Late),
            (60_000, Some(180_000), Arrival::InTime),
            (60_000, Some(0), Arrival::InTime),
            (-1, Some(119_999), Arrival::InTime),
            (-1, Some(120_000), Arrival::Late),
        ] {
            let said = arrival(at(event), newest.map(at));
            assert_eq!(said, expected, "{event} after {newest:?}");
        }
        for (instant, minute) in [(0, 0), (59_999, 0), (60_000, 60_000), (-1, -60_000)] {
            assert_eq!(minute_of(at(instant)), at(minute));
        }
    }
}
