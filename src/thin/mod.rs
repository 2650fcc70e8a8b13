//! Sends every event again without its facts, for whoever must not see personal data: `event/thin.rs` says what
//! is left of it.
//!
//! It is a group like any other and reads the log, so nobody who writes events knows of it, a relay as
//! little as Debezium. `step.rs` is the loop; `via_kafka.rs` sends to a topic of its own, which is given to
//! others by a right of its own. Where the outbox is the log nothing needs sending: the view `thin_events` of
//! the database has the same.

pub mod step;
pub mod store;
pub mod via_kafka;

/// The group's name.
pub const GROUP: &str = "thin";
