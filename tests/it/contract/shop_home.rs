//! The databases that a shop can live in: a file in a folder that goes away, a database of the
//! run's PostgreSQL.

use std::sync::Arc;

use catraca::base::ids::IdSource;
use catraca::base::time::Clock;
use catraca::driver::postgres::Postgres;
use catraca::driver::schema::{CATRACA, POSTGRES};
use catraca::driver::sqlite::Sqlite;
use catraca::orders::in_postgres::InPostgres;
use catraca::orders::in_sqlite::InSqlite;
use catraca::orders::store::Store;
use sqlx::Row as _;

use crate::support::postgres;

/// Runs each case on every database that keeps orders: a case is a function of a [`Home`].
macro_rules! on_every_database {
    ($($case:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case($crate::contract::shop_home::Home::sqlite()).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                if let Some(home) = $crate::contract::shop_home::Home::postgres().await {
                    super::$case(home).await;
                }
            })+
        }
    };
}
pub(crate) use on_every_database;

/// Where a shop lives, also while no process has it open.
#[derive(Debug, Clone)]
pub(crate) enum Home {
    Sqlite(Arc<tempfile::TempDir>),
    /// The URL of a database.
    Postgres(String),
}

/// An open database.
#[derive(Debug, Clone)]
pub(crate) enum Db {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

/// A row of either database.
#[derive(Debug)]
pub(crate) enum Row {
    Sqlite(sqlx::sqlite::SqliteRow),
    Postgres(sqlx::postgres::PgRow),
}

impl Home {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(Arc::new(tempfile::tempdir().unwrap()))
    }

    /// `None` where this machine has no PostgreSQL and may do without.
    pub(crate) async fn postgres() -> Option<Self> {
        postgres::database().await.map(Self::Postgres)
    }

    /// Another of the same kind.
    pub(crate) async fn another(&self) -> Self {
        match self {
            Self::Sqlite(_) => Self::sqlite(),
            Self::Postgres(_) => Self::postgres().await.unwrap(),
        }
    }

    /// What it is.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
        }
    }

    pub(crate) async fn open(&self) -> Db {
        match self {
            Self::Sqlite(folder) => {
                let path = folder.path().join("catraca.db");
                Db::Sqlite(Sqlite::open(&path, CATRACA).await.unwrap())
            }
            Self::Postgres(url) => Db::Postgres(Postgres::open(url, POSTGRES).await.unwrap()),
        }
    }
}

impl Db {
    pub(crate) fn store(&self, clock: Arc<dyn Clock>) -> Arc<dyn Store> {
        let ids = Arc::new(IdSource::random());
        match self {
            Self::Sqlite(db) => Arc::new(InSqlite::new(db.clone(), clock, ids)),
            Self::Postgres(db) => Arc::new(InPostgres::new(db.clone(), clock, ids)),
        }
    }

    /// Runs statements that no unit of work would.
    pub(crate) async fn run(&self, sql: &'static str) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(db) => sqlx::raw_sql(sql).execute(&db.write).await.map(drop),
            Self::Postgres(db) => sqlx::raw_sql(sql).execute(&db.pool).await.map(drop),
        }
    }

    /// Runs one statement with texts for `$1`, `$2`…
    pub(crate) async fn set(&self, sql: &'static str, values: &[&str]) {
        match self {
            Self::Sqlite(db) => {
                let query = values
                    .iter()
                    .fold(sqlx::query(sql), |q, v| q.bind((*v).to_owned()));
                query.execute(&db.write).await.unwrap();
            }
            Self::Postgres(db) => {
                let query = values
                    .iter()
                    .fold(sqlx::query(sql), |q, v| q.bind((*v).to_owned()));
                query.execute(&db.pool).await.unwrap();
            }
        }
    }

    /// The rows of a query with texts for `$1`, `$2`…
    pub(crate) async fn rows(&self, sql: &'static str, values: &[&str]) -> Vec<Row> {
        match self {
            Self::Sqlite(db) => {
                let query = values
                    .iter()
                    .fold(sqlx::query(sql), |q, v| q.bind((*v).to_owned()));
                let rows = query.fetch_all(&db.read).await.unwrap();
                rows.into_iter().map(Row::Sqlite).collect()
            }
            Self::Postgres(db) => {
                let query = values
                    .iter()
                    .fold(sqlx::query(sql), |q, v| q.bind((*v).to_owned()));
                let rows = query.fetch_all(&db.pool).await.unwrap();
                rows.into_iter().map(Row::Postgres).collect()
            }
        }
    }

    /// Waits for the units of work under way.
    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite(db) => db.close().await,
            Self::Postgres(db) => db.close().await,
        }
    }
}

impl Row {
    pub(crate) fn text(&self, column: &str) -> String {
        self.text_or_none(column).unwrap()
    }

    pub(crate) fn text_or_none(&self, column: &str) -> Option<String> {
        match self {
            Self::Sqlite(row) => row.get(column),
            Self::Postgres(row) => row.get(column),
        }
    }

    pub(crate) fn number(&self, column: &str) -> i64 {
        match self {
            Self::Sqlite(row) => row.get(column),
            Self::Postgres(row) => row.get(column),
        }
    }
}
