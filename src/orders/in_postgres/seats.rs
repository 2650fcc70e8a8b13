//! What a new hold depends on: the seats that come into question, and what show and ticket allow.

use std::collections::BTreeMap;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::base::ids::ShowId;
use crate::base::time::Timestamp;
use crate::orders::in_postgres::front::{Fronts, Seen, Wanted};
use crate::orders::in_postgres::{facts, stock};
use crate::orders::rows_in_sql::{self as rows, Columns};
use crate::orders::rules::hold::{NamedSeat, Offer, PlaceHold, Wish};
use crate::orders::rules::{Buyer, Refusal, hold, seats};
use crate::orders::store::StoreError;

const BEST_FACTS: &str = include_str!("sql/best_facts.sql");
const HOLD_FACTS: &str = include_str!("sql/hold_facts.sql");
const SECTION_FACTS: &str = include_str!("sql/section_facts.sql");

/// Free seats that are looked at first for neighbours. Only where there is no run among them are
/// all seats of the section loaded.
const FREE_LOOKS: i64 = 1_000;

/// What a look at a few seats came to: what the hold depends on, or why there can be none; nothing where
/// the wish does not fit there, unless nothing at all is free.
type Few = Option<Result<hold::Facts, Refusal>>;

/// What a hold of the best seats depends on, where a few that nobody else looks at hold the wish, or no
/// seat of the section is free; or why there can be none. They are locked, and so is the ticket.
pub(super) async fn for_next_seats(
    tx: &mut PgConnection,
    fronts: &Fronts,
    buyer: &Buyer,
    (name, quantity): (&str, u32),
    now: Timestamp,
) -> Result<Few, StoreError> {
    let wanted = (buyer.show.clone(), name.to_owned(), quantity);
    let mut next = Some(fronts.of(&wanted, now));
    let mut is_whole = next == Some(0);
    while let Some(after) = next {
        let (few, seen) = look_after(tx, buyer, &wanted, after, now).await?;
        next = seen.and_then(|seen| fronts.saw(&wanted, after, seen, now));
        if few.is_some() {
            return Ok(few);
        }
        // From there on is nothing. Before it may be what came back, and if not, that is a refusal.
        if !is_whole && seen == Some(Seen::End) {
            (next, is_whole) = (Some(0), true);
        }
    }
    Ok(None)
}

/// Looks at a few seats after an ordinal; also what that says of the front of a section that exists.
async fn look_after(
    tx: &mut PgConnection,
    buyer: &Buyer,
    (_, name, quantity): &Wanted,
    after: i64,
    now: Timestamp,
) -> Result<(Few, Option<Seen>), StoreError> {
    let row = sqlx::query(BEST_FACTS)
        .bind(buyer.show.as_str())
        .bind(buyer.ticket.to_string())
        .bind(now.as_millis())
        .bind(name)
        .bind(i64::from(*quantity))
        .bind(stock::ticket_lock(buyer.ticket))
        .bind(stock::section_lock(&buyer.show, name))
        .bind(after)
        .fetch_optional(tx)
        .await?;
    let Some(row) = row else {
        return Ok((Some(Err(Refusal::NoSuchShow)), None));
    };
    let (mut offer, mut seen) = (Offer::Nothing, None);
    let mut left = true; // of interest only where there are too few
    if row.text_or_none("section")?.is_some() {
        let section = rows::section(&row)?;
        let free = ordinals(&row.try_get::<Vec<i64>, _>("free")?)?;
        let fits = if section.numbered {
            seats::run(&free, *quantity as usize).is_some()
        } else {
            *quantity as usize <= free.len()
        };
        let front = row.try_get("front")?;
        seen = match front {
            None => Some(Seen::End),
            Some(front) if fits => Some(Seen::Some(front)),
            Some(_) if !section.numbered => None,
            Some(front) if row.is("found")? => Some(Seen::Lost(front)),
            Some(front) => Some(Seen::None(front)),
        };
        let none_is_free = front.is_none() && after == 0;
        if !fits && !none_is_free {
            return Ok((None, seen));
        }
        let mut in_carts = false;
        if none_is_free {
            (in_carts, left) = (row.is("in_carts")?, row.is("is_left")?);
        }
        offer = Offer::Section {
            section,
            free,
            in_carts,
        };
    }
    let facts = hold_facts(&row, &buyer.show, left, offer)?;
    Ok((Some(Ok(facts)), seen))
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
    let row = sqlx::query(HOLD_FACTS)
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
    let (live, ends): (Vec<String>, Vec<i64>) = (row.try_get("live")?, row.try_get("ends")?);
    let live: Vec<(String, i64)> = live.into_iter().zip(ends).collect();
    Ok(hold::Facts {
        terms: facts::terms(show, row)?,
        live: rows::carts(&live)?,
        ordered: row.is("ordered")?,
        left,
        offer,
    })
}

/// A section with its free seats, or as many of them as decide the wish.
async fn section_offer(
    tx: &mut PgConnection,
    show: &ShowId,
    (name, quantity): (&str, u32),
) -> Result<Offer, StoreError> {
    let first = section_with(tx, (show, name), FREE_LOOKS.max(i64::from(quantity))).await?;
    let Offer::Section { section, free, .. } = &first else {
        return Ok(first);
    };
    if !section.numbered || seats::run(free, quantity as usize).is_some() {
        return Ok(first);
    }
    section_with(tx, (show, name), i64::MAX).await
}

/// A section with at most `max` of its free seats, and whether others are held: of one moment, so that a
/// seat which is taken meanwhile is one or the other.
async fn section_with(
    tx: &mut PgConnection,
    (show, name): (&ShowId, &str),
    max: i64,
) -> Result<Offer, StoreError> {
    let row = sqlx::query(SECTION_FACTS)
        .bind(show.as_str())
        .bind(name)
        .bind(max)
        .fetch_optional(tx)
        .await?;
    let Some(row) = row else {
        return Ok(Offer::Nothing);
    };
    Ok(Offer::Section {
        section: rows::section(&row)?,
        free: ordinals(&row.try_get::<Vec<i64>, _>("free")?)?,
        in_carts: row.is("in_carts")?,
    })
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
