//! The outbox read as a log, in PostgreSQL.
//!
//! A group's offset stands in `log_groups`; consumers move it in the transaction of their effect
//! (see `inbox_in_postgres.rs`).

use std::sync::Arc;

use async_trait::async_trait;

use crate::base::time::Clock;
use crate::driver::postgres::Postgres;
use crate::log::in_sql::{delivery, lags};
use crate::log::{Delivery, Lag, LogError, Subscriber};

/// The log in one database.
#[derive(Debug, Clone)]
pub struct InPostgres {
    db: Postgres,
    clock: Arc<dyn Clock>,
}

impl InPostgres {
    /// The log of an open database.
    pub fn new(db: Postgres, clock: Arc<dyn Clock>) -> Self {
        Self { db, clock }
    }
}

#[async_trait]
impl Subscriber for InPostgres {
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
             where l.partition = $2
               and coalesce((select g.offset from log_groups g
                             where g.consumer = $1 and g.partition = $2), 0) <= l.offset
             order by l.offset limit $3",
        )
        .bind(group)
        .bind(i64::from(partition))
        .bind(i64::try_from(max).unwrap_or(i64::MAX))
        .fetch_all(&mut *self.db.connection().await?)
        .await?;
        rows.iter().map(|row| Ok(delivery(row)?)).collect()
    }

    async fn lag(&self, group: &str) -> Result<Vec<Lag>, LogError> {
        let rows: Vec<(i64, i64, i64)> = sqlx::query_as(
            "select l.partition, count(*), min(l.logged_at_ms) from outbox_log l
             left join log_groups g on g.consumer = $1 and g.partition = l.partition
             where coalesce(g.offset, 0) <= l.offset
             group by l.partition",
        )
        .bind(group)
        .fetch_all(&mut *self.db.connection().await?)
        .await?;
        Ok(lags(&rows, self.clock.now()))
    }
}
