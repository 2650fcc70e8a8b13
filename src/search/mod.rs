//! What listings and search engines show of a show: what is left by section, from the log alone.
//!
//! ```text
//! StockChanged, ShowSoldOut ─► newer than what is listed? ─► listing + inbox + offset, one transaction
//! ```
//!
//! `GET /v1/shows/{show}/seats` does not read it: that answer is counted from the seats, and a listing is
//! behind them by the way through the log. A listing carries the version of the event it was taken from,
//! for whoever copies it on and must not take an older one for a newer one.

pub mod api;
pub mod in_postgres;
pub mod in_sqlite;
pub mod step;
pub mod store;

mod in_sql;

/// The group's name.
pub const GROUP: &str = "search";
