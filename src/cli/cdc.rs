//! `catraca cdc`: hands the outbox over to Debezium, and removes what Debezium is past.

use std::time::Duration;

use clap::{Args, Subcommand};
use tokio::time::{Instant, sleep};

use crate::app::database::Database;
use crate::app::{self, StartError};
use crate::base::limits::CLEAN_BATCH_MAX;
use crate::base::time::{Clock, SystemClock};
use crate::cli::settings::loaded;
use crate::cli::{CONFIG, ConfigArgs, FAILED, OK, complain, print, tell};
use crate::config::{Config, Writer};
use crate::log::via_debezium::{HandoverError, Point, ViaDebezium};

/// How long a verb waits for a relay, or for Debezium, to come so far.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two questions.
const PAUSE: Duration = Duration::from_millis(250);

/// What can be done with change data capture.
#[derive(Debug, Subcommand)]
pub enum CdcVerb {
    /// Make publication and slot, wait until the relay has sent all, and take the outbox from it for ever.
    Claim(ConfigArgs),
    /// Remove old rows of the outbox that Debezium has read and confirmed.
    CleanUp(CleanUpArgs),
}

/// The arguments of `catraca cdc clean-up`.
#[derive(Debug, Args)]
pub struct CleanUpArgs {
    /// How old rows must be, in milliseconds. `check` and `journey` know nothing of those removed.
    #[arg(long, value_name = "MS")]
    pub older_than_ms: u64,
    /// The configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// Carries out `catraca cdc`.
pub async fn cdc(verb: &CdcVerb) -> u8 {
    let args = match verb {
        CdcVerb::Claim(args) => args,
        CdcVerb::CleanUp(args) => &args.config,
    };
    let config = match loaded(args) {
        Ok(loaded) => loaded.config,
        Err(error) => {
            complain(&error);
            return CONFIG;
        }
    };
    let (database, outbox) = match open(&config).await {
        Ok(opened) => opened,
        Err(error) => {
            tell(&format!("catraca: {error}"));
            return error.code();
        }
    };
    let done = match verb {
        CdcVerb::Claim(_) => claim(&outbox).await,
        CdcVerb::CleanUp(args) => clean_up(&outbox, args.older_than_ms).await,
    };
    database.close().await;
    match done {
        Ok(line) => {
            print(&line);
            OK
        }
        Err(error) => {
            complain(&error.into());
            FAILED
        }
    }
}

async fn open(config: &Config) -> Result<(Database, ViaDebezium), StartError> {
    app::check(config)?;
    let kafka = config.log.kafka();
    let kafka = kafka.map_err(|error| StartError::config(error.to_string()))?;
    let Some(kafka) = kafka.filter(|_| config.log.writer == Writer::Cdc) else {
        return Err(StartError::config("log.writer must be cdc"));
    };
    let database = Database::open(config).await?;
    database.ready()?;
    let Database::Postgres(db) = &database else {
        return Err(StartError::config("database.url must be of PostgreSQL"));
    };
    let outbox = ViaDebezium::new(db.clone(), kafka.topic());
    Ok((database, outbox))
}

async fn claim(outbox: &ViaDebezium) -> Result<String, HandoverError> {
    outbox.prepare().await?;
    let until = Instant::now() + PATIENCE;
    loop {
        match outbox.claim().await {
            Err(HandoverError::Unsent(_)) if Instant::now() < until => sleep(PAUSE).await,
            claimed => {
                claimed?;
                return Ok("the outbox is change data capture's: start the connector".to_owned());
            }
        }
    }
}

async fn clean_up(outbox: &ViaDebezium, older_than_ms: u64) -> Result<String, HandoverError> {
    let before = SystemClock.now().minus_ms(older_than_ms);
    let point = outbox.point().await?;
    if !passes(outbox, &point).await? {
        return Ok("0 rows removed: Debezium has not confirmed what it reads".to_owned());
    }
    let max = i64::try_from(CLEAN_BATCH_MAX).unwrap_or(i64::MAX);
    let mut rows = 0;
    loop {
        let removed = outbox.remove(&point, before, max).await?;
        rows += removed;
        if removed == 0 {
            return Ok(format!("{rows} rows removed"));
        }
    }
}

async fn passes(outbox: &ViaDebezium, point: &Point) -> Result<bool, HandoverError> {
    let until = Instant::now() + PATIENCE;
    while !outbox.is_past(point).await? {
        if until <= Instant::now() {
            return Ok(false);
        }
        sleep(PAUSE).await;
    }
    Ok(true)
}
