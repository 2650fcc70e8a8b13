//! `catraca migrate`: brings the schema of the database up to date, and does nothing else.

use crate::app::data_dir::DataDir;
use crate::app::database::Database;
use crate::app::{self, StartError};
use crate::cli::settings::loaded;
use crate::cli::{CONFIG, ConfigArgs, OK, UNAVAILABLE, complain, print, tell};
use crate::config::Config;

/// Carries out `catraca migrate`. Every role does the same at its start; this is for whoever wants it
/// done before, by somebody with more rights.
pub async fn migrate(args: &ConfigArgs) -> u8 {
    let config = match loaded(args) {
        Ok(loaded) => loaded.config,
        Err(error) => {
            complain(&error);
            return CONFIG;
        }
    };
    match bring_up_to_date(&config).await {
        Ok(()) => {
            print("the schema is up to date");
            OK
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

async fn bring_up_to_date(config: &Config) -> Result<(), StartError> {
    app::check(config)?;
    let folder = match config.database_is_postgres() {
        true => None,
        false => Some(DataDir::take(&config.data_dir)?),
    };
    let database = Database::open(config).await?;
    let ready = database.ready();
    database.close().await;
    drop(folder);
    ready
}
