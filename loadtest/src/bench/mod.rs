//! Measures ways to do the same side by side: in one run, in turns, the middle of the rounds.
//!
//! Absolute rates on a shared machine mean nothing; a ratio within one run does.

pub mod gate;
mod http;
mod machine;
pub mod orders;
mod resp;
pub mod room;
mod system;
mod table;

use clap::Subcommand;
use tokio::runtime::Runtime;

use crate::bench::gate::GateArgs;
use crate::bench::orders::OrdersArgs;
use crate::bench::room::RoomArgs;

/// What can be measured.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// The room: rows 1, 2, 4, 9, 10 and 12 of docs/performance.md.
    Room(RoomArgs),
    /// The gateway: rows 3, 5, 6, 7, 8 and 15 of docs/performance.md, beside nginx and haproxy.
    Gate(GateArgs),
    /// Holds and orders on PostgreSQL, beside a counter row and a statement a row; rows 13 and
    /// 14 of docs/performance.md.
    Orders(OrdersArgs),
}

/// Carries out `loadtest bench …` and says the table. Clients of PostgreSQL run on this runtime; the
/// others have their own, on a core of its own.
///
/// # Errors
/// Something that is needed is missing, or did not do what it was asked.
pub fn run(bench: &Bench, runtime: &Runtime) -> anyhow::Result<String> {
    match bench {
        Bench::Room(args) => room::run(args),
        Bench::Gate(args) => gate::run(args),
        Bench::Orders(args) => runtime.block_on(orders::run(args)),
    }
}
