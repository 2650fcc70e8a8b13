//! The form of the rows: words for states, and rows read back into what they stand for.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::base::time::Timestamp;
use crate::event::money::Money;
use crate::orders::rules::{
    Contact, Hold, HoldState, Order, Payment, PaymentId, PaymentState, Reason, Section, Status,
    Taken,
};
use crate::orders::store::{Due, Need, StoreError};

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

pub(super) fn hold(row: &SqliteRow) -> Result<Hold, StoreError> {
    Ok(Hold {
        id: parsed(row, "hold_id")?,
        show: parsed(row, "show")?,
        fan: parsed(row, "fan")?,
        ticket: parsed(row, "ticket_id")?,
        seats: seat_names(row)?,
        total: money(row, "total_minor")?,
        state: word(row, "state", &HOLD_STATES, hold_state)?,
        created_at: instant(row, "created_at_ms")?,
        expires_at: instant(row, "expires_at_ms")?,
        version: number(row, "version")?,
    })
}

pub(super) fn order(row: &SqliteRow) -> Result<Order, StoreError> {
    let reason: Option<String> = row.try_get("reason")?;
    Ok(Order {
        id: parsed(row, "order_id")?,
        hold: parsed(row, "hold_id")?,
        show: parsed(row, "show")?,
        fan: parsed(row, "fan")?,
        ticket: parsed(row, "ticket_id")?,
        contact: Contact {
            email: row.try_get("email")?,
            locale: row.try_get("locale")?,
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

pub(super) fn payment(row: &SqliteRow) -> Result<Payment, StoreError> {
    Ok(Payment {
        id: payment_id(row)?,
        state: word(row, "state", &PAYMENT_STATES, payment_state)?,
        token: row.try_get("token")?,
        reference: row.try_get("provider_reference")?,
        at: instant(row, "at_ms")?,
    })
}

pub(super) fn payment_id(row: &SqliteRow) -> Result<PaymentId, StoreError> {
    Ok(PaymentId {
        order: parsed(row, "order_id")?,
        attempt: number(row, "attempt")?,
    })
}

pub(super) fn due(row: &SqliteRow) -> Result<Due, StoreError> {
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
        token: row.try_get("token")?,
        need,
    })
}

pub(super) fn section(row: &SqliteRow) -> Result<Section, StoreError> {
    Ok(Section {
        name: row.try_get("section")?,
        numbered: row.try_get("numbered")?,
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

fn parsed<T>(row: &SqliteRow, column: &str) -> Result<T, StoreError>
where
    T: std::str::FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let text: String = row.try_get(column)?;
    text.parse().map_err(corrupt)
}

fn number<T: TryFrom<i64>>(row: &SqliteRow, column: &str) -> Result<T, StoreError>
where
    T::Error: std::error::Error + Send + Sync + 'static,
{
    let number: i64 = row.try_get(column)?;
    number.try_into().map_err(corrupt)
}

fn instant(row: &SqliteRow, column: &str) -> Result<Timestamp, StoreError> {
    Ok(Timestamp::from_unix_ms(row.try_get(column)?))
}

fn money(row: &SqliteRow, column: &str) -> Result<Money, StoreError> {
    Ok(Money {
        minor: row.try_get(column)?,
        currency: parsed(row, "currency")?,
    })
}

fn seat_names(row: &SqliteRow) -> Result<Vec<String>, StoreError> {
    let json: String = row.try_get("seats")?;
    serde_json::from_str(&json).map_err(corrupt)
}

/// The value whose word a column holds.
fn word<T: Copy>(
    row: &SqliteRow,
    column: &str,
    values: &[T],
    word_of: fn(T) -> &'static str,
) -> Result<T, StoreError> {
    let text: String = row.try_get(column)?;
    values
        .iter()
        .copied()
        .find(|value| word_of(*value) == text)
        .ok_or_else(|| corrupt(anyhow::anyhow!("{column} is {text:?}")))
}
