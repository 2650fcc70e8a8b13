//! The room in Redis or Valkey: the definition as scripts, for many gateways and admitters at once.
//!
//! One command is one script, and one script is one atomic step at the server's own time. `scripts.rs`
//! names them and their keys, `ask.rs` writes what they are told, `answer.rs` reads what they say;
//! `lua/README.md` says what they keep. No rule of the room is in this folder.

pub mod scripts;

mod answer;
mod ask;
mod entry;
mod foreign;
mod reply;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::anyhow;
use async_trait::async_trait;
use redis::Value;

use crate::base::ids::ShowId;
use crate::base::limits::{CHECK_DEADLINE_MS, ROOM_DEADLINE_MS};
use crate::base::outage::Outage;
use crate::driver::redis::{Input, Redis, RedisError, Script, Settings};
use crate::room::in_redis::ask::{Args, Ask};
use crate::room::in_redis::scripts::{Name, ScriptClock};
use crate::room::keys::SHOWS;
use crate::room::model::command::{Command, Outcome};
use crate::room::{Away, Store, StoreError};

/// Rooms in a Redis or Valkey server.
#[derive(Debug)]
pub struct InRedis {
    redis: Redis,
    scripts: BTreeMap<Name, Script>,
    split_brain_ms: u64,
}

/// Which connection a command takes, and how long its answer may take.
enum Lane {
    Request(Duration),
    Step,
}

impl InRedis {
    /// Rooms in the servers at this address. Nobody is asked yet.
    ///
    /// # Errors
    /// [`RedisError::Address`] where it is no address.
    pub fn open(settings: &Settings, clock: ScriptClock) -> Result<Self, RedisError> {
        let scripts = Name::ALL.map(|name| (name, name.script(clock)));
        let redis = Redis::open(settings)?;
        Ok(Self {
            split_brain_ms: match redis.may_fail_over() {
                true => settings.split_brain_ms,
                false => 0, // nobody takes its place while it lives
            },
            redis,
            scripts: scripts.into(),
        })
    }

    /// Whether every server can be used now.
    ///
    /// # Errors
    /// [`RedisError`], which says whether waiting helps.
    pub async fn look(&self) -> Result<(), RedisError> {
        self.redis.look().await
    }

    /// Rooms in the servers at this address, which must be there.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] where one cannot be reached or must not be used.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::connect_on(url, ScriptClock::Server).await
    }

    /// The same, with scripts that go by this clock.
    ///
    /// # Errors
    /// As [`InRedis::connect`].
    pub async fn connect_on(url: &str, clock: ScriptClock) -> Result<Self, StoreError> {
        let settings = Settings {
            url: url.to_owned(),
            ..Settings::default()
        };
        let rooms = Self::open(&settings, clock).map_err(failed)?;
        rooms.look().await.map_err(failed)?;
        Ok(rooms)
    }

    /// Remembers the show before its first room begins: a room that is not listed would be mended by
    /// nobody, a listed show without a room is mended at once. Where keys are spread over servers the
    /// list may be lost and the rooms not; so there it is said again by whoever copies the ledger. Only
    /// what is new is written: a full server still mends the shows that it has.
    async fn list(&self, show: &ShowId) -> Result<(), StoreError> {
        if self.of_list("SISMEMBER", &[show.as_str()]).await? == Value::Int(1) {
            return Ok(());
        }
        self.of_list("SADD", &[show.as_str()]).await.map(drop)
    }

    /// What the server says about the list of shows.
    async fn of_list(&self, verb: &str, args: &[&str]) -> Result<Value, StoreError> {
        let command = redis::cmd(verb).arg(SHOWS).arg(args).take();
        let answer = self.redis.command(SHOWS, &command).await.map_err(failed);
        answer.map_err(|error| match error {
            StoreError::Corrupt(source) => StoreError::Corrupt(source.context(SHOWS)),
            other => other,
        })
    }
}

#[async_trait]
impl Store for InRedis {
    async fn apply(&self, show: &ShowId, command: &Command) -> Result<Outcome, StoreError> {
        let Ask { name, args } = ask::ask(command);
        if name == Name::MendBegin {
            match self.list(show).await {
                // A full server is mended: whoever copies the ledger lists the show when there is room.
                Err(StoreError::Unavailable(away)) if away.outage == Outage::OutOfMemory => {}
                listed => listed?,
            }
        } else if name == Name::Ledger {
            drop(self.list(show).await); // it may have been lost alone; where its node is away, shows go on
        }
        let Args(args) = args;
        let keys = name.keys().iter().map(|key| key.of(show)).collect();
        let (script, input) = (&self.scripts[&name], Input { keys, args });
        let value = match lane(name) {
            Lane::Request(deadline) => self.redis.run_for_request(script, &input, deadline).await,
            Lane::Step => self.redis.run_for_step(script, &input).await,
        };
        let answer = match value.map_err(failed) {
            Ok(value) => answer::answer(name, value),
            Err(StoreError::Corrupt(source)) => Err(source),
            Err(other) => return Err(other),
        };
        match answer {
            Ok(outcome) => Ok(outcome),
            Err(source) => Err(self.found_foreign(show, name, source).await),
        }
    }

    async fn shows(&self) -> Result<Vec<ShowId>, StoreError> {
        let value = self.of_list("SMEMBERS", &[]).await?;
        let names: Vec<String> = redis::from_redis_value(value)
            .map_err(|error| StoreError::Corrupt(anyhow!("{SHOWS}: {error}")))?;
        let mut shows = names
            .iter()
            .map(|name| name.parse())
            .collect::<Result<Vec<ShowId>, _>>()
            .map_err(|error| StoreError::Corrupt(anyhow!("{SHOWS}: {error}")))?;
        shows.sort();
        Ok(shows)
    }

    fn split_brain_ms(&self) -> u64 {
        self.split_brain_ms
    }
}

/// What many fans ask for at once shares a connection; the rest must not wait behind it.
fn lane(name: Name) -> Lane {
    match name {
        Name::Check => Lane::Request(Duration::from_millis(CHECK_DEADLINE_MS)),
        Name::Join
        | Name::Claim
        | Name::Restore
        | Name::Touch
        | Name::Leave
        | Name::Extend
        | Name::Consume => Lane::Request(Duration::from_millis(ROOM_DEADLINE_MS)),
        Name::Tick
        | Name::Freeze
        | Name::OpenDraw
        | Name::Revoke
        | Name::Configure
        | Name::Stock
        | Name::RaiseCeiling
        | Name::MendBegin
        | Name::MendCopy
        | Name::MendFold
        | Name::MendFinish
        | Name::Board
        | Name::Ledger
        | Name::Trim => Lane::Step,
    }
}

fn failed(error: RedisError) -> StoreError {
    match error {
        RedisError::Foreign(_) => StoreError::Corrupt(error.into()),
        RedisError::Address(_) | RedisError::Away { .. } | RedisError::Elsewhere(_) => {
            let outage = error.outage().unwrap_or(Outage::Away);
            let failure = error.into();
            StoreError::Unavailable(Away { outage, failure })
        }
    }
}
