//! What decisions depend on, loaded inside the transaction that will carry them out.

use std::collections::BTreeMap;

use sqlx::{Row, SqliteConnection};

use crate::base::ids::{HoldId, OrderId, ShowId, TicketId};
use crate::base::time::Timestamp;
use crate::orders::rows_in_sql as rows;
use crate::orders::rules::hold::{NamedSeat, Offer, PlaceHold, Wish};
use crate::orders::rules::order::PlaceOrder;
use crate::orders::rules::{
    Carts, Hold, Order, Payment, PaymentId, Refusal, Status, Terms, hold, order, payment, seats,
};
use crate::orders::store::StoreError;

/// Free seats that are looked at first for neighbours. Only where there is no run among them are
/// all seats of the section loaded.
const FREE_LOOKS: i64 = 1_000;

/// What a hold depends on, or why there can be none.
pub(super) async fn for_hold(
    tx: &mut SqliteConnection,
    request: &PlaceHold,
    now: Timestamp,
) -> Result<Result<hold::Facts, Refusal>, StoreError> {
    let buyer = &request.buyer;
    let Some(terms) = terms(tx, &buyer.show).await? else {
        return Ok(Err(Refusal::NoSuchShow));
    };
    Ok(Ok(hold::Facts {
        terms,
        live: live_holds(tx, buyer.ticket, now).await?,
        had: held_before(tx, buyer.ticket).await?,
        ordered: ordered(tx, buyer.ticket).await?,
        left: left(tx, &buyer.show).await?,
        offer: match &request.wish {
            Wish::Best { section, quantity } => {
                section_offer(tx, &buyer.show, section, *quantity).await?
            }
            Wish::Named(names) => Offer::Seats(named_seats(tx, &buyer.show, names).await?),
        },
    }))
}

/// What an order depends on, or why there can be none.
pub(super) async fn for_order(
    tx: &mut SqliteConnection,
    request: &PlaceOrder,
) -> Result<Result<order::Facts, Refusal>, StoreError> {
    let Some(terms) = terms(tx, &request.buyer.show).await? else {
        return Ok(Err(Refusal::NoSuchShow));
    };
    let order_id: Option<String> =
        sqlx::query_scalar("select order_id from orders where hold_id = ?")
            .bind(request.hold.to_string())
            .fetch_optional(&mut *tx)
            .await?;
    Ok(Ok(order::Facts {
        terms,
        hold: hold(tx, request.hold).await?,
        order: match order_id {
            Some(id) => order(tx, id.parse().map_err(rows::corrupt)?).await?,
            None => None,
        },
        ordered: ordered(tx, request.buyer.ticket).await?,
    }))
}

/// What the consequences of a payment depend on.
pub(super) async fn for_payment(
    tx: &mut SqliteConnection,
    id: PaymentId,
) -> Result<payment::Facts, StoreError> {
    let missing = || rows::corrupt(anyhow::anyhow!("{id:?} lacks its rows"));
    let row = sqlx::query("select * from payments where order_id = ? and attempt = ?")
        .bind(id.order.to_string())
        .bind(i64::from(id.attempt))
        .fetch_optional(&mut *tx)
        .await?;
    let payment = rows::payment(&row.ok_or_else(missing)?)?;
    let order = order(tx, id.order).await?.ok_or_else(missing)?;
    let terms = terms(tx, &order.show).await?.ok_or_else(missing)?;
    let retakable = match order.status {
        Status::Declined => {
            !terms.is_cancelled && !ordered(tx, order.ticket).await? && all_free(tx, &order).await?
        }
        Status::Pending | Status::Confirmed | Status::Cancelled | Status::Refunded => false,
    };
    Ok(payment::Facts {
        terms,
        order,
        payment,
        retakable,
    })
}

pub(super) async fn terms(
    tx: &mut SqliteConnection,
    show: &ShowId,
) -> Result<Option<Terms>, StoreError> {
    let row: Option<(String, bool)> =
        sqlx::query_as("select settings, cancelled_at_ms is not null from shows where show = ?")
            .bind(show.as_str())
            .fetch_optional(tx)
            .await?;
    let Some((settings, is_cancelled)) = row else {
        return Ok(None);
    };
    rows::terms(show, &settings, is_cancelled).map(Some)
}

/// The ticket's live holds whose time is not over.
async fn live_holds(
    tx: &mut SqliteConnection,
    ticket: TicketId,
    now: Timestamp,
) -> Result<Carts, StoreError> {
    let found: Vec<(String, i64)> = sqlx::query_as(
        "select hold_id, expires_at_ms from holds
         where ticket_id = ? and state = 'live' and expires_at_ms > ?",
    )
    .bind(ticket.to_string())
    .bind(now.as_millis())
    .fetch_all(tx)
    .await?;
    rows::carts(&found)
}

/// How many holds the ticket ever had.
async fn held_before(tx: &mut SqliteConnection, ticket: TicketId) -> Result<u64, StoreError> {
    let last: i64 =
        sqlx::query_scalar("select coalesce(max(nth), 0) from holds where ticket_id = ?")
            .bind(ticket.to_string())
            .fetch_one(tx)
            .await?;
    last.try_into().map_err(rows::corrupt)
}

/// Whether the ticket has an order that counts.
async fn ordered(tx: &mut SqliteConnection, ticket: TicketId) -> Result<bool, StoreError> {
    Ok(sqlx::query_scalar(
        "select exists (select 1 from orders
           where ticket_id = ? and status in ('pending', 'confirmed'))",
    )
    .bind(ticket.to_string())
    .fetch_one(tx)
    .await?)
}

/// Whether any seat of the show is free or held: two looks into the index a section.
async fn left(tx: &mut SqliteConnection, show: &ShowId) -> Result<bool, StoreError> {
    Ok(sqlx::query_scalar(
        "select exists (select 1 from sections c where c.show = ?
           and exists (select 1 from seats s where s.show = c.show and s.section = c.section
             and s.state in ('free', 'held')))",
    )
    .bind(show.as_str())
    .fetch_one(tx)
    .await?)
}

async fn section_offer(
    tx: &mut SqliteConnection,
    show: &ShowId,
    name: &str,
    quantity: u32,
) -> Result<Offer, StoreError> {
    let row = sqlx::query("select * from sections where show = ? and section = ?")
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
            None => free_seats(tx, show, name, -1).await?,
        }
    } else {
        free_seats(tx, show, name, i64::from(quantity)).await?
    };
    let in_carts = sqlx::query_scalar(
        "select exists (select 1 from seats where show = ? and section = ? and state = 'held')",
    )
    .bind(show.as_str())
    .bind(name)
    .fetch_one(tx)
    .await?;
    Ok(Offer::Section {
        section,
        free,
        in_carts,
    })
}

/// Ordinals of free seats, ascending, at most `max`; all where `max` is negative.
async fn free_seats(
    tx: &mut SqliteConnection,
    show: &ShowId,
    section: &str,
    max: i64,
) -> Result<Vec<u32>, StoreError> {
    Ok(sqlx::query_scalar(
        "select ordinal from seats where show = ? and section = ? and state = 'free'
         order by ordinal limit ?",
    )
    .bind(show.as_str())
    .bind(section)
    .bind(max)
    .fetch_all(tx)
    .await?)
}

async fn named_seats(
    tx: &mut SqliteConnection,
    show: &ShowId,
    names: &[String],
) -> Result<BTreeMap<String, NamedSeat>, StoreError> {
    let mut found = BTreeMap::new();
    for name in names {
        let row = sqlx::query(
            "select s.state, c.* from seats s
             join sections c on c.show = s.show and c.section = s.section
             where s.show = ? and s.seat = ?",
        )
        .bind(show.as_str())
        .bind(name)
        .fetch_optional(&mut *tx)
        .await?;
        let Some(row) = row else { continue };
        let state: String = row.try_get("state")?;
        let seat = NamedSeat {
            section: rows::section(&row)?,
            is_free: state == "free",
            is_held: state == "held",
        };
        found.insert(name.clone(), seat);
    }
    Ok(found)
}

async fn all_free(tx: &mut SqliteConnection, order: &Order) -> Result<bool, StoreError> {
    for seat in &order.seats {
        let is_free: bool = sqlx::query_scalar(
            "select exists (select 1 from seats where show = ? and seat = ? and state = 'free')",
        )
        .bind(order.show.as_str())
        .bind(seat)
        .fetch_one(&mut *tx)
        .await?;
        if !is_free {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) async fn hold(
    tx: &mut SqliteConnection,
    id: HoldId,
) -> Result<Option<Hold>, StoreError> {
    let row = sqlx::query("select * from holds where hold_id = ?")
        .bind(id.to_string())
        .fetch_optional(tx)
        .await?;
    row.as_ref().map(rows::hold).transpose()
}

pub(super) async fn order(
    tx: &mut SqliteConnection,
    id: OrderId,
) -> Result<Option<Order>, StoreError> {
    let row = sqlx::query("select * from orders where order_id = ?")
        .bind(id.to_string())
        .fetch_optional(tx)
        .await?;
    row.as_ref().map(rows::order).transpose()
}

pub(super) async fn last_payment(
    tx: &mut SqliteConnection,
    order: OrderId,
) -> Result<Option<Payment>, StoreError> {
    let row =
        sqlx::query("select * from payments where order_id = ? order by attempt desc limit 1")
            .bind(order.to_string())
            .fetch_optional(tx)
            .await?;
    row.as_ref().map(rows::payment).transpose()
}

/// Live holds whose time is over, oldest first.
pub(super) async fn lapsed_holds(
    tx: &mut SqliteConnection,
    now: Timestamp,
    max: u32,
) -> Result<Vec<Hold>, StoreError> {
    let found = sqlx::query(
        "select * from holds where state = 'live' and expires_at_ms <= ?
         order by expires_at_ms limit ?",
    )
    .bind(now.as_millis())
    .bind(max)
    .fetch_all(tx)
    .await?;
    found.iter().map(rows::hold).collect()
}

/// The last attempts of pending orders whose time is over, oldest first: but for those in doubt
/// since after `doubted_since`, so that they do not keep others out of the batch.
pub(super) async fn lapsed_orders(
    tx: &mut SqliteConnection,
    now: Timestamp,
    doubted_since: Timestamp,
    max: u32,
) -> Result<Vec<PaymentId>, StoreError> {
    let found = sqlx::query(
        "select o.order_id, max(p.attempt) as attempt
         from orders o join payments p on p.order_id = o.order_id
         where o.status = 'pending' and o.payable_until_ms <= ?
         group by o.order_id, o.payable_until_ms
         having o.payable_until_ms <= ? or sum(p.state = 'asked') = 0
         order by o.payable_until_ms limit ?",
    )
    .bind(now.as_millis())
    .bind(doubted_since.as_millis())
    .bind(max)
    .fetch_all(tx)
    .await?;
    found.iter().map(rows::payment_id).collect()
}
