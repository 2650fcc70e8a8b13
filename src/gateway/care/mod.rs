//! How upstreams are spared: a bound on what is under way, a rest while they are down, repeats within
//! a budget, and a rate where a route has one.
//!
//! ```text
//! route: rate, places ──► upstream: breaker, places ──► sent ──► answered | failed | late
//! ```
//!
//! Nobody waits in a queue of ours: whoever does not fit is told at once when to ask again. The
//! rules are pure and stand in a file each (the rate's in `limit/gcra.rs`); here they get a clock, a lock
//! and a voice.

mod breaker;
mod budget;
mod share;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::gateway::care::breaker::{Breaker, Change, Role, Verdict};
use crate::gateway::care::budget::Budget;
use crate::gateway::care::share::Share;
use crate::gateway::terms::Terms;
use crate::http::problem::Problem;
use crate::limit::Limit;
use crate::limit::gcra::Rate;
use crate::telemetry::metrics;

/// What is known of one upstream.
#[derive(Debug)]
pub(crate) struct Care {
    name: String,
    since: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    breaker: Breaker,
    share: Share,
    budget: Budget,
}

impl Care {
    /// An upstream that nobody has asked yet, with a place for this many requests.
    pub(crate) fn new(name: &str, in_flight_max: usize) -> Arc<Self> {
        metrics::upstream_open(name, 0);
        Arc::new(Self {
            name: name.to_owned(),
            since: Instant::now(),
            state: Mutex::new(State {
                breaker: Breaker::default(),
                share: Share::new(in_flight_max),
                budget: Budget::full(),
            }),
        })
    }

    /// A place for a request, which is held until the answer has passed.
    ///
    /// # Errors
    /// 503: it is down, or has as much to do as it can.
    pub(crate) fn admit(self: &Arc<Self>) -> Result<Admitted, Problem> {
        let sent_at = self.since.elapsed();
        let mut state = self.lock();
        let role = match state.breaker.ask(sent_at) {
            Verdict::Pass(role) => role,
            Verdict::Wait => {
                metrics::forward("resting");
                return Err(Problem::unavailable("upstream-unavailable"));
            }
        };
        if !state.share.take() {
            state.breaker.abandoned(role, sent_at);
            metrics::forward("busy");
            return Err(Problem::unavailable("busy"));
        }
        state.budget.earn();
        Ok(Admitted {
            care: Arc::clone(self),
            role,
            sent_at,
            is_told: false,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says once, where people and machines look, what has become of the upstream.
    fn say(&self, change: Option<Change>) {
        let upstream = &self.name;
        match change {
            None => {}
            Some(Change::Opened) => {
                tracing::warn!(upstream, "upstream does not answer and is left alone");
                metrics::upstream_open(upstream, 1);
            }
            Some(Change::Closed) => {
                tracing::info!(upstream, "upstream answers again");
                metrics::upstream_open(upstream, 0);
            }
        }
    }
}

/// A request's place at an upstream. Dropping it gives the place back.
#[derive(Debug)]
pub(crate) struct Admitted {
    care: Arc<Care>,
    role: Role,
    sent_at: Duration,
    is_told: bool,
}

impl Admitted {
    /// The upstream has had the whole request only since then: what a client takes to send it is not the
    /// upstream's time.
    pub(crate) fn sent(&mut self, at: Instant) {
        self.sent_at = at.saturating_duration_since(self.care.since);
    }

    /// The upstream has begun its answer, whatever it says, and had `deadline` for it.
    pub(crate) fn answered(&mut self, deadline: Duration) {
        self.is_told = true;
        let took = self.care.since.elapsed().saturating_sub(self.sent_at);
        let mut state = self.care.lock();
        state.share.answered(took, deadline);
        let change = state.breaker.answered(self.role);
        drop(state);
        self.care.say(change);
    }

    /// It could not be reached, or its answer was broken.
    pub(crate) fn failed(&mut self) {
        self.is_told = true;
        let now = self.care.since.elapsed();
        let change = self.care.lock().breaker.failed(self.role, now);
        self.care.say(change);
    }

    /// It had the request and did not answer in time.
    pub(crate) fn late(&mut self) {
        let now = self.care.since.elapsed();
        self.care.lock().share.late(self.sent_at, now);
        self.failed();
    }

    /// Whether there is budget for a repeat. One that tries whether the upstream is back is enough.
    pub(crate) fn may_repeat(&self) -> bool {
        let may = self.role == Role::Ordinary && self.care.lock().budget.spend();
        metrics::repeat(if may { "sent" } else { "spared" });
        may
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let now = self.care.since.elapsed();
        let mut state = self.care.lock();
        state.share.give_back();
        if !self.is_told {
            state.breaker.abandoned(self.role, now);
        }
    }
}

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
    use std::collections::VecDeque;

    /// An upstream of so many workers, each a tenth of a second a request, that never learns that
    /// nobody waits any more.
    struct Upstream {
        free_at: Vec<Duration>,
    }

    impl Upstream {
        /// When a request that comes now is done: whoever is free first takes it, in order.
        fn done_at(&mut self, now: Duration) -> Duration {
            let first = self.free_at.iter_mut().min().unwrap();
            *first = now.max(*first) + Duration::from_millis(100);
            *first
        }
    }

    /// Answers in time while a hundred requests a second come for each ten that the upstream can do.
    fn answered(workers: usize, overload: u32, for_s: u64) -> u64 {
        const DEADLINE: Duration = Duration::from_secs(15);
        let mut upstream = Upstream {
            free_at: vec![Duration::ZERO; workers],
        };
        let (mut breaker, mut share) = (Breaker::default(), Share::new(5_000));
        let mut under_way: VecDeque<(Duration, Duration, Role)> = VecDeque::new();
        let mut in_time = 0;
        let every = Duration::from_millis(100) / (u32::try_from(workers).unwrap() * overload);
        let mut now = Duration::ZERO;
        while now < Duration::from_secs(for_s) {
            now += every;
            while let Some(&(sent_at, done_at, role)) = under_way.front() {
                if now < done_at.min(sent_at + DEADLINE) {
                    break; // in order, as they came
                }
                under_way.pop_front();
                if done_at <= sent_at + DEADLINE {
                    in_time += 1;
                    share.answered(done_at - sent_at, DEADLINE);
                    breaker.answered(role);
                } else {
                    share.late(sent_at, now);
                    breaker.failed(role, now);
                }
                share.give_back();
            }
            if let Verdict::Pass(role) = breaker.ask(now) {
                if share.take() {
                    under_way.push_back((now, upstream.done_at(now), role));
                } else {
                    breaker.abandoned(role, now);
                }
            }
        }
        in_time
    }

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

    #[test]
    fn an_upstream_with_five_times_too_much_to_do_does_four_fifths_of_what_it_can() {
        for workers in [1, 4, 10, 40] {
            let for_s = 300;
            let peak = workers as u64 * 10 * for_s;
            let done = answered(workers, 5, for_s);
            assert!(peak * 8 / 10 <= done, "{workers} workers: {done} of {peak}");
        }
    }
}
