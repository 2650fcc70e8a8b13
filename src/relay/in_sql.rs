//! What both databases share of the outbox: what a row means, and what errors come to.

use crate::base::time::Timestamp;
use crate::driver::sql::{Cells, SqlError};
use crate::relay::plan::{Before, Unsent};
use crate::relay::store::{Held, StoreError};

/// A row of the outbox, with how the version before it stands.
pub(super) fn unsent(row: &impl Cells) -> Result<Unsent, sqlx::Error> {
    let before: String = row.cell("before")?;
    Ok(Unsent {
        seq: row.number("seq")?,
        id: row.cell("id")?,
        kind: row.cell("type")?,
        key: (row.cell("aggregatetype")?, row.cell("aggregateid")?),
        version: row.number("aggregate_version")?,
        payload: row.cell("payload")?,
        trace: row.cell("traceparent")?,
        at: Timestamp::from_unix_ms(row.cell("occurred_at_ms")?),
        before: match before.as_str() {
            "sent" => Before::Sent,
            "quarantined" => Before::Quarantined,
            _ => Before::Unsent,
        },
    })
}

/// A row of the outbox, with why and since when it is in quarantine.
pub(super) fn held(row: &impl Cells) -> Result<Held, sqlx::Error> {
    Ok(Held {
        seq: row.number("seq")?,
        event_id: row.cell("id")?,
        kind: row.cell("type")?,
        key: (row.cell("aggregatetype")?, row.cell("aggregateid")?),
        version: row.number("aggregate_version")?,
        reason: row.cell("reason")?,
        at: Timestamp::from_unix_ms(row.cell("at_ms")?),
    })
}

/// What is kept of the reason of an event that was given up: `check` and `journey` say it.
pub(super) fn skipped(reason: &str) -> String {
    format!("given up by an operator: {reason}")
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
