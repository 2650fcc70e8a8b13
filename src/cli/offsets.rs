//! `catraca offsets reset GROUP`: a consumer group reads the log again from its beginning.

use std::sync::Arc;

use clap::Subcommand;

use crate::analytics;
use crate::app::data_dir::DataDir;
use crate::app::database::Database;
use crate::app::{self, StartError};
use crate::base::ids::IdSource;
use crate::base::limits::GROUP_RUNS_MS;
use crate::base::time::{Clock, SystemClock};
use crate::cli::settings::loaded;
use crate::cli::{CONFIG, ConfigArgs, FAILED, OK, UNAVAILABLE, complain, print, tell};
use crate::config::Config;
use crate::log::LogError;
use crate::log::inbox::{Rewound, Run};
use crate::search;

/// What can be done with offsets.
#[derive(Debug, Subcommand)]
pub enum OffsetsVerb {
    /// Let a group read the log again from its beginning.
    #[command(
        after_help = "The group must not run: stop its processes and wait 15 s.\n\nWhat a group has built from the \
log alone (search, analytics) is emptied and built again. Every other group knows what it has handled: notify writes to \
nobody twice.\n\nExample:\n  catraca offsets reset search --dry-run"
    )]
    Reset {
        /// The group: notify, stock, admissions, search, analytics, thin.
        group: String,
        /// Say from where to where, and change nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        config: ConfigArgs,
    },
}

/// Carries out `catraca offsets`.
pub async fn offsets(verb: &OffsetsVerb) -> u8 {
    let OffsetsVerb::Reset {
        group,
        dry_run,
        config,
    } = verb;
    let run = if *dry_run { Run::Dry } else { Run::Real };
    let config = match loaded(config) {
        Ok(loaded) => loaded.config,
        Err(error) => {
            complain(&error);
            return CONFIG;
        }
    };
    match reset(&config, group, run).await {
        Ok(Ok(rewound)) => report(group, &rewound, run),
        Ok(Err(error)) => {
            complain(&error.into());
            UNAVAILABLE
        }
        Err(error) => {
            tell(&format!("catraca: {error}"));
            match error.code() {
                CONFIG => CONFIG,
                _ => UNAVAILABLE,
            }
        }
    }
}

async fn reset(
    config: &Config,
    group: &str,
    run: Run,
) -> Result<Result<Rewound, LogError>, StartError> {
    app::check(config)?;
    // A folder that a process serves is not to be had: its groups run.
    let folder = match config.database_is_postgres() {
        true => None,
        false => Some(DataDir::take(&config.data_dir)?),
    };
    let database = Database::open(config).await?;
    database.ready()?;
    let own: Arc<dyn Clock> = Arc::new(SystemClock);
    let clock = database.clock(&own);
    let stores = database.stores(&clock, &Arc::new(IdSource::random()));
    let rewound = match group {
        analytics::GROUP => stores.analytics.begin_again(run).await,
        search::GROUP => stores.search.begin_again(run).await,
        _ => stores.inbox.rewind(group, run).await,
    };
    database.close().await;
    drop(folder);
    Ok(rewound)
}

fn report(group: &str, rewound: &Rewound, run: Run) -> u8 {
    match rewound {
        Rewound::From(stood) => {
            for (partition, offset) in stood {
                print(&format!(
                    "{group}: partition {partition} from {offset} to 0"
                ));
            }
            match run {
                Run::Dry => print("nothing was changed"),
                Run::Real => print(&format!("{group} reads the log again once it is started")),
            }
            return OK;
        }
        Rewound::Running(ago_ms) => tell(&format!(
            "catraca: {group} was seen {ago_ms} ms ago: stop every process that runs it, and ask again \
             {GROUP_RUNS_MS} ms after that"
        )),
        Rewound::Trimmed(events) => tell(&format!(
            "catraca: {events} events are no longer in the log, so {group} could not be built again from it"
        )),
        Rewound::Unknown => tell(&format!("catraca: no group {group} has ever run")),
    }
    FAILED
}
