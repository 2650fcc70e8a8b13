//! Windows of event time, and when they are closed.
//!
//! A partition is as far as its newest event says: no clock is asked, so that reading the log again comes
//! to the same. An event from the future closes windows early; what then comes is late, and still counted.

use crate::base::time::Timestamp;

/// Windows of one length, in milliseconds, from 1970 on without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window(pub u64);

/// What sales are counted in.
pub const MINUTE: Window = Window(60_000);
/// What joins are counted in.
pub const FIVE_MINUTES: Window = Window(300_000);
/// How long after its end a window takes events, in milliseconds: more than a relay waits for a log that
/// does not answer before another takes over.
pub const LATENESS_MS: u64 = 120_000;

/// Whether an event belongs to a window that is still open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It does.
    InTime,
    /// Its window was closed before it came.
    Late,
}

impl Arrival {
    /// So much in time and late: all of it in one of the two.
    pub fn split<T: Default>(self, all: T) -> (T, T) {
        match self {
            Self::InTime => (all, T::default()),
            Self::Late => (T::default(), all),
        }
    }
}

impl Window {
    /// The beginning of the window of an instant.
    pub const fn begin(self, at: Timestamp) -> Timestamp {
        let length = self.0.cast_signed();
        Timestamp::from_unix_ms(at.as_millis().div_euclid(length).saturating_mul(length))
    }

    /// How an event comes to a partition whose newest event is that old; `None`: it is the first.
    pub fn arrival(self, at: Timestamp, newest: Option<Timestamp>) -> Arrival {
        let closes_at = self.begin(at).plus_ms(self.0 + LATENESS_MS);
        match newest {
            Some(newest) if closes_at <= newest => Arrival::Late,
            Some(_) | None => Arrival::InTime,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_closes_when_its_partition_is_past_the_lateness() {
        let at = Timestamp::from_unix_ms;
        for (window, event, newest, expected) in [
            (MINUTE, 0, None, Arrival::InTime),
            (MINUTE, 0, Some(179_999), Arrival::InTime),
            (MINUTE, 0, Some(180_000), Arrival::Late),
            (MINUTE, 59_999, Some(180_000), Arrival::Late),
            (MINUTE, 60_000, Some(180_000), Arrival::InTime),
            (MINUTE, 60_000, Some(0), Arrival::InTime),
            (MINUTE, -1, Some(119_999), Arrival::InTime),
            (MINUTE, -1, Some(120_000), Arrival::Late),
            (FIVE_MINUTES, 299_999, Some(419_999), Arrival::InTime),
            (FIVE_MINUTES, 299_999, Some(420_000), Arrival::Late),
        ] {
            let said = window.arrival(at(event), newest.map(at));
            assert_eq!(said, expected, "{event} after {newest:?}");
        }
        for (instant, minute) in [(0, 0), (59_999, 0), (60_000, 60_000), (-1, -60_000)] {
            assert_eq!(MINUTE.begin(at(instant)), at(minute));
        }
    }
}
