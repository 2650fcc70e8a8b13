//! What was sent to whom, in PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;

use crate::base::time::{Clock, Timestamp};
use crate::driver::postgres::Postgres;
use crate::log::inbox::DeadLetter;
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

    async fn replayed(&self, letter: &DeadLetter, sent: Option<&Sent>) -> Result<(), LogError> {
        let given = (self.clock.now(), letter.clone(), sent.cloned());
        self.db.unit_with(given, |mut tx, (now, letter, sent)| async move {
            let fresh = remember(&mut tx, &letter.group, &letter.delivery, now).await?;
            if let Some(sent) = sent.filter(|_| fresh) {
                save_notice(&mut tx, &letter.delivery, &sent, now).await?;
            }
            sqlx::query(
                "update dead_letters set replayed_at_ms = $1 where id = $2 and replayed_at_ms is null",
            )
            .bind(now.as_millis())
            .bind(letter.id.cast_signed())
            .execute(&mut *tx)
            .await?;
            tx.commit().await?;
            Ok(())
        }).await
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
