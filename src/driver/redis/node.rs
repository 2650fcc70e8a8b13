//! One server, and the two lanes that lead to it.
//!
//! Requests share one multiplexed connection, so that what many ask at once costs one write. Steps
//! of loops take a connection from a small pool and never queue behind requests. Every new
//! connection logs in and looks at the server before it is used, and looks again once a second
//! while it is used: what an operator changes meanwhile is seen without a restart.

use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use deadpool_redis::{Connection, Hook, HookError, Manager, Pool, PoolError, Runtime, Timeouts};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Value};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};

use crate::base::outage::Outage;
use crate::driver::redis::STEP_MAX;
use crate::driver::redis::address::{Address, Login};
use crate::driver::redis::call::{Call, Way, run};
use crate::driver::redis::fault::RedisError;
use crate::driver::redis::guard::Guard;
use crate::driver::redis::look::look_at;
use crate::telemetry::metrics;

/// How long a new connection may take, the look at the server included.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// Connections for steps of loops.
const POOL_MAX: usize = 4;
/// How old the last look at a server may be when it is used.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Which connection takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    Request,
    Step,
}

/// A call, by which lane it goes, and until when an answer is of use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Errand<'a> {
    pub(super) call: Call<'a>,
    pub(super) lane: Lane,
    pub(super) until: Instant,
}

/// A server at one address. Connections are made when they are needed.
#[derive(Debug)]
pub(super) struct Node {
    /// `host:port`.
    pub(super) at: String,
    client: Client,
    login: Arc<Login>,
    guard: Arc<Guard>,
    shared: Mutex<Shared>,
    pool: Pool,
    /// Who may ask the pool: as many as it has connections, so that nobody waits inside it, and whoever has
    /// waited sees what has become of those before.
    turns: Semaphore,
    /// Why the pool could not make its last connection: its own error has no room for it.
    refused: Arc<StdMutex<Option<RedisError>>>,
    /// The pool opens no connection before, and steps are told this meanwhile.
    closed: StdMutex<Option<(Instant, RedisError)>>,
    look_due: StdMutex<Instant>,
}

/// The connection that requests share.
#[derive(Debug, Default)]
struct Shared {
    open: Option<MultiplexedConnection>,
    /// Rises with each connection, so that one failure closes one connection.
    life: u64,
    /// Nobody tries to connect before, and is told this meanwhile.
    closed: Option<(Instant, RedisError)>,
}

impl Node {
    /// The server at `host:port`.
    ///
    /// # Errors
    /// [`RedisError::Address`].
    pub(super) fn new(address: &Address, at: &str, guard: Arc<Guard>) -> Result<Self, RedisError> {
        let client = address.client(at)?;
        let login = Arc::new(address.login.clone());
        let refused = Arc::default();
        let unusable = |error: redis::RedisError| RedisError::Address(error.to_string());
        let info = client.get_connection_info().clone();
        let manager = Manager::new_with_config(info, settings()).map_err(unusable)?;
        let pool = Pool::builder(manager)
            .max_size(POOL_MAX)
            .runtime(Runtime::Tokio1)
            .timeouts(Timeouts {
                wait: Some(STEP_MAX),
                create: Some(CONNECT_MAX),
                recycle: Some(CONNECT_MAX),
            })
            .post_create(greeting(&login, &guard, &refused))
            .build()
            .map_err(|error| RedisError::Address(error.to_string()))?;
        Ok(Self {
            at: at.to_owned(),
            client,
            login,
            guard,
            shared: Mutex::default(),
            pool,
            turns: Semaphore::new(POOL_MAX),
            refused,
            closed: StdMutex::default(),
            look_due: StdMutex::new(Instant::now()),
        })
    }

    /// Asks this server.
    ///
    /// # Errors
    /// See [`RedisError`]. After [`RedisError::Away`] it may have been done.
    pub(super) async fn call(&self, errand: &Errand<'_>, way: Way) -> Result<Value, RedisError> {
        match errand.lane {
            Lane::Request => self.by_the_shared(errand, way).await,
            Lane::Step => self.by_its_own(errand, way).await,
        }
    }

    async fn by_the_shared(&self, errand: &Errand<'_>, way: Way) -> Result<Value, RedisError> {
        let until = errand.until;
        let shared = timeout_at(until, self.share()).await;
        let (mut connection, life) = shared.unwrap_or_else(|_| Err(slow("no connection")))?;
        if let Err(error) = self.look(&mut connection, until).await {
            if is_broken(&error) {
                self.close(life).await; // which says nothing of the other lane
            } else {
                self.shut(life, error.alike()).await;
            }
            return Err(error);
        }
        let answer = timeout_at(until, run(&mut connection, errand.call, way)).await;
        let answer = answer.unwrap_or_else(|_| Err(slow("no answer")));
        if let Err(error) = &answer
            && is_broken(error)
        {
            // A server that stands still keeps its connections open.
            self.close(life).await;
        }
        answer
    }

    async fn by_its_own(&self, errand: &Errand<'_>, way: Way) -> Result<Value, RedisError> {
        let until = errand.until;
        let (_turn, mut connection) = self.take_from_the_pool(until).await?; // given back in this order
        if let Err(error) = self.look(&mut connection, until).await {
            drop(Connection::take(connection));
            if is_broken(&error) {
                self.pool.retain(|_, _| false); // which says nothing of the other lane
            } else {
                let life = self.shared.lock().await.life;
                self.shut(life, error.alike()).await;
            }
            return Err(error);
        }
        let answer = timeout_at(until, run(&mut connection, errand.call, way)).await;
        let answer = answer.unwrap_or_else(|_| Err(slow("no answer")));
        if let Err(error) = &answer
            && is_broken(error)
        {
            drop(Connection::take(connection)); // an answer may still come, for nobody
        }
        answer
    }

    /// A turn at the pool, and a connection of it. Where none could be opened a moment ago, none is tried.
    async fn take_from_the_pool(
        &self,
        until: Instant,
    ) -> Result<(SemaphorePermit<'_>, Connection), RedisError> {
        let turn = timeout_at(until, self.turns.acquire()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(slow("no connection")); // the others are at work
        };
        if let Some(error) = self.why_closed()
            && self.pool.status().available == 0
        {
            return Err(error);
        }
        let error = match timeout_at(until, self.pool.get()).await {
            Ok(Ok(connection)) => return Ok((turn, connection)),
            Ok(Err(error)) => self.no_connection(error),
            Err(_) => slow("no connection"),
        };
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        *closed = Some((Instant::now() + pause(), error.alike()));
        Err(error)
    }

    /// Why the pool opens no connection yet, if it does not.
    fn why_closed(&self) -> Option<RedisError> {
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, error) = closed.as_ref()?;
        (Instant::now() < *until).then(|| error.alike())
    }

    /// The shared connection and which life of it this is.
    async fn share(&self) -> Result<(MultiplexedConnection, u64), RedisError> {
        let mut shared = self.shared.lock().await;
        if let Some(open) = &shared.open {
            return Ok((open.clone(), shared.life));
        }
        if let Some((until, error)) = &shared.closed
            && Instant::now() < *until
        {
            return Err(error.alike());
        }
        match self.dial().await {
            Ok(fresh) => {
                shared.life += 1;
                shared.closed = None;
                shared.open = Some(fresh.clone());
                Ok((fresh, shared.life))
            }
            Err(error) => {
                shared.closed = Some((Instant::now() + pause(), error.alike()));
                Err(error)
            }
        }
    }

    async fn dial(&self) -> Result<MultiplexedConnection, RedisError> {
        let dialing = timeout(CONNECT_MAX, async {
            let mut fresh = self
                .client
                .get_multiplexed_async_connection_with_config(&settings())
                .await?;
            greet(&mut fresh, &self.login, &self.guard).await?;
            Ok(fresh)
        });
        let dialed = dialing.await;
        let dialed = dialed.unwrap_or_else(|_| Err(slow("no connection")));
        count(dialed.as_ref().err());
        dialed
    }

    /// Looks at the server, if it is this caller's turn.
    async fn look(
        &self,
        connection: &mut MultiplexedConnection,
        until: Instant,
    ) -> Result<(), RedisError> {
        if !self.is_look_due() {
            return Ok(());
        }
        let looked = timeout_at(until, look_at(connection)).await;
        looked.unwrap_or_else(|_| Err(slow("no look"))).map(drop)
    }

    /// Whether it is this caller's turn to look at the server.
    fn is_look_due(&self) -> bool {
        let now = Instant::now();
        let mut due = self.look_due.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = *due <= now;
        if is_due {
            *due = now + LOOK_EVERY;
        }
        is_due
    }

    /// Lets go of a connection that failed, unless somebody has done so before.
    async fn close(&self, life: u64) {
        let mut shared = self.shared.lock().await;
        if shared.life == life {
            shared.open = None;
        }
    }

    /// Lets go of every connection: the server must not be used as it is.
    async fn shut(&self, life: u64, error: RedisError) {
        self.pool.retain(|_, _| false);
        let mut shared = self.shared.lock().await;
        if shared.life == life {
            shared.open = None;
            shared.closed = Some((Instant::now() + pause(), error));
        }
    }

    fn no_connection(&self, error: PoolError) -> RedisError {
        match error {
            PoolError::Backend(error) => {
                let error = RedisError::from(error);
                count(Some(&error));
                error
            }
            PoolError::PostCreateHook(_) => {
                let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
                let refused = refused.as_ref().map(RedisError::alike);
                refused.unwrap_or_else(|| slow("no connection"))
            }
            PoolError::Timeout(_) => slow("no connection"),
            PoolError::Closed | PoolError::NoRuntimeSpecified => {
                RedisError::away(Outage::Away, error.to_string())
            }
        }
    }
}

/// What a new connection of the pool does first.
fn greeting(
    login: &Arc<Login>,
    guard: &Arc<Guard>,
    refused: &Arc<StdMutex<Option<RedisError>>>,
) -> Hook {
    let (login, guard, refused) = (Arc::clone(login), Arc::clone(guard), Arc::clone(refused));
    Hook::async_fn(move |connection: &mut MultiplexedConnection, _| {
        let (login, guard, refused) =
            (Arc::clone(&login), Arc::clone(&guard), Arc::clone(&refused));
        Box::pin(async move {
            let greeted = greet(connection, &login, &guard).await;
            count(greeted.as_ref().err());
            greeted.map_err(|error| {
                let text = error.to_string();
                *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                HookError::message(text)
            })
        })
    })
}

/// Logs in, and looks whether the server can be used.
async fn greet(
    connection: &mut MultiplexedConnection,
    login: &Login,
    guard: &Guard,
) -> Result<(), RedisError> {
    log_in(connection, login).await?;
    let seen = look_at(connection).await?;
    guard.saw(connection, seen).await;
    Ok(())
}

/// Says who we are, and which database we mean.
pub(super) async fn log_in(
    connection: &mut MultiplexedConnection,
    login: &Login,
) -> Result<(), RedisError> {
    if let Some(password) = &login.password {
        let mut auth = redis::cmd("AUTH");
        auth.arg(&login.user).arg(password.expose());
        let _ok: Value = auth.query_async(connection).await?;
    }
    if login.database != 0 {
        let mut select = redis::cmd("SELECT");
        let _ok: Value = select.arg(login.database).query_async(connection).await?;
    }
    Ok(())
}

/// For how long nobody tries again after a failure: by chance, so that a thousand gateways do not
/// knock together.
pub(super) fn pause() -> Duration {
    const AFTER_MS: u64 = 100;
    Duration::from_millis(AFTER_MS + rand::random_range(0..AFTER_MS))
}

/// Our own deadlines bound an answer; the library's would only fall in between.
pub(super) fn settings() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_MAX))
        .set_response_timeout(None)
}

fn slow(what: &str) -> RedisError {
    RedisError::away(Outage::Slow, format!("{what} in time"))
}

fn count(error: Option<&RedisError>) {
    let outage = error.map(|error| error.outage().map_or("unusable", Outage::word));
    metrics::redis_connection(outage.unwrap_or("opened"));
}

/// Whether an error says something about the connection, and not only about what was asked.
fn is_broken(error: &RedisError) -> bool {
    matches!(error.outage(), Some(Outage::Away | Outage::Slow))
}
