//! What was told of joins, in SQLite.

use async_trait::async_trait;
use sqlx::SqliteConnection;

use crate::driver::sqlite::Sqlite;
use crate::event::JoinsCounted;
use crate::log::outbox_in_sqlite::append;
use crate::tally::in_sql;
use crate::tally::store::{Said, Store, StoreError, Told};

/// The joins of one database file.
#[derive(Debug, Clone)]
pub struct InSqlite {
    db: Sqlite,
}

impl InSqlite {
    /// The joins of an open database.
    pub fn new(db: Sqlite) -> Self {
        Self { db }
    }
}

#[async_trait]
impl Store for InSqlite {
    async fn tell(&self, said: &Said) -> Result<Told, StoreError> {
        let (db, said) = (self.db.clone(), said.clone());
        let work = async move {
            let mut tx = db.write.begin_with("begin immediate").await?;
            let Some(version) = take_version(&mut tx, &said.counted).await? else {
                let last_ms = last(&mut tx, &said.counted).await?;
                tx.rollback().await?;
                return Ok(in_sql::before(said.counted.minute, last_ms));
            };
            append(&mut tx, &in_sql::envelope(said, version)).await?;
            tx.commit().await?;
            Ok(Told::Now)
        };
        self.db.outlive(work).await
    }
}

/// The version of the next event of a show's joins; none where this minute was told.
async fn take_version(
    conn: &mut SqliteConnection,
    counted: &JoinsCounted,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "insert into joins_told as j (show, event_version, minute_ms) values (?, 1, ?)
         on conflict (show) do update
         set event_version = j.event_version + 1, minute_ms = excluded.minute_ms
         where j.minute_ms < excluded.minute_ms
         returning event_version",
    )
    .bind(counted.show_id.as_str())
    .bind(counted.minute.as_millis())
    .fetch_optional(conn)
    .await
}

async fn last(conn: &mut SqliteConnection, counted: &JoinsCounted) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select minute_ms from joins_told where show = ?")
        .bind(counted.show_id.as_str())
        .fetch_one(conn)
        .await
}
