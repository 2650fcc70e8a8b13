//! Arguments, run, exit code.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use loadtest::cli::{Cli, Verb};
use loadtest::{bench, crowd};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return said(&anyhow::Error::new(error).context("starting"), 1),
    };
    match cli.verb {
        Verb::Bench(bench) => match bench::run(&bench, &runtime) {
            Ok(table) => {
                // A closed pipe is nobody's fault.
                drop(writeln!(std::io::stdout(), "{table}"));
                ExitCode::SUCCESS
            }
            Err(error) => said(&error, 1),
        },
        Verb::Crowd(arguments) => match arguments.settings() {
            Ok(settings) => match runtime.block_on(crowd::run(settings)) {
                Ok(report) => {
                    eprint!("{report}");
                    ExitCode::from(u8::from(!report.is_clean()))
                }
                Err(error) => said(&error, 1),
            },
            Err(error) => said(&error, 2),
        },
    }
}

fn said(error: &anyhow::Error, code: u8) -> ExitCode {
    eprintln!("loadtest: {error:#}");
    ExitCode::from(code)
}
