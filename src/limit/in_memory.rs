//! Limits counted in this process by `governor`, in bounded memory.
//!
//! A count is kept for each stranger while it matters and swept after that. When there are more
//! strangers than may be counted one by one, those who ask share a fixed number of counts: a flood
//! of made-up addresses then costs honest clients some of their allowance, never our memory.

use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use foldhash::quality::RandomState;
use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use tokio_util::sync::CancellationToken;

use crate::base::ids::{FanId, TicketId};
use crate::limit::prefix::Prefix;
use crate::limit::{Asking, Limit, Limiter, Settings, Verdict};

/// Counts that strangers share when there are too many of them.
const SHARED_COUNTS: u64 = 65_536;
/// Requests between two looks at how many are counted.
const LOOK_EVERY: u64 = 4_096;
/// How often counts that no longer matter are forgotten.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// A count for each key. Every request looks for one or two among very many: the hash is quick, and its seed
/// is the process's own.
type Keyed<K> = RateLimiter<
    K,
    DashMapStateStore<K, RandomState>,
    DefaultClock,
    NoOpMiddleware<<DefaultClock as Clock>::Instant>,
>;

#[derive(Debug)]
struct Counts<K: Hash + Eq + Clone> {
    limit: Limit,
    /// One by one.
    own: Keyed<K>,
    /// Of those who share.
    shared: Keyed<u64>,
    asked: AtomicU64,
    crowded: AtomicBool,
}

/// The limits of one process.
#[derive(Debug)]
pub struct InMemory {
    anything: Counts<Prefix>,
    fan: Counts<FanId>,
    gated: Counts<TicketId>,
    strangers_max: usize,
    hasher: RandomState,
    clock: DefaultClock,
}

impl InMemory {
    /// Empty counts.
    pub fn new(settings: &Settings) -> Self {
        Self {
            anything: Counts::new(settings.anything),
            fan: Counts::new(settings.fan),
            gated: Counts::new(settings.gated),
            strangers_max: settings.strangers_max,
            hasher: RandomState::default(),
            clock: DefaultClock::default(),
        }
    }

    /// Sweeps until told to stop.
    ///
    /// # Errors
    /// None.
    pub async fn run(&self, stop: CancellationToken) -> anyhow::Result<()> {
        while stop
            .run_until_cancelled(tokio::time::sleep(SWEEP_EVERY))
            .await
            .is_some()
        {
            self.step();
        }
        Ok(())
    }

    /// Forgets counts that no longer matter. Twice is as good as once.
    pub fn step(&self) {
        self.anything.step(self.strangers_max);
        self.fan.step(self.strangers_max);
        self.gated.step(self.strangers_max);
    }

    fn count<K: Hash + Eq + Clone>(&self, counts: &Counts<K>, key: &K) -> Verdict {
        if counts.asked.fetch_add(1, Ordering::Relaxed) % LOOK_EVERY == LOOK_EVERY - 1 {
            counts.look(self.strangers_max);
        }
        let counted = if counts.crowded.load(Ordering::Relaxed) {
            let shared = self.hasher.hash_one(key) % SHARED_COUNTS;
            counts.shared.check_key(&shared)
        } else {
            counts.own.check_key(key)
        };
        match counted {
            Ok(()) => Verdict::Pass,
            Err(until) => {
                let wait = until.wait_time_from(self.clock.now());
                let retry_after_s = wait.as_millis().div_ceil(1_000).max(1);
                Verdict::TooMany {
                    retry_after_s: u64::try_from(retry_after_s).unwrap_or(u64::MAX),
                }
            }
        }
    }
}

impl<K: Hash + Eq + Clone> Counts<K> {
    fn new(limit: Limit) -> Self {
        let at_least_one = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_second(at_least_one(limit.per_s));
        let quota = quota.allow_burst(at_least_one(limit.burst));
        Self {
            limit,
            own: RateLimiter::dashmap_with_hasher(quota, RandomState::default()),
            shared: RateLimiter::dashmap_with_hasher(quota, RandomState::default()),
            asked: AtomicU64::new(0),
            crowded: AtomicBool::new(false),
        }
    }

    fn step(&self, strangers_max: usize) {
        self.own.retain_recent();
        self.shared.retain_recent();
        self.look(strangers_max);
    }

    fn look(&self, strangers_max: usize) {
        let crowded = strangers_max <= self.own.len();
        self.crowded.store(crowded, Ordering::Relaxed);
    }
}

impl Limiter for InMemory {
    fn limit(&self, asking: Asking) -> Limit {
        match asking {
            Asking::Anything(_) => self.anything.limit,
            Asking::Fan(_) => self.fan.limit,
            Asking::Gated(_) => self.gated.limit,
        }
    }

    fn ask(&self, asking: Asking) -> Verdict {
        match asking {
            Asking::Anything(prefix) => self.count(&self.anything, &prefix),
            Asking::Fan(fan) => self.count(&self.fan, &fan),
            Asking::Gated(ticket) => self.count(&self.gated, &ticket),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(strangers_max: usize) -> Settings {
        let fan = Limit { per_s: 1, burst: 2 };
        Settings {
            fan,
            strangers_max,
            ..Settings::default()
        }
    }

    #[test]
    fn a_burst_passes_and_then_one_must_wait() {
        let limits = InMemory::new(&settings(1_000));
        let (ana, bia) = (FanId([1; 16]), FanId([2; 16]));
        for _ in 0..2 {
            assert_eq!(limits.ask(Asking::Fan(ana)), Verdict::Pass);
        }
        let refused = limits.ask(Asking::Fan(ana));
        assert_eq!(refused, Verdict::TooMany { retry_after_s: 1 });
        assert_eq!(limits.ask(Asking::Fan(bia)), Verdict::Pass);
    }

    #[test]
    fn strangers_cannot_fill_the_memory() {
        let limits = InMemory::new(&settings(1_000));
        for n in 0..200_000u128 {
            limits.ask(Asking::Fan(FanId(n.to_be_bytes())));
        }
        let counted = limits.fan.own.len() + limits.fan.shared.len();
        let bound = 1_000 + usize::try_from(LOOK_EVERY + SHARED_COUNTS).unwrap();
        assert!(counted <= bound, "{counted}");
    }
}
