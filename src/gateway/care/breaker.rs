//! When to leave an upstream alone: after failures in a row nobody asks it for a while, then one
//! request tries.
//!
//! Many requests are under way at once, so an answer may come late. While the breaker is not closed
//! only the word of the one that tries counts: whatever was sent before says how things were.

use std::time::Duration;

/// Failures in a row, without an answer between them, after which an upstream is taken to be down.
pub(crate) const FAILURES_MAX: u32 = 5;
/// How long nobody asks it then: what clients are told to wait.
pub(crate) const REST: Duration = Duration::from_secs(1);

/// What is known of an upstream. Times are since any one moment.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { until: Duration },
    Trying,
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
    /// Not now: in [`REST`] at the latest, unless what is tried meanwhile fails.
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
            State::Open { until } if now < until => Verdict::Wait,
            State::Open { .. } => {
                self.state = State::Trying;
                Verdict::Pass(Role::Probe)
            }
            State::Trying => Verdict::Wait,
        }
    }

    /// The upstream answered.
    pub(crate) fn answered(&mut self, role: Role) -> Option<Change> {
        match (self.state, role) {
            (State::Closed { .. }, _) => self.state = State::default(),
            (State::Trying, Role::Probe) => {
                self.state = State::default();
                return Some(Change::Closed);
            }
            (State::Trying | State::Open { .. }, _) => {}
        }
        None
    }

    /// The upstream did not answer.
    pub(crate) fn failed(&mut self, role: Role, now: Duration) -> Option<Change> {
        let until = now + REST;
        match (self.state, role) {
            (State::Closed { failures }, _) if failures + 1 < FAILURES_MAX => {
                let failures = failures + 1;
                self.state = State::Closed { failures };
            }
            (State::Closed { .. }, _) => {
                self.state = State::Open { until };
                return Some(Change::Opened);
            }
            (State::Trying, Role::Probe) => self.state = State::Open { until },
            (State::Trying | State::Open { .. }, _) => {}
        }
        None
    }

    /// A request ended that says nothing about the upstream: the next one may try.
    pub(crate) fn abandoned(&mut self, role: Role, now: Duration) {
        if self.state == State::Trying && role == Role::Probe {
            self.state = State::Open { until: now };
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
        assert_eq!(breaker.ask(later), Verdict::Wait);
        assert_eq!(breaker.ask(later + REST), Verdict::Pass(Role::Probe));
        assert_eq!(breaker.answered(Role::Probe), Some(Change::Closed));
        assert_eq!(breaker.ask(later + REST), Verdict::Pass(Role::Ordinary));
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
