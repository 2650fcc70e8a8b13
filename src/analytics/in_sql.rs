//! What both databases share of sales and joins: what rows mean.

use crate::analytics::store::{Came, Joined, Minute, Sum};
use crate::base::time::Timestamp;
use crate::driver::sql::Cells;
use crate::event::money::{Currency, Money};
use crate::event::{JoinsCounted, NetworkJoins};
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

/// What of a minute's joins came from where; an empty name has those of no named network.
pub(super) fn by_network(counted: &JoinsCounted) -> Vec<(&str, u64)> {
    let named = counted.networks.iter();
    let mut all: Vec<(&str, u64)> = named
        .map(|NetworkJoins { network, joins }| (network.as_str(), *joins))
        .collect();
    let told: u64 = all.iter().map(|(_, joins)| joins).sum();
    all.push(("", counted.joins.saturating_sub(told)));
    all.retain(|(_, joins)| 0 < *joins);
    all
}

/// Windows, of rows that are one network of a window each, in order.
pub(super) fn windows(rows: &[impl Cells]) -> Result<Vec<Joined>, LogError> {
    let mut windows: Vec<Joined> = Vec::new();
    for row in rows {
        let window = Timestamp::from_unix_ms(row.cell("window_ms")?);
        if windows.last().is_none_or(|last| last.window != window) {
            windows.push(Joined {
                window,
                all: came(row, ["all_in_time", "all_late"])?,
                networks: Vec::new(),
            });
        }
        let network: String = row.cell("network")?;
        let last = windows.last_mut().filter(|_| !network.is_empty());
        if let Some(last) = last {
            let came = came(row, ["joins", "late_joins"])?;
            last.networks.push((network, came));
        }
    }
    Ok(windows)
}

fn came(row: &impl Cells, [in_time, late]: [&str; 2]) -> Result<Came, sqlx::Error> {
    Ok(Came {
        in_time: row.number(in_time)?,
        late: row.number(late)?,
    })
}
