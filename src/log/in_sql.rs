//! What both databases share of the log and its inboxes: what rows mean, and what errors come to.

use crate::base::limits::{GROUP_RUNS_MS, PARTITIONS, REASON_BYTES_MAX};
use crate::base::time::Timestamp;
use crate::driver::sql::{Cells, SqlError, never_taken};
use crate::log::inbox::{Because, DeadLetter, Retry, Rewound, Stands};
use crate::log::patience::Failure;
use crate::log::{ApplyError, Delivery, Handled, Lag, LogError};

/// A row of the log with its event.
pub(super) fn delivery(row: &impl Cells) -> Result<Delivery, sqlx::Error> {
    Ok(Delivery {
        partition: row.number("partition")?,
        offset: row.number("offset")?,
        event_id: row.cell("id")?,
        key: row.cell("aggregateid")?,
        version: row.number("aggregate_version")?,
        kind: row.cell("type")?,
        payload: row.cell("payload")?,
        trace: row.cell("traceparent")?,
        at: Timestamp::from_unix_ms(row.cell("occurred_at_ms")?),
    })
}

/// How far behind a group is in every partition, where (partition, records, oldest) are those in
/// which it is.
pub(super) fn lags(behind: &[(i64, i64, i64)], now: Timestamp) -> Vec<Lag> {
    let lag = |partition: u16| {
        let row = behind.iter().find(|row| row.0 == i64::from(partition));
        let (records, oldest_ms) = row.map_or((0, 0), |(_, records, at)| {
            let oldest = Timestamp::from_unix_ms(*at);
            (records.cast_unsigned(), now.ms_since(oldest))
        });
        Lag {
            partition,
            records,
            oldest_ms,
        }
    };
    (0..PARTITIONS).map(lag).collect()
}

/// What was handled, of a row of `processed_events`.
pub(super) fn handled(row: &impl Cells) -> Result<Handled, sqlx::Error> {
    Ok(Handled {
        key: row.cell("key")?,
        version: row.number("version")?,
        digest: row.cell("payload_digest")?,
    })
}

/// Where a group stands in a partition, of a row of `log_groups`.
pub(super) fn stands(row: &impl Cells) -> Result<(u16, u64), sqlx::Error> {
    Ok((row.number("partition")?, row.number("offset")?))
}

/// Where a group stands and where its topic begins, of its rows of `log_groups` with `begins`.
pub(super) fn log_stands(rows: &[impl Cells]) -> Result<Stands, LogError> {
    let mut all = Stands::default();
    for row in rows {
        let (partition, next) = stands(row)?;
        all.next.insert(partition, next);
        let begins: u64 = row.number("begins")?;
        if 0 < begins {
            all.begins.insert(partition, begins);
        }
    }
    Ok(all)
}

/// Why a group with these rows of `log_groups` cannot begin again; `None`: it can.
pub(super) fn cannot_rewind(
    rows: &[impl Cells],
    now: Timestamp,
) -> Result<Option<Rewound>, sqlx::Error> {
    let mut seen_at: Option<Timestamp> = None;
    for row in rows {
        let at = Timestamp::from_unix_ms(row.cell("seen_at_ms")?);
        seen_at = seen_at.max(Some(at));
    }
    let Some(seen_at) = seen_at else {
        return Ok(Some(Rewound::Unknown));
    };
    let ago_ms = now.ms_since(seen_at);
    Ok((ago_ms < GROUP_RUNS_MS).then_some(Rewound::Running(ago_ms)))
}

/// A row of `delivery_retries`.
pub(super) fn retry(row: &impl Cells) -> Result<Retry, sqlx::Error> {
    Ok(Retry {
        partition: row.number("partition")?,
        offset: row.number("offset")?,
        event_id: row.cell("event_id")?,
        attempts: row.number("attempts")?,
        reason: row.cell("reason")?,
        since: Timestamp::from_unix_ms(row.cell("since_ms")?),
        next_at: Timestamp::from_unix_ms(row.cell("next_at_ms")?),
    })
}

/// A row of `dead_letters`, with `occurred_at_ms` of its event where the outbox still has it.
pub(super) fn letter(row: &impl Cells) -> Result<DeadLetter, sqlx::Error> {
    let at: i64 = row.cell("at_ms")?;
    let occurred_at: Option<i64> = row.cell("occurred_at_ms")?;
    let replayed_at: Option<i64> = row.cell("replayed_at_ms")?;
    Ok(DeadLetter {
        id: row.number("id")?,
        group: row.cell("consumer")?,
        delivery: Delivery {
            partition: row.number("partition")?,
            offset: row.number("offset")?,
            event_id: row.cell("event_id")?,
            key: row.cell("key")?,
            version: row.number("version")?,
            kind: row.cell("type")?,
            payload: row.cell("payload")?,
            trace: row.cell("traceparent")?,
            // The outbox row may have been cleaned up; the payload has the instant as well.
            at: Timestamp::from_unix_ms(occurred_at.unwrap_or(at)),
        },
        because: Because {
            reason: row.cell("reason")?,
            attempts: row.number("attempts")?,
        },
        at: Timestamp::from_unix_ms(at),
        replayed_at: replayed_at.map(Timestamp::from_unix_ms),
    })
}

/// The beginning of a reason, cut between characters.
pub(super) fn cut(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)]
}

impl From<LogError> for ApplyError {
    fn from(error: LogError) -> Self {
        match never_taken(&error) {
            Some(said) => Self::Failed(Failure::Permanent(format!("no store takes it: {said}"))),
            None => Self::Store(error),
        }
    }
}

impl From<SqlError> for LogError {
    fn from(error: SqlError) -> Self {
        Self::Unavailable(error.into())
    }
}

impl From<sqlx::Error> for LogError {
    fn from(error: sqlx::Error) -> Self {
        Self::Unavailable(error.into())
    }
}
