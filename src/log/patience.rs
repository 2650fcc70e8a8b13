//! How often, and when, a delivery that failed is tried again.
//!
//! A delivery has as many attempts as there are delays, and one. Only its own fault spends them: an
//! outage of the provider and its wish for patience do not, or every long outage would end as a
//! heap of dead letters.

use crate::base::limits::DELIVERY_RETRIES_MS;
use crate::base::time::Timestamp;
use crate::log::breaker::Breaker;

/// Why a delivery was not handled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It never will be: set it aside at once.
    #[error("{0}")]
    Permanent(String),
    /// Another attempt may succeed; after the last one it is set aside.
    #[error("{0}")]
    Transient(String),
    /// The provider asks for patience.
    #[error("{reason}")]
    Throttled {
        /// Not before so many milliseconds from now.
        retry_after_ms: u64,
        /// What the provider said.
        reason: String,
    },
    /// The provider is not there, whatever one asks of it.
    #[error("{0}")]
    Away(String),
}

/// What becomes of a delivery that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It is set aside; so many attempts were made.
    SetAside(u32),
    /// It is tried again then; so many attempts are spent.
    Again(u32, Timestamp),
}

/// Decides what becomes of a delivery that has spent `spent` attempts and now failed once more, and
/// tells the breaker.
pub fn after(failure: &Failure, spent: u32, breaker: &mut Breaker, now: Timestamp) -> Next {
    let attempts = spent.saturating_add(1);
    let delay = DELIVERY_RETRIES_MS.get(spent as usize).copied();
    match failure {
        Failure::Permanent(_) => Next::SetAside(attempts),
        Failure::Throttled { retry_after_ms, .. } => {
            Next::Again(spent, now.plus_ms(*retry_after_ms))
        }
        Failure::Away(_) => {
            let rest = now.plus_ms(DELIVERY_RETRIES_MS[0]);
            Next::Again(spent, breaker.failed(now).unwrap_or(rest))
        }
        Failure::Transient(_) => match (breaker.failed(now), delay) {
            (Some(until), _) => Next::Again(spent, until),
            (None, Some(delay)) => Next::Again(attempts, now.plus_ms(delay)),
            (None, None) => Next::SetAside(attempts),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::{BREAKER_FAILURES_MAX, BREAKER_OPEN_MS};

    const T0: Timestamp = Timestamp::from_unix_ms(1_000);

    fn transient() -> Failure {
        Failure::Transient("mailbox busy".to_owned())
    }

    #[test]
    fn three_retries_after_half_a_second_one_and_two() {
        for (spent, next) in [
            (0, Next::Again(1, T0.plus_ms(500))),
            (1, Next::Again(2, T0.plus_ms(1_000))),
            (2, Next::Again(3, T0.plus_ms(2_000))),
            (3, Next::SetAside(4)),
        ] {
            let got = after(&transient(), spent, &mut Breaker::default(), T0);
            assert_eq!(got, next, "{spent}");
        }
    }

    #[test]
    fn only_its_own_fault_spends_attempts() {
        let breaker = &mut Breaker::default();
        let throttled = Failure::Throttled {
            retry_after_ms: 7_000,
            reason: "slow down".to_owned(),
        };
        let away = Failure::Away("refused".to_owned());
        let permanent = Failure::Permanent("no such address".to_owned());
        assert_eq!(
            after(&throttled, 3, breaker, T0),
            Next::Again(3, T0.plus_ms(7_000))
        );
        assert_eq!(
            after(&away, 3, breaker, T0),
            Next::Again(3, T0.plus_ms(500))
        );
        assert_eq!(after(&permanent, 0, breaker, T0), Next::SetAside(1));
    }

    #[test]
    fn an_open_breaker_sets_nothing_aside() {
        let breaker = &mut Breaker::default();
        for _ in 1..BREAKER_FAILURES_MAX {
            breaker.failed(T0);
        }
        let later = T0.plus_ms(BREAKER_OPEN_MS);
        assert_eq!(after(&transient(), 3, breaker, T0), Next::Again(3, later));
    }
}
