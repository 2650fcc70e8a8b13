//! What both databases share: the form of the rows, words for states, rows read back into what they
//! stand for, and what an error means.

use sqlx::{ColumnIndex, Database, Decode, Row, Type};

use crate::base::ids::ShowId;
use crate::base::time::Timestamp;
use crate::driver::sql::SqlError;
use crate::event::money::Money;
use crate::event::{SectionStock, ShowFacts};
use crate::orders::idempotency::{Answer, Known};
use crate::orders::rules::{
    Carts, Contact, Hold, HoldState, Order, Payment, PaymentId, PaymentState, Reason, Section,
    Status, Taken, Terms,
};
use crate::orders::store::{Cancellation, Due, Need, StoreError};
use crate::show::settings::Settings;

const HOLD_STATES: [HoldState; 4] = [
    HoldState::Live,
    HoldState::Ordered,
    HoldState::Expired,
    HoldState::Released,
];
const STATUSES: [Status; 5] = [
    Status::Pending,
    Status::Confirmed,
    Status::Declined,
    Status::Cancelled,
    Status::Refunded,
];
const REASONS: [Reason; 5] = [
    Reason::PaymentDeclined,
    Reason::PaymentUnknown,
    Reason::ApprovedTooLate,
    Reason::CancelledByOperator,
    Reason::ShowCancelled,
];
const PAYMENT_STATES: [PaymentState; 5] = [
    PaymentState::Asked,
    PaymentState::Approved,
    PaymentState::Declined,
    PaymentState::Refunding,
    PaymentState::Refunded,
];

/// Constraints that a unit of work meets when another one was faster: its facts then show why.
const MET_BY_RACES: [&str; 2] = ["orders_hold_id", "orders_ticket_id"];

/// The columns of a row, on whichever database: texts, integers, yes or no.
pub(super) trait Columns {
    fn text(&self, column: &str) -> Result<String, StoreError>;
    fn text_or_none(&self, column: &str) -> Result<Option<String>, StoreError>;
    fn integer(&self, column: &str) -> Result<i64, StoreError>;
    fn integer_or_none(&self, column: &str) -> Result<Option<i64>, StoreError>;
    fn is(&self, column: &str) -> Result<bool, StoreError>;
}

impl<D, R> Columns for R
where
    D: Database,
    R: Row<Database = D>,
    for<'c> &'c str: ColumnIndex<R>,
    for<'r> String: Decode<'r, D>,
    for<'r> i64: Decode<'r, D>,
    for<'r> bool: Decode<'r, D>,
    String: Type<D>,
    i64: Type<D>,
    bool: Type<D>,
{
    fn text(&self, column: &str) -> Result<String, StoreError> {
        Ok(self.try_get(column)?)
    }

    fn text_or_none(&self, column: &str) -> Result<Option<String>, StoreError> {
        Ok(self.try_get(column)?)
    }

    fn integer(&self, column: &str) -> Result<i64, StoreError> {
        Ok(self.try_get(column)?)
    }

    fn integer_or_none(&self, column: &str) -> Result<Option<i64>, StoreError> {
        Ok(self.try_get(column)?)
    }

    fn is(&self, column: &str) -> Result<bool, StoreError> {
        Ok(self.try_get(column)?)
    }
}

pub(super) const fn taken(taken: Taken) -> &'static str {
    match taken {
        Taken::Held => "held",
        Taken::Sold => "sold",
    }
}

pub(super) const fn hold_state(state: HoldState) -> &'static str {
    match state {
        HoldState::Live => "live",
        HoldState::Ordered => "ordered",
        HoldState::Expired => "expired",
        HoldState::Released => "released",
    }
}

pub(super) const fn payment_state(state: PaymentState) -> &'static str {
    match state {
        PaymentState::Asked => "asked",
        PaymentState::Approved => "approved",
        PaymentState::Declined => "declined",
        PaymentState::Refunding => "refunding",
        PaymentState::Refunded => "refunded",
    }
}

/// Seat names as a JSON array.
pub(super) fn seats(seats: &[String]) -> String {
    serde_json::to_string(seats).expect("texts always serialize")
}

pub(super) fn hold(row: &impl Columns) -> Result<Hold, StoreError> {
    Ok(Hold {
        id: parsed(row, "hold_id")?,
        show: parsed(row, "show")?,
        fan: parsed(row, "fan")?,
        ticket: parsed(row, "ticket_id")?,
        nth: number(row, "nth")?,
        seats: seat_names(row)?,
        total: money(row, "total_minor")?,
        state: word(row, "state", &HOLD_STATES, hold_state)?,
        created_at: instant(row, "created_at_ms")?,
        expires_at: instant(row, "expires_at_ms")?,
        version: number(row, "version")?,
    })
}

pub(super) fn order(row: &impl Columns) -> Result<Order, StoreError> {
    let reason = row.text_or_none("reason")?;
    Ok(Order {
        id: parsed(row, "order_id")?,
        hold: parsed(row, "hold_id")?,
        show: parsed(row, "show")?,
        fan: parsed(row, "fan")?,
        ticket: parsed(row, "ticket_id")?,
        contact: Contact {
            email: row.text("email")?,
            locale: row.text("locale")?,
        },
        seats: seat_names(row)?,
        total: money(row, "total_minor")?,
        status: word(row, "status", &STATUSES, Status::word)?,
        reason: match reason {
            None => None,
            Some(_) => Some(word(row, "reason", &REASONS, Reason::word)?),
        },
        placed_at: instant(row, "placed_at_ms")?,
        payable_until: instant(row, "payable_until_ms")?,
        updated_at: instant(row, "updated_at_ms")?,
        version: number(row, "version")?,
    })
}

pub(super) fn payment(row: &impl Columns) -> Result<Payment, StoreError> {
    Ok(Payment {
        id: payment_id(row)?,
        state: word(row, "state", &PAYMENT_STATES, payment_state)?,
        token: row.text_or_none("token")?,
        reference: row.text_or_none("provider_reference")?,
        at: instant(row, "at_ms")?,
    })
}

pub(super) fn payment_id(row: &impl Columns) -> Result<PaymentId, StoreError> {
    Ok(PaymentId {
        order: parsed(row, "order_id")?,
        attempt: number(row, "attempt")?,
    })
}

pub(super) fn due(row: &impl Columns) -> Result<Due, StoreError> {
    let state = word(row, "state", &PAYMENT_STATES, payment_state)?;
    let status = word(row, "status", &STATUSES, Status::word)?;
    let need = match (state, status) {
        (PaymentState::Refunding, _) => Need::Refund,
        (_, Status::Pending) => Need::Charge,
        (_, Status::Confirmed | Status::Declined | Status::Cancelled | Status::Refunded) => {
            Need::Answer
        }
    };
    Ok(Due {
        id: payment_id(row)?,
        amount: money(row, "total_minor")?,
        token: row.text_or_none("token")?,
        need,
    })
}

/// What the operator of a show decided: its settings document, and whether it was cancelled.
pub(super) fn terms(
    show: &ShowId,
    settings: &str,
    is_cancelled: bool,
) -> Result<Terms, StoreError> {
    let settings: Settings = serde_json::from_str(settings).map_err(corrupt)?;
    let sections = settings.sections.into_iter().map(|section| section.name);
    Ok(Terms {
        show: ShowFacts {
            id: show.clone(),
            name: settings.name,
            starts_at: settings.starts_at,
        },
        hold_ms: settings.hold_ms,
        holds_per_ticket: settings.holds_per_ticket,
        sections: sections.collect(),
        is_cancelled,
    })
}

/// A ticket's live holds, the oldest first, of their ids and ends in any order.
pub(super) fn carts(found: &[(String, i64)]) -> Result<Carts, StoreError> {
    let parse = |(id, _): &(String, i64)| id.parse().map_err(corrupt);
    let mut holds = found.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    holds.sort_unstable();
    let until = found.iter().map(|(_, end)| *end).max().unwrap_or_default();
    Ok(Carts {
        holds,
        until: Timestamp::from_unix_ms(until),
    })
}

/// How many seats a section has, by their state.
pub(super) fn section_stock(row: &impl Columns) -> Result<SectionStock, StoreError> {
    Ok(SectionStock {
        name: row.text("section")?,
        free: number(row, "free")?,
        held: number(row, "held")?,
        sold: number(row, "sold")?,
    })
}

/// How far the cancellation of a show has come.
pub(super) fn cancellation(row: &impl Columns) -> Result<Cancellation, StoreError> {
    Ok(Cancellation {
        seats_free: number(row, "free")?,
        seats_held: number(row, "held")?,
        seats_sold: number(row, "sold")?,
        orders_cancelled: number(row, "cancelled")?,
        orders_refunded: number(row, "refunded")?,
        payments_open: number(row, "payments_open")?,
    })
}

/// What is known of an idempotency key.
pub(super) fn known(row: &impl Columns) -> Result<Known, StoreError> {
    let answer = match row.integer_or_none("status")? {
        None => None,
        Some(status) => Some(Answer {
            status: status.try_into().map_err(corrupt)?,
            admission: row.text_or_none("admission")?,
            body: row.text("body")?,
        }),
    };
    Ok(Known {
        fingerprint: row.text("fingerprint")?,
        answer,
        in_flight_until: instant(row, "in_flight_until_ms")?,
        at: instant(row, "at_ms")?,
    })
}

pub(super) fn section(row: &impl Columns) -> Result<Section, StoreError> {
    Ok(Section {
        name: row.text("section")?,
        numbered: row.is("numbered")?,
        price: money(row, "price_minor")?,
    })
}

/// An error unless a statement changed as many rows as the decision said: then a rule is wrong.
pub(super) fn expect_rows(changed: u64, expected: usize) -> Result<(), StoreError> {
    if usize::try_from(changed) == Ok(expected) {
        return Ok(());
    }
    let what = anyhow::anyhow!("{changed} seats were as expected, not {expected}");
    Err(StoreError::Corrupt(what))
}

pub(super) fn corrupt(error: impl Into<anyhow::Error>) -> StoreError {
    StoreError::Corrupt(error.into())
}

fn parsed<T>(row: &impl Columns, column: &str) -> Result<T, StoreError>
where
    T: std::str::FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let text = row.text(column)?;
    text.parse().map_err(corrupt)
}

fn number<T: TryFrom<i64>>(row: &impl Columns, column: &str) -> Result<T, StoreError>
where
    T::Error: std::error::Error + Send + Sync + 'static,
{
    row.integer(column)?.try_into().map_err(corrupt)
}

fn instant(row: &impl Columns, column: &str) -> Result<Timestamp, StoreError> {
    Ok(Timestamp::from_unix_ms(row.integer(column)?))
}

fn money(row: &impl Columns, column: &str) -> Result<Money, StoreError> {
    Ok(Money {
        minor: row.integer(column)?,
        currency: parsed(row, "currency")?,
    })
}

fn seat_names(row: &impl Columns) -> Result<Vec<String>, StoreError> {
    serde_json::from_str(&row.text("seats")?).map_err(corrupt)
}

/// The value whose word a column holds.
fn word<T: Copy>(
    row: &impl Columns,
    column: &str,
    values: &[T],
    word_of: fn(T) -> &'static str,
) -> Result<T, StoreError> {
    let text = row.text(column)?;
    values
        .iter()
        .copied()
        .find(|value| word_of(*value) == text)
        .ok_or_else(|| corrupt(anyhow::anyhow!("{column} is {text:?}")))
}

impl From<SqlError> for StoreError {
    fn from(error: SqlError) -> Self {
        match error {
            SqlError::Database(error) => error.into(),
            SqlError::Schema(_)
            | SqlError::Unfit(_)
            | SqlError::Away(_)
            | SqlError::Silent
            | SqlError::Unfinished(_)
            | SqlError::Moved => Self::Unavailable(error.into()),
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let Some(said) = error.as_database_error() else {
            return Self::Unavailable(error.into());
        };
        let raced = said
            .constraint()
            .is_some_and(|name| MET_BY_RACES.contains(&name));
        if raced {
            return SqlError::Moved.into();
        }
        // Every other constraint guards what a unit of work has read: meeting it, a rule is wrong.
        if said.is_unique_violation() || said.is_check_violation() {
            return Self::Corrupt(error.into());
        }
        Self::Unavailable(error.into())
    }
}
