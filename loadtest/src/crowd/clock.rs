//! Moments in microseconds since the Unix epoch, from one look at the wall clock.
//!
//! The wall clock is read once, at the start; after that only monotonic time is added. So moments
//! compare with the server's instants, and never run backwards.

use std::time::Duration;

use tokio::time::Instant;

/// Microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// A moment from microseconds since the Unix epoch.
    pub const fn from_us(us: u64) -> Self {
        Self(us)
    }

    /// A moment from milliseconds since the Unix epoch; the epoch itself for earlier ones.
    pub fn from_unix_ms(ms: i64) -> Self {
        Self(u64::try_from(ms).unwrap_or(0).saturating_mul(1_000))
    }

    /// Microseconds since the Unix epoch.
    pub const fn us(self) -> u64 {
        self.0
    }

    /// This moment moved forward by `ms` milliseconds.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1_000)))
    }

    /// This moment moved forward by `us` microseconds.
    #[must_use]
    pub const fn plus_us(self, us: u64) -> Self {
        Self(self.0.saturating_add(us))
    }

    /// Microseconds from `earlier` to this moment; 0 where `earlier` lies after it.
    pub const fn us_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Seconds from `earlier` to this moment; 0 where `earlier` lies after it.
    #[expect(clippy::cast_precision_loss, reason = "a run lasts hours, not ages")]
    pub fn seconds_since(self, earlier: Self) -> f64 {
        self.us_since(earlier) as f64 / 1e6
    }
}

/// Tells the time of a run.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Moment,
    instant: Instant,
}

impl Clock {
    /// Looks at the wall clock, for the only time.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that everybody else asks"
    )]
    pub fn start() -> Self {
        let since_epoch = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            started: Moment(micros(since_epoch)),
            instant: Instant::now(),
        }
    }

    /// The present moment.
    pub fn now(&self) -> Moment {
        self.started.plus_us(micros(self.instant.elapsed()))
    }

    /// When the run began.
    pub const fn started(&self) -> Moment {
        self.started
    }

    /// The same moment as timers understand it.
    pub fn instant(&self, moment: Moment) -> Instant {
        self.instant + Duration::from_micros(moment.us_since(self.started))
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_never_wrap() {
        let (early, late) = (Moment::from_us(5), Moment::from_us(9));
        assert_eq!((late.us_since(early), early.us_since(late)), (4, 0));
        assert_eq!(late.plus_ms(u64::MAX).us(), u64::MAX);
        assert_eq!(Moment::from_unix_ms(-1), Moment::default());
    }

    #[test]
    fn timers_and_moments_agree() {
        let clock = Clock::start();
        let moment = clock.started().plus_ms(1_500);
        assert_eq!(
            clock.instant(moment) - clock.instant(clock.started()),
            Duration::from_millis(1_500)
        );
        assert!(clock.started() <= clock.now());
    }
}
