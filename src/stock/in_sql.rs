//! What both databases share of seats and stock: what rows mean, and what errors come to.

use crate::base::ids::ShowId;
use crate::base::time::Timestamp;
use crate::driver::sql::{Cells, SqlError};
use crate::event::SectionStock;
use crate::stock::count::{Sale, Stock};
use crate::stock::store::StoreError;

/// The shows with these ids.
pub(super) fn shows(ids: &[String]) -> Result<Vec<ShowId>, StoreError> {
    let parse = |id: &String| {
        id.parse()
            .map_err(|error| StoreError::Corrupt(anyhow::Error::new(error)))
    };
    ids.iter().map(parse).collect()
}

/// The seats of a section, counted.
pub(super) fn section(row: &impl Cells) -> Result<SectionStock, sqlx::Error> {
    Ok(SectionStock {
        name: row.cell("section")?,
        free: row.number("free")?,
        held: row.number("held")?,
        sold: row.number("sold")?,
    })
}

/// A row of `shows`.
pub(super) fn sale(row: &impl Cells) -> Result<Sale, sqlx::Error> {
    let cancelled_at: Option<i64> = row.cell("cancelled_at_ms")?;
    Ok(cancelled_at.map_or(Sale::On, |_| Sale::Cancelled))
}

/// A row of `show_stock`.
pub(super) fn stock(row: &impl Cells) -> Result<Stock, sqlx::Error> {
    let sold_out_at: Option<i64> = row.cell("sold_out_at_ms")?;
    Ok(Stock {
        version: row.number("version")?,
        free: row.number("free")?,
        held: row.number("held")?,
        sold: row.number("sold")?,
        sold_out_at: sold_out_at.map(Timestamp::from_unix_ms),
        event_version: row.number("event_version")?,
    })
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
