//! The schema, in the order in which it grew: one list of names, and of each a file for each database.

use crate::driver::sql::Migration;

macro_rules! schema {
    ($($name:literal),+ $(,)?) => {
        /// Every migration of `catraca.db`.
        pub const CATRACA: &[Migration] = &[$(Migration {
            name: $name,
            sql: include_str!(concat!("../../migrations/sqlite/", $name, ".sql")),
        }),+];
        /// Every migration of the PostgreSQL database.
        pub const POSTGRES: &[Migration] = &[$(Migration {
            name: $name,
            sql: include_str!(concat!("../../migrations/postgres/", $name, ".sql")),
        }),+];
    };
}

schema![
    "0001_shows",
    "0002_orders",
    "0003_log",
    "0004_draw",
    "0005_cancel",
    "0006_mends",
    "0007_kafka",
    "0008_views",
    "0009_outbox",
    "0010_holds_of_a_ticket",
    "0011_joins",
    "0012_topic",
    "0013_seats_by_section",
    "0014_payload_digest",
];
