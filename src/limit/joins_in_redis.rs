//! Joins counted in Redis or Valkey, for all gateways together.
//!
//! One script counts all joins of a show that arrive while the last call is on its way: whoever has
//! the turn takes along those who wait. There is no task behind this. A request that is dropped while
//! it has the turn leaves the turn free, and those it took along ask again.
//!
//! Where Redis does not answer in time, this process counts by itself, with the same limits: G
//! gateways then let pass G times as much, and never everything.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redis::Value;
use tokio::sync::{Mutex as Turn, oneshot};

use crate::base::ids::ShowId;
use crate::base::limits::{BATCH_MAX, BATCH_QUEUE_MAX, BATCHED_SHOWS_MAX, JOIN_LIMIT_DEADLINE_MS};
use crate::driver::redis::{Input, Redis, RedisError, Script, Settings};
use crate::limit::gcra::{Entry, Ladder, Rate};
use crate::limit::joins_in_memory::JoinsInMemory;
use crate::limit::{Joiner, Joins};
use crate::telemetry::metrics;

/// The script's text.
pub const TEXT: &str = include_str!("../../lua/limit/join.lua");
/// The line with which it asks the server for the time.
const SERVERS_CLOCK: &str = "local now = time[1] * 1000000 + time[2]\n";
/// What stands there on a test's clock.
const TEST_CLOCK: &str = "local now = tonumber(redis.call('GET', KEYS[1] .. ':clock'))\n";
/// How often a join is asked again that somebody else took along and did not bring back.
const LOST_MAX: usize = 3;

/// Whose time the script goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountingClock {
    /// The server's own.
    Server,
    /// What the key `catraca:{show}:limit:all:clock` says, in microseconds. For tests.
    Key,
}

/// The joins of all gateways that share a server.
#[derive(Debug)]
pub struct JoinsInRedis {
    redis: Redis,
    script: Script,
    rates: Vec<Vec<u8>>,
    shows: Mutex<BTreeMap<ShowId, Arc<Line>>>,
    /// Counts where the server does not.
    own: JoinsInMemory,
}

/// Those who want to join one show.
#[derive(Debug, Default)]
struct Line {
    waiting: Mutex<Vec<Waiting>>,
    turn: Turn<()>,
}

#[derive(Debug)]
struct Waiting {
    joiner: Joiner,
    tell: oneshot::Sender<Option<Entry>>,
}

impl JoinsInRedis {
    /// Joins in the servers at this address. Nobody is asked yet.
    ///
    /// # Errors
    /// [`RedisError::Address`] where it is no address.
    pub fn open(
        settings: &Settings,
        ladder: Ladder,
        strangers_max: usize,
        clock: CountingClock,
    ) -> Result<Self, RedisError> {
        let text = match clock {
            CountingClock::Server => TEXT.to_owned(),
            CountingClock::Key => TEXT.replace(SERVERS_CLOCK, TEST_CLOCK),
        };
        let rungs = ladder.rungs.iter().flat_map(|rung| [rung.free, rung.far]);
        let rates = std::iter::once(ladder.show).chain(rungs);
        let number = |n: u64| n.to_string().into_bytes();
        let words = |rate: Rate| [number(rate.interval_us), number(rate.tolerance_us)];
        Ok(Self {
            redis: Redis::open(settings)?,
            script: Script::new(&text),
            rates: rates.flat_map(words).collect(),
            shows: Mutex::default(),
            own: JoinsInMemory::new(ladder, strangers_max),
        })
    }

    /// What the server says; none where it says nothing of use in time.
    async fn ask_server(&self, show: &ShowId, joiner: Joiner) -> Option<Entry> {
        let line = self.line(show);
        for _ in 0..LOST_MAX {
            let mut told = line.enter(joiner)?;
            let _turn = tokio::select! {
                biased; // an answer is better than the turn
                answer = &mut told => match answer {
                    Ok(entry) => return entry,
                    Err(_) => continue, // whoever took this along has gone
                },
                turn = line.turn.lock() => turn,
            };
            // Nobody else calls now: this one has been answered, was lost, or still waits.
            match told.try_recv() {
                Ok(entry) => return entry,
                Err(oneshot::error::TryRecvError::Closed) => continue,
                Err(oneshot::error::TryRecvError::Empty) => {}
            }
            loop {
                let taken = line.take();
                metrics::batch("limit", taken.len());
                let joiners: Vec<Joiner> = taken.iter().map(|waiting| waiting.joiner).collect();
                let entries = self.call(show, &joiners).await;
                for (n, waiting) in taken.into_iter().enumerate() {
                    let entry = entries.as_ref().and_then(|entries| entries.get(n).copied());
                    let _gone = waiting.tell.send(entry).is_err(); // does not hear it
                }
                match told.try_recv() {
                    Ok(entry) => return entry,
                    Err(oneshot::error::TryRecvError::Closed) => break,
                    // More wait than one call takes, and stand before this one.
                    Err(oneshot::error::TryRecvError::Empty) => {}
                }
            }
        }
        None
    }

    /// One call: what becomes of each of these.
    async fn call(&self, show: &ShowId, joiners: &[Joiner]) -> Option<Vec<Entry>> {
        let deadline = Duration::from_millis(JOIN_LIMIT_DEADLINE_MS);
        let input = self.input(show, joiners);
        let answer = self.redis.run_for_request(&self.script, &input, deadline);
        let error = match answer.await {
            Ok(value) => match read(value, joiners.len()) {
                Some(entries) => return Some(entries),
                None => "it answered something else".to_owned(),
            },
            Err(error) => error.to_string(),
        };
        // The room says so, too, and louder: here, one copes.
        tracing::debug!("joins are counted by this process alone: {error}");
        None
    }

    fn input(&self, show: &ShowId, joiners: &[Joiner]) -> Input {
        let key = |what: &dyn std::fmt::Display| format!("catraca:{{{show}}}:limit:{what}");
        let mut keys = vec![key(&"all")];
        let mut args = self.rates.clone();
        for joiner in joiners {
            let prefixes = joiner.from.all();
            keys.extend(prefixes.iter().map(|prefix| key(prefix)));
            let ttl_ms = joiner.proof.map_or(0, |proof| proof.ttl_ms.max(1));
            args.push(prefixes.len().to_string().into_bytes());
            args.push(ttl_ms.to_string().into_bytes());
            if let Some(proof) = joiner.proof {
                let id = u128::from_be_bytes(proof.id);
                keys.push(key(&format_args!("proof:{id:032x}")));
            }
        }
        Input { keys, args }
    }

    fn line(&self, show: &ShowId) -> Arc<Line> {
        // Nothing panics under this lock; if it did, the map would still be whole.
        let mut shows = self.shows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = shows.get(show) {
            return Arc::clone(known);
        }
        if BATCHED_SHOWS_MAX <= shows.len() {
            // Whoever asks holds a clone, so what nobody else holds is idle.
            shows.retain(|_, idle| 1 < Arc::strong_count(idle));
        }
        Arc::clone(shows.entry(show.clone()).or_default())
    }
}

impl Line {
    /// Waits; none where too many do.
    fn enter(&self, joiner: Joiner) -> Option<oneshot::Receiver<Option<Entry>>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if BATCH_QUEUE_MAX <= waiting.len() {
            metrics::batch_refused("limit");
            return None;
        }
        let (tell, told) = oneshot::channel();
        waiting.push(Waiting { joiner, tell });
        Some(told)
    }

    /// The first who wait, and are still there.
    fn take(&self) -> Vec<Waiting> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|one| !one.tell.is_closed());
        let most = waiting.len().min(BATCH_MAX);
        waiting.drain(..most).collect()
    }
}

#[async_trait]
impl Joins for JoinsInRedis {
    async fn ask(&self, show: &ShowId, joiner: Joiner) -> Entry {
        match self.ask_server(show, joiner).await {
            Some(entry) => entry,
            None => {
                metrics::joins_counted_alone();
                self.own.ask(show, joiner).await
            }
        }
    }
}

/// What the script said of so many joins.
fn read(value: Value, joins: usize) -> Option<Vec<Entry>> {
    let said: Vec<(String, u64, u64)> = redis::from_redis_value(value).ok()?;
    let entries: Option<Vec<Entry>> = said
        .into_iter()
        .map(|(word, first, second)| match word.as_str() {
            "pass" => Some(Entry::Pass { left: first }),
            "challenge" => Some(Entry::Challenge {
                wait_us: first,
                used_milli: second,
            }),
            "too_many" => Some(Entry::TooMany { wait_us: first }),
            "busy" => Some(Entry::Busy { wait_us: first }),
            "spent" => Some(Entry::Spent),
            _ => None,
        })
        .collect();
    entries.filter(|entries| entries.len() == joins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_asks_for_the_time_in_one_way() {
        assert_eq!(TEXT.matches(SERVERS_CLOCK).count(), 1);
    }
}
