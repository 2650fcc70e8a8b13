//! What was sold, and who came, in PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;

use crate::analytics::store::{Joined, Minute, Sale, Store};
use crate::analytics::window::{Arrival, FIVE_MINUTES, MINUTE};
use crate::analytics::{GROUP, in_sql};
use crate::base::ids::ShowId;
use crate::base::limits::{JOINS_PAGE_MAX, JOINS_SHOWN_MAX, SALES_PAGE_MAX};
use crate::base::time::{Clock, Timestamp};
use crate::driver::postgres::Postgres;
use crate::event::JoinsCounted;
use crate::log::inbox::{Rewound, Run};
use crate::log::inbox_in_postgres::{begin_again, pass, remember};
use crate::log::{Delivery, LogError};

/// What was sold, of one database.
#[derive(Debug, Clone)]
pub struct InPostgres {
    db: Postgres,
    clock: Arc<dyn Clock>,
}

impl InPostgres {
    /// The sales of an open database.
    pub fn new(db: Postgres, clock: Arc<dyn Clock>) -> Self {
        Self { db, clock }
    }
}

#[async_trait]
impl Store for InPostgres {
    async fn count(&self, delivery: &Delivery, sale: &Sale) -> Result<Option<Arrival>, LogError> {
        let given = (self.clock.now(), delivery.clone(), sale.clone());
        self.db
            .unit_with(given, |mut tx, (now, delivery, sale)| async move {
                let mut arrived = None;
                if remember(&mut tx, GROUP, &delivery, now).await? {
                    let newest = pass_newest_sale(&mut tx, delivery.partition, sale.at).await?;
                    let arrival = MINUTE.arrival(sale.at, newest);
                    add(&mut tx, &sale, arrival).await?;
                    arrived = Some(arrival);
                }
                let at = (delivery.partition, delivery.offset);
                pass(&mut tx, GROUP, at, now).await?;
                tx.commit().await?;
                Ok(arrived)
            })
            .await
    }

    async fn minutes(&self, show: &ShowId, after: Timestamp) -> Result<Vec<Minute>, LogError> {
        let rows = sqlx::query(
            "select * from sales where show = $1 and $2 < minute_ms
             order by minute_ms, kind, currency limit $3",
        )
        .bind(show.as_str())
        .bind(after.as_millis())
        .bind(i64::try_from(SALES_PAGE_MAX).unwrap_or(i64::MAX))
        .fetch_all(&mut *self.db.connection().await?)
        .await?;
        rows.iter().map(in_sql::minute).collect()
    }

    async fn count_joins(
        &self,
        delivery: &Delivery,
        counted: &JoinsCounted,
    ) -> Result<Option<Arrival>, LogError> {
        let given = (self.clock.now(), delivery.clone(), counted.clone());
        self.db
            .unit_with(given, |mut tx, (now, delivery, counted)| async move {
                let mut arrived = None;
                if remember(&mut tx, GROUP, &delivery, now).await? {
                    let (partition, minute) = (delivery.partition, counted.minute);
                    let newest = pass_newest_join(&mut tx, partition, minute).await?;
                    let arrival = FIVE_MINUTES.arrival(minute, newest);
                    add_joins(&mut tx, &counted, arrival).await?;
                    arrived = Some(arrival);
                }
                let at = (delivery.partition, delivery.offset);
                pass(&mut tx, GROUP, at, now).await?;
                tx.commit().await?;
                Ok(arrived)
            })
            .await
    }

    async fn joins(&self, show: &ShowId, after: Timestamp) -> Result<Vec<Joined>, LogError> {
        let rows = sqlx::query(
            "select w.window_ms, w.network, w.joins, w.late_joins, w.all_in_time, w.all_late
             from (select j.*,
                          cast(sum(joins) over (partition by window_ms) as bigint) as all_in_time,
                          cast(sum(late_joins) over (partition by window_ms) as bigint) as all_late,
                          row_number() over (partition by window_ms
                                             order by network = '', joins + late_joins desc, network) as place,
                          dense_rank() over (order by window_ms) as nth
                   from joins_by_network j where show = $1 and $2 < window_ms) w
             where place <= $3 and nth <= $4 order by window_ms, place",
        )
        .bind(show.as_str())
        .bind(after.as_millis())
        .bind(i64::try_from(JOINS_SHOWN_MAX).unwrap_or(i64::MAX))
        .bind(i64::try_from(JOINS_PAGE_MAX).unwrap_or(i64::MAX))
        .fetch_all(&mut *self.db.connection().await?)
        .await?;
        in_sql::windows(&rows)
    }

    async fn begin_again(&self, run: Run) -> Result<Rewound, LogError> {
        self.db
            .unit_with(self.clock.now(), move |mut tx, now| async move {
                let rewound = empty(&mut tx, now).await?;
                match run {
                    Run::Real => tx.commit().await?,
                    Run::Dry => tx.rollback().await?,
                }
                Ok(rewound)
            })
            .await
    }
}

/// How far the partition is in event time of sales, before this event and after it.
async fn pass_newest_sale(
    conn: &mut PgConnection,
    partition: u16,
    at: Timestamp,
) -> Result<Option<Timestamp>, sqlx::Error> {
    let newest: Option<i64> =
        sqlx::query_scalar("select newest_ms from sales_newest where partition = $1")
            .bind(i64::from(partition))
            .fetch_optional(&mut *conn)
            .await?;
    sqlx::query(
        "insert into sales_newest as n (partition, newest_ms) values ($1, $2)
         on conflict (partition) do update set newest_ms = excluded.newest_ms
         where n.newest_ms < excluded.newest_ms",
    )
    .bind(i64::from(partition))
    .bind(at.as_millis())
    .execute(conn)
    .await?;
    Ok(newest.map(Timestamp::from_unix_ms))
}

/// How far the partition is in event time of joins, before this event and after it.
async fn pass_newest_join(
    conn: &mut PgConnection,
    partition: u16,
    at: Timestamp,
) -> Result<Option<Timestamp>, sqlx::Error> {
    let newest: Option<i64> =
        sqlx::query_scalar("select newest_ms from joins_newest where partition = $1")
            .bind(i64::from(partition))
            .fetch_optional(&mut *conn)
            .await?;
    sqlx::query(
        "insert into joins_newest as n (partition, newest_ms) values ($1, $2)
         on conflict (partition) do update set newest_ms = excluded.newest_ms
         where n.newest_ms < excluded.newest_ms",
    )
    .bind(i64::from(partition))
    .bind(at.as_millis())
    .execute(conn)
    .await?;
    Ok(newest.map(Timestamp::from_unix_ms))
}

async fn add(conn: &mut PgConnection, sale: &Sale, arrival: Arrival) -> Result<(), sqlx::Error> {
    let now = (1_i64, sale.seats.cast_signed(), sale.total.minor);
    let (in_time, late) = arrival.split(now);
    sqlx::query(
        "insert into sales as s (show, minute_ms, kind, currency, orders, seats, minor,
                                 late_orders, late_seats, late_minor)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         on conflict (show, minute_ms, kind, currency) do update
         set orders = s.orders + excluded.orders, seats = s.seats + excluded.seats,
             minor = s.minor + excluded.minor,
             late_orders = s.late_orders + excluded.late_orders,
             late_seats = s.late_seats + excluded.late_seats,
             late_minor = s.late_minor + excluded.late_minor",
    )
    .bind(sale.show.as_str())
    .bind(MINUTE.begin(sale.at).as_millis())
    .bind(sale.kind.word())
    .bind(sale.total.currency.code())
    .bind(in_time.0)
    .bind(in_time.1)
    .bind(in_time.2)
    .bind(late.0)
    .bind(late.1)
    .bind(late.2)
    .execute(conn)
    .await?;
    Ok(())
}

async fn add_joins(
    conn: &mut PgConnection,
    counted: &JoinsCounted,
    arrival: Arrival,
) -> Result<(), sqlx::Error> {
    for (network, joins) in in_sql::by_network(counted) {
        let (in_time, late) = arrival.split(joins.cast_signed());
        sqlx::query(
            "insert into joins_by_network as j (show, window_ms, network, joins, late_joins)
             values ($1, $2, $3, $4, $5)
             on conflict (show, window_ms, network) do update
             set joins = j.joins + excluded.joins, late_joins = j.late_joins + excluded.late_joins",
        )
        .bind(counted.show_id.as_str())
        .bind(FIVE_MINUTES.begin(counted.minute).as_millis())
        .bind(network)
        .bind(in_time)
        .bind(late)
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

async fn empty(conn: &mut PgConnection, now: Timestamp) -> Result<Rewound, sqlx::Error> {
    let rewound = begin_again(conn, GROUP, now).await?;
    if let Rewound::From(_) = &rewound {
        for delete in [
            "delete from sales",
            "delete from sales_newest",
            "delete from joins_by_network",
            "delete from joins_newest",
        ] {
            sqlx::query(delete).execute(&mut *conn).await?;
        }
    }
    Ok(rewound)
}
