//! What is known of orders, in PostgreSQL.

use async_trait::async_trait;
use sqlx::PgConnection;

use crate::base::ids::{HoldId, OrderId};
use crate::base::time::Timestamp;
use crate::driver::postgres::Postgres;
use crate::journey::facts::{
    DeadLetterFacts, EventFacts, Facts, GroupFacts, HoldFacts, RetryFacts,
};
use crate::journey::in_sql;
use crate::journey::store::{Store, StoreError};
use crate::notify::compose;
use crate::stock::count;

/// The facts of one database.
#[derive(Debug, Clone)]
pub struct InPostgres {
    db: Postgres,
}

impl InPostgres {
    /// The facts of an open database.
    pub fn new(db: Postgres) -> Self {
        Self { db }
    }
}

#[async_trait]
impl Store for InPostgres {
    async fn facts(&self, order: OrderId) -> Result<Option<Facts>, StoreError> {
        // One snapshot: stages of different moments would contradict each other.
        let mut tx = self.db.snapshot().await?;
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
             where h.hold_id = $1",
        )
        .bind(hold.to_string())
        .fetch_optional(&mut *self.db.connection().await?)
        .await?;
        Ok(row.map(|row| in_sql::hold(&row, hold)).transpose()?)
    }
}

async fn order_row(conn: &mut PgConnection, order: OrderId) -> Result<Option<Facts>, sqlx::Error> {
    let row = sqlx::query(
        "select *, (select count(*) from payments p where p.order_id = o.order_id) as payments,
                (select count(*) from payments p
                  where p.order_id = o.order_id and p.state = 'refunding') as owed,
                (select p.state from payments p where p.order_id = o.order_id
                  order by p.attempt desc limit 1) as payment,
                (select p.at_ms from payments p where p.order_id = o.order_id
                  order by p.attempt desc limit 1) as payment_at_ms
         from orders o where order_id = $1",
    )
    .bind(order.to_string())
    .fetch_optional(conn)
    .await?;
    row.map(|row| in_sql::order(&row, order)).transpose()
}

async fn events(conn: &mut PgConnection, order: OrderId) -> Result<Vec<EventFacts>, sqlx::Error> {
    let rows = sqlx::query(
        "select o.id, o.type, o.aggregate_version, o.traceparent, o.occurred_at_ms, o.partition,
                l.offset, l.logged_at_ms, q.reason, q.at_ms, n.receipt, n.sent_at_ms,
                p.holder, p.until_ms
         from outbox o
         left join outbox_log l on l.seq = o.seq
         left join outbox_quarantine q on q.seq = o.seq
         left join outbox_partitions p on p.partition = o.partition
         left join notices n on n.event_id = o.id
         where o.aggregatetype = 'order' and o.aggregateid = $1
         order by o.aggregate_version",
    )
    .bind(order.to_string())
    .fetch_all(conn)
    .await?;
    rows.iter().map(in_sql::event).collect()
}

/// The groups that have ever read, and those that should have.
async fn groups(conn: &mut PgConnection) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar("select consumer from log_groups union select $1 union select $2 order by 1")
        .bind(compose::GROUP)
        .bind(count::GROUP)
        .fetch_all(conn)
        .await
}

async fn done(
    conn: &mut PgConnection,
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
    conn: &mut PgConnection,
    event: &EventFacts,
    group: &str,
) -> Result<Option<((u64, Timestamp), Timestamp)>, sqlx::Error> {
    let row = sqlx::query("select * from log_groups where consumer = $1 and partition = $2")
        .bind(group)
        .bind(i64::from(event.partition))
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(in_sql::standing).transpose()
}

async fn handled_at(
    conn: &mut PgConnection,
    event: &EventFacts,
    group: &str,
) -> Result<Option<Timestamp>, sqlx::Error> {
    let at: Option<i64> = sqlx::query_scalar(
        "select at_ms from processed_events where consumer = $1 and event_id = $2",
    )
    .bind(group)
    .bind(&event.id)
    .fetch_optional(conn)
    .await?;
    Ok(at.map(Timestamp::from_unix_ms))
}

async fn dead_letter(
    conn: &mut PgConnection,
    event: &EventFacts,
    group: &str,
) -> Result<Option<DeadLetterFacts>, sqlx::Error> {
    let row = sqlx::query(
        "select * from dead_letters
         where consumer = $1 and event_id = $2 and replayed_at_ms is null",
    )
    .bind(group)
    .bind(&event.id)
    .fetch_optional(conn)
    .await?;
    row.as_ref().map(in_sql::dead_letter).transpose()
}

async fn retry(
    conn: &mut PgConnection,
    event: &EventFacts,
    group: &str,
) -> Result<Option<RetryFacts>, sqlx::Error> {
    let row = sqlx::query("select * from delivery_retries where consumer = $1 and partition = $2")
        .bind(group)
        .bind(i64::from(event.partition))
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(in_sql::retry).transpose()
}
