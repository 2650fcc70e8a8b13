//! `catraca check`: the promises, proved from what is stored.

use std::path::PathBuf;

use clap::Args;

use crate::base::secret::Secret;
use crate::check::{self, Finding, Paths};
use crate::cli::{FAILED, OK, USAGE, complain, print};

/// `catraca check …`
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 nothing is broken, 1 a promise is (or, with --strict, was not \
proved), 2 the data cannot be read. It may be run while the system runs: the data is only read."
)]
pub struct CheckArgs {
    /// The data folder: catraca.db, room.db, mailbox.
    #[arg(long, value_name = "DIR", default_value = "catraca-data")]
    pub data_dir: PathBuf,
    /// The PostgreSQL database, where the shop is there and not in catraca.db: postgres://… (or
    /// CATRACA__DATABASE__URL).
    #[arg(
        long,
        value_name = "URL",
        env = "CATRACA__DATABASE__URL",
        hide_env_values = true
    )]
    pub database: Option<String>,
    /// What clients saw: NDJSON as loadtest writes it. May be given more than once.
    #[arg(long, value_name = "FILE")]
    pub history: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Count what could not be proved as a failure.
    #[arg(long)]
    pub strict: bool,
}

/// Carries out `catraca check`.
pub async fn check(args: CheckArgs) -> u8 {
    let paths = Paths {
        data_dir: args.data_dir,
        database: args
            .database
            .filter(|url| url.starts_with("postgres"))
            .map(Secret::new),
        histories: args.history,
    };
    let facts = match check::load(&paths).await {
        Ok(facts) => facts,
        Err(error) => {
            complain(&error.into());
            return USAGE;
        }
    };
    let verdicts = check::judge(&facts);
    print(&if args.json {
        check::to_json(&verdicts)
    } else {
        check::render(&verdicts)
    });
    match check::worst(&verdicts) {
        Finding::Clean => OK,
        Finding::Unproved if !args.strict => OK,
        Finding::Unproved | Finding::Broken => FAILED,
    }
}
