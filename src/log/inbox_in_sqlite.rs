//! What the consumer groups have done, in SQLite: offsets, inbox, retries, dead letters.
//!
//! One process runs a group: a SQLite file belongs to one machine, and the embedded system is one
//! process. A second one would repeat work, not spoil it: offsets never go back, and the inbox
//! knows an event again.
//!
//! Consumers commit their effect, the inbox row and the offset together: their adapters call
//! [`remember`] and [`pass`] inside their own transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::SqliteConnection;

use crate::base::limits::{DEAD_LETTERS_PAGE_MAX, PARTITIONS};
use crate::base::time::{Clock, Timestamp};
use crate::driver::sql::SqlError;
use crate::driver::sqlite::Sqlite;
use crate::log::inbox::{Because, DeadLetter, Inbox, Retry, Rewound, Run, Stands};
use crate::log::name_in_sqlite::claim;
use crate::log::topic_in_sqlite::{begins, is_anew, marked};
use crate::log::{Delivery, Handled, LogError, LogName, in_sql};

/// The inboxes in one database file.
#[derive(Debug, Clone)]
pub struct InSqlite {
    db: Sqlite,
    clock: Arc<dyn Clock>,
    log: LogName,
}

impl InSqlite {
    /// The inboxes of an open database, for groups of this log.
    pub fn new(db: Sqlite, clock: Arc<dyn Clock>, log: LogName) -> Self {
        Self { db, clock, log }
    }
}

/// Keeps, within the transaction of the effect, that the group has handled the event. `Ok(false)`:
/// it had before, and the effect must not be written again.
///
/// # Errors
/// The database's own.
pub async fn remember(
    conn: &mut SqliteConnection,
    group: &str,
    delivery: &Delivery,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let added = sqlx::query(
        "insert into processed_events (consumer, event_id, key, version, at_ms, payload_digest)
         values (?, ?, ?, ?, ?, ?) on conflict do nothing",
    )
    .bind(group)
    .bind(&delivery.event_id)
    .bind(&delivery.key)
    .bind(delivery.version.cast_signed())
    .bind(now.as_millis())
    .bind(delivery.digest())
    .execute(conn)
    .await?;
    Ok(added.rows_affected() == 1)
}

/// Moves the group past an offset, within the transaction of the effect; never back.
///
/// # Errors
/// The database's own.
pub async fn pass(
    conn: &mut SqliteConnection,
    group: &str,
    (partition, offset): (u16, u64),
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into log_groups (consumer, partition, offset, updated_at_ms) values (?, ?, ?, ?)
         on conflict (consumer, partition) do update
         set offset = excluded.offset, updated_at_ms = excluded.updated_at_ms
         where log_groups.offset < excluded.offset",
    )
    .bind(group)
    .bind(partition)
    .bind((offset + 1).cast_signed())
    .bind(now.as_millis())
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        "delete from delivery_retries where consumer = ? and partition = ? and offset <= ?",
    )
    .bind(group)
    .bind(partition)
    .bind(offset.cast_signed())
    .execute(conn)
    .await?;
    Ok(())
}

/// Moves the group back to the beginning of the log, within a transaction that commits only where it
/// did.
///
/// # Errors
/// The database's own.
pub async fn rewind(
    conn: &mut SqliteConnection,
    group: &str,
    now: Timestamp,
) -> Result<Rewound, sqlx::Error> {
    let rows = sqlx::query("select * from log_groups where consumer = ?")
        .bind(group)
        .fetch_all(&mut *conn)
        .await?;
    if let Some(refused) = in_sql::cannot_rewind(&rows, now)? {
        return Ok(refused);
    }
    sqlx::query("update log_groups set offset = 0, updated_at_ms = ? where consumer = ?")
        .bind(now.as_millis())
        .bind(group)
        .execute(&mut *conn)
        .await?;
    sqlx::query("delete from delivery_retries where consumer = ?")
        .bind(group)
        .execute(conn)
        .await?;
    let stood: Result<_, sqlx::Error> = rows.iter().map(in_sql::stands).collect();
    Ok(Rewound::From(stood?))
}

/// The same for a group that builds something from the log alone: what it has handled is forgotten, too,
/// and whoever calls empties what it has built. Refused where the log has lost its beginning.
///
/// # Errors
/// The database's own.
pub async fn begin_again(
    conn: &mut SqliteConnection,
    group: &str,
    now: Timestamp,
) -> Result<Rewound, sqlx::Error> {
    let gone: i64 = sqlx::query_scalar(
        "select cast(coalesce(sum(cleaned), 0) as integer) from outbox_partitions
         where 0 < begins or not exists (select 1 from event_log where name <> ?)",
    )
    .bind(LogName::sql().0)
    .fetch_one(&mut *conn)
    .await?;
    if 0 < gone {
        return Ok(Rewound::Trimmed(gone.cast_unsigned()));
    }
    let rewound = rewind(conn, group, now).await?;
    if let Rewound::From(_) = &rewound {
        sqlx::query("delete from processed_events where consumer = ?")
            .bind(group)
            .execute(conn)
            .await?;
    }
    Ok(rewound)
}

#[async_trait]
impl Inbox for InSqlite {
    async fn register(&self, group: &str) -> Result<(), LogError> {
        let (db, now, group) = (self.db.clone(), self.clock.now(), group.to_owned());
        let log = self.log.clone();
        let work = async move {
            let mut tx = db.write.begin_with("begin immediate").await?;
            claim(&mut tx, &log).await??;
            for partition in 0..PARTITIONS {
                sqlx::query(
                    "insert into log_groups (consumer, partition, offset, updated_at_ms, seen_at_ms)
                     values (?1, ?2, 0, ?3, ?3)
                     on conflict (consumer, partition) do update set seen_at_ms = excluded.seen_at_ms",
                )
                .bind(&group)
                .bind(partition)
                .bind(now.as_millis())
                .execute(&mut *tx)
                .await?;
            }
            tx.commit().await?;
            Ok(())
        };
        self.db.outlive(work).await
    }

    async fn stands(&self, group: &str) -> Result<Stands, LogError> {
        let rows = sqlx::query(
            "select g.partition, g.\"offset\", coalesce(p.begins, 0) as begins from log_groups g
             left join outbox_partitions p on p.partition = g.partition where g.consumer = ?",
        )
        .bind(group)
        .fetch_all(&self.db.read)
        .await?;
        in_sql::log_stands(&rows)
    }

    async fn marked(&self) -> Result<BTreeMap<u16, u64>, LogError> {
        Ok(marked(&mut *self.db.read.acquire().await?).await?)
    }

    async fn renew(&self, stands: &Stands, ends: &BTreeMap<u16, u64>) -> Result<(), LogError> {
        if !self.log.may_begin() {
            return Ok(()); // nobody marks what Debezium sends
        }
        let (db, seen, ends) = (self.db.clone(), stands.begins.clone(), ends.clone());
        let work = async move {
            let mut tx = db.write.begin_with("begin immediate").await?;
            for (partition, end) in ends {
                let begins = begins(&mut tx, partition).await?;
                if seen.get(&partition).copied().unwrap_or_default() == begins {
                    is_anew(&mut tx, partition, (begins, end)).await?;
                }
            }
            tx.commit().await?;
            Ok(())
        };
        self.db.outlive(work).await
    }

    async fn rewind(&self, group: &str, run: Run) -> Result<Rewound, LogError> {
        let (db, now, group) = (self.db.clone(), self.clock.now(), group.to_owned());
        let work = async move {
            let mut tx = db.write.begin_with("begin immediate").await?;
            let rewound = rewind(&mut tx, &group, now).await?;
            match run {
                Run::Real => tx.commit().await?,
                Run::Dry => tx.rollback().await?,
            }
            Ok(rewound)
        };
        self.db.outlive(work).await
    }

    async fn handled(&self, group: &str, event_id: &str) -> Result<Option<Handled>, LogError> {
        let row = sqlx::query(
            "select key, version, payload_digest from processed_events
             where consumer = ? and event_id = ?",
        )
        .bind(group)
        .bind(event_id)
        .fetch_optional(&self.db.read)
        .await?;
        Ok(row.as_ref().map(in_sql::handled).transpose()?)
    }

    async fn newest(&self, group: &str, key: &str) -> Result<Option<u64>, LogError> {
        let version: Option<i64> = sqlx::query_scalar(
            "select max(version) from processed_events where consumer = ? and key = ?",
        )
        .bind(group)
        .bind(key)
        .fetch_one(&self.db.read)
        .await?;
        Ok(version.map(i64::cast_unsigned))
    }

    async fn pass(&self, group: &str, through: &[(u16, u64)]) -> Result<(), LogError> {
        let (db, now) = (self.db.clone(), self.clock.now());
        let (group, through) = (group.to_owned(), through.to_vec());
        let work = async move {
            let mut tx = db.write.begin_with("begin immediate").await?;
            for at in through {
                pass(&mut tx, &group, at, now).await?;
            }
            tx.commit().await?;
            Ok(())
        };
        self.db.outlive(work).await
    }

    async fn retries(&self, group: &str) -> Result<Vec<Retry>, LogError> {
        let rows =
            sqlx::query("select * from delivery_retries where consumer = ? order by partition")
                .bind(group)
                .fetch_all(&self.db.read)
                .await?;
        rows.iter().map(|row| Ok(in_sql::retry(row)?)).collect()
    }

    async fn retry(&self, group: &str, retry: &Retry) -> Result<(), LogError> {
        let (db, group, retry) = (self.db.clone(), group.to_owned(), retry.clone());
        let work = async move {
            save_retry(&db, &group, &retry).await?;
            Ok(())
        };
        self.db.outlive(work).await
    }

    async fn set_aside(
        &self,
        group: &str,
        delivery: &Delivery,
        because: &Because,
    ) -> Result<(), LogError> {
        let (db, now, group) = (self.db.clone(), self.clock.now(), group.to_owned());
        let (delivery, because) = (delivery.clone(), because.clone());
        let work = async move {
            let mut tx = db.write.begin_with("begin immediate").await?;
            save_dead_letter(&mut tx, &group, (&delivery, &because), now).await?;
            pass(&mut tx, &group, (delivery.partition, delivery.offset), now).await?;
            tx.commit().await?;
            Ok(())
        };
        self.db.outlive(work).await
    }

    async fn dead_letters(&self, after: u64) -> Result<Vec<DeadLetter>, LogError> {
        let rows = sqlx::query(
            "select d.*, o.occurred_at_ms
             from dead_letters d left join outbox o on o.id = d.event_id
             where ? < d.id order by d.id limit ?",
        )
        .bind(after.cast_signed())
        .bind(i64::try_from(DEAD_LETTERS_PAGE_MAX).unwrap_or(i64::MAX))
        .fetch_all(&self.db.read)
        .await?;
        rows.iter().map(|row| Ok(in_sql::letter(row)?)).collect()
    }

    async fn dead_letter(&self, id: u64) -> Result<Option<DeadLetter>, LogError> {
        let row = sqlx::query(
            "select d.*, o.occurred_at_ms
             from dead_letters d left join outbox o on o.id = d.event_id
             where d.id = ?",
        )
        .bind(id.cast_signed())
        .fetch_optional(&self.db.read)
        .await?;
        Ok(row.as_ref().map(in_sql::letter).transpose()?)
    }

    async fn replayed(&self, id: u64) -> Result<(), LogError> {
        let (db, now) = (self.db.clone(), self.clock.now());
        let work = async move {
            sqlx::query(
                "update dead_letters set replayed_at_ms = ? where id = ? and replayed_at_ms is null",
            )
            .bind(now.as_millis())
            .bind(id.cast_signed())
            .execute(&db.write)
            .await?;
            Ok(())
        };
        self.db.outlive(work).await
    }
}

async fn save_retry(db: &Sqlite, group: &str, retry: &Retry) -> Result<(), SqlError> {
    sqlx::query(
        "insert into delivery_retries (consumer, partition, offset, event_id, attempts, reason,
                                       since_ms, next_at_ms)
         values (?, ?, ?, ?, ?, ?, ?, ?)
         on conflict (consumer, partition) do update
         set offset = excluded.offset, event_id = excluded.event_id,
             attempts = excluded.attempts, reason = excluded.reason,
             since_ms = excluded.since_ms, next_at_ms = excluded.next_at_ms",
    )
    .bind(group)
    .bind(retry.partition)
    .bind(retry.offset.cast_signed())
    .bind(&retry.event_id)
    .bind(retry.attempts)
    .bind(in_sql::cut(&retry.reason))
    .bind(retry.since.as_millis())
    .bind(retry.next_at.as_millis())
    .execute(&db.write)
    .await?;
    Ok(())
}

async fn save_dead_letter(
    conn: &mut SqliteConnection,
    group: &str,
    (delivery, because): (&Delivery, &Because),
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into dead_letters (consumer, partition, offset, event_id, key, version, type,
                                   payload, traceparent, reason, attempts, at_ms)
         values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         on conflict (consumer, event_id) do nothing",
    )
    .bind(group)
    .bind(delivery.partition)
    .bind(delivery.offset.cast_signed())
    .bind(&delivery.event_id)
    .bind(&delivery.key)
    .bind(delivery.version.cast_signed())
    .bind(&delivery.kind)
    .bind(&delivery.payload)
    .bind(&delivery.trace)
    .bind(in_sql::cut(&because.reason))
    .bind(because.attempts)
    .bind(now.as_millis())
    .execute(conn)
    .await?;
    Ok(())
}
