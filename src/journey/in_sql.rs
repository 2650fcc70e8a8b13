//! What both databases share of journeys: what rows mean, and what errors come to.

use std::error::Error;
use std::str::FromStr;

use crate::base::ids::{HoldId, OrderId};
use crate::base::time::Timestamp;
use crate::driver::sql::{Cells, SqlError};
use crate::journey::facts::{DeadLetterFacts, EventFacts, Facts, HoldFacts, RetryFacts};
use crate::journey::store::StoreError;

/// A row of `orders`, with the number of its payments, the last of them, and how many are to be paid back.
pub(super) fn order(row: &impl Cells, order: OrderId) -> Result<Facts, sqlx::Error> {
    let payment: Option<String> = row.cell("payment")?;
    let payment_at: Option<i64> = row.cell("payment_at_ms")?;
    Ok(Facts {
        order,
        hold: parsed("hold_id", &row.cell::<String>("hold_id")?)?,
        last_payment: payment.zip(payment_at.map(at)),
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

/// A row of the outbox, with its place in the log, its quarantine and its notice where it has them,
/// and the relay of its partition.
pub(super) fn event(row: &impl Cells) -> Result<EventFacts, sqlx::Error> {
    let offset: Option<i64> = row.cell("offset")?;
    let logged_at: Option<i64> = row.cell("logged_at_ms")?;
    let quarantined: Option<String> = row.cell("reason")?;
    let quarantined_at: Option<i64> = row.cell("at_ms")?;
    let receipt: Option<String> = row.cell("receipt")?;
    let sent_at: Option<i64> = row.cell("sent_at_ms")?;
    let relay: Option<String> = row.cell("holder")?;
    let until: Option<i64> = row.cell("until_ms")?;
    Ok(EventFacts {
        id: row.cell("id")?,
        kind: row.cell("type")?,
        version: row.number("aggregate_version")?,
        trace: row.cell("traceparent")?,
        at: at(row.cell("occurred_at_ms")?),
        partition: row.number("partition")?,
        relay: relay.zip(until.map(at)),
        logged: offset.map(i64::cast_unsigned).zip(logged_at.map(at)),
        quarantine: quarantined.zip(quarantined_at.map(at)),
        notice: receipt.zip(sent_at.map(at)),
        groups: Vec::new(),
    })
}

/// A row of `holds`, with its order where it has one.
pub(super) fn hold(row: &impl Cells, hold: HoldId) -> Result<HoldFacts, sqlx::Error> {
    let order: Option<String> = row.cell("order_id")?;
    Ok(HoldFacts {
        hold,
        show: row.cell("show")?,
        state: row.cell("state")?,
        created_at: at(row.cell("created_at_ms")?),
        expires_at: at(row.cell("expires_at_ms")?),
        order: order.map(|order| parsed("order_id", &order)).transpose()?,
    })
}

/// A row of `log_groups`: the next offset and since when; and when a process last said that it runs the
/// group.
pub(super) fn standing(row: &impl Cells) -> Result<((u64, Timestamp), Timestamp), sqlx::Error> {
    let next = (row.number("offset")?, at(row.cell("updated_at_ms")?));
    Ok((next, at(row.cell("seen_at_ms")?)))
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

fn parsed<T>(column: &str, text: &str) -> Result<T, sqlx::Error>
where
    T: FromStr<Err: Error + Send + Sync + 'static>,
{
    text.parse()
        .map_err(|error: T::Err| sqlx::Error::ColumnDecode {
            index: column.to_owned(),
            source: error.into(),
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
