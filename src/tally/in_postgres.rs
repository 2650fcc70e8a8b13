//! What was told of joins, in PostgreSQL.

use async_trait::async_trait;
use sqlx::PgConnection;

use crate::driver::postgres::Postgres;
use crate::event::JoinsCounted;
use crate::log::outbox_in_postgres::append;
use crate::tally::in_sql;
use crate::tally::store::{Said, Store, StoreError, Told};

/// The joins of one database.
#[derive(Debug, Clone)]
pub struct InPostgres {
    db: Postgres,
}

impl InPostgres {
    /// The joins of an open database.
    pub fn new(db: Postgres) -> Self {
        Self { db }
    }
}

#[async_trait]
impl Store for InPostgres {
    async fn tell(&self, said: &Said) -> Result<Told, StoreError> {
        self.db
            .unit_with(said.clone(), |mut tx, said| async move {
                let Some(version) = take_version(&mut tx, &said.counted).await? else {
                    let last_ms = last(&mut tx, &said.counted).await?;
                    tx.rollback().await?;
                    return Ok(in_sql::before(said.counted.minute, last_ms));
                };
                append(&mut tx, &in_sql::envelope(said, version)).await?;
                tx.commit().await?;
                Ok(Told::Now)
            })
            .await
    }
}

/// The version of the next event of a show's joins; none where this minute was told.
async fn take_version(
    conn: &mut PgConnection,
    counted: &JoinsCounted,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "insert into joins_told as j (show, event_version, minute_ms) values ($1, 1, $2)
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

async fn last(conn: &mut PgConnection, counted: &JoinsCounted) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select minute_ms from joins_told where show = $1")
        .bind(counted.show_id.as_str())
        .fetch_one(conn)
        .await
}
