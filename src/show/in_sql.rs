//! What both databases share of shows: what a row means, and what their errors come to.

use std::collections::BTreeMap;

use crate::base::ids::{Edition, Generation, Malformed, Number, Place};
use crate::base::time::Timestamp;
use crate::driver::sql::{Cells, SqlError};
use crate::event::money::{BadMoney, Currency};
use crate::show::draw::{Draw, Sealed};
use crate::show::{LedgerRow, Show, StoreError};

/// A row of `shows`.
pub(super) fn read_show(row: &impl Cells) -> Result<Show, StoreError> {
    let id: String = row.cell("show")?;
    let settings: String = row.cell("settings")?;
    let verb: Option<String> = row.cell("verb")?;
    let verb_version: Option<i64> = row.cell("verb_version")?;
    let cancelled_at: Option<i64> = row.cell("cancelled_at_ms")?;
    Ok(Show {
        id: id
            .parse()
            .map_err(|e| StoreError::Corrupt(anyhow::Error::new(e).context(id)))?,
        version: row.number("version")?,
        settings: serde_json::from_str(&settings).map_err(|e| StoreError::Corrupt(e.into()))?,
        verb: verb_version.map(i64::unsigned_abs).zip(verb),
        cancelled_at: cancelled_at.map(Timestamp::from_unix_ms),
        state: row.cell("state")?,
        edition: Edition(row.number("edition")?),
        generation: Generation(row.number("generation")?),
        mended: Generation(row.number("mended")?),
        ceiling: Number(row.number("ceiling")?),
        draw: read_draw(row)?,
        issued: Number(row.number("issued")?),
        serving: Place(row.number("serving")?),
        waiting: row.number("waiting")?,
        checkpoint_at: Timestamp::from_unix_ms(row.cell("checkpoint_at_ms")?),
    })
}

/// The columns of `draws` beside a show's own; none where they are null.
fn read_draw(row: &impl Cells) -> Result<Option<Draw>, StoreError> {
    let Some(secret) = row.cell::<Option<String>>("secret")? else {
        return Ok(None);
    };
    let commitment: String = row.cell("commitment")?;
    let size: Option<i64> = row.cell("size")?;
    let seed: Option<String> = row.cell("seed")?;
    let foreign = |error: Malformed| StoreError::Corrupt(error.into());
    Ok(Some(Draw {
        sealed: Sealed {
            secret: secret.parse().map_err(foreign)?,
            commitment: commitment.parse().map_err(foreign)?,
        },
        size: size.map(|size| Number(size.unsigned_abs())),
        beacon_value: row.cell("beacon_value")?,
        seed: seed.map(|seed| seed.parse()).transpose().map_err(foreign)?,
    }))
}

/// Rows of `sections`, of each its name and its currency.
pub(super) fn read_currencies(
    rows: Vec<(String, String)>,
) -> Result<BTreeMap<String, Currency>, StoreError> {
    let read = |(section, currency): (String, String)| {
        let currency = currency.parse();
        Ok((
            section,
            currency.map_err(|e: BadMoney| StoreError::Corrupt(e.into()))?,
        ))
    };
    rows.into_iter().map(read).collect()
}

/// A row of `room_ledger`.
pub(super) fn read_ledger(row: &impl Cells) -> Result<LedgerRow, sqlx::Error> {
    Ok(LedgerRow {
        edition: Edition(row.number("edition")?),
        generation: Generation(row.number("generation")?),
        seq: row.number("seq")?,
        at: Timestamp::from_unix_ms(row.cell("at_ms")?),
        token: row.number("token")?,
        serving: Place(row.number("serving")?),
        kind: row.cell("kind")?,
        body: row.cell("body")?,
    })
}

/// A number as a cell holds it.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
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
