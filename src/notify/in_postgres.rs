//! What was sent to whom, in PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;

use crate::base::time::{Clock, Timestamp};
use crate::driver::postgres::Postgres;
use crate::log::inbox_in_postgres::{pass, remember};
use crate::log::{Delivery, LogError};
use crate::notify::inbox::{Inbox, Sent};

/// The notices of one database.
#[derive(Debug, Clone)]
pub struct InPostgres {
    db: Postgres,
    clock: Arc<dyn Clock>,
}

impl InPostgres {
    /// The notices of an open database.
    pub fn new(db: Postgres, clock: Arc<dyn Clock>) -> Self {
        Self { db, clock }
    }
}

#[async_trait]
impl Inbox for InPostgres {
    async fn sent(&self, group: &str, delivery: &Delivery, sent: &Sent) -> Result<(), LogError> {
        let given = (
            self.clock.now(),
            group.to_owned(),
            delivery.clone(),
            sent.clone(),
        );
        self.db
            .unit_with(given, |mut tx, (now, group, delivery, sent)| async move {
                if remember(&mut tx, &group, &delivery, now).await? {
                    save_notice(&mut tx, &delivery, &sent, now).await?;
                }
                let at = (delivery.partition, delivery.offset);
                pass(&mut tx, &group, at, now).await?;
                tx.commit().await?;
                Ok(())
            })
            .await
    }
}

async fn save_notice(
    conn: &mut PgConnection,
    delivery: &Delivery,
    sent: &Sent,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into notices (event_id, order_id, kind, locale, receipt, sent_at_ms)
         values ($1, $2, $3, $4, $5, $6) on conflict (event_id) do nothing",
    )
    .bind(&delivery.event_id)
    .bind(&delivery.key)
    .bind(sent.kind)
    .bind(sent.locale)
    .bind(&sent.receipt)
    .bind(now.as_millis())
    .execute(conn)
    .await?;
    Ok(())
}
