//! What decisions depend on, loaded for the unit of work that will carry them out.
//!
//! What one unit alone may end is locked by the statement that reads it: holds, orders, the free
//! seats that come into question. The rest is checked by the statement that writes.

use std::collections::BTreeMap;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::base::ids::{HoldId, OrderId, ShowId, TicketId};
use crate::base::time::Timestamp;
use crate::orders::in_postgres::stock;
use crate::orders::rows_in_sql::{self as rows, Columns};
use crate::orders::rules::hold::{NamedSeat, Offer, PlaceHold, Wish};
use crate::orders::rules::order::PlaceOrder;
use crate::orders::rules::{
    Buyer, Hold, Order, Payment, PaymentId, Refusal, Status, hold, order, payment, seats,
};
use crate::orders::store::StoreError;

const BEST_FACTS: &str = include_str!("sql/best_facts.sql");
const ORDER_FACTS: &str = include_str!("sql/order_facts.sql");

/// Free seats that are looked at first for neighbours. Only where there is no run among them are
/// all seats of the section loaded.
const FREE_LOOKS: i64 = 1_000;

/// What a hold of the best seats depends on, where a few that nobody else looks at hold the wish; or
/// why there can be none. They are locked, and so is the ticket.
pub(super) async fn for_next_seats(
    tx: &mut PgConnection,
    buyer: &Buyer,
    (name, quantity): (&str, u32),
    now: Timestamp,
) -> Result<Option<Result<hold::Facts, Refusal>>, StoreError> {
    let row = sqlx::query(BEST_FACTS)
        .bind(buyer.show.as_str())
        .bind(buyer.ticket.to_string())
        .bind(now.as_millis())
        .bind(name)
        .bind(i64::from(quantity))
        .bind(stock::ticket_lock(buyer.ticket))
        .bind(stock::section_lock(&buyer.show, name))
        .fetch_optional(tx)
        .await?;
    let Some(row) = row else {
        return Ok(Some(Err(Refusal::NoSuchShow)));
    };
    let offer = match row.text_or_none("section")? {
        None => Offer::Nothing,
        Some(_) => {
            let section = rows::section(&row)?;
            let free = ordinals(&row.try_get::<Vec<i64>, _>("free")?)?;
            let found = if section.numbered {
                seats::run(&free, quantity as usize).is_some()
            } else {
                quantity as usize <= free.len()
            };
            if !found {
                return Ok(None);
            }
            let in_carts = false; // of interest only where there are too few
            Offer::Section {
                section,
                free,
                in_carts,
            }
        }
    };
    let left = true; // of interest only where there are too few
    Ok(Some(Ok(hold_facts(&row, &buyer.show, left, offer)?)))
}

/// Locks the ticket, for two holds at once could not count each other; and of the best seats the
/// section, until nobody else looks for any.
pub(super) async fn lock_for_hold(
    tx: &mut PgConnection,
    request: &PlaceHold,
) -> Result<(), StoreError> {
    let buyer = &request.buyer;
    stock::lock(tx, &stock::ticket_lock(buyer.ticket)).await?;
    match &request.wish {
        Wish::Best { section, .. } => {
            stock::lock(tx, &stock::section_lock(&buyer.show, section)).await
        }
        Wish::Named(_) => Ok(()),
    }
}

/// What a hold depends on, or why there can be none.
pub(super) async fn for_hold(
    tx: &mut PgConnection,
    request: &PlaceHold,
    now: Timestamp,
) -> Result<Result<hold::Facts, Refusal>, StoreError> {
    let buyer = &request.buyer;
    let row = sqlx::query(
        "select settings,
           array(select hold_id from holds
             where ticket_id = $2 and state = 'live' and expires_at_ms > $3
             order by hold_id) as live,
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
        return Ok(Err(Refusal::NoSuchShow));
    };
    let offer = match &request.wish {
        Wish::Best { section, quantity } => {
            section_offer(tx, &buyer.show, (section, *quantity)).await?
        }
        Wish::Named(names) => Offer::Seats(named_seats(tx, &buyer.show, names).await?),
    };
    let left = row.is("is_left")?;
    Ok(Ok(hold_facts(&row, &buyer.show, left, offer)?))
}

fn hold_facts(
    row: &PgRow,
    show: &ShowId,
    left: bool,
    offer: Offer,
) -> Result<hold::Facts, StoreError> {
    let live: Vec<String> = row.try_get("live")?;
    let parse = |id: &String| id.parse().map_err(rows::corrupt);
    Ok(hold::Facts {
        terms: rows::terms(show, &row.text("settings")?)?,
        live: live.iter().map(parse).collect::<Result<_, _>>()?,
        ordered: row.is("ordered")?,
        left,
        offer,
    })
}

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
        terms: rows::terms(&buyer.show, &row.text("settings")?)?,
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
        "select p.*, s.settings from payments p, shows s
         where p.order_id = $1 and p.attempt = $2 and s.show = $3",
    )
    .bind(id.order.to_string())
    .bind(i64::from(id.attempt))
    .bind(order.show.as_str())
    .fetch_optional(&mut *tx)
    .await?
    .ok_or_else(missing)?;
    let retakable = match order.status {
        Status::Declined => !ordered(tx, order.ticket).await? && all_free(tx, &order).await?,
        Status::Pending | Status::Confirmed | Status::Refunded => false,
    };
    Ok(payment::Facts {
        terms: rows::terms(&order.show, &row.text("settings")?)?,
        payment: rows::payment(&row)?,
        order,
        retakable,
    })
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

/// A section with its free seats, or as many of them as decide the wish.
async fn section_offer(
    tx: &mut PgConnection,
    show: &ShowId,
    (name, quantity): (&str, u32),
) -> Result<Offer, StoreError> {
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
        return Ok(Offer::Nothing);
    };
    let section = rows::section(&row)?;
    let free = if section.numbered {
        let first = free_seats(tx, show, name, FREE_LOOKS).await?;
        match seats::run(&first, quantity as usize) {
            Some(_) => first,
            None => free_seats(tx, show, name, i64::MAX).await?,
        }
    } else {
        free_seats(tx, show, name, i64::from(quantity)).await?
    };
    Ok(Offer::Section {
        section,
        free,
        in_carts: row.is("in_carts")?,
    })
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
