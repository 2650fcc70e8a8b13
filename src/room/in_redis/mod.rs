//! The room in Redis or Valkey: the definition as scripts, for many gateways and admitters at once.
//!
//! One command is one script, and one script is one atomic step at the server's own time. `scripts.rs`
//! names them and their keys, `ask.rs` writes what they are told, `answer.rs` reads what they say;
//! `lua/README.md` says what they keep. No rule of the room is in this folder.

pub mod scripts;

mod answer;
mod ask;
mod entry;
mod reply;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, anyhow};
use async_trait::async_trait;

use crate::base::ids::ShowId;
use crate::base::limits::{CHECK_DEADLINE_MS, ROOM_DEADLINE_MS};
use crate::driver::redis::{Input, Redis, RedisError, Script};
use crate::room::in_redis::ask::{Args, Ask};
use crate::room::in_redis::scripts::{Name, ScriptClock};
use crate::room::keys::SHOWS;
use crate::room::model::command::{Command, Outcome};
use crate::room::{Store, StoreError};

/// Rooms in a Redis or Valkey server.
#[derive(Debug)]
pub struct InRedis {
    redis: Redis,
    scripts: BTreeMap<Name, Script>,
}

/// Which connection a command takes, and how long its answer may take.
enum Lane {
    Request(Duration),
    Step,
}

impl InRedis {
    /// Rooms in the server at this address.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] where it cannot be reached or must not be used.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::connect_on(url, ScriptClock::Server).await
    }

    /// The same, with scripts that go by this clock.
    ///
    /// # Errors
    /// As [`InRedis::connect`].
    pub async fn connect_on(url: &str, clock: ScriptClock) -> Result<Self, StoreError> {
        let scripts = Name::ALL.map(|name| (name, name.script(clock)));
        Ok(Self {
            redis: Redis::connect(url).await.map_err(failed)?,
            scripts: scripts.into(),
        })
    }

    /// Remembers the show before its first room begins: a room that is not listed would be mended by
    /// nobody, a listed show without a room is mended at once.
    async fn list(&self, show: &ShowId) -> Result<(), StoreError> {
        let command = redis::cmd("SADD").arg(SHOWS).arg(show.as_str()).take();
        self.redis.command(&command).await.map_err(failed)?;
        Ok(())
    }
}

#[async_trait]
impl Store for InRedis {
    async fn apply(&self, show: &ShowId, command: &Command) -> Result<Outcome, StoreError> {
        let Ask { name, args } = ask::ask(command);
        if name == Name::MendBegin {
            self.list(show).await?;
        }
        let Args(args) = args;
        let keys = name.keys().iter().map(|key| key.of(show)).collect();
        let (script, input) = (&self.scripts[&name], Input { keys, args });
        let value = match lane(name) {
            Lane::Request(deadline) => self.redis.run_for_request(script, &input, deadline).await,
            Lane::Step => self.redis.run_for_step(script, &input).await,
        };
        let value = value.map_err(|error| about(show, name, error))?;
        answer::answer(name, value)
            .with_context(|| format!("{show}: the answer of {name:?}"))
            .map_err(StoreError::Corrupt)
    }

    async fn shows(&self) -> Result<Vec<ShowId>, StoreError> {
        let command = redis::cmd("SMEMBERS").arg(SHOWS).take();
        let value = self.redis.command(&command).await.map_err(failed)?;
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

/// What went wrong, by name: which key it was about, where that is known.
fn about(show: &ShowId, name: Name, error: RedisError) -> StoreError {
    let keys: Vec<String> = name.keys().iter().map(|key| key.of(show)).collect();
    match failed(error) {
        StoreError::Corrupt(source) => {
            StoreError::Corrupt(source.context(format!("{name:?} on {}", keys.join(", "))))
        }
        other => other,
    }
}

fn failed(error: RedisError) -> StoreError {
    match error {
        RedisError::Foreign(_) => StoreError::Corrupt(error.into()),
        RedisError::Address(_) | RedisError::Away(_) | RedisError::Unfit(_) => {
            StoreError::Unavailable(error.into())
        }
    }
}
