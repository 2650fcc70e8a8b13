//! What can never be sent, in SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::SqliteConnection;

use crate::base::limits::QUARANTINE_PAGE_MAX;
use crate::base::time::{Clock, Timestamp};
use crate::driver::sqlite::Sqlite;
use crate::relay::in_sql;
use crate::relay::store::{Freed, Held, Quarantine, StoreError};

/// The quarantine of one database file.
#[derive(Debug, Clone)]
pub struct InSqlite {
    db: Sqlite,
    clock: Arc<dyn Clock>,
}

impl InSqlite {
    /// The quarantine of an open database.
    pub fn new(db: Sqlite, clock: Arc<dyn Clock>) -> Self {
        Self { db, clock }
    }
}

#[async_trait]
impl Quarantine for InSqlite {
    async fn held(&self) -> Result<Vec<Held>, StoreError> {
        let rows = sqlx::query(
            "select o.*, q.reason, q.at_ms from outbox_quarantine q join outbox o on o.seq = q.seq
             where q.skipped_at_ms is null order by q.seq limit ?",
        )
        .bind(i64::try_from(QUARANTINE_PAGE_MAX).unwrap_or(i64::MAX))
        .fetch_all(&self.db.read)
        .await?;
        Ok(rows.iter().map(in_sql::held).collect::<Result<_, _>>()?)
    }

    async fn release(&self, seq: u64) -> Result<Freed, StoreError> {
        let (db, seq) = (self.db.clone(), seq.cast_signed());
        let work = async move {
            let mut tx = db.write.begin_with("begin immediate").await?;
            let freed = free(&mut tx, seq).await?;
            tx.commit().await?;
            Ok(freed)
        };
        self.db.outlive(work).await
    }

    async fn skip(&self, seq: u64) -> Result<Freed, StoreError> {
        let (db, seq, now) = (self.db.clone(), seq.cast_signed(), self.clock.now());
        let work = async move {
            let mut tx = db.write.begin_with("begin immediate").await?;
            let reason = reason(&mut tx, seq).await?;
            let freed = free(&mut tx, seq).await?;
            if let (Freed::Events(count), Some(reason)) = (freed, reason) {
                keep_skipped(&mut tx, (seq, &reason), now).await?;
                tx.commit().await?;
                return Ok(Freed::Events(count - 1));
            }
            Ok(freed)
        };
        self.db.outlive(work).await
    }
}

/// Takes an event and those of its key behind it out of the quarantine. Who relays the partition meanwhile has
/// read it without them, so what they are about to mark is fenced off, and the next looks from there on.
async fn free(conn: &mut SqliteConnection, seq: i64) -> Result<Freed, sqlx::Error> {
    let partition: Option<i64> = sqlx::query_scalar(
        "select o.partition from outbox_quarantine q join outbox o on o.seq = q.seq
         where q.seq = ? and q.skipped_at_ms is null",
    )
    .bind(seq)
    .fetch_optional(&mut *conn)
    .await?;
    let Some(partition) = partition else {
        return Ok(Freed::Unknown);
    };
    sqlx::query(
        "update outbox_partitions
         set holder = null, token = token + 1, until_ms = 0, floor_seq = min(floor_seq, ?2 - 1)
         where partition = ?1",
    )
    .bind(partition)
    .bind(seq)
    .execute(&mut *conn)
    .await?;
    let first: Option<i64> = sqlx::query_scalar(
        "select q.seq from outbox o
         join outbox b on b.aggregatetype = o.aggregatetype and b.aggregateid = o.aggregateid
                      and b.aggregate_version < o.aggregate_version
         join outbox_quarantine q on q.seq = b.seq and q.skipped_at_ms is null
         where o.seq = ? order by b.aggregate_version limit 1",
    )
    .bind(seq)
    .fetch_optional(&mut *conn)
    .await?;
    if let Some(first) = first {
        return Ok(Freed::Behind(first.cast_unsigned()));
    }
    let freed = sqlx::query(
        "delete from outbox_quarantine where skipped_at_ms is null and seq in
           (select b.seq from outbox o
            join outbox b on b.aggregatetype = o.aggregatetype and b.aggregateid = o.aggregateid
                         and o.aggregate_version <= b.aggregate_version
            where o.seq = ?)",
    )
    .bind(seq)
    .execute(conn)
    .await?;
    Ok(Freed::Events(freed.rows_affected()))
}

async fn reason(conn: &mut SqliteConnection, seq: i64) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar("select reason from outbox_quarantine where seq = ?")
        .bind(seq)
        .fetch_optional(conn)
        .await
}

async fn keep_skipped(
    conn: &mut SqliteConnection,
    (seq, reason): (i64, &str),
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into outbox_quarantine (seq, reason, at_ms, skipped_at_ms) values (?1, ?2, ?3, ?3)",
    )
    .bind(seq)
    .bind(in_sql::skipped(reason))
    .bind(now.as_millis())
    .execute(conn)
    .await?;
    Ok(())
}
