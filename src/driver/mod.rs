//! Libraries, tamed: connections with deadlines, pools that cannot be poisoned.

mod clock;
pub mod https;
pub mod kafka;
pub mod postgres;
mod postgres_first;
pub mod postgres_url;
pub mod redis;
pub mod schema;
pub mod smtp;
pub mod sole;
pub mod sql;
pub mod sqlite;
