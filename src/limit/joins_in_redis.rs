//! Joins counted in Redis or Valkey, for all gateways together.
//!
//! One script counts all joins of a show that arrive while the last call is on its way
//! (`crate::batch`). To count twice would use up others' proofs, so a call that is on its way comes to
//! its end, whoever hangs up.
//!
//! Where Redis does not answer in time, or has something else than ours under a key, this process
//! counts by itself, with the same limits: G gateways then let pass G times as much, and never
//! everything. What is not ours is left as it is, and the log names its key.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redis::{ErrorKind, Value};

use crate::base::ids::{ShowId, hex};
use crate::base::limits::{
    BATCHED_SHOWS_MAX, JOIN_LIMIT_DEADLINE_MS, JOINED_NETWORKS_MAX, JOINED_PAGE,
};
use crate::base::time::Timestamp;
use crate::batch::{Ask, Batch, Failure};
use crate::driver::redis::{Input, Redis, RedisError, Script, Settings};
use crate::limit::gcra::{Entry, Ladder, Rate};
use crate::limit::joins_in_memory::JoinsInMemory;
use crate::limit::prefix::Network;
use crate::limit::tally::{Counted, MINUTE_MS, of_counts};
use crate::limit::{Joiner, Joins, Showing, Silence};
use crate::telemetry::metrics;

/// The script's text.
pub const TEXT: &str = concat!(
    include_str!("../../lua/part/counts.lua"),
    include_str!("../../lua/part/tally.lua"),
    include_str!("../../lua/limit/join.lua")
);
/// The line with which it asks the server for the time.
const SERVERS_CLOCK: &str = "local now = time[1] * 1000000 + time[2]\n";
/// What stands there on a test's clock.
const TEST_CLOCK: &str = "local now = tonumber(redis.call('GET', KEYS[2] .. ':clock'))\n";
/// How a count goes when it is empty. By a test's clock it stays: the server does not know that clock.
const GOES: &str = ", 'PX', string.format('%d', ttl_ms))\n";

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
    clock: CountingClock,
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
            CountingClock::Key => TEXT.replace(SERVERS_CLOCK, TEST_CLOCK).replace(GOES, ")\n"),
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
                clock,
            }),
            shows: Mutex::default(),
            own: JoinsInMemory::new(ladder, strangers_max),
        })
    }

    /// One call: what becomes of each of these where the server counts.
    ///
    /// # Errors
    /// [`RedisError`]; of [`RedisError::Foreign`] the source names the key.
    pub async fn count(&self, show: &ShowId, joiners: &[Joiner]) -> Result<Vec<Entry>, RedisError> {
        self.server.count(show, joiners).await
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
    async fn call(&self, show: &ShowId, joiners: &[Joiner]) -> Result<Vec<Entry>, Silent> {
        metrics::batch("limit", joiners.len());
        self.count(show, joiners).await.map_err(|error| {
            let error = anyhow::Error::new(error);
            match error.downcast_ref() {
                Some(RedisError::Foreign(_)) => {
                    tracing::error!("joins are counted by this process alone: {error:#}");
                }
                // The room says so, too, and louder: here, one copes.
                _ => tracing::debug!("joins are counted by this process alone: {error:#}"),
            }
            Silent::Away
        })
    }

    async fn count(&self, show: &ShowId, joiners: &[Joiner]) -> Result<Vec<Entry>, RedisError> {
        let deadline = Duration::from_millis(JOIN_LIMIT_DEADLINE_MS);
        let input = self.input(show, joiners);
        let answer = self.redis.run_for_request(&self.script, &input, deadline);
        read(answer.await?, joiners.len())
    }

    fn input(&self, show: &ShowId, joiners: &[Joiner]) -> Input {
        let key = |what: &dyn std::fmt::Display| key(show, what);
        let mut keys = Vec::with_capacity(2 + joiners.len());
        keys.extend([key(&JOINED), key(&"all")]);
        let mut args = Vec::with_capacity(self.rates.len() + 1 + 4 * joiners.len());
        args.extend_from_slice(&self.rates);
        args.push(JOINED_NETWORKS_MAX.to_string().into_bytes());
        for joiner in joiners {
            let prefixes = joiner.from.all();
            keys.extend(prefixes.iter().map(|prefix| key(prefix)));
            let once = joiner.shows.once();
            let ttl_ms = once.map_or(0, |proof| proof.ttl_ms.max(1));
            args.push(prefixes.len().to_string().into_bytes());
            args.push(word(joiner.shows).into());
            args.push(ttl_ms.to_string().into_bytes());
            args.push(joiner.from.network().0.into_bytes());
            if let Some(proof) = once {
                keys.push(key(&format_args!("proof:{}", hex(&proof.id))));
            }
        }
        Input { keys, args }
    }

    /// The server's time: whatever minute it is in, it adds to none before.
    async fn now(&self, show: &ShowId) -> Result<Timestamp, Silence> {
        let key = key(show, &"all");
        let us: i64 = match self.clock {
            CountingClock::Server => {
                let (s, us): (i64, i64) = self.tell(&key, &redis::cmd("TIME")).await?;
                s * 1_000_000 + us
            }
            CountingClock::Key => {
                let clock = format!("{key}:clock");
                self.tell(&key, redis::cmd("GET").arg(clock)).await?
            }
        };
        Ok(Timestamp::from_unix_ms(us / 1_000))
    }

    async fn tell<T: redis::FromRedisValue>(
        &self,
        key: &str,
        command: &redis::Cmd,
    ) -> Result<T, Silence> {
        let told = self.redis.command(key, command).await;
        let of_key = |error: anyhow::Error| Silence(error.context(key.to_owned()));
        let told = told.map_err(|error| of_key(error.into()))?;
        redis::from_redis_value(told).map_err(|error| of_key(error.into()))
    }
}

/// The last part of the name of the key with joins by minute and network.
const JOINED: &str = "joined";

fn key(show: &ShowId, what: &dyn std::fmt::Display) -> String {
    format!("catraca:{{{show}}}:limit:{what}")
}

/// A member of that key: the minute since 1970, and a network.
fn read_member(member: &str) -> anyhow::Result<(Timestamp, Network)> {
    let (minute, network) = member.split_once(' ').unwrap_or_default();
    let foreign = |_| anyhow::anyhow!("{member:?} is no minute with a network");
    let minute: i64 = minute.parse().map_err(foreign)?;
    let minute = Timestamp::from_unix_ms(minute.saturating_mul(MINUTE_MS.cast_signed()));
    Ok((minute, Network(network.to_owned())))
}

fn write_member(minute: Timestamp, network: &Network) -> String {
    let since = minute.as_millis() / MINUTE_MS.cast_signed();
    format!("{since} {}", network.0)
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

    async fn closed(&self, show: &ShowId) -> Result<Vec<Counted>, Silence> {
        let (server, key) = (&self.server, key(show, &JOINED));
        let now = server.now(show).await?;
        // What is in the key during the whole scan comes with it at least once, and a minute that is over
        // changes no more.
        let mut counts = BTreeMap::new();
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("ZSCAN");
            scan.arg(&key).arg(cursor).arg("COUNT").arg(JOINED_PAGE);
            let (next, page): (u64, Vec<(String, u64)>) = server.tell(&key, &scan).await?;
            for (member, joins) in page {
                let member =
                    read_member(&member).map_err(|what| Silence(what.context(key.clone())))?;
                counts.insert(member, joins);
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        let counts = counts.into_iter();
        Ok(of_counts(
            now,
            counts.map(|((minute, network), joins)| (minute, network, joins)),
        ))
    }

    async fn forget(&self, show: &ShowId, counted: &Counted) -> Result<(), Silence> {
        let key = key(show, &JOINED);
        let networks: Vec<&Network> = counted.networks.keys().collect();
        for page in networks.chunks(JOINED_PAGE) {
            let mut gone = redis::cmd("ZREM");
            gone.arg(&key);
            for network in page {
                gone.arg(write_member(counted.minute, network));
            }
            self.server.tell::<u64>(&key, &gone).await?;
        }
        Ok(())
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
fn read(value: Value, joins: usize) -> Result<Vec<Entry>, RedisError> {
    let said: Vec<Value> =
        redis::from_redis_value(value).map_err(|error| RedisError::Foreign(error.into()))?;
    let entries: Option<Vec<Entry>> = said.into_iter().map(entry).collect();
    let entries = entries.filter(|entries| entries.len() == joins);
    entries.ok_or_else(|| {
        let unknown = (ErrorKind::UnexpectedReturnType, "not what the script says");
        RedisError::Foreign(unknown.into())
    })
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
        for replaced in [SERVERS_CLOCK, GOES] {
            assert_eq!(TEXT.matches(replaced).count(), 1, "{replaced}");
        }
    }
}
