//! The two decisions that every sale is made of, each carried out by a statement of its own: what
//! `batch.rs` does for any decision, for less work of the server.

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres};

use crate::event::{Envelope, codec, partition};
use crate::orders::idempotency::{Answer, Claimed};
use crate::orders::rows_in_sql as rows;
use crate::orders::rules::{Hold, Order, Payment};
use crate::orders::store::StoreError;

const HELD: &str = include_str!("sql/held.sql");
const PLACED: &str = include_str!("sql/placed.sql");

/// A request's key with the answer to keep for it.
pub(super) type Kept = Option<(Claimed, Answer)>;

/// A hold that was placed, and how many live holds its ticket had.
#[derive(Debug)]
pub(super) struct Held<'a> {
    pub(super) hold: &'a Hold,
    pub(super) event: &'a Envelope,
    pub(super) before: usize,
}

/// An order that was placed.
#[derive(Debug)]
pub(super) struct Placed<'a> {
    pub(super) hold: &'a Hold,
    pub(super) order: &'a Order,
    pub(super) payment: &'a Payment,
    pub(super) event: &'a Envelope,
}

/// Begins a statement with what `$1` to `$7` of each of ours are: the key and its answer.
pub(super) fn keyed<'q>(
    statement: &'static str,
    kept: &'q Kept,
) -> Query<'q, Postgres, PgArguments> {
    let key = kept.as_ref().map(|(claimed, _)| claimed);
    let answer = kept.as_ref().map(|(_, answer)| answer);
    sqlx::query(statement)
        .bind(key.map(|claimed| claimed.key.fan.to_string()))
        .bind(key.map(|claimed| claimed.key.route))
        .bind(key.map(|claimed| &claimed.key.key))
        .bind(key.map(|claimed| claimed.until.as_millis()))
        .bind(answer.map(|answer| i64::from(answer.status)))
        .bind(answer.and_then(|answer| answer.admission.as_deref()))
        .bind(answer.map(|answer| &answer.body))
}

/// Sets seats aside; those that are not free any more are missing in the count of the answer.
pub(super) async fn hold(
    conn: &mut PgConnection,
    held: &Held<'_>,
    kept: &Kept,
) -> Result<PgRow, StoreError> {
    let Held {
        hold,
        event,
        before,
    } = held;
    let statement = keyed(HELD, kept)
        .bind(i64::try_from(*before).map_err(rows::corrupt)?)
        .bind(hold.ticket.to_string())
        .bind(hold.created_at.as_millis())
        .bind(hold.show.as_str())
        .bind(&hold.seats)
        .bind(hold.id.to_string())
        .bind(hold.fan.to_string())
        .bind(rows::seats(&hold.seats))
        .bind(hold.total.minor)
        .bind(hold.total.currency.code())
        .bind(hold.expires_at.as_millis())
        .bind(hold.version.cast_signed());
    Ok(told(statement, event).fetch_one(conn).await?)
}

/// Makes a live hold an order.
pub(super) async fn place(
    conn: &mut PgConnection,
    placed: &Placed<'_>,
    kept: &Kept,
) -> Result<PgRow, StoreError> {
    let Placed {
        hold,
        order,
        payment,
        event,
    } = placed;
    let statement = keyed(PLACED, kept)
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
