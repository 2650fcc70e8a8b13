//! The outbox and its relay's marks in SQLite. Here the marks are the log: sending a row is giving
//! it the next offset of its partition.
//!
//! SQLite has one writer, so rows become visible in the order of `seq`: no transaction can still
//! commit a row below one that was seen, and the floor may rise to whatever was read.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::SqliteConnection;

use crate::base::ids::FencingToken;
use crate::base::limits::PARTITIONS;
use crate::base::time::{Clock, Timestamp};
use crate::driver::sqlite::Sqlite;
use crate::log::LogName;
use crate::log::name_in_sqlite::claim;
use crate::log::topic_in_sqlite;
use crate::relay::in_sql::unsent;
use crate::relay::plan::{Batch, Lease, Page, Unsent};
use crate::relay::store::{Cleaned, Published, Store, StoreError};

/// The outbox of one database file.
#[derive(Debug, Clone)]
pub struct InSqlite {
    db: Sqlite,
    clock: Arc<dyn Clock>,
    log: LogName,
}

impl InSqlite {
    /// The outbox of an open database, whose events go to this log.
    pub fn new(db: Sqlite, clock: Arc<dyn Clock>, log: LogName) -> Self {
        Self { db, clock, log }
    }
}

#[async_trait]
impl Store for InSqlite {
    async fn lease(&self, holder: &str, ttl_ms: u64) -> Result<Vec<Lease>, StoreError> {
        let (db, now, holder) = (self.db.clone(), self.clock.now(), holder.to_owned());
        let (until, log) = (now.plus_ms(ttl_ms), self.log.clone());
        let work = async move {
            let mut tx = db.write.begin_with("begin immediate").await?;
            claim(&mut tx, &log).await??;
            let mut leases = Vec::new();
            for partition in 0..PARTITIONS {
                let token = take(&mut tx, partition, &holder, (now, until)).await?;
                leases.extend(token.map(|token| Lease {
                    partition,
                    token,
                    until,
                }));
            }
            tx.commit().await?;
            Ok(leases)
        };
        self.db.outlive(work).await
    }

    async fn resign(&self, holder: &str) -> Result<(), StoreError> {
        let (db, holder) = (self.db.clone(), holder.to_owned());
        let work = async move {
            sqlx::query(
                "update outbox_partitions set holder = null, until_ms = 0 where holder = ?",
            )
            .bind(holder)
            .execute(&db.write)
            .await?;
            Ok(())
        };
        self.db.outlive(work).await
    }

    async fn unsent(&self, partition: u16, max: usize) -> Result<Page, StoreError> {
        // Both are read first: what is written meanwhile has a higher seq and waits.
        let (floor, begins, last): (i64, i64, i64) = sqlx::query_as(
            "select coalesce((select floor_seq from outbox_partitions where partition = ?1), 0),
                    coalesce((select begins from outbox_partitions where partition = ?1), 0),
                    coalesce((select max(seq) from outbox), 0)",
        )
        .bind(partition)
        .fetch_one(&self.db.read)
        .await?;
        let rows = unsent_rows(&self.db, (partition, floor, last), max).await?;
        let full = rows.len() == max;
        let through = match rows.last() {
            Some(row) if full => row.seq,
            Some(_) | None => last.cast_unsigned(),
        };
        Ok(Page {
            rows,
            through,
            floor: floor.cast_unsigned(),
            given_out: last.cast_unsigned(),
            begins: begins.cast_unsigned(),
        })
    }

    async fn publish(&self, batches: &[Batch]) -> Result<Vec<Published>, StoreError> {
        let (db, now, batches) = (self.db.clone(), self.clock.now(), batches.to_vec());
        let work = async move {
            let mut tx = db.write.begin_with("begin immediate").await?;
            let mut answers = Vec::new();
            for batch in batches {
                if !holds(&mut tx, &batch.lease, now).await? {
                    answers.push(Published::Fenced);
                    continue;
                }
                if is_elsewhere(&mut tx, &batch).await? {
                    answers.push(Published::nothing());
                    continue;
                }
                mark(&mut tx, &batch, now).await?;
                quarantine(&mut tx, &batch, now).await?;
                raise_floor(&mut tx, &batch).await?;
                answers.push(Published::all_of(batch));
            }
            tx.commit().await?;
            Ok(answers)
        };
        self.db.outlive(work).await
    }

    async fn clean_up(&self, before: Timestamp, max: usize) -> Result<Cleaned, StoreError> {
        let (db, max) = (self.db.clone(), i64::try_from(max).unwrap_or(i64::MAX));
        let work = async move {
            let mut tx = db.write.begin_with("begin immediate").await?;
            let mut cleaned = Cleaned::default();
            for partition in 0..PARTITIONS {
                let end = removable(&mut tx, partition, before).await?;
                cleaned.held_back += u32::from(end.read < end.old);
                cleaned.rows += remove(&mut tx, partition, end.read.min(end.old), max).await?;
            }
            tx.commit().await?;
            Ok(cleaned)
        };
        self.db.outlive(work).await
    }
}

/// Takes a partition that is free or ours, or whose lease has run out.
async fn take(
    conn: &mut SqliteConnection,
    partition: u16,
    holder: &str,
    (now, until): (Timestamp, Timestamp),
) -> Result<Option<FencingToken>, sqlx::Error> {
    let token: Option<i64> = sqlx::query_scalar(
        "insert into outbox_partitions as p (partition, holder, token, until_ms, floor_seq)
         values (?1, ?2, 1, ?3, 0)
         on conflict (partition) do update
         set token = p.token + (p.holder is not ?2), holder = ?2, until_ms = ?3
         where p.holder is null or p.holder = ?2 or p.until_ms <= ?4
         returning token",
    )
    .bind(partition)
    .bind(holder)
    .bind(until.as_millis())
    .bind(now.as_millis())
    .fetch_optional(conn)
    .await?;
    Ok(token.map(|token| FencingToken(token.cast_unsigned())))
}

async fn unsent_rows(
    db: &Sqlite,
    (partition, floor, last): (u16, i64, i64),
    max: usize,
) -> Result<Vec<Unsent>, sqlx::Error> {
    // A missing version counts as sent only where marks have been cleaned up: then it may have been
    // among them. Otherwise it is not there yet.
    let rows = sqlx::query(
        "select o.seq, o.id, o.type, o.aggregatetype, o.aggregateid, o.aggregate_version, o.payload,
                o.traceparent, o.occurred_at_ms,
                case when o.aggregate_version = 1 or l.seq is not null then 'sent'
                     when q.skipped_at_ms is not null then 'sent'
                     when q.seq is not null then 'quarantined'
                     when p.seq is null
                      and 0 < (select cleaned from outbox_partitions where partition = ?1) then 'sent'
                     else 'unsent' end as before
         from outbox o
         left join outbox p on p.aggregatetype = o.aggregatetype
                           and p.aggregateid = o.aggregateid
                           and p.aggregate_version = o.aggregate_version - 1
         left join outbox_log l on l.seq = p.seq
         left join outbox_quarantine q on q.seq = p.seq
         where ?2 < o.seq and o.seq <= ?3 and o.partition = ?1
           and not exists (select 1 from outbox_log m where m.seq = o.seq)
           and not exists (select 1 from outbox_quarantine m where m.seq = o.seq)
         order by o.seq limit ?4",
    )
    .bind(partition)
    .bind(floor)
    .bind(last)
    .bind(i64::try_from(max).unwrap_or(i64::MAX))
    .fetch_all(&db.read)
    .await?;
    rows.iter().map(unsent).collect()
}

/// Whether the lease is still the partition's. Asked inside the transaction that depends on it.
async fn holds(
    conn: &mut SqliteConnection,
    lease: &Lease,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let row: Option<i64> = sqlx::query_scalar(
        "select token from outbox_partitions where partition = ? and token = ? and ? < until_ms",
    )
    .bind(lease.partition)
    .bind(lease.token.0.cast_signed())
    .bind(now.as_millis())
    .fetch_optional(conn)
    .await?;
    Ok(row.is_some())
}

/// Whether Kafka has put the rows into another topic than the one that was known when they were sent.
async fn is_elsewhere(conn: &mut SqliteConnection, batch: &Batch) -> Result<bool, sqlx::Error> {
    let Some(first) = batch.offsets.iter().min() else {
        return Ok(false); // the outbox is the log, or nothing was sent
    };
    let (partition, begins) = (batch.lease.partition, batch.begins);
    if topic_in_sqlite::begins(conn, partition).await? != begins {
        return Ok(true);
    }
    topic_in_sqlite::is_anew(conn, partition, (begins, *first)).await
}

async fn mark(
    conn: &mut SqliteConnection,
    batch: &Batch,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    for (n, row) in batch.send.iter().enumerate() {
        sqlx::query(
            "insert into outbox_log (partition, offset, seq, logged_at_ms)
             select ?1, coalesce(?3, max(offset) + 1, 0), ?2, ?4
             from outbox_log where partition = ?1",
        )
        .bind(batch.lease.partition)
        .bind(row.seq.cast_signed())
        .bind(
            batch
                .offsets
                .get(n)
                .map(|offset| (batch.begins + offset).cast_signed()),
        )
        .bind(now.as_millis())
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

async fn quarantine(
    conn: &mut SqliteConnection,
    batch: &Batch,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    for (seq, reason) in &batch.quarantine {
        sqlx::query(
            "insert into outbox_quarantine (seq, reason, at_ms) values (?, ?, ?)
             on conflict (seq) do nothing",
        )
        .bind(seq.cast_signed())
        .bind(reason)
        .bind(now.as_millis())
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

async fn raise_floor(conn: &mut SqliteConnection, batch: &Batch) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update outbox_partitions set floor_seq = ?2 where partition = ?1 and floor_seq < ?2",
    )
    .bind(batch.lease.partition)
    .bind(batch.floor.cast_signed())
    .execute(conn)
    .await?;
    Ok(())
}

/// Up to which offset, exclusive, marks of a partition are old, and up to which every group has read.
struct Ends {
    old: i64,
    read: i64,
}

async fn removable(
    conn: &mut SqliteConnection,
    partition: u16,
    before: Timestamp,
) -> Result<Ends, sqlx::Error> {
    // The last mark stays: it knows the next offset. No group at all: nobody has read anything.
    let (old, read): (i64, i64) = sqlx::query_as(
        "select coalesce((select max(offset) from outbox_log
                          where partition = ?1 and logged_at_ms < ?2
                            and offset < (select max(offset) from outbox_log where partition = ?1)
                         ) + 1, 0),
                coalesce((select min(offset) from log_groups where partition = ?1), 0)",
    )
    .bind(partition)
    .bind(before.as_millis())
    .fetch_one(conn)
    .await?;
    Ok(Ends { old, read })
}

/// Removes marks below an offset and their rows. Both are below the floor: the floor passes a mark
/// in the transaction that writes it, but for rows that still wait.
async fn remove(
    conn: &mut SqliteConnection,
    partition: u16,
    end: i64,
    max: i64,
) -> Result<u64, sqlx::Error> {
    let seqs: Vec<i64> = sqlx::query_scalar(
        "select l.seq from outbox_log l join outbox_partitions p on p.partition = l.partition
         where l.partition = ? and l.offset < ? and l.seq <= p.floor_seq
         order by l.offset limit ?",
    )
    .bind(partition)
    .bind(end)
    .bind(max)
    .fetch_all(&mut *conn)
    .await?;
    for seq in &seqs {
        sqlx::query("delete from outbox_log where seq = ?")
            .bind(seq)
            .execute(&mut *conn)
            .await?;
        sqlx::query("delete from outbox where seq = ?")
            .bind(seq)
            .execute(&mut *conn)
            .await?;
    }
    let removed = i64::try_from(seqs.len()).unwrap_or(i64::MAX);
    sqlx::query("update outbox_partitions set cleaned = cleaned + ? where partition = ?")
        .bind(removed)
        .bind(partition)
        .execute(conn)
        .await?;
    Ok(removed.cast_unsigned())
}
