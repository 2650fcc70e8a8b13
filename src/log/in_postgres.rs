//! The outbox read as a log, in PostgreSQL.
//!
//! A group's offset stands in `log_groups`; consumers move it in the transaction of their effect
//! (see `inbox_in_postgres.rs`). Of all processes that run a group one reads; to the others the log looks
//! as if nothing were new, until that one is gone.

use std::sync::Arc;

use async_trait::async_trait;

use crate::base::time::Clock;
use crate::driver::postgres::Postgres;
use crate::driver::sole::Sole;
use crate::log::in_sql::{delivery, lags};
use crate::log::{Delivery, Lag, LogError, Subscriber};

const POLL: &str = include_str!("sql/poll.sql");
const LAG: &str = include_str!("sql/lag.sql");

/// The log in one database.
#[derive(Debug, Clone)]
pub struct InPostgres {
    db: Postgres,
    clock: Arc<dyn Clock>,
    readers: Sole,
}

impl InPostgres {
    /// The log of an open database.
    pub fn new(db: Postgres, clock: Arc<dyn Clock>) -> Self {
        Self {
            db,
            clock,
            readers: Sole::default(),
        }
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
        self.db
            .within(async {
                let Some(mut reader) = self.readers.take(&self.db, group).await? else {
                    return Ok(Vec::new());
                };
                let rows = sqlx::query(POLL)
                    .bind(group)
                    .bind(i64::from(partition))
                    .bind(i64::from(u32::try_from(max).unwrap_or(u32::MAX)))
                    .fetch_all(&mut reader)
                    .await?;
                self.readers.keep(group, reader);
                rows.iter().map(|row| Ok(delivery(row)?)).collect()
            })
            .await
    }

    async fn lag(&self, group: &str) -> Result<Vec<Lag>, LogError> {
        self.db
            .within(async {
                let rows: Vec<(i64, i64, i64)> = sqlx::query_as(LAG)
                    .bind(group)
                    .fetch_all(&mut *self.db.connection().await?)
                    .await?;
                Ok(lags(&rows, self.clock.now()))
            })
            .await
    }
}
