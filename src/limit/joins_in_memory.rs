//! Joins counted in this process: the definition behind a lock, in bounded memory.
//!
//! Counts that are empty again are forgotten whenever their number has doubled, and every few seconds:
//! where there are as many as there may be, their number doubles no more. When there are more
//! strangers than may be counted one by one, those who are new share a fixed number of counts: a
//! flood of made-up addresses costs honest newcomers some of their allowance, never our memory.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::time::Instant;

use crate::base::ids::ShowId;
use crate::base::limits::{JOINED_NETWORKS_MAX, PROOFS_SPENT_MAX};
use crate::base::time::Clock;
use crate::limit::gcra::{Count, Entry, Ladder, Shows, decide};
use crate::limit::prefix::{PREFIXES_MAX, Prefix};
use crate::limit::tally::{Counted as Minute, Tally};
use crate::limit::{Joiner, Joins, Showing, Silence};

/// Counts that strangers share when there are too many of them.
const SHARED_COUNTS: u64 = 65_536;
/// How many counts there are at least before empty ones are looked for.
const SWEEP_FROM: usize = 4_096;
/// How long empty counts stay at most, in microseconds: a look at millions of them takes a while.
const SWEEP_EVERY_US: u64 = 5_000_000;
/// How long one waits whose proof cannot be remembered just now.
const SPENT_FULL_WAIT_US: u64 = 1_000_000;

/// The joins of one process.
#[derive(Debug)]
pub struct JoinsInMemory {
    ladder: Ladder,
    strangers_max: usize,
    proofs_max: usize,
    began: Instant,
    counted: Mutex<Counted>,
    /// By whose time minutes are told; none where nobody asks for them.
    clock: Option<Arc<dyn Clock>>,
    tallies: Mutex<BTreeMap<ShowId, Tally>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Own(ShowId, Prefix),
    Shared(u64),
}

#[derive(Debug, Default)]
struct Counted {
    shows: HashMap<ShowId, u64>,
    prefixes: HashMap<Key, Count>,
    /// When each will not be accepted any more.
    spent: HashMap<(ShowId, [u8; 16]), u64>,
    /// As many counts as this, and empty ones are looked for.
    sweep_at: usize,
    /// So late, and they are looked for however many there are.
    sweep_due: u64,
    hasher: RandomState,
}

impl JoinsInMemory {
    /// Empty counts.
    pub fn new(ladder: Ladder, strangers_max: usize) -> Self {
        Self {
            ladder,
            strangers_max,
            proofs_max: PROOFS_SPENT_MAX,
            began: Instant::now(),
            counted: Mutex::default(),
            clock: None,
            tallies: Mutex::default(),
        }
    }

    /// The same, where somebody asks how many have joined, in minutes of this clock.
    #[must_use]
    pub fn tallying(self, clock: Arc<dyn Clock>) -> Self {
        let clock = Some(clock);
        Self { clock, ..self }
    }

    fn tallies(&self) -> MutexGuard<'_, BTreeMap<ShowId, Tally>> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Joins::ask`], at this time in microseconds.
    pub fn ask_at(&self, now: u64, show: &ShowId, joiner: Joiner) -> Entry {
        // Nothing panics under this lock; if it did, the counts would still be whole.
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.sweep(now);
        let shows = counted.shows_of(now, show, joiner.shows);
        let once = joiner.shows.once();
        if once.is_some() && shows != Shows::Spent && self.proofs_max <= counted.spent.len() {
            let wait_us = SPENT_FULL_WAIT_US;
            return Entry::Busy { wait_us };
        }
        let keys: Vec<Key> = joiner
            .from
            .all()
            .iter()
            .map(|prefix| counted.key(show, *prefix, self.strangers_max))
            .collect();
        let mut all = counted.shows.get(show).copied().unwrap_or_default();
        let mut counts = [Count::default(); PREFIXES_MAX];
        for (count, key) in counts.iter_mut().zip(&keys) {
            *count = counted.prefixes.get(key).copied().unwrap_or_default();
        }
        let before = (all, counts);
        let entry = decide(
            &self.ladder,
            now,
            &mut all,
            &mut counts[..keys.len()],
            shows,
        );
        if before != (all, counts) {
            counted.shows.insert(show.clone(), all);
            counted.prefixes.extend(keys.into_iter().zip(counts));
        }
        if let (Entry::Pass { .. }, Some(proof)) = (entry, once) {
            let until = now + proof.ttl_ms * 1_000;
            counted.spent.insert((show.clone(), proof.id), until);
        }
        entry
    }

    fn now(&self) -> u64 {
        let since = self.began.elapsed().as_micros();
        u64::try_from(since).unwrap_or(u64::MAX)
    }
}

impl Counted {
    fn shows_of(&self, now: u64, show: &ShowId, shows: Showing) -> Shows {
        let is_spent = |id| {
            let until = self.spent.get(&(show.clone(), id));
            until.is_some_and(|until| now < *until)
        };
        match shows {
            Showing::Nothing => Shows::Nothing,
            Showing::Claim => Shows::Claim,
            Showing::Wait(wait) if !is_spent(wait.id) => Shows::Wait,
            Showing::Proof(proof) if !is_spent(proof.id) => Shows::Proof,
            Showing::Wait(_) | Showing::Proof(_) => Shows::Spent,
        }
    }

    fn key(&self, show: &ShowId, prefix: Prefix, strangers_max: usize) -> Key {
        let own = Key::Own(show.clone(), prefix);
        if self.prefixes.len() < strangers_max || self.prefixes.contains_key(&own) {
            return own;
        }
        Key::Shared(self.hasher.hash_one((show, prefix)) % SHARED_COUNTS)
    }

    fn sweep(&mut self, now: u64) {
        let held = self.prefixes.len().max(self.spent.len());
        if held < self.sweep_at.max(SWEEP_FROM) && now < self.sweep_due {
            return;
        }
        self.shows.retain(|_, count| now < *count);
        self.prefixes.retain(|_, count| now < count.ends());
        self.spent.retain(|_, until| now < *until);
        self.sweep_due = now + SWEEP_EVERY_US;
        self.sweep_at = 2 * self.prefixes.len().max(self.spent.len());
    }
}

#[async_trait]
impl Joins for JoinsInMemory {
    async fn ask(&self, show: &ShowId, joiner: Joiner) -> Entry {
        let entry = self.ask_at(self.now(), show, joiner);
        if let (Entry::Pass { .. }, Some(clock)) = (entry, &self.clock) {
            let mut tallies = self.tallies();
            let tally = tallies.entry(show.clone()).or_default();
            tally.add(clock.now(), joiner.from.network(), JOINED_NETWORKS_MAX);
        }
        entry
    }

    async fn closed(&self, show: &ShowId) -> Result<Vec<Minute>, Silence> {
        let tallies = self.tallies();
        let (Some(tally), Some(clock)) = (tallies.get(show), &self.clock) else {
            return Ok(Vec::new());
        };
        Ok(tally.closed(clock.now()))
    }

    async fn forget(&self, show: &ShowId, counted: &Minute) -> Result<(), Silence> {
        if let Some(tally) = self.tallies().get_mut(show) {
            tally.forget(counted.minute);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::prefix::Prefixes;
    use crate::limit::{Proof, Settings};
    use std::net::Ipv4Addr;

    fn from(n: u32) -> Joiner {
        Joiner {
            from: Prefixes::of(Ipv4Addr::from(n).into()),
            shows: Showing::Nothing,
        }
    }

    fn proven(n: u32, ttl_ms: u64) -> Joiner {
        let id = u128::from(n).to_be_bytes();
        Joiner {
            shows: Showing::Proof(Proof { id, ttl_ms }),
            ..from(n)
        }
    }

    #[test]
    fn strangers_cannot_fill_the_memory() {
        let ladder = Ladder::of(&Settings::default());
        let joins = JoinsInMemory::new(ladder, 1_000);
        let show = "gala".parse().unwrap();
        for n in 0..100_000 {
            joins.ask_at(1, &show, from(n));
        }
        let held = |joins: &JoinsInMemory| joins.counted.lock().unwrap().prefixes.len();
        let bound = 1_000 + usize::try_from(SHARED_COUNTS).unwrap();
        assert!(held(&joins) <= bound, "{}", held(&joins));
        // A burst's time later nothing of it matters, and a newcomer has a count of their own again.
        let later = 1 + SWEEP_EVERY_US.max(10_000_000);
        joins.ask_at(later, &show, from(1));
        let kept = joins.counted.lock().unwrap();
        let keys: Vec<&Key> = kept.prefixes.keys().collect();
        assert!(
            matches!(keys[..], [Key::Own(..)]),
            "{} are held",
            keys.len()
        );
    }

    #[test]
    fn proofs_that_fill_the_memory_are_forgotten_in_time() {
        let joins = JoinsInMemory {
            proofs_max: 10_000,
            ..JoinsInMemory::new(Ladder::of(&Settings::default()), 100_000)
        };
        let show = "gala".parse().unwrap();
        // More than half of them are live when they are looked at.
        for n in 0..10_000 {
            let entry = joins.ask_at(1, &show, proven(n, 60_000));
            assert!(matches!(entry, Entry::Pass { .. }), "{n}: {entry:?}");
        }
        let full = Entry::Busy {
            wait_us: SPENT_FULL_WAIT_US,
        };
        assert_eq!(joins.ask_at(1, &show, proven(10_000, 60_000)), full);
        // Who shows none is let in meanwhile, and a used one is told so.
        let free = joins.ask_at(1, &show, from(20_000));
        assert!(matches!(free, Entry::Pass { .. }), "{free:?}");
        assert_eq!(joins.ask_at(1, &show, proven(1, 60_000)), Entry::Spent);
        let later = joins.ask_at(60_000_001, &show, proven(10_000, 60_000));
        assert!(matches!(later, Entry::Pass { .. }), "{later:?}");
        assert_eq!(joins.counted.lock().unwrap().spent.len(), 1);
    }

    #[test]
    fn a_proof_counts_once_in_its_show_and_may_be_forgotten_in_time() {
        let joins = JoinsInMemory::new(Ladder::of(&Settings::default()), 1_000);
        let ask = |now: u64, show: &str, id: u8| {
            let id = [id; 16];
            let shows = Showing::Proof(Proof { id, ttl_ms: 1 });
            joins.ask_at(now, &show.parse().unwrap(), Joiner { shows, ..from(1) })
        };
        assert!(matches!(ask(0, "gala", 1), Entry::Pass { .. }));
        assert_eq!(ask(0, "gala", 1), Entry::Spent);
        assert!(matches!(ask(0, "gala", 2), Entry::Pass { .. }));
        assert!(matches!(ask(0, "ball", 1), Entry::Pass { .. }));
        assert!(matches!(ask(1_000, "gala", 1), Entry::Pass { .. }));
    }
}
