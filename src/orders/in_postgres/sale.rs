//! The two decisions that every sale is made of, each carried out by a statement of its own: what
//! `batch.rs` does for any decision, for less work of the server.

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres};

use crate::event::{Envelope, codec, partition};
use crate::orders::in_postgres::stock;
use crate::orders::rows_in_sql as rows;
use crate::orders::rules::{Hold, Order, Payment, Section};
use crate::orders::store::StoreError;

const HELD: &str = include_str!("sql/held.sql");
const PLACED: &str = include_str!("sql/placed.sql");

/// What a hold was decided by that may have changed when it is written, but for its seats and its ticket.
#[derive(Debug, Clone)]
pub(super) struct Ground {
    /// The version of the show's settings.
    pub(super) version: i64,
    /// The section of the best seats.
    pub(super) section: Option<Section>,
}

/// A hold that was placed.
#[derive(Debug)]
pub(super) struct Held<'a> {
    pub(super) hold: &'a Hold,
    pub(super) event: &'a Envelope,
    pub(super) ground: &'a Ground,
}

/// An order that was placed.
#[derive(Debug)]
pub(super) struct Placed<'a> {
    pub(super) hold: &'a Hold,
    pub(super) order: &'a Order,
    pub(super) payment: &'a Payment,
    pub(super) event: &'a Envelope,
}

/// Sets seats aside; those that are not free any more are missing in the count of the answer, and then
/// nothing is written.
pub(super) async fn hold(conn: &mut PgConnection, held: &Held<'_>) -> Result<PgRow, StoreError> {
    let Held {
        hold,
        event,
        ground,
    } = held;
    let section = ground.section.as_ref();
    let statement = sqlx::query(HELD)
        .bind(hold.id.to_string())
        .bind(hold.show.as_str())
        .bind(hold.fan.to_string())
        .bind(hold.ticket.to_string())
        .bind(&hold.seats)
        .bind(rows::seats(&hold.seats))
        .bind(hold.total.minor)
        .bind(hold.total.currency.code())
        .bind(hold.expires_at.as_millis())
        .bind(hold.created_at.as_millis())
        .bind(hold.nth.cast_signed())
        .bind(hold.version.cast_signed())
        .bind(ground.version)
        .bind(section.map(|section| &section.name))
        .bind(section.map(|section| section.numbered))
        .bind(section.map(|section| section.price.minor))
        .bind(section.map(|section| section.price.currency.code()))
        .bind(section.map(|section| stock::section_lock(&hold.show, &section.name)));
    Ok(told(statement, event).fetch_one(conn).await?)
}

/// Makes a live hold an order.
pub(super) async fn place(
    conn: &mut PgConnection,
    placed: &Placed<'_>,
) -> Result<PgRow, StoreError> {
    let Placed {
        hold,
        order,
        payment,
        event,
    } = placed;
    let statement = sqlx::query(PLACED)
        .bind(hold.id.to_string())
        .bind(hold.version.cast_signed())
        .bind(order.id.to_string())
        .bind(&order.contact.email)
        .bind(&order.contact.locale)
        .bind(order.placed_at.as_millis())
        .bind(order.payable_until.as_millis())
        .bind(order.version.cast_signed())
        .bind(i64::from(payment.id.attempt))
        .bind(&payment.token);
    Ok(told(statement, event).fetch_one(conn).await?)
}

/// Ends a statement with what differs from event to event.
fn told<'q>(
    statement: Query<'q, Postgres, PgArguments>,
    event: &Envelope,
) -> Query<'q, Postgres, PgArguments> {
    statement
        .bind(event.id.to_string())
        .bind(event.event.kind())
        .bind(codec::to_json(event))
        .bind(i64::from(partition::of_key(&event.key())))
        .bind(event.trace.clone())
}
