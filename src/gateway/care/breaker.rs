//! When to leave an upstream alone: after failures in a row nobody asks it for a while, then one
//! request tries.
//!
//! A shop that is started again is back in a moment, and one that dies every second would never be asked if
//! it was left alone for a second each time. So the first rest is short, and each one after it twice as long,
//! until that is as rarely as a shop that stays away is worth.
//!
//! Many requests are under way at once, so an answer may come late. While the breaker is not closed
//! only the word of the one that tries counts: whatever was sent before says how things were.

use std::time::Duration;

/// Failures in a row, without an answer between them, after which an upstream is taken to be down.
pub(crate) const FAILURES_MAX: u32 = 5;
/// How long nobody asks it then.
pub(crate) const REST: Duration = Duration::from_millis(100);
/// How long at most, where whoever tried has found it no better: what clients are told to wait.
pub(crate) const REST_MAX: Duration = Duration::from_secs(1);

/// What is known of an upstream. Times are since any one moment.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { until: Duration, rest: Duration },
    Trying { rest: Duration },
}

impl Default for State {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

/// Whether a request may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Send it.
    Pass(Role),
    /// Not now: in [`REST_MAX`] at the latest, unless what is tried meanwhile fails.
    Wait,
}

/// What a request is to the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// One of many.
    Ordinary,
    /// The one that tries whether the upstream is back.
    Probe,
}

/// What a report changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The upstream is taken to be down from now on.
    Opened,
    /// It is back.
    Closed,
}

impl Breaker {
    /// Whether a request may be sent now. A probe has to report, or to say that it was abandoned.
    pub(crate) fn ask(&mut self, now: Duration) -> Verdict {
        match self.state {
            State::Closed { .. } => Verdict::Pass(Role::Ordinary),
            State::Open { until, .. } if now < until => Verdict::Wait,
            State::Open { rest, .. } => {
                self.state = State::Trying { rest };
                Verdict::Pass(Role::Probe)
            }
            State::Trying { .. } => Verdict::Wait,
        }
    }

    /// The upstream answered.
    pub(crate) fn answered(&mut self, role: Role) -> Option<Change> {
        match (self.state, role) {
            (State::Closed { .. }, _) => self.state = State::default(),
            (State::Trying { .. }, Role::Probe) => {
                self.state = State::default();
                return Some(Change::Closed);
            }
            (State::Trying { .. } | State::Open { .. }, _) => {}
        }
        None
    }

    /// The upstream did not answer.
    pub(crate) fn failed(&mut self, role: Role, now: Duration) -> Option<Change> {
        match (self.state, role) {
            (State::Closed { failures }, _) if failures + 1 < FAILURES_MAX => {
                let failures = failures + 1;
                self.state = State::Closed { failures };
            }
            (State::Closed { .. }, _) => {
                self.rest(REST, now);
                return Some(Change::Opened);
            }
            (State::Trying { rest }, Role::Probe) => self.rest(REST_MAX.min(2 * rest), now),
            (State::Trying { .. } | State::Open { .. }, _) => {}
        }
        None
    }

    fn rest(&mut self, rest: Duration, now: Duration) {
        let until = now + rest;
        self.state = State::Open { until, rest };
    }

    /// A request ended that says nothing about the upstream: the next one may try.
    pub(crate) fn abandoned(&mut self, role: Role, now: Duration) {
        if let State::Trying { rest } = self.state
            && role == Role::Probe
        {
            self.state = State::Open { until: now, rest };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Duration = Duration::from_secs(100);

    fn opened() -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 1..FAILURES_MAX {
            assert_eq!(breaker.failed(Role::Ordinary, T0), None);
            assert_eq!(breaker.ask(T0), Verdict::Pass(Role::Ordinary));
        }
        assert_eq!(breaker.failed(Role::Ordinary, T0), Some(Change::Opened));
        breaker
    }

    #[test]
    fn failures_in_a_row_open_it_and_one_request_tries() {
        let mut breaker = opened();
        assert_eq!(breaker.ask(T0), Verdict::Wait);
        let later = T0 + REST;
        assert_eq!(breaker.ask(later), Verdict::Pass(Role::Probe));
        assert_eq!(breaker.ask(later), Verdict::Wait, "one is enough");
        assert_eq!(breaker.failed(Role::Probe, later), None, "said before");
        assert_eq!(breaker.ask(later + REST), Verdict::Wait);
        let later = later + 2 * REST;
        assert_eq!(breaker.ask(later), Verdict::Pass(Role::Probe));
        assert_eq!(breaker.answered(Role::Probe), Some(Change::Closed));
        assert_eq!(breaker.ask(later), Verdict::Pass(Role::Ordinary));
    }

    #[test]
    fn it_is_asked_more_rarely_the_longer_it_is_away_and_soon_when_it_falls_again() {
        let (mut breaker, mut now, mut rests) = (opened(), T0, Vec::new());
        for _ in 0..6 {
            let begun = now;
            while breaker.ask(now) == Verdict::Wait {
                now += Duration::from_millis(1);
            }
            rests.push((now - begun).as_millis());
            breaker.abandoned(Role::Probe, now);
            assert_eq!(breaker.ask(now), Verdict::Pass(Role::Probe), "at once");
            breaker.failed(Role::Probe, now);
        }
        assert_eq!(rests, [100, 200, 400, 800, 1_000, 1_000]);
        now += REST_MAX;
        assert_eq!(breaker.ask(now), Verdict::Pass(Role::Probe));
        breaker.answered(Role::Probe);
        for _ in 0..FAILURES_MAX {
            breaker.failed(Role::Ordinary, now);
        }
        assert_eq!(breaker.ask(now + REST), Verdict::Pass(Role::Probe));
    }

    #[test]
    fn an_answer_between_failures_keeps_it_closed() {
        let mut breaker = Breaker::default();
        for _ in 0..9 * FAILURES_MAX {
            assert_eq!(breaker.failed(Role::Ordinary, T0), None);
            assert_eq!(breaker.answered(Role::Ordinary), None);
        }
    }

    #[test]
    fn what_was_sent_before_it_opened_decides_nothing() {
        let mut breaker = opened();
        assert_eq!(breaker.answered(Role::Ordinary), None);
        assert_eq!(breaker.failed(Role::Ordinary, T0 + REST), None);
        assert_eq!(breaker.ask(T0 + REST), Verdict::Pass(Role::Probe));
        assert_eq!(breaker.answered(Role::Ordinary), None);
        assert_eq!(breaker.ask(T0 + REST), Verdict::Wait);
    }

    #[test]
    fn a_probe_whose_client_went_away_leaves_it_to_the_next() {
        let mut breaker = opened();
        assert_eq!(breaker.ask(T0 + REST), Verdict::Pass(Role::Probe));
        breaker.abandoned(Role::Probe, T0 + REST);
        assert_eq!(breaker.ask(T0 + REST), Verdict::Pass(Role::Probe));
    }
}
