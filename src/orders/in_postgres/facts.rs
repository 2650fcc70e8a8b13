//! What decisions depend on, loaded for the unit of work that will carry them out.
//!
//! What one unit alone may end is locked by the statement that reads it: holds and orders. The rest is
//! checked by the statement that writes. `seats.rs` loads what a new hold depends on.

use sqlx::PgConnection;
use sqlx::postgres::PgRow;

use crate::base::ids::{HoldId, OrderId, ShowId, TicketId};
use crate::base::time::Timestamp;
use crate::orders::rows_in_sql::{self as rows, Columns};
use crate::orders::rules::order::PlaceOrder;
use crate::orders::rules::{
    Hold, Order, Payment, PaymentId, Refusal, Status, Terms, order, payment,
};
use crate::orders::store::StoreError;

const ORDER_FACTS: &str = include_str!("sql/order_facts.sql");

/// What an order depends on, or why there can be none.
pub(super) async fn for_order(
    conn: &mut PgConnection,
    request: &PlaceOrder,
) -> Result<Result<order::Facts, Refusal>, StoreError> {
    let buyer = &request.buyer;
    let row = sqlx::query(ORDER_FACTS)
        .bind(buyer.show.as_str())
        .bind(request.hold.to_string())
        .bind(buyer.ticket.to_string())
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else {
        return Ok(Err(Refusal::NoSuchShow));
    };
    let hold = match row.text_or_none("hold_id")? {
        Some(_) => Some(rows::hold(&row)?),
        None => None,
    };
    Ok(Ok(order::Facts {
        terms: terms(&buyer.show, &row)?,
        hold,
        order: match row.text_or_none("placed")? {
            Some(id) => order(conn, id.parse().map_err(rows::corrupt)?).await?,
            None => None,
        },
        ordered: row.is("ordered")?,
    }))
}

/// What the consequences of a payment depend on. Its order is locked first.
pub(super) async fn for_payment(
    tx: &mut PgConnection,
    id: PaymentId,
) -> Result<payment::Facts, StoreError> {
    let missing = || rows::corrupt(anyhow::anyhow!("{id:?} lacks its rows"));
    let order = order_to_change(tx, id.order).await?.ok_or_else(missing)?;
    let row = sqlx::query(
        "select p.*, s.settings, s.cancelled_at_ms is not null as is_cancelled
         from payments p, shows s
         where p.order_id = $1 and p.attempt = $2 and s.show = $3",
    )
    .bind(id.order.to_string())
    .bind(i64::from(id.attempt))
    .bind(order.show.as_str())
    .fetch_optional(&mut *tx)
    .await?
    .ok_or_else(missing)?;
    let terms = terms(&order.show, &row)?;
    let retakable = match order.status {
        Status::Declined => {
            !terms.is_cancelled && !ordered(tx, order.ticket).await? && all_free(tx, &order).await?
        }
        Status::Pending | Status::Confirmed | Status::Cancelled | Status::Refunded => false,
    };
    Ok(payment::Facts {
        terms,
        payment: rows::payment(&row)?,
        order,
        retakable,
    })
}

pub(super) async fn show_terms(
    tx: &mut PgConnection,
    show: &ShowId,
) -> Result<Option<Terms>, StoreError> {
    let row = sqlx::query(
        "select settings, cancelled_at_ms is not null as is_cancelled from shows where show = $1",
    )
    .bind(show.as_str())
    .fetch_optional(tx)
    .await?;
    row.map(|row| terms(show, &row)).transpose()
}

pub(super) fn terms(show: &ShowId, row: &PgRow) -> Result<Terms, StoreError> {
    rows::terms(show, &row.text("settings")?, row.is("is_cancelled")?)
}

/// Whether the ticket has an order that counts.
async fn ordered(tx: &mut PgConnection, ticket: TicketId) -> Result<bool, StoreError> {
    Ok(sqlx::query_scalar(
        "select exists (select from orders
           where ticket_id = $1 and status in ('pending', 'confirmed'))",
    )
    .bind(ticket.to_string())
    .fetch_one(tx)
    .await?)
}

async fn all_free(tx: &mut PgConnection, order: &Order) -> Result<bool, StoreError> {
    let free: i64 = sqlx::query_scalar(
        "select count(*) from seats where show = $1 and seat = any($2) and state = 'free'",
    )
    .bind(order.show.as_str())
    .bind(&order.seats)
    .fetch_one(tx)
    .await?;
    Ok(usize::try_from(free) == Ok(order.seats.len()))
}

/// A hold that this unit of work may end: nobody else does meanwhile.
pub(super) async fn hold(tx: &mut PgConnection, id: HoldId) -> Result<Option<Hold>, StoreError> {
    let row = sqlx::query("select * from holds where hold_id = $1 for update")
        .bind(id.to_string())
        .fetch_optional(tx)
        .await?;
    row.as_ref().map(rows::hold).transpose()
}

pub(super) async fn order(
    conn: &mut PgConnection,
    id: OrderId,
) -> Result<Option<Order>, StoreError> {
    let row = sqlx::query("select * from orders where order_id = $1")
        .bind(id.to_string())
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(rows::order).transpose()
}

/// An order that this unit of work may change, with its payments: nobody else does meanwhile.
pub(super) async fn order_to_change(
    tx: &mut PgConnection,
    id: OrderId,
) -> Result<Option<Order>, StoreError> {
    let row = sqlx::query("select * from orders where order_id = $1 for update")
        .bind(id.to_string())
        .fetch_optional(tx)
        .await?;
    row.as_ref().map(rows::order).transpose()
}

pub(super) async fn last_payment(
    tx: &mut PgConnection,
    order: OrderId,
) -> Result<Option<Payment>, StoreError> {
    let row =
        sqlx::query("select * from payments where order_id = $1 order by attempt desc limit 1")
            .bind(order.to_string())
            .fetch_optional(tx)
            .await?;
    row.as_ref().map(rows::payment).transpose()
}

/// Live holds whose time is over, oldest first, but for those that another unit has in hand.
pub(super) async fn lapsed_holds(
    tx: &mut PgConnection,
    now: Timestamp,
    max: u32,
) -> Result<Vec<Hold>, StoreError> {
    let found = sqlx::query(
        "select * from holds where state = 'live' and expires_at_ms <= $1
         order by expires_at_ms limit $2 for update skip locked",
    )
    .bind(now.as_millis())
    .bind(i64::from(max))
    .fetch_all(tx)
    .await?;
    found.iter().map(rows::hold).collect()
}

/// The last attempts of pending orders whose time is over, oldest first: but for those that another
/// unit has in hand, and those in doubt since after `doubted_since`, so that they do not keep others
/// out of the batch.
pub(super) async fn lapsed_orders(
    tx: &mut PgConnection,
    now: Timestamp,
    doubted_since: Timestamp,
    max: u32,
) -> Result<Vec<PaymentId>, StoreError> {
    let locked: Vec<String> = sqlx::query_scalar(
        "select order_id from orders o where status = 'pending' and payable_until_ms <= $1
           and (payable_until_ms <= $2 or not exists
             (select from payments p where p.order_id = o.order_id and p.state = 'asked'))
         order by payable_until_ms limit $3 for update skip locked",
    )
    .bind(now.as_millis())
    .bind(doubted_since.as_millis())
    .bind(i64::from(max))
    .fetch_all(&mut *tx)
    .await?;
    // Asked only now that nobody can begin another.
    let found = sqlx::query(
        "select order_id, max(attempt) as attempt from payments
         where order_id = any($1) group by order_id",
    )
    .bind(&locked)
    .fetch_all(tx)
    .await?;
    found.iter().map(rows::payment_id).collect()
}
