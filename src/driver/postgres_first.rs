//! The first connection to a PostgreSQL server: whether it is one that we can use, and the schema.

use std::error::Error;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::driver::clock::ServerClock;
use crate::driver::sql::{Migration, SqlError, database_code};

/// How long the first connection may take, and how often it is tried where the server is away.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const TRY_EVERY: Duration = Duration::from_millis(500);
/// Classes of errors of a server that is on its way: connections refused or cut, too many of them,
/// starting up or shutting down.
const PASSING: [&str; 3] = ["08", "53", "57P"];
/// The oldest server that we are tested with.
const VERSION_MIN: i32 = 150_000;
/// The advisory lock under which one process at a time brings the schema up to date.
const MIGRATING: i64 = 0x0063_6174_7261_6361;

/// Whether a server that could not be used may be of use later without anybody's doing: it is away,
/// or it is starting or stopping.
pub(super) fn may_pass(error: &SqlError) -> bool {
    match error {
        // Bytes that make no sense are a certificate that nobody vouches for, or no PostgreSQL.
        SqlError::Database(sqlx::Error::Io(error)) => error.kind() != ErrorKind::InvalidData,
        SqlError::Database(sqlx::Error::PoolTimedOut) => true,
        SqlError::Database(error) => {
            database_code(error).is_some_and(|code| PASSING.iter().any(|c| code.starts_with(c)))
        }
        SqlError::Schema(_)
        | SqlError::Unfit(_)
        | SqlError::Away(_)
        | SqlError::Silent
        | SqlError::Moved
        | SqlError::Unfinished(_) => false,
    }
}

pub(super) fn reason(error: &SqlError) -> String {
    error.source().unwrap_or(error).to_string()
}

/// Tries until the server can be reached and holds our schema, and says how it stands.
pub(super) async fn keep_trying(
    options: PgConnectOptions,
    migrations: &'static [Migration],
    (told, clock): (watch::Sender<Option<String>>, Arc<ServerClock>),
) {
    while timeout(TRY_EVERY, told.closed()).await.is_err() {
        match prepare(&options, migrations, &clock).await {
            Ok(()) => {
                tracing::info!("the database server was reached");
                told.send_replace(None);
                return;
            }
            Err(error) => {
                let reason = reason(&error);
                let known = told.send_replace(Some(reason.clone()));
                if known.as_ref() != Some(&reason) {
                    tracing::warn!("the database server cannot be used: {reason}");
                }
            }
        }
    }
}

/// Looks at the server and brings the schema up to date, with a connection of its own.
pub(super) async fn prepare(
    options: &PgConnectOptions,
    migrations: &[Migration],
    clock: &ServerClock,
) -> Result<(), SqlError> {
    let connecting = timeout(CONNECT_MAX, options.connect()).await;
    let mut connection = connecting.unwrap_or(Err(sqlx::Error::PoolTimedOut))?;
    look_at(&mut connection, clock).await?;
    migrate(&mut connection, migrations).await?;
    Ok(connection.close().await?)
}

/// Refuses a server that is not a primary of a version that we know, and sees what time it is there.
pub(super) async fn look_at(
    connection: &mut PgConnection,
    clock: &ServerClock,
) -> Result<(), SqlError> {
    let (version, follows): (i32, bool) = sqlx::query_as(
        "select current_setting('server_version_num')::integer, pg_is_in_recovery()",
    )
    .fetch_one(&mut *connection)
    .await?;
    if version < VERSION_MIN {
        let why = format!("version {} is older than 15", version / 10_000);
        return Err(SqlError::Unfit(why));
    }
    if follows {
        let why = "it follows a primary, and only a primary will do";
        return Err(SqlError::Unfit(why.to_owned()));
    }
    clock.ask(connection).await?;
    Ok(())
}

/// All of it is one transaction, so that processes which start together wait for the first, for as
/// long as that takes; but nobody's table is waited for without an end.
async fn migrate(connection: &mut PgConnection, migrations: &[Migration]) -> Result<(), SqlError> {
    let mut tx = connection.begin().await?;
    sqlx::raw_sql("set local statement_timeout = 0; set local lock_timeout = 0")
        .execute(&mut *tx)
        .await?;
    sqlx::query("select pg_advisory_xact_lock($1)")
        .bind(MIGRATING)
        .execute(&mut *tx)
        .await?;
    sqlx::raw_sql(
        "set local lock_timeout = 5000;
         create table if not exists migrations (name text primary key, sql text not null)",
    )
    .execute(&mut *tx)
    .await?;
    let applied: Vec<(String, String)> =
        sqlx::query_as("select name, sql from migrations order by name collate \"C\"")
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
