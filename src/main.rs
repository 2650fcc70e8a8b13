//! The program: reads its words, does what they say, ends with the exit code.

use std::process::ExitCode;

use catraca::cli::{self, Cli};
use clap::Parser;
use mimalloc::MiMalloc;

/// A request makes and drops some dozens of small things: with the allocator of the C library that was
/// an eighth of what a status poll costs.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(cli::run(cli)),
        Err(error) => {
            cli::complain(&anyhow::Error::new(error).context("cannot start the runtime"));
            ExitCode::from(cli::FAILED)
        }
    }
}
