//! Libraries, tamed: connections with deadlines, pools that cannot be poisoned.

pub mod redis;
pub mod schema;
pub mod sql;
