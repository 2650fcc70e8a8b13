//! Joins counted in Redis or Valkey, for all gateways together.
//!
//! One script counts all joins of a show that arrive while the last call is on its way
//! (`crate::batch`). To count twice would use up others' proofs, so a call that is on its way comes to
//! its end, whoever hangs up.
//!
//! Where Redis does not answer in time, this process counts by itself, with the same limits: G
//! gateways then let pass G times as much, and never everything.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redis::Value;

use crate::base::ids::{ShowId, hex};
use crate::base::limits::{BATCHED_SHOWS_MAX, JOIN_LIMIT_DEADLINE_MS};
use crate::batch::{Ask, Batch, Failure};
use crate::driver::redis::{Input, Redis, RedisError, Script, Settings};
use crate::limit::gcra::{Entry, Ladder, Rate};
use crate::limit::joins_in_memory::JoinsInMemory;
use crate::limit::{Joiner, Joins, Showing};
use crate::telemetry::metrics;

/// The script's text.
pub const TEXT: &str = include_str!("../../lua/limit/join.lua");
/// The line with which it asks the server for the time.
const SERVERS_CLOCK: &str = "local now = time[1] * 1000000 + time[2]\n";
/// What stands there on a test's clock.
const TEST_CLOCK: &str = "local now = tonumber(redis.call('GET', KEYS[1] .. ':clock'))\n";

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
    server: Arc<Server>,
    shows: Mutex<BTreeMap<ShowId, Arc<Batch<Joiner>>>>,
    /// Counts where the server does not.
    own: JoinsInMemory,
}

/// The server, and what it counts by.
#[derive(Debug)]
struct Server {
    redis: Redis,
    script: Script,
    rates: Vec<Vec<u8>>,
}

/// Why the server does not count a join.
#[derive(Debug, Clone, Copy)]
pub enum Silent {
    /// Too many wait to be counted.
    Full,
    /// It says nothing of use in time.
    Away,
}

impl Ask for Joiner {
    type Answer = Entry;
    type Error = Silent;
}

impl Failure for Silent {
    fn overloaded() -> Self {
        Self::Full
    }

    fn lost() -> Self {
        Self::Away
    }

    fn foreign() -> Self {
        Self::Away
    }

    fn alike(&self) -> Self {
        *self
    }
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
        let rungs = ladder.rungs.iter();
        let rungs = rungs.flat_map(|rung| [rung.free, rung.wait, rung.far]);
        let rates = std::iter::once(ladder.show).chain(rungs);
        let number = |n: u64| n.to_string().into_bytes();
        let words = |rate: Rate| [number(rate.interval_us), number(rate.tolerance_us)];
        Ok(Self {
            server: Arc::new(Server {
                redis: Redis::open(settings)?,
                script: Script::new(&text),
                rates: rates.flat_map(words).collect(),
            }),
            shows: Mutex::default(),
            own: JoinsInMemory::new(ladder, strangers_max),
        })
    }

    fn batch(&self, show: &ShowId) -> Arc<Batch<Joiner>> {
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

impl Server {
    /// One call: what becomes of each of these.
    async fn call(&self, show: &ShowId, joiners: &[Joiner]) -> Result<Vec<Entry>, Silent> {
        metrics::batch("limit", joiners.len());
        let deadline = Duration::from_millis(JOIN_LIMIT_DEADLINE_MS);
        let input = self.input(show, joiners);
        let answer = self.redis.run_for_request(&self.script, &input, deadline);
        let error = match answer.await {
            Ok(value) => match read(value, joiners.len()) {
                Some(entries) => return Ok(entries),
                None => "it answered something else".to_owned(),
            },
            Err(error) => error.to_string(),
        };
        // The room says so, too, and louder: here, one copes.
        tracing::debug!("joins are counted by this process alone: {error}");
        Err(Silent::Away)
    }

    fn input(&self, show: &ShowId, joiners: &[Joiner]) -> Input {
        let key = |what: &dyn std::fmt::Display| format!("catraca:{{{show}}}:limit:{what}");
        let mut keys = Vec::with_capacity(1 + joiners.len());
        keys.push(key(&"all"));
        let mut args = Vec::with_capacity(self.rates.len() + 3 * joiners.len());
        args.extend_from_slice(&self.rates);
        for joiner in joiners {
            let prefixes = joiner.from.all();
            keys.extend(prefixes.iter().map(|prefix| key(prefix)));
            let once = joiner.shows.once();
            let ttl_ms = once.map_or(0, |proof| proof.ttl_ms.max(1));
            args.push(prefixes.len().to_string().into_bytes());
            args.push(word(joiner.shows).into());
            args.push(ttl_ms.to_string().into_bytes());
            if let Some(proof) = once {
                keys.push(key(&format_args!("proof:{}", hex(&proof.id))));
            }
        }
        Input { keys, args }
    }
}

#[async_trait]
impl Joins for JoinsInRedis {
    async fn ask(&self, show: &ShowId, joiner: Joiner) -> Entry {
        let (server, id) = (Arc::clone(&self.server), show.clone());
        let call = |joiners: Vec<Joiner>| async move { server.call(&id, &joiners).await };
        let silent = match self.batch(show).ask_once(joiner, call).await {
            Ok(entry) => return entry,
            Err(silent) => silent,
        };
        if let Silent::Full = silent {
            metrics::batch_refused("limit");
        }
        metrics::joins_counted_alone();
        self.own.ask(show, joiner).await
    }
}

/// What the script calls what a join shows.
fn word(shows: Showing) -> &'static str {
    match shows {
        Showing::Nothing => "nothing",
        Showing::Claim => "claim",
        Showing::Wait(_) => "wait",
        Showing::Proof(_) => "proof",
    }
}

/// What the script said of so many joins.
fn read(value: Value, joins: usize) -> Option<Vec<Entry>> {
    let said: Vec<Value> = redis::from_redis_value(value).ok()?;
    let entries: Option<Vec<Entry>> = said.into_iter().map(entry).collect();
    entries.filter(|entries| entries.len() == joins)
}

/// What it said of one: a number, or a word and two.
fn entry(said: Value) -> Option<Entry> {
    if let Value::Int(left) = said {
        let left = u64::try_from(left).ok()?;
        return Some(Entry::Pass { left });
    }
    let (word, first, second): (String, u64, u64) = redis::from_redis_value(said).ok()?;
    match word.as_str() {
        "prove" => Some(Entry::Prove),
        "challenge" => Some(Entry::Challenge {
            wait_us: first,
            used_milli: second,
        }),
        "too_many" => Some(Entry::TooMany { wait_us: first }),
        "busy" => Some(Entry::Busy { wait_us: first }),
        "spent" => Some(Entry::Spent),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_asks_for_the_time_in_one_way() {
        assert_eq!(TEXT.matches(SERVERS_CLOCK).count(), 1);
    }
}
