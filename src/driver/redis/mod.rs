//! Redis and Valkey as we use them: scripts by their hash, every wait with an end.
//!
//! ```text
//! run ── route: which node has the key? ── node: one of two lanes ── server
//!          one: always the same
//!          sentinel: the primary            an error that another node may not have: ask again who
//!          cluster: the owner of the slot   a redirect: go there
//! ```
//!
//! The shape is the same whatever the topology: only `route.rs` knows there are three. An error leads
//! to another try where a refusal shows that nothing was done; what may have been done is for the
//! caller to repeat, who knows that it is harmless.
//!
//! The library's own defaults are not used: it leaves Nagle's algorithm on, its multiplexed
//! connection never comes back once it is broken, and its cluster connection cannot look at a server
//! before it uses it.

mod address;
mod call;
mod cluster;
mod fault;
mod guard;
mod look;
mod node;
mod route;
mod sentinel;

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::{Instant, sleep, timeout_at};

use crate::base::outage::Outage;
use crate::driver::redis::address::{Address, Topology};
use crate::driver::redis::call::{Call, Way};
use crate::driver::redis::guard::Guard;
use crate::driver::redis::node::{Errand, Lane, Node, pause};
use crate::driver::redis::route::{Next, Route};
use crate::telemetry::metrics;

pub use crate::driver::redis::fault::{Redirect, RedisError};

/// How long a step of a loop waits for an answer.
const STEP_MAX: Duration = Duration::from_secs(2);
/// How often one call changes the server before it is given up.
const HOPS_MAX: usize = 8;

/// A script and its hash.
#[derive(Debug, Clone)]
pub struct Script {
    text: String,
    hash: String,
}

impl Script {
    /// A script of this text.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            hash: redis::Script::new(text).get_hash().to_owned(),
        }
    }
}

/// What a script is given.
#[derive(Debug)]
pub struct Input {
    /// The keys it works on; all of one slot.
    pub keys: Vec<String>,
    /// Everything else it is told.
    pub args: Vec<Vec<u8>>,
}

/// Where servers are, and what is expected of them.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// `room.url`; `address.rs` says how it is written.
    pub url: String,
    /// Certificates in PEM to trust instead of the machine's.
    pub ca: Option<Vec<u8>>,
    /// How long a room waits for a primary that was replaced to stop writing.
    pub split_brain_ms: u64,
}

/// A server, or several that share the keys. Connections are made when they are needed.
#[derive(Debug)]
pub struct Redis {
    route: Route,
    may_fail_over: bool,
}

impl Redis {
    /// The servers at this address. Nobody is asked yet.
    ///
    /// # Errors
    /// [`RedisError::Address`].
    pub fn open(settings: &Settings) -> Result<Self, RedisError> {
        let address = Address::parse(&settings.url, settings.ca.clone())?;
        let may_fail_over = address.topology != Topology::One;
        let guard = Arc::new(Guard::new(may_fail_over, settings.split_brain_ms));
        Ok(Self {
            route: Route::to(address, guard)?,
            may_fail_over,
        })
    }

    /// Whether this is an address, as far as that can be told without asking anybody.
    ///
    /// # Errors
    /// [`RedisError::Address`], without any secret in it.
    pub fn check(url: &str) -> Result<(), RedisError> {
        Address::parse(url, None).map(drop)
    }

    /// Whether another server may take a server's place, with some of its data.
    pub fn may_fail_over(&self) -> bool {
        self.may_fail_over
    }

    /// Whether every server can be used now.
    ///
    /// # Errors
    /// As [`Redis::run_for_step`].
    pub async fn look(&self) -> Result<(), RedisError> {
        let ping = redis::cmd("PING");
        let errand = errand(Call::Command(&ping), Lane::Step, STEP_MAX);
        for node in self.route.nodes().await? {
            counted(node.call(&errand, Way::Straight).await)?;
        }
        Ok(())
    }

    /// Runs a script for a request, over the connection that all requests share.
    ///
    /// # Errors
    /// See [`RedisError`]. After [`RedisError::Away`] the script may have run.
    pub async fn run_for_request(
        &self,
        script: &Script,
        input: &Input,
        deadline: Duration,
    ) -> Result<Value, RedisError> {
        let errand = errand(Call::Script(script, input), Lane::Request, deadline);
        counted(self.ask(first_of(input), &errand).await)
    }

    /// Runs a script for a step of a loop, over a connection that no request uses.
    ///
    /// # Errors
    /// As [`Redis::run_for_request`].
    pub async fn run_for_step(&self, script: &Script, input: &Input) -> Result<Value, RedisError> {
        let errand = errand(Call::Script(script, input), Lane::Step, STEP_MAX);
        counted(self.ask(first_of(input), &errand).await)
    }

    /// Runs a plain command about this key for a step of a loop.
    ///
    /// # Errors
    /// As [`Redis::run_for_request`].
    pub async fn command(&self, key: &str, command: &Cmd) -> Result<Value, RedisError> {
        let errand = errand(Call::Command(command), Lane::Step, STEP_MAX);
        counted(self.ask(key, &errand).await)
    }

    async fn ask(&self, key: &str, errand: &Errand<'_>) -> Result<Value, RedisError> {
        let mut node = self.find(key, errand.until).await?;
        let mut way = Way::Straight;
        let mut hops = 0;
        loop {
            let error = match node.call(errand, way).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            hops += 1;
            (node, way) = match self.route.after(key, &node, &error) {
                Next::GiveUp => return Err(error),
                _ if HOPS_MAX <= hops => return Err(error),
                Next::Go(node, way) => (node, way),
                Next::AskAgain => {
                    let pause = pause();
                    if errand.until <= Instant::now() + pause {
                        return Err(error);
                    }
                    sleep(pause).await;
                    (self.find(key, errand.until).await?, Way::Straight)
                }
            };
        }
    }

    async fn find(&self, key: &str, until: Instant) -> Result<Arc<Node>, RedisError> {
        let found = timeout_at(until, self.route.node_of(key)).await;
        found.unwrap_or_else(|_| Err(RedisError::away(Outage::Slow, "nobody said whom to ask")))
    }
}

fn errand(call: Call<'_>, lane: Lane, deadline: Duration) -> Errand<'_> {
    Errand {
        call,
        lane,
        until: Instant::now() + deadline,
    }
}

/// All keys of a script have the same slot.
fn first_of(input: &Input) -> &str {
    input.keys.first().map_or("", String::as_str)
}

fn counted(answer: Result<Value, RedisError>) -> Result<Value, RedisError> {
    if let Err(error) = &answer {
        metrics::redis_unanswered(error.outage().map_or("foreign", Outage::word));
    }
    answer
}
