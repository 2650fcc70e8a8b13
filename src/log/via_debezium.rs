//! Hands the outbox of a PostgreSQL over to Debezium, which reads it from the write-ahead log, and removes
//! the rows that Debezium is past. `deploy/debezium/` has the connector that belongs to it.
//!
//! The slot is made before anything else: whatever is committed from then on, Debezium will send. The claim
//! is taken when nothing is left for the relay to send. So no event falls between the two; one that both
//! have sent stands in the topic twice, with one id, as after a relay's crash.

use sqlx::PgConnection;

use crate::base::time::Timestamp;
use crate::driver::postgres::Postgres;
use crate::driver::sql::SqlError;
use crate::log::{Elsewhere, LogName};

/// The replication slot and the publication, as the connector names them.
pub const SLOT: &str = "catraca_outbox";

/// An outbox that Debezium sends to a topic, or is about to.
#[derive(Debug, Clone)]
pub struct ViaDebezium {
    db: Postgres,
    topic: String,
}

/// A point in the write-ahead log. Transactions below `xmin` had ended when it was taken, so their commits
/// lie before `lsn`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    xmin: String,
    lsn: String,
}

/// Why the outbox cannot be handed over, or cleaned up.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// The database's own, a missing right or `wal_level` among them.
    #[error("database: {0}")]
    Sql(#[from] SqlError),
    /// The relay has not sent all yet: take the claim again when it has.
    #[error("{0} events of the outbox are not sent yet: let a relay send them, then ask again")]
    Unsent(i64),
    /// Events that no relay can send, and that Debezium would not see: its slot begins behind them.
    #[error(
        "{count} events of the outbox are in quarantine and would never be sent, the first in row {first}: \
         `catraca quarantine list` says why; release or skip each, let a relay send what is behind, then ask again"
    )]
    Quarantined {
        /// How many.
        count: i64,
        /// The `seq` of the first.
        first: i64,
    },
    /// The outbox is not Debezium's.
    #[error(transparent)]
    Elsewhere(#[from] Elsewhere),
    /// Nobody keeps what Debezium has not read.
    #[error("there is no replication slot {SLOT}: `catraca cdc claim` makes it")]
    NoSlot,
}

impl From<sqlx::Error> for HandoverError {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error.into())
    }
}

impl ViaDebezium {
    /// The outbox of an open database, whose events go to this topic.
    pub fn new(db: Postgres, topic: &str) -> Self {
        Self {
            db,
            topic: topic.to_owned(),
        }
    }

    /// Makes publication and slot where they are missing. The publication has new rows only: what is
    /// removed from the outbox concerns nobody.
    ///
    /// # Errors
    /// [`HandoverError`]; what is made by then stays, and asking again goes on.
    pub async fn prepare(&self) -> Result<(), HandoverError> {
        let mut connection = self.db.connection().await?;
        for (exists, make) in [
            (
                "select exists (select from pg_publication where pubname = $1)",
                "create publication catraca_outbox for table outbox with (publish = 'insert')",
            ),
            (
                "select exists (select from pg_replication_slots
                                where slot_name = $1 and database = current_database())",
                "select pg_create_logical_replication_slot('catraca_outbox', 'pgoutput')",
            ),
        ] {
            let is_there: bool = sqlx::query_scalar(exists)
                .bind(SLOT)
                .fetch_one(&mut *connection)
                .await?;
            if !is_there {
                sqlx::query(make).execute(&mut *connection).await?;
            }
        }
        Ok(())
    }

    /// Takes the outbox from the relays, for ever: the next that renews its leases ends, and none can
    /// mark what it still sends. Taken already: nothing changes.
    ///
    /// # Errors
    /// [`HandoverError`]; nothing has changed then.
    pub async fn claim(&self) -> Result<(), HandoverError> {
        self.db
            .unit_with(self.topic.clone(), |mut tx, topic| async move {
                sqlx::query("lock table event_log in exclusive mode")
                    .execute(&mut *tx)
                    .await?;
                let known: Option<String> = sqlx::query_scalar("select name from event_log")
                    .fetch_optional(&mut *tx)
                    .await?;
                let (before, after) = (LogName::topic(&topic), LogName::topic_by_cdc(&topic));
                match known {
                    Some(known) if known == after.0 => return Ok(()),
                    Some(known) => before.is(&known)?,
                    None => {}
                }
                all_sent(&mut tx).await?;
                sqlx::query(
                    "insert into event_log (one, name) values (1, $1)
                     on conflict (one) do update set name = excluded.name",
                )
                .bind(&after.0)
                .execute(&mut *tx)
                .await?;
                sqlx::query(
                    "update outbox_partitions set holder = null, token = token + 1, until_ms = 0",
                )
                .execute(&mut *tx)
                .await?;
                tx.commit().await?;
                Ok(())
            })
            .await
    }

    /// Where the write-ahead log is now.
    ///
    /// # Errors
    /// [`HandoverError`], also where the outbox is not Debezium's.
    pub async fn point(&self) -> Result<Point, HandoverError> {
        let mut connection = self.db.connection().await?;
        let known: Option<String> = sqlx::query_scalar("select name from event_log")
            .fetch_optional(&mut *connection)
            .await?;
        LogName::topic_by_cdc(&self.topic).is(&known.unwrap_or_default())?;
        let (xmin, lsn) = sqlx::query_as(
            "select pg_snapshot_xmin(pg_current_snapshot())::text, pg_current_wal_insert_lsn()::text",
        )
        .fetch_one(&mut *connection)
        .await?;
        Ok(Point { xmin, lsn })
    }

    /// Whether Debezium has confirmed all up to a point. It goes on when it has something to confirm: a
    /// heartbeat of the connector's, where there is nothing else.
    ///
    /// # Errors
    /// [`HandoverError`], a slot that is gone among them.
    pub async fn is_past(&self, point: &Point) -> Result<bool, HandoverError> {
        let past: Option<bool> = sqlx::query_scalar(
            "select $2::pg_lsn <= confirmed_flush_lsn from pg_replication_slots
             where slot_name = $1 and database = current_database()",
        )
        .bind(SLOT)
        .bind(&point.lsn)
        .fetch_optional(&mut *self.db.connection().await?)
        .await?;
        past.ok_or(HandoverError::NoSlot)
    }

    /// Removes rows from before `before` that were committed at a point which Debezium
    /// [is past](Self::is_past), at most so many, and answers how many. Repeating it removes others.
    ///
    /// # Errors
    /// [`HandoverError`]; nothing was removed then.
    pub async fn remove(
        &self,
        point: &Point,
        before: Timestamp,
        max: i64,
    ) -> Result<u64, HandoverError> {
        let removed = sqlx::query(
            "with old as (delete from outbox where seq in
                           (select seq from outbox where occurred_at_ms < $1 and xid < $2::xid8
                            order by seq limit $3) returning seq),
                  marks as (delete from outbox_log where seq in (select seq from old))
             select seq from old",
        )
        .bind(before.as_millis())
        .bind(&point.xmin)
        .bind(max)
        .execute(&mut *self.db.connection().await?)
        .await?;
        Ok(removed.rows_affected())
    }
}

/// Whether every event is in the log, but those that an operator gave up.
async fn all_sent(conn: &mut PgConnection) -> Result<(), HandoverError> {
    let (unsent, count, first): (i64, i64, Option<i64>) = sqlx::query_as(
        "select count(*) filter (where q.seq is null),
                count(q.seq) filter (where q.skipped_at_ms is null),
                min(q.seq) filter (where q.skipped_at_ms is null)
         from outbox o left join outbox_quarantine q on q.seq = o.seq
         where not exists (select from outbox_log l where l.seq = o.seq)",
    )
    .fetch_one(conn)
    .await?;
    match (unsent, first) {
        (0, None) => Ok(()),
        (_, Some(first)) => Err(HandoverError::Quarantined { count, first }),
        (unsent, None) => Err(HandoverError::Unsent(unsent)),
    }
}
