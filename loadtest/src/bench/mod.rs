//! Measures ways to do the same side by side: in one run, in turns, the middle of the rounds.
//!
//! Absolute rates on a shared machine mean nothing; a ratio within one run does.

pub mod orders;
pub mod room;

use clap::Subcommand;
use tokio::runtime::Runtime;

use crate::bench::orders::OrdersArgs;
use crate::bench::room::RoomArgs;

/// What can be measured.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// The room: rows 1, 2, 4, 9, 10 and 12 of docs/performance.md.
    Room(RoomArgs),
    /// Holds and orders on PostgreSQL, beside a counter row and a statement a row.
    Orders(OrdersArgs),
}

/// Carries out `loadtest bench …` and says the table. Clients of PostgreSQL run on this runtime; the
/// room's bench has its own, on a core of its own.
///
/// # Errors
/// Something that is needed is missing, or did not do what it was asked.
pub fn run(bench: &Bench, runtime: &Runtime) -> anyhow::Result<String> {
    match bench {
        Bench::Room(args) => room::run(args),
        Bench::Orders(args) => Ok(runtime.block_on(orders::run(args))?.to_string()),
    }
}
