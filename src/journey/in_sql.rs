//! What both databases share of journeys: what rows mean, and what errors come to.

use crate::base::ids::OrderId;
use crate::base::time::Timestamp;
use crate::driver::sql::{Cells, SqlError};
use crate::journey::fold::{DeadLetterFacts, EventFacts, Facts, RetryFacts};
use crate::journey::store::StoreError;

/// A row of `orders`, with the number of its payments, and of those that are to be paid back.
pub(super) fn order(row: &impl Cells, order: OrderId) -> Result<Facts, sqlx::Error> {
    Ok(Facts {
        order,
        show: row.cell("show")?,
        status: row.cell("status")?,
        reason: row.cell("reason")?,
        placed_at: at(row.cell("placed_at_ms")?),
        updated_at: at(row.cell("updated_at_ms")?),
        payable_until: at(row.cell("payable_until_ms")?),
        payments: row.number("payments")?,
        owed: row.number("owed")?,
        version: row.number("version")?,
        events: Vec::new(),
    })
}

/// A row of the outbox, with its place in the log, its quarantine and its notice where it has them.
pub(super) fn event(row: &impl Cells) -> Result<EventFacts, sqlx::Error> {
    let offset: Option<i64> = row.cell("offset")?;
    let logged_at: Option<i64> = row.cell("logged_at_ms")?;
    let quarantined: Option<String> = row.cell("reason")?;
    let quarantined_at: Option<i64> = row.cell("at_ms")?;
    let receipt: Option<String> = row.cell("receipt")?;
    let sent_at: Option<i64> = row.cell("sent_at_ms")?;
    Ok(EventFacts {
        id: row.cell("id")?,
        kind: row.cell("type")?,
        version: row.number("aggregate_version")?,
        trace: row.cell("traceparent")?,
        at: at(row.cell("occurred_at_ms")?),
        partition: row.number("partition")?,
        logged: offset.map(i64::cast_unsigned).zip(logged_at.map(at)),
        quarantine: quarantined.zip(quarantined_at.map(at)),
        notice: receipt.zip(sent_at.map(at)),
        groups: Vec::new(),
    })
}

/// A row of `log_groups`: the next offset, and since when.
pub(super) fn next(row: &impl Cells) -> Result<(u64, Timestamp), sqlx::Error> {
    Ok((row.number("offset")?, at(row.cell("updated_at_ms")?)))
}

/// A row of `dead_letters`.
pub(super) fn dead_letter(row: &impl Cells) -> Result<DeadLetterFacts, sqlx::Error> {
    Ok(DeadLetterFacts {
        id: row.number("id")?,
        reason: row.cell("reason")?,
        attempts: row.number("attempts")?,
        at: at(row.cell("at_ms")?),
    })
}

/// A row of `delivery_retries`.
pub(super) fn retry(row: &impl Cells) -> Result<RetryFacts, sqlx::Error> {
    Ok(RetryFacts {
        event_id: row.cell("event_id")?,
        attempts: row.number("attempts")?,
        reason: row.cell("reason")?,
        since: at(row.cell("since_ms")?),
        next_at: at(row.cell("next_at_ms")?),
    })
}

const fn at(ms: i64) -> Timestamp {
    Timestamp::from_unix_ms(ms)
}

impl From<SqlError> for StoreError {
    fn from(error: SqlError) -> Self {
        Self::Unavailable(error.into())
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self::Unavailable(error.into())
    }
}
