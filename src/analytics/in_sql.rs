//! What both databases share of sales: what rows mean.

use crate::analytics::store::{Minute, Sum};
use crate::base::time::Timestamp;
use crate::driver::sql::Cells;
use crate::event::money::{Currency, Money};
use crate::log::LogError;

/// A row of `sales`.
pub(super) fn minute(row: &impl Cells) -> Result<Minute, LogError> {
    let currency: String = row.cell("currency")?;
    let currency: Currency = currency
        .parse()
        .map_err(|error: crate::event::money::BadMoney| LogError::Unavailable(error.into()))?;
    Ok(Minute {
        minute: Timestamp::from_unix_ms(row.cell("minute_ms")?),
        kind: row.cell("kind")?,
        in_time: Sum {
            orders: row.number("orders")?,
            seats: row.number("seats")?,
            total: Money {
                minor: row.cell("minor")?,
                currency,
            },
        },
        late: Sum {
            orders: row.number("late_orders")?,
            seats: row.number("late_seats")?,
            total: Money {
                minor: row.cell("late_minor")?,
                currency,
            },
        },
    })
}
