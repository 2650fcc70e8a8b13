//! What is known of orders, in SQLite.

use async_trait::async_trait;
use sqlx::SqliteConnection;

use crate::base::ids::{HoldId, OrderId};
use crate::base::time::Timestamp;
use crate::driver::sqlite::Sqlite;
use crate::journey::facts::{
    DeadLetterFacts, EventFacts, Facts, GroupFacts, HoldFacts, RetryFacts,
};
use crate::journey::in_sql;
use crate::journey::store::{Store, StoreError};
use crate::notify::compose;
use crate::stock::count;

/// The facts of one database file.
#[derive(Debug, Clone)]
pub struct InSqlite {
    db: Sqlite,
}

impl InSqlite {
    /// The facts of an open database.
    pub fn new(db: Sqlite) -> Self {
        Self { db }
    }
}

#[async_trait]
impl Store for InSqlite {
    async fn facts(&self, order: OrderId) -> Result<Option<Facts>, StoreError> {
        // One snapshot: stages of different moments would contradict each other.
        let mut tx = self.db.read.begin().await?;
        let Some(mut facts) = order_row(&mut tx, order).await? else {
            return Ok(None);
        };
        facts.events = events(&mut tx, order).await?;
        for event in &mut facts.events {
            for group in groups(&mut tx).await? {
                event.groups.push(done(&mut tx, event, group).await?);
            }
        }
        tx.rollback().await?;
        Ok(Some(facts))
    }

    async fn hold(&self, hold: HoldId) -> Result<Option<HoldFacts>, StoreError> {
        let row = sqlx::query(
            "select h.*, o.order_id from holds h left join orders o on o.hold_id = h.hold_id
             where h.hold_id = ?",
        )
        .bind(hold.to_string())
        .fetch_optional(&self.db.read)
        .await?;
        Ok(row.map(|row| in_sql::hold(&row, hold)).transpose()?)
    }
}

async fn order_row(
    conn: &mut SqliteConnection,
    order: OrderId,
) -> Result<Option<Facts>, sqlx::Error> {
    let row = sqlx::query(
        "select *, (select count(*) from payments p where p.order_id = o.order_id) as payments,
                (select count(*) from payments p
                  where p.order_id = o.order_id and p.state = 'refunding') as owed,
                (select p.state from payments p where p.order_id = o.order_id
                  order by p.attempt desc limit 1) as payment,
                (select p.at_ms from payments p where p.order_id = o.order_id
                  order by p.attempt desc limit 1) as payment_at_ms
         from orders o where order_id = ?",
    )
    .bind(order.to_string())
    .fetch_optional(conn)
    .await?;
    row.map(|row| in_sql::order(&row, order)).transpose()
}

async fn events(
    conn: &mut SqliteConnection,
    order: OrderId,
) -> Result<Vec<EventFacts>, sqlx::Error> {
    let rows = sqlx::query(
        "select o.id, o.type, o.aggregate_version, o.traceparent, o.occurred_at_ms, o.partition,
                l.offset, l.logged_at_ms, q.reason, q.at_ms, n.receipt, n.sent_at_ms,
                p.holder, p.until_ms
         from outbox o
         left join outbox_log l on l.seq = o.seq
         left join outbox_quarantine q on q.seq = o.seq
         left join outbox_partitions p on p.partition = o.partition
         left join notices n on n.event_id = o.id
         where o.aggregatetype = 'order' and o.aggregateid = ?
         order by o.aggregate_version",
    )
    .bind(order.to_string())
    .fetch_all(conn)
    .await?;
    rows.iter().map(in_sql::event).collect()
}

/// The groups that have ever read, and those that should have.
async fn groups(conn: &mut SqliteConnection) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar("select consumer from log_groups union select ? union select ? order by 1")
        .bind(compose::GROUP)
        .bind(count::GROUP)
        .fetch_all(conn)
        .await
}

async fn done(
    conn: &mut SqliteConnection,
    event: &EventFacts,
    group: String,
) -> Result<GroupFacts, sqlx::Error> {
    let (next, seen_at) = standing(conn, event, &group).await?.unzip();
    Ok(GroupFacts {
        next,
        seen_at,
        handled_at: handled_at(conn, event, &group).await?,
        dead_letter: dead_letter(conn, event, &group).await?,
        retry: retry(conn, event, &group).await?,
        group,
    })
}

async fn standing(
    conn: &mut SqliteConnection,
    event: &EventFacts,
    group: &str,
) -> Result<Option<((u64, Timestamp), Timestamp)>, sqlx::Error> {
    let row = sqlx::query("select * from log_groups where consumer = ? and partition = ?")
        .bind(group)
        .bind(event.partition)
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(in_sql::standing).transpose()
}

async fn handled_at(
    conn: &mut SqliteConnection,
    event: &EventFacts,
    group: &str,
) -> Result<Option<Timestamp>, sqlx::Error> {
    let at: Option<i64> = sqlx::query_scalar(
        "select at_ms from processed_events where consumer = ? and event_id = ?",
    )
    .bind(group)
    .bind(&event.id)
    .fetch_optional(conn)
    .await?;
    Ok(at.map(Timestamp::from_unix_ms))
}

async fn dead_letter(
    conn: &mut SqliteConnection,
    event: &EventFacts,
    group: &str,
) -> Result<Option<DeadLetterFacts>, sqlx::Error> {
    let row = sqlx::query(
        "select * from dead_letters
         where consumer = ? and event_id = ? and replayed_at_ms is null",
    )
    .bind(group)
    .bind(&event.id)
    .fetch_optional(conn)
    .await?;
    row.as_ref().map(in_sql::dead_letter).transpose()
}

async fn retry(
    conn: &mut SqliteConnection,
    event: &EventFacts,
    group: &str,
) -> Result<Option<RetryFacts>, sqlx::Error> {
    let row = sqlx::query("select * from delivery_retries where consumer = ? and partition = ?")
        .bind(group)
        .bind(event.partition)
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(in_sql::retry).transpose()
}
