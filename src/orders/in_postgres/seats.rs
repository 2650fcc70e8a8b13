//! What a new hold depends on: the seats that come into question, and what show and ticket allow.

use std::collections::BTreeMap;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::base::ids::ShowId;
use crate::base::time::Timestamp;
use crate::driver::sql::SqlError;
use crate::orders::in_postgres::sale::Ground;
use crate::orders::in_postgres::shelf::{Given, Named, Offered};
use crate::orders::in_postgres::{facts, stock};
use crate::orders::rows_in_sql::{self as rows, Columns};
use crate::orders::rules::hold::{NamedSeat, Offer, PlaceHold, Wish};
use crate::orders::rules::{Refusal, hold, seats};
use crate::orders::store::StoreError;

const HOLD_FACTS: &str = include_str!("sql/hold_facts.sql");
const NAMED_SEATS: &str = include_str!("sql/named_seats.sql");

/// Free seats that are looked at first for neighbours. Only where there is no run among them are
/// all seats of the section loaded.
const FREE_LOOKS: usize = 1_000;

/// What a new hold depends on.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) facts: hold::Facts,
    /// The version of the show's settings.
    version: i64,
}

impl Looked {
    /// What the statement that writes asks for again.
    pub(super) fn ground(&self) -> Ground {
        Ground {
            version: self.version,
            section: match &self.facts.offer {
                Offer::Section { section, .. } => Some(section.clone()),
                Offer::Nothing | Offer::Seats(_) => None,
            },
        }
    }

    /// What it says of the section and of the show, for those who come after this buyer; and its free seats.
    pub(super) fn offered(&self) -> Option<(Offered, &[u32])> {
        let Offer::Section { section, free, .. } = &self.facts.offer else {
            return None;
        };
        let offered = Offered {
            version: self.version,
            terms: self.facts.terms.clone(),
            section: section.clone(),
        };
        Some((offered, free))
    }

    /// The same, with the seats that this buyer was given.
    pub(super) fn with(self, given: &Given) -> hold::Facts {
        hold::Facts {
            terms: given.offered.terms.clone(),
            offer: given.offer(),
            ..self.facts
        }
    }
}

/// Locks the ticket, for two holds at once could not count each other; and of the best seats the
/// section, until nobody else takes any.
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
    conn: &mut PgConnection,
    request: &PlaceHold,
    now: Timestamp,
) -> Result<Result<Looked, Refusal>, StoreError> {
    let first = look(conn, request, now, FREE_LOOKS).await?;
    let Ok(looked) = &first else {
        return Ok(first);
    };
    match (&request.wish, &looked.facts.offer) {
        (Wish::Best { quantity, .. }, Offer::Section { section, free, .. })
            if section.numbered
                && FREE_LOOKS <= free.len()
                && seats::run(free, *quantity as usize).is_none() =>
        {
            look(conn, request, now, usize::MAX).await
        }
        _ => Ok(first),
    }
}

/// The section of the best seats, where the wish is for such, and how many.
pub(super) fn best(request: &PlaceHold) -> Option<(Named, usize)> {
    match &request.wish {
        Wish::Best { section, quantity } => {
            let named = (request.buyer.show.clone(), section.clone());
            Some((named, *quantity as usize))
        }
        Wish::Named(_) => None,
    }
}

/// What a hold depends on, with at most `max` free seats of the section.
async fn look(
    conn: &mut PgConnection,
    request: &PlaceHold,
    now: Timestamp,
    max: usize,
) -> Result<Result<Looked, Refusal>, StoreError> {
    let buyer = &request.buyer;
    let section = match &request.wish {
        Wish::Best { section, .. } => Some(section),
        Wish::Named(_) => None,
    };
    let row = sqlx::query(HOLD_FACTS)
        .bind(buyer.show.as_str())
        .bind(buyer.ticket.to_string())
        .bind(now.as_millis())
        .bind(section)
        .bind(i64::try_from(max).unwrap_or(i64::MAX))
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else {
        return Ok(Err(Refusal::NoSuchShow));
    };
    let version = row.integer("show_version")?;
    let offer = match &request.wish {
        Wish::Best { .. } => section_offer(&row)?,
        Wish::Named(names) => Offer::Seats(named_seats(conn, (&buyer.show, version), names).await?),
    };
    let (live, ends): (Vec<String>, Vec<i64>) = (row.try_get("live")?, row.try_get("ends")?);
    let live: Vec<(String, i64)> = live.into_iter().zip(ends).collect();
    let facts = hold::Facts {
        terms: facts::terms(&buyer.show, &row)?,
        live: rows::carts(&live)?,
        had: row.integer("had")?.try_into().map_err(rows::corrupt)?,
        ordered: row.is("ordered")?,
        left: row.is("is_left")?,
        offer,
    };
    Ok(Ok(Looked { facts, version }))
}

fn section_offer(row: &PgRow) -> Result<Offer, StoreError> {
    if row.text_or_none("section")?.is_none() {
        return Ok(Offer::Nothing);
    }
    let free: Vec<i64> = row.try_get("free")?;
    let ordinal = |ordinal: &i64| u32::try_from(*ordinal).map_err(rows::corrupt);
    Ok(Offer::Section {
        section: rows::section(row)?,
        free: free.iter().map(ordinal).collect::<Result<_, _>>()?,
        in_carts: row.is("in_carts")?,
    })
}

/// Of these seats those that there are, while the show's settings have this version: what is missing is
/// missing by them, and not for a show that was cancelled in between.
async fn named_seats(
    conn: &mut PgConnection,
    (show, version): (&ShowId, i64),
    names: &[String],
) -> Result<BTreeMap<String, NamedSeat>, StoreError> {
    let mut found = sqlx::query(NAMED_SEATS)
        .bind(show.as_str())
        .bind(names)
        .fetch_all(conn)
        .await?;
    let now = found.first().map(|row| row.integer("show_version"));
    if now.transpose()? != Some(version) {
        return Err(SqlError::Moved.into());
    }
    if found[0].text_or_none("seat")?.is_none() {
        found.clear();
    }
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
