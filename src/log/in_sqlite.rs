//! The outbox read as a log, in SQLite.
//!
//! A group's offset stands in `log_groups`; consumers move it in the transaction of their effect
//! (see `inbox_in_sqlite.rs`).

use std::sync::Arc;

use async_trait::async_trait;

use crate::base::time::Clock;
use crate::driver::sqlite::Sqlite;
use crate::log::in_sql::{delivery, lags};
use crate::log::{Delivery, Lag, LogError, Subscriber};

/// The log in one database file.
#[derive(Debug, Clone)]
pub struct InSqlite {
    db: Sqlite,
    clock: Arc<dyn Clock>,
}

impl InSqlite {
    /// The log of an open database.
    pub fn new(db: Sqlite, clock: Arc<dyn Clock>) -> Self {
        Self { db, clock }
    }
}

#[async_trait]
impl Subscriber for InSqlite {
    async fn poll(
        &self,
        group: &str,
        partition: u16,
        max: usize,
    ) -> Result<Vec<Delivery>, LogError> {
        let rows = sqlx::query(
            "select l.partition, l.offset, o.id, o.aggregateid, o.aggregate_version, o.type,
                    o.payload, o.traceparent, o.occurred_at_ms
             from outbox_log l join outbox o on o.seq = l.seq
             where l.partition = ?2
               and coalesce((select g.offset from log_groups g
                             where g.consumer = ?1 and g.partition = ?2), 0) <= l.offset
             order by l.offset limit ?3",
        )
        .bind(group)
        .bind(partition)
        .bind(i64::try_from(max).unwrap_or(i64::MAX))
        .fetch_all(&self.db.read)
        .await?;
        rows.iter().map(|row| Ok(delivery(row)?)).collect()
    }

    async fn lag(&self, group: &str) -> Result<Vec<Lag>, LogError> {
        let rows: Vec<(i64, i64, i64)> = sqlx::query_as(
            "select partition, (select max(l.offset) from outbox_log l where l.partition = f.partition)
                       - l.offset + 1, l.logged_at_ms
             from (select p.partition,
                     (select min(l.offset) from outbox_log l
                      where l.partition = p.partition and coalesce(g.offset, 0) <= l.offset) as first
                   from outbox_partitions p
                   left join log_groups g on g.consumer = ? and g.partition = p.partition) f
             join outbox_log l using (partition)
             where l.offset = f.first",
        )
        .bind(group)
        .fetch_all(&self.db.read)
        .await?;
        Ok(lags(&rows, self.clock.now()))
    }
}
