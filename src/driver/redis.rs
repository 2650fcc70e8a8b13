//! Redis and Valkey as we use them: scripts by their hash, every wait with an end.
//!
//! Two lanes lead to one server. Requests share one multiplexed connection, so that what many ask at
//! once costs one write; steps of loops (ticks, mending, the operator's) take a connection from a
//! small pool and never queue behind them. Every new connection is looked at before it is used: a
//! server that is too old, or that may evict what it was told to keep, is refused.
//!
//! The library's own defaults are not used: it leaves Nagle's algorithm on, and its multiplexed
//! connection never comes back once it is broken.

use std::time::Duration;

use deadpool_redis::{Hook, HookError, Manager, Pool, Runtime, Timeouts};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, ErrorKind, IntoConnectionInfo, ServerErrorKind,
    Value,
};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// How long a new connection may take, the look at the server included.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// How long a step of a loop waits for an answer.
const STEP_MAX: Duration = Duration::from_secs(2);
/// Connections for steps of loops.
const POOL_MAX: usize = 4;
/// For how long nobody tries again to connect after a failure, at least; at most twice that, by
/// chance, so that a thousand gateways do not knock together.
const RETRY_AFTER_MS: u64 = 100;
/// The oldest server that has what the scripts use.
const VERSION_MIN: u64 = 7;

/// Why a server did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum RedisError {
    /// The address is not one.
    #[error("not an address of a Redis server")]
    Address(#[source] redis::RedisError),
    /// The server is away, too slow, full, or not ready to write. What was asked may or may not have
    /// been done.
    #[error("Redis did not answer: {0}")]
    Away(String),
    /// The server would lose data that it was told to keep, or lacks what scripts use.
    #[error("Redis server cannot be used: {0}")]
    Unfit(String),
    /// A key holds data of another kind than ours, or a script of ours is wrong about it.
    #[error("Redis holds foreign data")]
    Foreign(#[source] redis::RedisError),
}

impl From<redis::RedisError> for RedisError {
    fn from(error: redis::RedisError) -> Self {
        let is_foreign = match error.kind() {
            // What fails inside a script comes as ERR or, from a command in it, as its own code.
            ErrorKind::Server(ServerErrorKind::ResponseError) => true,
            ErrorKind::Extension => error.code() == Some("WRONGTYPE"),
            _ => false,
        };
        if is_foreign {
            Self::Foreign(error)
        } else {
            Self::Away(error.to_string())
        }
    }
}

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
    /// The keys it works on.
    pub keys: Vec<String>,
    /// Everything else it is told.
    pub args: Vec<Vec<u8>>,
}

/// A server, by its address. Connections are made when they are needed.
#[derive(Debug)]
pub struct Redis {
    client: Client,
    shared: Mutex<Shared>,
    pool: Pool,
}

/// The connection that requests share.
#[derive(Debug, Default)]
struct Shared {
    open: Option<MultiplexedConnection>,
    /// Rises with each connection, so that one failure closes one connection.
    life: u64,
    /// Nobody tries to connect before.
    closed_until: Option<Instant>,
}

impl Redis {
    /// The server at `redis://[user[:password]@]host[:port][/database]`, looked at once.
    ///
    /// # Errors
    /// [`RedisError::Address`], [`RedisError::Away`] or [`RedisError::Unfit`].
    pub async fn connect(url: &str) -> Result<Self, RedisError> {
        let info: ConnectionInfo = url.into_connection_info().map_err(RedisError::Address)?;
        let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let client = Client::open(info.clone()).map_err(RedisError::Address)?;
        let manager = Manager::new_with_config(info, settings()).map_err(RedisError::Address)?;
        let pool = Pool::builder(manager)
            .max_size(POOL_MAX)
            .runtime(Runtime::Tokio1)
            .timeouts(Timeouts {
                wait: Some(STEP_MAX),
                create: Some(CONNECT_MAX),
                recycle: Some(CONNECT_MAX),
            })
            .post_create(Hook::async_fn(|connection, _| {
                Box::pin(async move {
                    let looked = look_at(connection).await;
                    looked.map_err(|error| HookError::message(error.to_string()))
                })
            }))
            .build()
            .map_err(|error| RedisError::Away(error.to_string()))?;
        let redis = Self {
            client,
            shared: Mutex::default(),
            pool,
        };
        redis.share().await?;
        Ok(redis)
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
        let asking = async {
            let (mut connection, life) = self.share().await?;
            let answer = run(&mut connection, script, input).await;
            if let Err(RedisError::Away(_)) = &answer {
                self.close(life).await;
            }
            answer
        };
        match timeout(deadline, asking).await {
            Ok(answer) => answer,
            Err(_) => {
                // A server that stands still keeps its connections open.
                let life = self.shared.lock().await.life;
                self.close(life).await;
                Err(RedisError::Away(format!("nothing in {deadline:?}")))
            }
        }
    }

    /// Runs a script for a step of a loop, over a connection that no request uses.
    ///
    /// # Errors
    /// As [`Redis::run_for_request`].
    pub async fn run_for_step(&self, script: &Script, input: &Input) -> Result<Value, RedisError> {
        let mut connection = self.step_connection().await?;
        timeout(STEP_MAX, run(&mut connection, script, input))
            .await
            .unwrap_or_else(|_| Err(RedisError::Away(format!("nothing in {STEP_MAX:?}"))))
    }

    /// Runs a plain command for a step of a loop.
    ///
    /// # Errors
    /// As [`Redis::run_for_request`].
    pub async fn command(&self, command: &redis::Cmd) -> Result<Value, RedisError> {
        let mut connection = self.step_connection().await?;
        timeout(STEP_MAX, command.query_async(&mut *connection))
            .await
            .map_err(|_| RedisError::Away(format!("nothing in {STEP_MAX:?}")))?
            .map_err(RedisError::from)
    }

    async fn step_connection(&self) -> Result<deadpool_redis::Connection, RedisError> {
        let taken = self.pool.get().await;
        taken.map_err(|error| RedisError::Away(error.to_string()))
    }

    /// The shared connection and which life of it this is.
    async fn share(&self) -> Result<(MultiplexedConnection, u64), RedisError> {
        let mut shared = self.shared.lock().await;
        if let Some(open) = &shared.open {
            return Ok((open.clone(), shared.life));
        }
        let now = Instant::now();
        if shared.closed_until.is_some_and(|until| now < until) {
            return Err(RedisError::Away("it was away a moment ago".to_owned()));
        }
        let opened = timeout(CONNECT_MAX, async {
            let mut fresh = self
                .client
                .get_multiplexed_async_connection_with_config(&settings())
                .await?;
            look_at(&mut fresh).await?;
            Ok(fresh)
        });
        let opened = match opened.await {
            Ok(opened) => opened,
            Err(_) => Err(RedisError::Away(format!(
                "no connection in {CONNECT_MAX:?}"
            ))),
        };
        match opened {
            Ok(fresh) => {
                shared.life += 1;
                shared.closed_until = None;
                shared.open = Some(fresh.clone());
                Ok((fresh, shared.life))
            }
            Err(error) => {
                let pause_ms = RETRY_AFTER_MS + rand::random_range(0..RETRY_AFTER_MS);
                shared.closed_until = Some(Instant::now() + Duration::from_millis(pause_ms));
                Err(error)
            }
        }
    }

    /// Lets go of a connection that failed, unless somebody has done so before.
    async fn close(&self, life: u64) {
        let mut shared = self.shared.lock().await;
        if shared.life == life {
            shared.open = None;
        }
    }
}

/// Our own deadlines bound an answer; the library's would only fall in between.
fn settings() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_MAX))
        .set_response_timeout(None)
}

/// Refuses a server that cannot keep what it is told.
async fn look_at(connection: &mut MultiplexedConnection) -> Result<(), RedisError> {
    let text: String = redis::cmd("INFO").query_async(connection).await?;
    let says = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.strip_prefix(':'))
            .map_or("", str::trim)
    };
    let version = says("redis_version");
    let major = version
        .split('.')
        .next()
        .and_then(|major| major.parse().ok());
    if major.is_none_or(|major: u64| major < VERSION_MIN) {
        let why = format!("version {version} is older than {VERSION_MIN}.0");
        return Err(RedisError::Unfit(why));
    }
    let policy = says("maxmemory_policy");
    if policy != "noeviction" {
        let why = format!("maxmemory-policy is {policy}, it must be noeviction");
        return Err(RedisError::Unfit(why));
    }
    Ok(())
}

/// By the hash; where the server has forgotten the script, by its text, which it then keeps.
async fn run(
    connection: &mut MultiplexedConnection,
    script: &Script,
    input: &Input,
) -> Result<Value, RedisError> {
    let answer = call("EVALSHA", &script.hash, input)
        .query_async(connection)
        .await;
    match answer {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            let command = call("EVAL", &script.text, input);
            Ok(command.query_async(connection).await?)
        }
        answer => Ok(answer?),
    }
}

fn call(verb: &str, script: &str, input: &Input) -> redis::Cmd {
    let mut command = redis::cmd(verb);
    command.arg(script).arg(input.keys.len());
    command.arg(&input.keys);
    for arg in &input.args {
        command.arg(arg.as_slice());
    }
    command
}
