//! What was sent to whom, in SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::SqliteConnection;

use crate::base::time::{Clock, Timestamp};
use crate::driver::sqlite::Sqlite;
use crate::log::inbox_in_sqlite::{pass, remember};
use crate::log::{Delivery, LogError};
use crate::notify::inbox::{Inbox, Sent};

/// The notices of one database file.
#[derive(Debug, Clone)]
pub struct InSqlite {
    db: Sqlite,
    clock: Arc<dyn Clock>,
}

impl InSqlite {
    /// The notices of an open database.
    pub fn new(db: Sqlite, clock: Arc<dyn Clock>) -> Self {
        Self { db, clock }
    }
}

#[async_trait]
impl Inbox for InSqlite {
    async fn sent(&self, group: &str, delivery: &Delivery, sent: &Sent) -> Result<(), LogError> {
        let (db, now) = (self.db.clone(), self.clock.now());
        let (group, delivery, sent) = (group.to_owned(), delivery.clone(), sent.clone());
        let work = async move {
            let mut tx = db.write.begin_with("begin immediate").await?;
            if remember(&mut tx, &group, &delivery, now).await? {
                save_notice(&mut tx, &delivery, &sent, now).await?;
            }
            let at = (delivery.partition, delivery.offset);
            pass(&mut tx, &group, at, now).await?;
            tx.commit().await?;
            Ok(())
        };
        self.db.outlive(work).await
    }
}

async fn save_notice(
    conn: &mut SqliteConnection,
    delivery: &Delivery,
    sent: &Sent,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into notices (event_id, order_id, kind, locale, receipt, sent_at_ms)
         values (?, ?, ?, ?, ?, ?) on conflict (event_id) do nothing",
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
