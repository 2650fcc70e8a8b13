//! What is left of each show: told to the room, to the log and to whoever asks.
//!
//! `store.rs` is the port to seats and stock; `count.rs` decides what a count means; `step.rs` is
//! the loop. Events of holds and orders only say that a show is worth counting: the seats themselves
//! are the truth, so a lost or repeated event does no harm.

pub mod count;
pub mod in_postgres;
pub mod in_sqlite;
pub mod step;
pub mod store;
pub mod turns;

mod in_sql;
