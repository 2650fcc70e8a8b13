//! SQLite as we use it: one writer, several readers, every commit on disk before it counts.
//!
//! SQLite has one writer at a time; a write pool of one connection makes waiting for it a queue in
//! our process instead of a busy error.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection, SqlitePool};

use crate::driver::sql::{Migration, SqlError, Units};

/// Readers that may look at the database at once.
const READERS_MAX: u32 = 4;
/// How long a statement waits for another process's lock, and a caller for a connection.
pub const BUSY_MAX: Duration = Duration::from_secs(5);

/// An open database file.
#[derive(Debug, Clone)]
pub struct Sqlite {
    /// The one connection that writes.
    pub write: SqlitePool,
    /// Connections that only read.
    pub read: SqlitePool,
    units: Units,
}

impl Sqlite {
    /// Opens the file, creates it where it is missing, and brings its schema up to date.
    ///
    /// # Errors
    /// [`SqlError`] where the file cannot be opened or written, or holds another schema.
    pub async fn open(path: &Path, migrations: &[Migration]) -> Result<Self, SqlError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY_MAX);
        let pool = |size| {
            SqlitePoolOptions::new()
                .max_connections(size)
                .acquire_timeout(BUSY_MAX)
                // After errors such as a full disk SQLite has rolled back by itself; sqlx's own
                // rollback then fails, and it would refuse every transaction from then on. Such a
                // connection is closed and another opened.
                .before_acquire(|connection, _| {
                    let is_free = !connection.is_in_transaction();
                    Box::pin(async move { Ok(is_free) })
                })
        };
        let write = pool(1).connect_with(options.clone()).await?;
        migrate(&write, migrations).await?;
        let read = pool(READERS_MAX)
            .connect_with(options.read_only(true))
            .await?;
        Ok(Self {
            write,
            read,
            units: Units::default(),
        })
    }

    /// Runs a unit of work to its end, also when the caller is dropped meanwhile.
    ///
    /// # Errors
    /// What the work answers, and [`SqlError::Unfinished`] where it panicked.
    pub async fn outlive<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<SqlError> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.units.outlive(work).await
    }

    /// Waits for the units of work under way, then closes the file.
    pub async fn close(&self) {
        self.units.finish().await;
        self.read.close().await;
        self.write.close().await;
    }
}

/// In one transaction: of processes that start at once, the first one migrates.
async fn migrate(write: &SqlitePool, migrations: &[Migration]) -> Result<(), SqlError> {
    let mut tx = write.begin_with("begin immediate").await?;
    sqlx::query(
        "create table if not exists migrations (name text primary key, sql text not null) strict",
    )
    .execute(&mut *tx)
    .await?;
    let applied: Vec<(String, String)> =
        sqlx::query_as("select name, sql from migrations order by name")
            .fetch_all(&mut *tx)
            .await?;
    for migration in Migration::pending(migrations, &applied)? {
        sqlx::raw_sql(migration.sql).execute(&mut *tx).await?;
        sqlx::query("insert into migrations (name, sql) values (?, ?)")
            .bind(migration.name)
            .bind(migration.sql)
            .execute(&mut *tx)
            .await?;
    }
    tx.commit().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Migration] = &[Migration {
        name: "0001_t",
        sql: "create table t (x blob) strict",
    }];

    async fn write(file: &Sqlite, bytes: i64) -> Result<(), sqlx::Error> {
        let mut tx = file.write.begin_with("begin immediate").await?;
        sqlx::query("insert into t values (zeroblob(?))")
            .bind(bytes)
            .execute(&mut *tx)
            .await?;
        tx.commit().await
    }

    #[tokio::test]
    async fn a_full_disk_costs_what_was_being_written_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let file = Sqlite::open(&folder.path().join("t.db"), TABLE)
            .await
            .unwrap();
        write(&file, 1).await.unwrap();
        sqlx::query("pragma max_page_count = 10")
            .execute(&file.write)
            .await
            .unwrap();
        let full = write(&file, 1_000_000).await.unwrap_err();
        let code = full
            .as_database_error()
            .and_then(|error| error.code().map(|code| code.into_owned()));
        assert_eq!(code.as_deref(), Some("13"), "{full}");

        write(&file, 2).await.unwrap();
        let bytes: Vec<i64> = sqlx::query_scalar("select length(x) from t order by rowid")
            .fetch_all(&file.read)
            .await
            .unwrap();
        assert_eq!(bytes, [1, 2]);
        file.close().await;
    }
}
