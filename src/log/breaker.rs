//! Tells a poisoned event from a provider that is down: failures in a row, over all partitions.
//!
//! Closed, everything is tried. After `BREAKER_FAILURES_MAX` failures without a success between them
//! it opens: nobody asks, and no delivery spends attempts on an outage. When its time is up, one
//! delivery tries; its success closes the breaker, its failure opens it again.

use crate::base::limits::{BREAKER_FAILURES_MAX, BREAKER_OPEN_MS};
use crate::base::time::Timestamp;

/// The state of one provider, as its one caller sees it.
#[derive(Debug, Default)]
pub struct Breaker {
    failures: u32,
    open_until: Option<Timestamp>,
}

/// Whether the provider may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Ask.
    Closed,
    /// Ask once; the answer decides.
    Probe,
    /// Do not ask before then.
    Open(Timestamp),
}

impl Breaker {
    /// Whether the provider may be asked now.
    pub fn verdict(&self, now: Timestamp) -> Verdict {
        match self.open_until {
            None => Verdict::Closed,
            Some(until) if until.is_to_come(now, BREAKER_OPEN_MS) => Verdict::Open(until),
            Some(_) => Verdict::Probe,
        }
    }

    /// The provider did what it was asked.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// The provider failed. Answers until when it rests, if it is now taken to be down.
    pub fn failed(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.failures = self.failures.saturating_add(1);
        if BREAKER_FAILURES_MAX <= self.failures {
            self.open_until = Some(now.plus_ms(BREAKER_OPEN_MS));
        }
        self.open_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Timestamp = Timestamp::from_unix_ms(1_000);

    #[test]
    fn failures_in_a_row_open_it_and_a_probe_decides() {
        let mut breaker = Breaker::default();
        for _ in 1..BREAKER_FAILURES_MAX {
            assert_eq!(breaker.failed(T0), None);
        }
        let until = T0.plus_ms(BREAKER_OPEN_MS);
        assert_eq!(breaker.failed(T0), Some(until));
        assert_eq!(breaker.verdict(T0), Verdict::Open(until));
        assert_eq!(breaker.verdict(until.minus_ms(1)), Verdict::Open(until));
        assert_eq!(breaker.verdict(until), Verdict::Probe);
        assert_eq!(breaker.failed(until), Some(until.plus_ms(BREAKER_OPEN_MS)));
        breaker.succeeded();
        assert_eq!(breaker.verdict(until), Verdict::Closed);
    }

    #[test]
    fn a_success_between_failures_keeps_it_closed() {
        let mut breaker = Breaker::default();
        for _ in 0..5 * BREAKER_FAILURES_MAX {
            assert_eq!(breaker.failed(T0), None);
            assert_eq!(breaker.verdict(T0), Verdict::Closed);
            breaker.succeeded();
        }
    }
}
