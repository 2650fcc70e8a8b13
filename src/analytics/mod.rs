//! How a show sells: orders, seats and revenue by minute, and joins by network in five minutes, from the log
//! alone.
//!
//! An event counts in the window in which it became true, whenever it is read. `window.rs` says when a window
//! is closed; what comes after that is counted beside the window, as late, and lost in no sum.

pub mod api;
pub mod in_postgres;
pub mod in_sqlite;
pub mod step;
pub mod store;
pub mod window;

mod in_sql;

/// The group's name.
pub const GROUP: &str = "analytics";
