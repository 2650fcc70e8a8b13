//! Instants in milliseconds, and the only place that asks the machine for the time.

use std::fmt;
use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Milliseconds since 1970-01-01T00:00:00Z. Shown and parsed as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// An instant from milliseconds since the Unix epoch.
    pub const fn from_unix_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// An instant from whole seconds since the Unix epoch, as JWTs count.
    pub const fn from_unix_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000))
    }

    /// Milliseconds since the Unix epoch; 0 for instants before it.
    pub const fn unix_ms(self) -> u64 {
        if self.0 < 0 { 0 } else { self.0.unsigned_abs() }
    }

    /// Milliseconds since the Unix epoch, signed, as the stores keep them.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, rounded down.
    pub const fn unix_seconds(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// The instant as HTTP writes it (RFC 9110 §5.6.7), to the second.
    pub fn http_date(self) -> String {
        let instant = jiff::Timestamp::from_second(self.unix_seconds()).unwrap_or_default();
        let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
        let printed = printer.timestamp_to_rfc9110_string(&instant);
        printed.unwrap_or_default()
    }

    /// How many milliseconds `earlier` lies before this instant; 0 when it lies after.
    pub fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0).max(0).unsigned_abs()
    }

    /// This instant moved forward by `ms`.
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// This instant moved back by `ms`.
    pub fn minus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// Whether this instant is still to come at `now`, and no further away than anybody waits for it. Where the clock
    /// was put back, whoever waited until it is as late again would do nothing for as long.
    pub fn is_to_come(self, now: Self, within_ms: u64) -> bool {
        now < self && self <= now.plus_ms(within_ms)
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        self.plus_ms(u64::try_from(by.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Sub for Timestamp {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_millis(self.ms_since(earlier))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Beyond the years that the calendar has, the nearest instant: what is written reads back.
        let nearest = if self.0 < 0 {
            jiff::Timestamp::MIN
        } else {
            jiff::Timestamp::MAX
        };
        jiff::Timestamp::from_millisecond(self.0)
            .unwrap_or(nearest)
            .fmt(f)
    }
}

impl std::str::FromStr for Timestamp {
    type Err = crate::base::ids::Malformed;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<jiff::Timestamp>()
            .map(|instant| Self(instant.as_millisecond()))
            .map_err(|_| crate::base::ids::Malformed {
                what: "RFC 3339 instant",
            })
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// Tells the time. Services are given one; pure code is given the time itself.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present instant.
    fn now(&self) -> Timestamp;
}

/// The machine's wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that everybody else asks"
    )]
    fn now(&self) -> Timestamp {
        let since_epoch = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::default() + since_epoch
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that shows `start`.
    pub const fn at(start: Timestamp) -> Self {
        Self(AtomicI64::new(start.as_millis()))
    }

    /// Moves the clock forward.
    pub fn advance_ms(&self, ms: u64) {
        self.set(self.now().plus_ms(ms));
    }

    /// Puts the clock anywhere, backwards too.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_millis(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_read_back_as_written() {
        let instant: Timestamp = "2027-05-01T21:00:00-03:00".parse().unwrap();
        assert_eq!(instant.to_string(), "2027-05-02T00:00:00Z");
        assert_eq!(
            Timestamp::from_unix_ms(1_001).to_string(),
            "1970-01-01T00:00:01.001Z"
        );
        assert_eq!(instant.http_date(), "Sun, 02 May 2027 00:00:00 GMT");
        assert!("2027-05-01".parse::<Timestamp>().is_err());
        for beyond in [i64::MIN, i64::MAX] {
            let text = Timestamp::from_unix_ms(beyond).to_string();
            assert!(text.parse::<Timestamp>().is_ok(), "{text}");
        }
    }

    #[test]
    fn distances_never_wrap() {
        let (early, late) = (Timestamp::from_unix_ms(5), Timestamp::from_unix_ms(9));
        assert_eq!((late.ms_since(early), early.ms_since(late)), (4, 0));
        assert_eq!(late.plus_ms(u64::MAX).as_millis(), i64::MAX);
    }
}
