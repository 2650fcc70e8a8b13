//! What was sold, in PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;

use crate::analytics::store::{Minute, Sale, Store};
use crate::analytics::window::{Arrival, arrival, minute_of};
use crate::analytics::{GROUP, in_sql};
use crate::base::ids::ShowId;
use crate::base::limits::SALES_PAGE_MAX;
use crate::base::time::{Clock, Timestamp};
use crate::driver::postgres::Postgres;
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
                    let newest = pass_newest(&mut tx, delivery.partition, sale.at).await?;
                    let arrival = arrival(sale.at, newest);
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

/// How far the partition is in event time, before this event and after it.
async fn pass_newest(
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

async fn add(conn: &mut PgConnection, sale: &Sale, arrival: Arrival) -> Result<(), sqlx::Error> {
    let now = (1_i64, sale.seats.cast_signed(), sale.total.minor);
    let (in_time, late) = match arrival {
        Arrival::InTime => (now, (0, 0, 0)),
        Arrival::Late => ((0, 0, 0), now),
    };
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
    .bind(minute_of(sale.at).as_millis())
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

async fn empty(conn: &mut PgConnection, now: Timestamp) -> Result<Rewound, sqlx::Error> {
    let rewound = begin_again(conn, GROUP, now).await?;
    if let Rewound::From(_) = &rewound {
        sqlx::query("delete from sales").execute(&mut *conn).await?;
        sqlx::query("delete from sales_newest")
            .execute(conn)
            .await?;
    }
    Ok(rewound)
}
