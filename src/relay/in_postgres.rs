//! The outbox and its relay's marks in PostgreSQL. Here the marks are the log: sending a row is giving
//! it the next offset of its partition.
//!
//! Rows become visible in the order of commits, not of `seq`. What that means for where to look, and for
//! how far the floor may rise, is in `horizon.rs`. A transaction that takes its time costs nobody an event
//! and nobody else their time; rows above the floor are sent meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;
use tokio::sync::Mutex;

use crate::base::ids::FencingToken;
use crate::base::limits::{PARTITIONS, RELAY_BATCH_MAX};
use crate::base::time::{Clock, Timestamp};
use crate::driver::postgres::Postgres;
use crate::log::LogName;
use crate::log::name_in_postgres::claim;
use crate::log::topic_in_postgres;
use crate::relay::horizon::{Horizon, Look};
use crate::relay::in_sql::unsent;
use crate::relay::plan::{Batch, Lease, Page, Unsent};
use crate::relay::store::{Cleaned, Published, Store, StoreError};

const UNSENT: &str = include_str!("sql/unsent.sql");
/// How many `seq` one look for unsent rows covers, whatever their partition.
const UNSENT_SPAN: u64 = 2 * RELAY_BATCH_MAX as u64 * PARTITIONS as u64;

/// The outbox of one database.
#[derive(Debug, Clone)]
pub struct InPostgres {
    db: Postgres,
    clock: Arc<dyn Clock>,
    log: LogName,
    horizon: Arc<Mutex<Horizon>>,
}

impl InPostgres {
    /// The outbox of an open database, whose events go to this log.
    pub fn new(db: Postgres, clock: Arc<dyn Clock>, log: LogName) -> Self {
        Self {
            db,
            clock,
            log,
            horizon: Arc::default(),
        }
    }
}

#[async_trait]
impl Store for InPostgres {
    async fn lease(&self, holder: &str, ttl_ms: u64) -> Result<Vec<Lease>, StoreError> {
        let now = self.clock.now();
        let given = (
            now,
            holder.to_owned(),
            now.plus_ms(ttl_ms),
            self.log.clone(),
        );
        self.db
            .unit_with(given, |mut tx, (now, holder, until, log)| async move {
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
            })
            .await
    }

    async fn resign(&self, holder: &str) -> Result<(), StoreError> {
        self.db
            .within(async {
                sqlx::query(
                    "update outbox_partitions set holder = null, until_ms = 0 where holder = $1",
                )
                .bind(holder)
                .execute(&mut *self.db.connection().await?)
                .await?;
                Ok(())
            })
            .await
    }

    async fn unsent(&self, partition: u16, max: usize) -> Result<Page, StoreError> {
        self.db
            .within(async {
                let mut horizon = self.horizon.lock().await;
                let mut connection = self.db.connection().await?;
                // Looked first: whatever can be seen then can be read afterwards.
                let looked: (i64, i64, i64, i64, String, String) = sqlx::query_as(
                "select coalesce((select floor_seq from outbox_partitions where partition = $1), 0),
                        coalesce((select begins from outbox_partitions where partition = $1), 0),
                        coalesce((select token from outbox_partitions where partition = $1), 0),
                        (select case when is_called then last_value else 0 end from outbox_seq_seq),
                        pg_current_snapshot()::text, pg_postmaster_start_time()::text",
            )
            .bind(i64::from(partition))
            .fetch_one(&mut *connection)
            .await?;
                let (floor, begins, token, last_seq, snapshot, server) = looked;
                let (floor, token) = (floor.cast_unsigned(), FencingToken(token.cast_unsigned()));
                let look = Look::of((server, token), &snapshot, last_seq.cast_unsigned());
                let unknown = || StoreError::Unavailable(anyhow::anyhow!("snapshot {snapshot}"));
                let look = look.ok_or_else(unknown)?;
                let after = horizon.after(partition, &look).max(floor);
                let settled = horizon.settled(&look);
                let rows =
                    unsent_rows(&mut connection, partition, (after, look.last_seq), max).await?;
                let seqs: BTreeSet<u64> = rows.iter().map(|row| row.seq).collect();
                let through = match seqs.last() {
                    Some(last) if rows.len() == max => settled.min(*last),
                    Some(_) | None => settled,
                };
                horizon.read(partition, look, seqs, rows.len() < max);
                Ok(Page {
                    rows,
                    through,
                    floor,
                    given_out: last_seq.cast_unsigned(),
                    begins: begins.cast_unsigned(),
                })
            })
            .await
    }

    async fn publish(&self, batches: &[Batch]) -> Result<Vec<Published>, StoreError> {
        let given_out = self.horizon.lock().await.given_out();
        let given = (self.clock.now(), batches.to_vec());
        let published: Result<_, StoreError> = self
            .db
            .unit_with(given, |mut tx, (now, batches)| async move {
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
                let id: i64 = sqlx::query_scalar("select pg_current_xact_id()::text::bigint")
                    .fetch_one(&mut *tx)
                    .await?;
                tx.commit().await?;
                Ok((id.cast_unsigned(), answers))
            })
            .await;
        let (id, answers) = published?;
        let done = batches.iter().zip(&answers);
        let done = done.filter(|(batch, answer)| answer.is_all_of(batch));
        let rows = done.flat_map(|(batch, _)| batch.settled());
        self.horizon.lock().await.marked((id, given_out), rows);
        Ok(answers)
    }

    async fn clean_up(&self, before: Timestamp, max: usize) -> Result<Cleaned, StoreError> {
        let given = i64::try_from(max).unwrap_or(i64::MAX);
        self.db
            .unit_with(given, move |mut tx, max| async move {
                let mut cleaned = Cleaned::default();
                for partition in 0..PARTITIONS {
                    let end = removable(&mut tx, partition, before).await?;
                    cleaned.held_back += u32::from(end.read < end.old);
                    cleaned.rows += remove(&mut tx, partition, end.read.min(end.old), max).await?;
                }
                tx.commit().await?;
                Ok(cleaned)
            })
            .await
    }
}

/// Takes a partition that is free or ours, or whose lease has run out.
async fn take(
    conn: &mut PgConnection,
    partition: u16,
    holder: &str,
    (now, until): (Timestamp, Timestamp),
) -> Result<Option<FencingToken>, sqlx::Error> {
    let token: Option<i64> = sqlx::query_scalar(
        "insert into outbox_partitions as p (partition, holder, token, until_ms, floor_seq)
         values ($1, $2, 1, $3, 0)
         on conflict (partition) do update
         set token = p.token + (p.holder is distinct from $2)::integer, holder = $2, until_ms = $3
         where p.holder is null or p.holder = $2 or p.until_ms <= $4
         returning token",
    )
    .bind(i64::from(partition))
    .bind(holder)
    .bind(until.as_millis())
    .bind(now.as_millis())
    .fetch_optional(conn)
    .await?;
    Ok(token.map(|token| FencingToken(token.cast_unsigned())))
}

/// The first rows of a partition above a `seq`, as far as this one and what was added since. A step's worth is found in
/// one look, where partitions get about as much.
async fn unsent_rows(
    conn: &mut PgConnection,
    partition: u16,
    (mut after, last): (u64, u64),
    max: usize,
) -> Result<Vec<Unsent>, StoreError> {
    let mut found = Vec::new();
    loop {
        let up_to = after + UNSENT_SPAN;
        let rows = sqlx::query(UNSENT)
            .bind(i64::from(partition))
            .bind(after.cast_signed())
            .bind(up_to.cast_signed())
            .bind(i64::try_from(max - found.len()).unwrap_or(i64::MAX))
            .fetch_all(&mut *conn)
            .await?;
        for row in &rows {
            found.push(unsent(row)?);
        }
        if max <= found.len() || last <= up_to {
            return Ok(found);
        }
        after = up_to;
    }
}

/// Whether the lease is still the partition's. Asked inside the transaction that depends on it, which
/// keeps it so until its end: nobody takes the partition over or gives out its offsets meanwhile.
async fn holds(
    conn: &mut PgConnection,
    lease: &Lease,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let row: Option<i64> = sqlx::query_scalar(
        "select token from outbox_partitions
         where partition = $1 and token = $2 and $3 < until_ms for update",
    )
    .bind(i64::from(lease.partition))
    .bind(lease.token.0.cast_signed())
    .bind(now.as_millis())
    .fetch_optional(conn)
    .await?;
    Ok(row.is_some())
}

/// Whether Kafka has put the rows into another topic than the one that was known when they were sent.
async fn is_elsewhere(conn: &mut PgConnection, batch: &Batch) -> Result<bool, sqlx::Error> {
    let Some(first) = batch.offsets.iter().min() else {
        return Ok(false); // the outbox is the log, or nothing was sent
    };
    let (partition, begins) = (batch.lease.partition, batch.begins);
    if topic_in_postgres::begins(conn, partition).await? != begins {
        return Ok(true);
    }
    topic_in_postgres::is_anew(conn, partition, (begins, *first)).await
}

async fn mark(conn: &mut PgConnection, batch: &Batch, now: Timestamp) -> Result<(), sqlx::Error> {
    let seqs: Vec<i64> = batch.send.iter().map(|row| row.seq.cast_signed()).collect();
    let places = batch.offsets.iter().map(|offset| batch.begins + offset);
    let offsets: Vec<i64> = places.map(u64::cast_signed).collect();
    sqlx::query(
        "insert into outbox_log (partition, \"offset\", seq, logged_at_ms)
         select $1, coalesce(s.at, n.next + s.n - 1), s.seq, $4
         from unnest($2::bigint[], $3::bigint[]) with ordinality as s (seq, at, n),
              (select coalesce(max(l.offset) + 1, 0) as next from outbox_log l where l.partition = $1) as n",
    )
    .bind(i64::from(batch.lease.partition))
    .bind(seqs)
    .bind(offsets)
    .bind(now.as_millis())
    .execute(conn)
    .await?;
    Ok(())
}

async fn quarantine(
    conn: &mut PgConnection,
    batch: &Batch,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    for (seq, reason) in &batch.quarantine {
        sqlx::query(
            "insert into outbox_quarantine (seq, reason, at_ms) values ($1, $2, $3)
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

async fn raise_floor(conn: &mut PgConnection, batch: &Batch) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update outbox_partitions set floor_seq = $2 where partition = $1 and floor_seq < $2",
    )
    .bind(i64::from(batch.lease.partition))
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
    conn: &mut PgConnection,
    partition: u16,
    before: Timestamp,
) -> Result<Ends, sqlx::Error> {
    // The last mark stays: it knows the next offset. No group at all: nobody has read anything.
    let (old, read): (i64, i64) = sqlx::query_as(
        "select coalesce((select max(\"offset\") from outbox_log
                          where partition = $1 and logged_at_ms < $2
                            and \"offset\" < (select max(\"offset\") from outbox_log where partition = $1)
                         ) + 1, 0),
                coalesce((select min(\"offset\") from log_groups where partition = $1), 0)",
    )
    .bind(i64::from(partition))
    .bind(before.as_millis())
    .fetch_one(conn)
    .await?;
    Ok(Ends { old, read })
}

/// Removes marks below an offset and their rows. Both are below the floor: the floor passes a mark
/// in the transaction that writes it, but for rows that still wait.
async fn remove(
    conn: &mut PgConnection,
    partition: u16,
    end: i64,
    max: i64,
) -> Result<u64, sqlx::Error> {
    let seqs: Vec<i64> = sqlx::query_scalar(
        "select l.seq from outbox_log l join outbox_partitions p on p.partition = l.partition
         where l.partition = $1 and l.offset < $2 and l.seq <= p.floor_seq
         order by l.offset limit $3",
    )
    .bind(i64::from(partition))
    .bind(end)
    .bind(max)
    .fetch_all(&mut *conn)
    .await?;
    for delete in [
        "delete from outbox_log where seq = any($1)",
        "delete from outbox where seq = any($1)",
    ] {
        sqlx::query(delete).bind(&seqs).execute(&mut *conn).await?;
    }
    let removed = i64::try_from(seqs.len()).unwrap_or(i64::MAX);
    sqlx::query("update outbox_partitions set cleaned = cleaned + $2 where partition = $1")
        .bind(i64::from(partition))
        .bind(removed)
        .execute(conn)
        .await?;
    Ok(removed.cast_unsigned())
}
