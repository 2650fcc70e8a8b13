//! Moves events from the outbox into the log: nothing lost, nothing out of order for its key.
//!
//! `store.rs` has the ports. The adapters of one keep lease, marks and floor beside the outbox, and in SQL
//! the marks are the log; that of the other, `via_kafka.rs`, sends to Kafka what is then marked, and
//! `waves.rs` says what may go at once. `plan.rs` decides which rows go now; `horizon.rs` says from where to
//! look for them where many write at once; `step.rs` is the loop, and `under_way.rs` what it has begun.
//!
//! What can never be sent is in quarantine, and its key waits; `quarantine_in_*.rs` and `api.rs` let an
//! operator send it after all, or go on without it.
//!
//! There is no cursor over `seq`: a row is unsent until it has a mark. Several relays may run; a
//! partition belongs to the one that holds its lease, and whoever lost it is refused inside the very
//! transaction that would have written the marks.

pub mod api;
pub mod horizon;
pub mod in_postgres;
pub mod in_sqlite;
pub mod plan;
pub mod quarantine_in_postgres;
pub mod quarantine_in_sqlite;
pub mod step;
pub mod store;
pub mod under_way;
pub mod via_kafka;
pub mod waves;

mod in_sql;
