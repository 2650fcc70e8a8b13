//! How a show sells: orders, seats and revenue by minute, from the log alone.
//!
//! An event counts in the minute in which it became true, whenever it is read. `window.rs` says when a minute
//! is closed; what comes after that is counted beside the minute, as late, and lost in no sum.

pub mod api;
pub mod in_postgres;
pub mod in_sqlite;
pub mod step;
pub mod store;
pub mod window;

mod in_sql;

/// The group's name.
pub const GROUP: &str = "analytics";
