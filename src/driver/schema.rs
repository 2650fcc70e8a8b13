//! The schema of `catraca.db`, in the order in which it grew.

use crate::driver::sql::Migration;

/// Every migration of the main database.
pub const CATRACA: &[Migration] = &[
    Migration {
        name: "0001_shows",
        sql: include_str!("../../migrations/sqlite/0001_shows.sql"),
    },
    Migration {
        name: "0002_orders",
        sql: include_str!("../../migrations/sqlite/0002_orders.sql"),
    },
    Migration {
        name: "0003_log",
        sql: include_str!("../../migrations/sqlite/0003_log.sql"),
    },
    Migration {
        name: "0005_cancel",
        sql: include_str!("../../migrations/sqlite/0005_cancel.sql"),
    },
];
