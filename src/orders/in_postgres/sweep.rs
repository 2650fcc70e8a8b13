//! A cancelled show on PostgreSQL: who still has seats, and how far everybody's money is.

use sqlx::{PgConnection, PgPool};

use crate::base::ids::{HoldId, OrderId, ShowId};
use crate::base::time::Timestamp;
use crate::orders::in_postgres::facts;
use crate::orders::rows_in_sql as rows;
use crate::orders::rules::{HoldState, Write, cancel, hold_end};
use crate::orders::store::{Cancellation, StoreError, Swept};

/// What the cancellation of an order depends on; `None`: there is no such order. It is locked first.
pub(super) async fn for_cancel(
    tx: &mut PgConnection,
    id: OrderId,
) -> Result<Option<cancel::Facts>, StoreError> {
    let Some(order) = facts::order_to_change(tx, id).await? else {
        return Ok(None);
    };
    let missing = || rows::corrupt(anyhow::anyhow!("order {id} lacks its show"));
    let payments = sqlx::query("select * from payments where order_id = $1 order by attempt")
        .bind(id.to_string())
        .fetch_all(&mut *tx)
        .await?;
    Ok(Some(cancel::Facts {
        terms: facts::show_terms(tx, &order.show)
            .await?
            .ok_or_else(missing)?,
        payments: payments
            .iter()
            .map(rows::payment)
            .collect::<Result<_, _>>()?,
        order,
    }))
}

/// What takes back the holds and orders that have seats of a show, at most `max` of them.
pub(super) async fn sweep(
    tx: &mut PgConnection,
    show: &ShowId,
    now: Timestamp,
    max: u32,
) -> Result<(Swept, Vec<Write>), StoreError> {
    let (mut swept, mut writes) = (Swept::default(), Vec::new());
    for id in takers(tx, show, max).await? {
        let missing = || rows::corrupt(anyhow::anyhow!("hold {id} has seats and no row"));
        let hold = facts::hold(tx, id).await?.ok_or_else(missing)?;
        match hold.state {
            HoldState::Live => {
                swept.holds += 1;
                writes.extend(hold_end::cancel(&hold).writes);
            }
            HoldState::Ordered => {
                let order = order_of(tx, id).await?.ok_or_else(missing)?;
                let facts = for_cancel(tx, order).await?.ok_or_else(missing)?;
                // An order that is over has no seats.
                if let Ok(decision) = cancel::cancel(&facts, now) {
                    swept.orders += 1;
                    writes.extend(decision.writes);
                }
            }
            // It ended meanwhile.
            HoldState::Expired | HoldState::Released => {}
        }
    }
    Ok((swept, writes))
}

/// The holds that have seats of a show. Found by the seats: each of them has at least one, and the
/// index by state is there anyway.
async fn takers(tx: &mut PgConnection, show: &ShowId, max: u32) -> Result<Vec<HoldId>, StoreError> {
    let found: Vec<String> = sqlx::query_scalar(
        "select distinct s.hold_id from sections c
         join seats s on s.show = c.show and s.section = c.section and s.state in ('held', 'sold')
         where c.show = $1 order by s.hold_id limit $2",
    )
    .bind(show.as_str())
    .bind(i64::from(max))
    .fetch_all(tx)
    .await?;
    let parse = |id: &String| id.parse().map_err(rows::corrupt);
    found.iter().map(parse).collect()
}

async fn order_of(tx: &mut PgConnection, hold: HoldId) -> Result<Option<OrderId>, StoreError> {
    let id: Option<String> = sqlx::query_scalar("select order_id from orders where hold_id = $1")
        .bind(hold.to_string())
        .fetch_optional(tx)
        .await?;
    id.map(|id| id.parse().map_err(rows::corrupt)).transpose()
}

/// How far the cancellation of a show has come: one snapshot.
pub(super) async fn progress(read: &PgPool, show: &ShowId) -> Result<Cancellation, StoreError> {
    let row = sqlx::query(
        "select
           count(*) filter (where s.state = 'free') as free,
           count(*) filter (where s.state = 'held') as held,
           count(*) filter (where s.state = 'sold') as sold,
           (select count(*) from orders where show = $1 and status = 'cancelled') as cancelled,
           (select count(*) from orders where show = $1 and status = 'refunded') as refunded,
           (select count(*) from payments p join orders o on o.order_id = p.order_id
             where o.show = $1 and p.state in ('asked', 'refunding')) as payments_open
         from sections c join seats s on s.show = c.show and s.section = c.section where c.show = $1",
    )
    .bind(show.as_str())
    .fetch_one(read)
    .await?;
    rows::cancellation(&row)
}
