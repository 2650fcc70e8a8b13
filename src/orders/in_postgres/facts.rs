//! What decisions depend on, loaded for the unit of work that will carry them out.
//!
//! What one unit alone may end is locked by the statement that reads it: holds, orders, the free
//! seats that come into question. The rest is checked by the statement that writes.

use std::collections::BTreeMap;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::base::ids::{HoldId, OrderId, ShowId, TicketId};
use crate::base::time::Timestamp;
use crate::orders::in_postgres::Look;
use crate::orders::rows_in_sql::{self as rows, Columns};
use crate::orders::rules::hold::{NamedSeat, Offer, PlaceHold, Wish};
use crate::orders::rules::order::PlaceOrder;
use crate::orders::rules::{
    Hold, Order, Payment, PaymentId, Refusal, Status, Terms, cancel, hold, order, payment, seats,
};
use crate::orders::store::StoreError;

/// Free seats that are looked at first for neighbours. Only where there is no run among them are
/// all seats of the section loaded.
const FREE_LOOKS: i64 = 1_000;

/// Free seats that a buyer looks at for each one wanted, while others look at the next ones.
const LOOKS_PER_SEAT: i64 = 4;

/// What a hold depends on, or why there can be none; `None` where more has to be looked at.
pub(super) async fn for_hold(
    tx: &mut PgConnection,
    request: &PlaceHold,
    look: Look,
    now: Timestamp,
) -> Result<Option<Result<hold::Facts, Refusal>>, StoreError> {
    let buyer = &request.buyer;
    let row = sqlx::query(
        "select settings, cancelled_at_ms is not null as is_cancelled,
           array(select hold_id from holds
             where ticket_id = $2 and state = 'live' and expires_at_ms > $3
             order by hold_id) as live,
           array(select expires_at_ms from holds
             where ticket_id = $2 and state = 'live' and expires_at_ms > $3
             order by hold_id) as ends,
           exists (select from orders
             where ticket_id = $2 and status in ('pending', 'confirmed')) as ordered,
           exists (select from sections c where c.show = $1 and exists
             (select from seats s where s.show = c.show and s.section = c.section
                and s.state in ('free', 'held'))) as is_left
         from shows where show = $1",
    )
    .bind(buyer.show.as_str())
    .bind(buyer.ticket.to_string())
    .bind(now.as_millis())
    .fetch_optional(&mut *tx)
    .await?;
    let Some(row) = row else {
        return Ok(Some(Err(Refusal::NoSuchShow)));
    };
    let offer = match &request.wish {
        Wish::Best { section, quantity } => {
            section_offer(tx, &buyer.show, (section, *quantity), look).await?
        }
        Wish::Named(names) => Some(Offer::Seats(named_seats(tx, &buyer.show, names).await?)),
    };
    let Some(offer) = offer else {
        return Ok(None);
    };
    let (live, ends): (Vec<String>, Vec<i64>) = (row.try_get("live")?, row.try_get("ends")?);
    let live: Vec<(String, i64)> = live.into_iter().zip(ends).collect();
    Ok(Some(Ok(hold::Facts {
        terms: terms(&buyer.show, &row)?,
        live: rows::carts(&live)?,
        ordered: row.is("ordered")?,
        left: row.is("is_left")?,
        offer,
    })))
}

/// What an order depends on, or why there can be none.
pub(super) async fn for_order(
    conn: &mut PgConnection,
    request: &PlaceOrder,
) -> Result<Result<order::Facts, Refusal>, StoreError> {
    let buyer = &request.buyer;
    let row = sqlx::query(
        "select s.settings, s.cancelled_at_ms is not null as is_cancelled, h.*,
           (select order_id from orders where hold_id = $2) as placed,
           exists (select from orders
             where ticket_id = $3 and status in ('pending', 'confirmed')) as ordered
         from shows s left join holds h on h.hold_id = $2 where s.show = $1",
    )
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

/// What the cancellation of an order depends on; `None`: there is no such order. It is locked first.
pub(super) async fn for_cancel(
    tx: &mut PgConnection,
    id: OrderId,
) -> Result<Option<cancel::Facts>, StoreError> {
    let Some(order) = order_to_change(tx, id).await? else {
        return Ok(None);
    };
    let missing = || rows::corrupt(anyhow::anyhow!("order {id} lacks its show"));
    let payments = sqlx::query("select * from payments where order_id = $1 order by attempt")
        .bind(id.to_string())
        .fetch_all(&mut *tx)
        .await?;
    Ok(Some(cancel::Facts {
        terms: show_terms(tx, &order.show).await?.ok_or_else(missing)?,
        payments: payments
            .iter()
            .map(rows::payment)
            .collect::<Result<_, _>>()?,
        order,
    }))
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

fn terms(show: &ShowId, row: &PgRow) -> Result<Terms, StoreError> {
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

/// A section's free seats; `None` where what is looked at does not hold the wish.
async fn section_offer(
    tx: &mut PgConnection,
    show: &ShowId,
    (name, quantity): (&str, u32),
    look: Look,
) -> Result<Option<Offer>, StoreError> {
    let row = sqlx::query(
        "select c.*, exists (select from seats s
           where s.show = c.show and s.section = c.section and s.state = 'held') as in_carts
         from sections c where c.show = $1 and c.section = $2",
    )
    .bind(show.as_str())
    .bind(name)
    .fetch_optional(&mut *tx)
    .await?;
    let Some(row) = row else {
        return Ok(Some(Offer::Nothing));
    };
    let section = rows::section(&row)?;
    let wanted = quantity as usize;
    let free = match (look, section.numbered) {
        (Look::Few, is_numbered) => {
            let looks = match (quantity, is_numbered) {
                (1, _) | (_, false) => 1,
                (_, true) => LOOKS_PER_SEAT,
            };
            let free = next_seats(tx, show, name, looks * i64::from(quantity)).await?;
            let found = match is_numbered {
                true => seats::run(&free, wanted).is_some(),
                false => wanted <= free.len(),
            };
            if !found {
                return Ok(None);
            }
            free
        }
        (Look::All, false) => free_seats(tx, show, name, i64::from(quantity)).await?,
        (Look::All, true) => {
            let first = free_seats(tx, show, name, FREE_LOOKS).await?;
            match seats::run(&first, wanted) {
                Some(_) => first,
                None => free_seats(tx, show, name, i64::MAX).await?,
            }
        }
    };
    Ok(Some(Offer::Section {
        section,
        free,
        in_carts: row.is("in_carts")?,
    }))
}

/// Ordinals of free seats that nobody else looks at, ascending, at most `max`: they are locked.
async fn next_seats(
    tx: &mut PgConnection,
    show: &ShowId,
    section: &str,
    max: i64,
) -> Result<Vec<u32>, StoreError> {
    let found = sqlx::query_scalar(
        "select ordinal from seats where show = $1 and section = $2 and state = 'free'
         order by ordinal limit $3 for update skip locked",
    )
    .bind(show.as_str())
    .bind(section)
    .bind(max)
    .fetch_all(tx)
    .await?;
    ordinals(&found)
}

/// Ordinals of free seats, ascending, at most `max`.
async fn free_seats(
    tx: &mut PgConnection,
    show: &ShowId,
    section: &str,
    max: i64,
) -> Result<Vec<u32>, StoreError> {
    let found = sqlx::query_scalar(
        "select ordinal from seats where show = $1 and section = $2 and state = 'free'
         order by ordinal limit $3",
    )
    .bind(show.as_str())
    .bind(section)
    .bind(max)
    .fetch_all(tx)
    .await?;
    ordinals(&found)
}

fn ordinals(found: &[i64]) -> Result<Vec<u32>, StoreError> {
    let ordinal = |ordinal: &i64| u32::try_from(*ordinal).map_err(rows::corrupt);
    found.iter().map(ordinal).collect()
}

async fn named_seats(
    tx: &mut PgConnection,
    show: &ShowId,
    names: &[String],
) -> Result<BTreeMap<String, NamedSeat>, StoreError> {
    let found = sqlx::query(
        "select s.seat, s.state, c.* from seats s
         join sections c on c.show = s.show and c.section = s.section
         where s.show = $1 and s.seat = any($2)",
    )
    .bind(show.as_str())
    .bind(names)
    .fetch_all(tx)
    .await?;
    let named = |row: &PgRow| {
        let state = row.text("state")?;
        let seat = NamedSeat {
            section: rows::section(row)?,
            is_free: state == "free",
            is_held: state == "held",
        };
        Ok((row.text("seat")?, seat))
    };
    found.iter().map(named).collect()
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
