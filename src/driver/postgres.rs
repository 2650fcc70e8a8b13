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

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{Connection, PgPool, Postgres as Db, Transaction};

use crate::driver::sql::{Migration, SqlError, Units, database_code, has_moved};

/// Connections of one process. A unit of work holds one for as long as it runs.
const CONNECTIONS_MAX: u32 = 16;
/// How long a caller waits for a connection, the making of it included.
const ACQUIRE_MAX: Duration = Duration::from_secs(2);
/// What every session is told: no statement, no lock and no pause in a transaction without an end; and
/// no plan that suits a table only while it is small: a sale fills tables faster than their statistics
/// follow, and a plan is kept. (Where there is no index to use, such a plan looks endlessly dear, which
/// would have it compiled.)
const SESSION: [(&str, &str); 6] = [
    ("statement_timeout", "5000"),
    ("lock_timeout", "2000"),
    ("idle_in_transaction_session_timeout", "5000"),
    ("default_transaction_isolation", "read committed"),
    ("enable_seqscan", "off"),
    ("jit", "off"),
];
/// The oldest server that we are tested with.
const VERSION_MIN: i32 = 150_000;
/// How often a unit of work runs at most, where others keep getting in its way.
const RUNS_MAX: u32 = 5;
/// The longest pause before the first repeat; it grows with each.
const PAUSE_MS_MAX: u64 = 10;
/// serialization_failure and deadlock_detected.
const CONFLICTS: [&str; 2] = ["40001", "40P01"];
/// The advisory lock under which one process at a time brings the schema up to date.
const MIGRATING: i64 = 0x0063_6174_7261_6361;

/// An open database.
#[derive(Debug, Clone)]
pub struct Postgres {
    /// Connections to the primary.
    pub pool: PgPool,
    units: Units,
}

impl Postgres {
    /// Connects to `postgres://…` and brings the schema up to date.
    ///
    /// # Errors
    /// [`SqlError`] where the server is away, is not a primary, is too old, or holds another schema.
    pub async fn open(url: &str, migrations: &[Migration]) -> Result<Self, SqlError> {
        let options = PgConnectOptions::from_str(url)?
            .application_name("catraca")
            .options(SESSION);
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS_MAX)
            .acquire_timeout(ACQUIRE_MAX)
            .after_connect(|connection, _| {
                Box::pin(async move {
                    let looked = look_at(connection).await;
                    looked.map_err(|error| sqlx::Error::Configuration(error.into()))
                })
            })
            // A cancelled `begin` leaves a transaction open that sqlx does not know of. The start of
            // a transaction is older than that of the statement only inside one.
            .after_release(|connection, _| {
                Box::pin(async move {
                    let fresh = sqlx::query_scalar("select now() = statement_timestamp()");
                    fresh.fetch_one(connection).await
                })
            })
            .connect_with(options)
            .await?;
        migrate(&pool, migrations).await?;
        Ok(Self {
            pool,
            units: Units::default(),
        })
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
        let pool = self.pool.clone();
        let unit = async move {
            let mut run = 1;
            loop {
                match work(pool.clone()).await {
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

    /// Waits for the units of work under way, then lets go of the connections.
    pub async fn close(&self) {
        self.units.finish().await;
        self.pool.close().await;
    }
}

/// Whether a unit of work failed only because another ran at the same time.
fn is_conflict(error: &(dyn Error + 'static)) -> bool {
    has_moved(error) || database_code(error).is_some_and(|code| CONFLICTS.contains(&code.as_str()))
}

/// Refuses a server that is not a primary of a version that we know.
async fn look_at(connection: &mut PgConnection) -> Result<(), SqlError> {
    let (version, follows): (i32, bool) = sqlx::query_as(
        "select current_setting('server_version_num')::integer, pg_is_in_recovery()",
    )
    .fetch_one(connection)
    .await?;
    if version < VERSION_MIN {
        let why = format!("version {} is older than 15", version / 10_000);
        return Err(SqlError::Unfit(why));
    }
    if follows {
        return Err(SqlError::Unfit("it follows a primary".to_owned()));
    }
    Ok(())
}

/// All of it is one transaction, so that processes which start together wait for the first.
async fn migrate(pool: &PgPool, migrations: &[Migration]) -> Result<(), SqlError> {
    let mut connection = pool.acquire().await?;
    let mut tx = connection.begin().await?;
    sqlx::query("select pg_advisory_xact_lock($1)")
        .bind(MIGRATING)
        .execute(&mut *tx)
        .await?;
    sqlx::query("create table if not exists migrations (name text primary key, sql text not null)")
        .execute(&mut *tx)
        .await?;
    let applied: Vec<(String, String)> =
        sqlx::query_as("select name, sql from migrations order by name")
            .fetch_all(&mut *tx)
            .await?;
    for migration in Migration::pending(migrations, &applied)? {
        sqlx::raw_sql(migration.sql).execute(&mut *tx).await?;
        sqlx::query("insert into migrations (name, sql) values ($1, $2)")
            .bind(migration.name)
            .bind(migration.sql)
            .execute(&mut *tx)
            .await?;
    }
    tx.commit().await?;
    Ok(())
}
