//! A database of its own for one test, on either backend, and ways to look inside and to meddle.

use std::path::Path;

use catraca::app::database::Database;
use catraca::driver::postgres::Postgres;
use catraca::driver::schema::{CATRACA, POSTGRES};
use catraca::driver::sqlite::Sqlite;
use catraca::event::Envelope;
use catraca::log::{outbox_in_postgres, outbox_in_sqlite};
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, FromRow};

use crate::support::postgres;

/// Runs each case twice, with a database on SQLite and with one on PostgreSQL: a case is a function
/// over what `open` of its world makes of the database.
macro_rules! on_every_database {
    ($world:ident: $($case:ident),+ $(,)?) => {
        mod in_sqlite {
            $(
                #[tokio::test]
                async fn $case() {
                    let folder = tempfile::tempdir().unwrap();
                    let database = crate::support::database::in_sqlite(folder.path()).await;
                    super::$case(super::$world::open(database, folder).await).await;
                }
            )+
        }
        mod in_postgres {
            $(
                #[tokio::test]
                async fn $case() {
                    let folder = tempfile::tempdir().unwrap();
                    if let Some(database) = crate::support::database::in_postgres().await {
                        super::$case(super::$world::open(database.clone(), folder).await).await;
                        database.close().await;
                    }
                }
            )+
        }
    };
}
pub(crate) use on_every_database;

/// The same, and once more with a database on SQLite whose events go to a topic of Kafka.
macro_rules! on_every_log {
    ($world:ident: $($case:ident),+ $(,)?) => {
        crate::support::database::on_every_database! { $world: $($case),+ }

        mod in_kafka {
            $(
                #[tokio::test]
                async fn $case() {
                    let folder = tempfile::tempdir().unwrap();
                    if let Some(topic) = crate::support::kafka::topic().await {
                        let database = crate::support::database::in_sqlite(folder.path()).await;
                        super::$case(super::$world::with_kafka(database, folder, topic)).await;
                    }
                }
            )+
        }
    };
}
pub(crate) use on_every_log;

/// A file in this folder.
pub(crate) async fn in_sqlite(folder: &Path) -> Database {
    let db = Sqlite::open(&folder.join("catraca.db"), CATRACA).await;
    Database::Sqlite(db.unwrap())
}

/// A database on the server of this run. `None` where this machine may do without.
pub(crate) async fn in_postgres() -> Option<Database> {
    Some(at(&postgres::database().await?).await)
}

/// The database on PostgreSQL at this address.
pub(crate) async fn at(url: &str) -> Database {
    Database::Postgres(Postgres::open(url, POSTGRES).await.unwrap())
}

/// What a statement finds.
pub(crate) async fn all<T>(database: &Database, sql: &str) -> Vec<T>
where
    T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin,
{
    let sql = AssertSqlSafe(sql.to_owned());
    let found = match database {
        Database::Sqlite(db) => sqlx::query_as(sql).fetch_all(&db.read).await,
        Database::Postgres(db) => sqlx::query_as(sql).fetch_all(&db.pool).await,
    };
    found.unwrap()
}

/// The one number that a statement finds.
pub(crate) async fn count(database: &Database, sql: &str) -> i64 {
    all::<(i64,)>(database, sql).await[0].0
}

/// Runs statements.
pub(crate) async fn run(database: &Database, sql: &str) {
    try_run(database, sql).await.unwrap();
}

/// The same, where the database may refuse.
pub(crate) async fn try_run(database: &Database, sql: &str) -> Result<(), sqlx::Error> {
    let sql = AssertSqlSafe(sql.to_owned());
    match database {
        Database::Sqlite(db) => sqlx::raw_sql(sql).execute(&db.write).await.map(drop),
        Database::Postgres(db) => sqlx::raw_sql(sql).execute(&db.pool).await.map(drop),
    }
}

/// Changes rows of the outbox, which the database refuses to everybody.
pub(crate) async fn bend_outbox(database: &Database, sql: &str) {
    let unguarded = match database {
        Database::Sqlite(_) => "drop trigger if exists outbox_insert_only",
        Database::Postgres(_) => "drop trigger if exists outbox_insert_only on outbox",
    };
    run(database, unguarded).await;
    run(database, sql).await;
}

/// Puts events into the outbox, in one transaction that then commits or, at the last moment, does not.
pub(crate) async fn append(database: &Database, envelopes: &[Envelope], end: End) {
    match database {
        Database::Sqlite(db) => {
            let mut tx = db.write.begin().await.unwrap();
            for envelope in envelopes {
                outbox_in_sqlite::append(&mut tx, envelope).await.unwrap();
            }
            match end {
                End::Commit => tx.commit().await.unwrap(),
                End::Rollback => tx.rollback().await.unwrap(),
            }
        }
        Database::Postgres(db) => {
            let mut tx = db.pool.begin().await.unwrap();
            for envelope in envelopes {
                outbox_in_postgres::append(&mut tx, envelope).await.unwrap();
            }
            match end {
                End::Commit => tx.commit().await.unwrap(),
                End::Rollback => tx.rollback().await.unwrap(),
            }
        }
    }
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    Rollback,
}
