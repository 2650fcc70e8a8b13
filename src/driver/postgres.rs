//! PostgreSQL as we use it: the primary only, every wait with an end, no connection with a past.
//!
//! Transactions are `read committed`: what must not change under a decision is locked by the
//! statement that reads it. Two units that still collide are told so by the server, and the one that
//! lost runs again.

use std::error::Error;
use std::future::Future;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgPool, Postgres as Db, Transaction};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::base::time::Clock;
use crate::driver::clock::ServerClock;
use crate::driver::postgres_first::{keep_trying, look_at, may_pass, prepare, reason};
use crate::driver::sql::{Migration, SqlError, Units, database_code, has_moved};

/// Connections of one process. A unit of work holds one for as long as it runs.
const CONNECTIONS_MAX: u32 = 16;
/// How long a caller waits for a connection, the making of it included.
pub const ACQUIRE_MAX: Duration = Duration::from_secs(2);
/// How long a connection may have been idle before it is asked whether it still is one.
const IDLE_UNTESTED: Duration = Duration::from_secs(1);
/// How long what is asked may take, the wait for a connection included, and how long a unit of work, each run of it.
/// The server ends a statement after `statement_timeout`, if it is there to do so. A connection on which nothing
/// comes any more, as after a failover behind a firewall, is given up then, and whoever waits for it is told.
const ANSWER_MAX: Duration = Duration::from_secs(8);
const UNIT_MAX: Duration = Duration::from_secs(20);
/// How long a connection may take to say that it can be used again: whoever was given up may have left a
/// statement behind.
const RELEASE_MAX: Duration = Duration::from_secs(6);
/// What every session is told: no statement, no lock and no pause in a transaction without an end; no commit
/// that is not on disk, whatever the role's default is (and on that of a standby where the server names one); and
/// no plan that suits a table only while it is small: a sale fills tables faster than their statistics
/// follow, and a plan is kept. (Where there is no index to use, such a plan looks endlessly dear, which
/// would have it compiled.) One plan does for all values of a statement: to plan a hold anew costs
/// as much as the hold. A machine that is gone is noticed within half a minute, and what it had locked
/// is free.
const SESSION: [(&str, &str); 11] = [
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    ("statement_timeout", "5000"),
    ("lock_timeout", "2000"),
    ("idle_in_transaction_session_timeout", "5000"),
    ("default_transaction_isolation", "read committed"),
    ("synchronous_commit", "on"),
    ("enable_seqscan", "off"),
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
];
/// How often a unit of work runs at most, where others keep getting in its way.
const RUNS_MAX: u32 = 5;
/// The longest pause before the first repeat; it grows with each.
const PAUSE_MS_MAX: u64 = 10;
/// serialization_failure and deadlock_detected.
const CONFLICTS: [&str; 2] = ["40001", "40P01"];

/// A database that is open, or will be once its server can be reached.
#[derive(Debug, Clone)]
pub struct Postgres {
    /// Connections to the primary; [`Postgres::connection`] is the way to one.
    pub pool: PgPool,
    units: Units,
    clock: Arc<ServerClock>,
    /// Why there is no schema yet; `None` once there is.
    away: watch::Receiver<Option<String>>,
    closing: CancellationToken,
}

impl Postgres {
    /// Connects to `postgres://…` and brings the schema up to date. Where the server is away, that
    /// happens once it comes; until then every call fails at once.
    ///
    /// # Errors
    /// [`SqlError`] where waiting does not help: the URL makes no sense, the server does not let us
    /// in, is too old, is not a primary, or holds another schema.
    pub async fn open(url: &str, migrations: &'static [Migration]) -> Result<Self, SqlError> {
        let options = PgConnectOptions::from_str(url)?
            .application_name("catraca")
            .options(SESSION);
        let clock = Arc::new(ServerClock::default());
        let (seen, asked) = (Arc::clone(&clock), Arc::clone(&clock));
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS_MAX)
            .acquire_timeout(ACQUIRE_MAX)
            // The address may lead to another server tomorrow.
            .after_connect(move |connection, _| {
                let clock = Arc::clone(&seen);
                Box::pin(async move {
                    match look_at(connection, &clock).await {
                        Err(SqlError::Database(error)) => Err(error),
                        looked => looked.map_err(|e| sqlx::Error::Configuration(e.into())),
                    }
                })
            })
            // A connection that was used a moment ago is there; asking would double every statement.
            .test_before_acquire(false)
            .before_acquire(|connection, known| {
                Box::pin(async move {
                    if IDLE_UNTESTED < known.idle_for {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .after_release(move |connection, _| {
                let clock = Arc::clone(&asked);
                Box::pin(async move {
                    let heard = timeout(RELEASE_MAX, clock.ask(connection)).await;
                    heard.unwrap_or(Err(sqlx::Error::PoolTimedOut)) // which closes it
                })
            })
            .connect_lazy_with(options.clone());
        let away = match prepare(&options, migrations, &clock).await {
            Ok(()) => None,
            Err(error) if may_pass(&error) => Some(reason(&error)),
            Err(error) => return Err(error),
        };
        let (units, closing) = (Units::default(), CancellationToken::new());
        let (told, away) = watch::channel(away);
        if told.borrow().is_some() {
            let trying = keep_trying(options, migrations, (told, Arc::clone(&clock)));
            let trying = closing.clone().run_until_cancelled_owned(trying);
            units.start(async move {
                trying.await;
            });
        }
        Ok(Self {
            pool,
            units,
            clock,
            away,
            closing,
        })
    }

    /// The server's clock, which all processes that use it share.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as Arc<dyn Clock>
    }

    /// Whether the server was reached and holds our schema.
    ///
    /// # Errors
    /// [`SqlError::Away`] with the reason.
    pub fn ready(&self) -> Result<(), SqlError> {
        match &*self.away.borrow() {
            None => Ok(()),
            Some(reason) => Err(SqlError::Away(reason.clone())),
        }
    }

    /// A connection for one statement.
    ///
    /// # Errors
    /// [`SqlError`] where none could be had in time.
    pub async fn connection(&self) -> Result<PoolConnection<Db>, SqlError> {
        self.ready()?;
        Ok(self.pool.acquire().await?)
    }

    /// Asks and reads, within the time that an answer may take.
    ///
    /// # Errors
    /// What is answered, and [`SqlError::Silent`].
    pub async fn within<T, E>(
        &self,
        asking: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E>
    where
        E: From<SqlError>,
    {
        let answered = timeout(ANSWER_MAX, asking).await;
        answered.unwrap_or_else(|_| Err(SqlError::Silent.into()))
    }

    /// A transaction that only reads, and sees one moment in all of its statements.
    ///
    /// # Errors
    /// As [`Postgres::connection`].
    pub async fn snapshot(&self) -> Result<Transaction<'static, Db>, SqlError> {
        self.ready()?;
        let begin = "begin transaction isolation level repeatable read read only";
        Ok(self.pool.begin_with(begin).await?)
    }

    /// Runs a unit of work in a transaction of its own to its end, also when the caller is dropped
    /// meanwhile. The work commits; where it does not, nothing of it remains. Where another unit got
    /// in its way it runs again, at most [`RUNS_MAX`] times.
    ///
    /// # Errors
    /// What the work answers, and [`SqlError`] where it could not begin or did not finish.
    pub async fn unit<T, E, W, F>(&self, work: W) -> Result<T, E>
    where
        T: Send + 'static,
        E: Error + From<SqlError> + Send + 'static,
        W: Fn(Transaction<'static, Db>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let work = Arc::new(work);
        self.outlive(move |pool| {
            let work = Arc::clone(&work);
            async move {
                let tx = pool.begin().await.map_err(SqlError::from)?;
                work(tx).await
            }
        })
        .await
    }

    /// The same without a transaction: each statement of the work is one by itself, and one that
    /// writes checks whether what was read before still stands, see [`SqlError::Moved`].
    ///
    /// # Errors
    /// As [`Self::unit`].
    pub async fn outlive<T, E, W, F>(&self, work: W) -> Result<T, E>
    where
        T: Send + 'static,
        E: Error + From<SqlError> + Send + 'static,
        W: Fn(PgPool) -> F + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.ready()?;
        let pool = self.pool.clone();
        let unit = async move {
            let mut run = 1;
            loop {
                let answered = timeout(UNIT_MAX, work(pool.clone())).await;
                match answered.unwrap_or_else(|_| Err(SqlError::Silent.into())) {
                    Err(error) if run < RUNS_MAX && is_conflict(&error) => {
                        tokio::time::sleep(Duration::from_millis(rand::random_range(
                            0..PAUSE_MS_MAX * u64::from(run),
                        )))
                        .await;
                        run += 1;
                    }
                    answer => return answer,
                }
            }
        };
        self.units.outlive(unit).await
    }

    /// A unit of work with what it was given, of which each run gets its own copy.
    ///
    /// # Errors
    /// As [`Postgres::unit`].
    pub async fn unit_with<A, T, E, W, F>(&self, given: A, work: W) -> Result<T, E>
    where
        A: Clone + Send + Sync + 'static,
        T: Send + 'static,
        E: Error + From<SqlError> + Send + 'static,
        W: Fn(Transaction<'static, Db>, A) -> F + Send + Sync + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.unit(move |tx| work(tx, given.clone())).await
    }

    /// Waits for the units of work under way, then lets go of the connections.
    pub async fn close(&self) {
        self.closing.cancel();
        self.units.finish().await;
        self.pool.close().await;
    }
}

/// Whether a unit of work failed only because another ran at the same time.
fn is_conflict(error: &(dyn Error + 'static)) -> bool {
    has_moved(error) || database_code(error).is_some_and(|code| CONFLICTS.contains(&code.as_str()))
}
