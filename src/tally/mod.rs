//! How many joined, told: an event a minute and show, with the networks from which most came.
//!
//! Gateways count in the room's store and need no SQL. When a minute is over nobody adds to it; then it is read
//! here, becomes an event, and is let go of. Any number of processes may do this: which minute of a show was the
//! last is in SQL, in the transaction of its event.

pub mod in_postgres;
pub mod in_sqlite;
pub mod step;
pub mod store;

mod in_sql;
