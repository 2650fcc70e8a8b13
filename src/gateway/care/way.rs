//! What a route grants beside its upstream: places of its own, and a rate.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::gateway::terms::Terms;
use crate::http::problem::Problem;
use crate::limit::Limit;
use crate::limit::gcra::Rate;
use crate::telemetry::metrics;

/// One route's own bounds.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) terms: Terms,
    places: Option<Arc<Semaphore>>,
    pace: Option<Pace>,
}

/// A rate, and what has passed of it.
#[derive(Debug)]
struct Pace {
    rate: Rate,
    since: Instant,
    count: Mutex<u64>,
}

impl Pace {
    /// `per_s` requests a second in the long run, and `burst` at once; both at least 1.
    fn new((per_s, burst): (u32, u32)) -> Self {
        Self {
            rate: Rate::of(Limit { per_s, burst }, 1),
            since: Instant::now(),
            count: Mutex::default(),
        }
    }

    /// Whether a request passes now. One that does not is not counted, and would within a second.
    fn passes(&self) -> bool {
        let now_us = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let after = self.rate.add(*count, now_us);
        *count = after.unwrap_or(*count);
        after.is_ok()
    }
}

impl Way {
    /// A route that nobody has taken yet.
    pub(crate) fn new(terms: Terms) -> Self {
        Self {
            places: terms.in_flight_max.map(|max| Arc::new(Semaphore::new(max))),
            pace: terms.rate.map(Pace::new),
            terms,
        }
    }

    /// A place on the route, where it has bounds of its own.
    ///
    /// # Errors
    /// 503: more than it takes. It is the route that is full; nobody in particular asked too often.
    pub(crate) fn enter(&self) -> Result<Option<OwnedSemaphorePermit>, Problem> {
        let busy = || {
            metrics::forward("busy");
            Problem::unavailable("busy")
        };
        let place = match &self.places {
            Some(places) => Some(Arc::clone(places).try_acquire_owned())
                .transpose()
                .map_err(|_| busy())?,
            None => None,
        };
        match &self.pace {
            Some(pace) if !pace.passes() => Err(busy()),
            Some(_) | None => Ok(place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_then_the_rate() {
        let pace = Pace::new((10, 3));
        let mut passed = 0;
        for _ in 0..100 {
            passed += u32::from(pace.passes());
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        assert_eq!(passed, 3 + 9);
        assert!(pace.passes(), "the tenth of a second");
        assert!(!pace.passes());
    }
}
