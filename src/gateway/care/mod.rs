//! How upstreams are spared: a bound on what is under way, a rest while they are down, repeats within
//! a budget, and a rate where a route has one.
//!
//! ```text
//! route: rate, places ──► upstream: breaker, places ──► sent ──► answered | failed | late
//! ```
//!
//! Whoever is beyond the operator's bound is told at once when to ask again. Whoever is within it, and beyond
//! what the upstream has shown so far that it can do, waits a moment: a shop that nobody has asked yet is asked
//! by all who were let in together, and learning how many it bears takes a few answers. The rules are pure and
//! stand in a file each (the rate's in `limit/gcra.rs`); here they get a clock, a lock and a voice.

mod breaker;
mod budget;
mod share;
mod way;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::base::limits::UPSTREAM_WAIT_MS;
use crate::gateway::care::breaker::{Breaker, Change, Role, Verdict};
use crate::gateway::care::budget::Budget;
use crate::gateway::care::share::Share;
pub(crate) use crate::gateway::care::way::Way;
use crate::http::problem::Problem;
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
    /// Those who wait for a place, in the order in which they came. Some may have gone meanwhile.
    line: VecDeque<oneshot::Sender<Admitted>>,
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
                line: VecDeque::new(),
            }),
        })
    }

    /// A place for a request, which is held until the answer has passed.
    ///
    /// # Errors
    /// 503: it is down, or has as much to do as it can.
    pub(crate) async fn admit(self: &Arc<Self>) -> Result<Admitted, Problem> {
        let turn = match self.enter()? {
            Entered::Now(admitted) => return Ok(admitted),
            Entered::InLine(turn) => turn,
        };
        let wait = Duration::from_millis(UPSTREAM_WAIT_MS);
        match timeout(wait, turn).await {
            Ok(Ok(admitted)) => Ok(admitted),
            Ok(Err(_)) => Err(resting()), // nobody is sent there any more
            Err(_) => Err(busy()),
        }
    }

    fn enter(self: &Arc<Self>) -> Result<Entered, Problem> {
        let now = self.since.elapsed();
        let mut state = self.lock();
        let role = match state.breaker.ask(now) {
            Verdict::Pass(role) => role,
            Verdict::Wait => return Err(resting()),
        };
        state.forget_the_gone();
        if state.line.is_empty() && state.share.take() {
            state.budget.earn();
            return Ok(Entered::Now(self.admitted(role, now)));
        }
        if role == Role::Ordinary && state.share.has_room_for(state.line.len()) {
            let (tell, turn) = oneshot::channel();
            state.line.push_back(tell);
            return Ok(Entered::InLine(turn));
        }
        state.breaker.abandoned(role, now);
        Err(busy())
    }

    fn admitted(self: &Arc<Self>, role: Role, sent_at: Duration) -> Admitted {
        Admitted {
            care: Arc::clone(self),
            role,
            sent_at,
            is_told: false,
        }
    }

    /// Gives free places to those who wait.
    fn hand_on(self: &Arc<Self>) {
        while let Some((first, admitted)) = self.next() {
            drop(first.send(admitted)); // whoever has just gone gives it back
        }
    }

    /// Who is first in line, and a place for them, if there is one. While the upstream rests there is none, and
    /// nobody waits for it.
    fn next(self: &Arc<Self>) -> Option<(oneshot::Sender<Admitted>, Admitted)> {
        let now = self.since.elapsed();
        let mut state = self.lock();
        state.forget_the_gone();
        if state.line.is_empty() || !state.share.take() {
            return None;
        }
        match state.breaker.ask(now) {
            Verdict::Pass(role) => {
                state.budget.earn();
                let first = state.line.pop_front()?;
                Some((first, self.admitted(role, now)))
            }
            Verdict::Wait => {
                state.share.give_back();
                state.line.clear();
                None
            }
        }
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

impl State {
    /// All wait equally long, so that most of those who have gone are in front.
    fn forget_the_gone(&mut self) {
        while self.line.front().is_some_and(oneshot::Sender::is_closed) {
            self.line.pop_front();
        }
    }
}

/// What becomes of a request that may be sent.
#[derive(Debug)]
enum Entered {
    Now(Admitted),
    InLine(oneshot::Receiver<Admitted>),
}

fn resting() -> Problem {
    metrics::forward("resting");
    Problem::unavailable("upstream-unavailable")
}

fn busy() -> Problem {
    metrics::forward("busy");
    Problem::unavailable("busy")
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
        let somebody_waits = !state.line.is_empty();
        drop(state);
        self.care.say(change);
        if somebody_waits {
            self.care.hand_on(); // it may have more now
        }
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
        let somebody_waits = !state.line.is_empty();
        drop(state);
        if somebody_waits {
            self.care.hand_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use tokio::task::JoinSet;
    use tokio::time::sleep;

    const DEADLINE: Duration = Duration::from_secs(15);

    /// So many requests at the same moment, each answered after `takes`; how many were.
    async fn burst(care: &Arc<Care>, count: usize, takes: Duration) -> usize {
        let mut fans = JoinSet::new();
        for _ in 0..count {
            let care = Arc::clone(care);
            fans.spawn(async move {
                let Ok(mut admitted) = care.admit().await else {
                    return 0;
                };
                sleep(takes).await;
                admitted.answered(DEADLINE);
                1
            });
        }
        fans.join_all().await.into_iter().sum()
    }

    /// A sale opens: nobody has asked the shop yet, and all who were let in together do.
    #[tokio::test(start_paused = true)]
    async fn a_burst_up_to_the_operators_bound_is_served_by_a_shop_that_nothing_is_known_of() {
        let takes = Duration::from_millis(400);
        for (count, served) in [(200, 200), (500, 500), (600, 600), (601, 600), (900, 600)] {
            let care = Care::new("shop", 600);
            assert_eq!(burst(&care, count, takes).await, served, "{count}");
            assert_eq!(burst(&care, 600, takes).await, 600, "and so is the next");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_in_vain_is_told_so_and_leaves_nothing_behind() {
        let care = Care::new("shop", 1_000);
        let mut held = Vec::new();
        while let Some(admitted) = care.admit().now_or_never() {
            held.push(admitted.unwrap());
        }
        assert_eq!(held.len(), 200);
        let since = Instant::now();
        let told = care.admit().await.unwrap_err();
        assert_eq!((told.word(), since.elapsed().as_millis()), ("busy", 1_000));
        let gone = care.admit().now_or_never();
        assert!(gone.is_none(), "and is dropped as it waits");
        held.pop();
        let next = care.admit().now_or_never().expect("at once");
        drop((held, next));
        assert_eq!(burst(&care, 200, Duration::ZERO).await, 200);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_go_in_the_order_in_which_they_came_and_not_to_a_shop_that_rests() {
        let care = Care::new("shop", 1_000);
        let mut held = Vec::new();
        while let Some(admitted) = care.admit().now_or_never() {
            held.push(admitted.unwrap());
        }
        let mut line: Vec<_> = (0..3).map(|_| Box::pin(care.admit())).collect();
        for waiting in &mut line {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        held.pop();
        assert!(
            care.admit().now_or_never().is_none(),
            "nobody goes before them"
        );
        let first = line.remove(0).now_or_never().expect("a place is free");
        assert!(line[0].as_mut().now_or_never().is_none());
        for admitted in held.iter_mut().take(5) {
            admitted.failed();
        }
        held.pop();
        let told = line.remove(0).now_or_never().expect("nobody is sent there");
        assert_eq!(told.unwrap_err().word(), "upstream-unavailable");
        assert_eq!(
            line.remove(0).await.unwrap_err().word(),
            "upstream-unavailable"
        );
        drop(first);
    }
}
