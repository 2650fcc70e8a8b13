//! `catraca topics apply`: makes the topics of the event log in Kafka, once; nothing else makes them.

use clap::Subcommand;

use crate::base::limits::PARTITIONS;
use crate::cli::settings::loaded;
use crate::cli::{CONFIG, ConfigArgs, OK, UNAVAILABLE, complain, print};
use crate::config::LOG_IN_SQL;
use crate::driver::kafka::topics::Applied;

/// What can be done with topics.
#[derive(Debug, Subcommand)]
pub enum TopicsVerb {
    /// Make the topic that log.url and log.topic name, that of its dead letters, and with log.thin that of thin
    /// events. Where they are there, nothing changes; one with another number of partitions is refused.
    Apply(ConfigArgs),
}

/// Carries out `catraca topics`.
pub async fn topics(verb: &TopicsVerb) -> u8 {
    let TopicsVerb::Apply(args) = verb;
    let config = match loaded(args) {
        Ok(loaded) => loaded.config,
        Err(error) => {
            complain(&error);
            return CONFIG;
        }
    };
    let kafka = match config.log.kafka() {
        Ok(Some(kafka)) => kafka,
        Ok(None) => {
            let line =
                format!("log.url is {LOG_IN_SQL}: the outbox is the log, and there are no topics");
            complain(&anyhow::anyhow!(line));
            return CONFIG;
        }
        Err(error) => {
            complain(&error.into());
            return CONFIG;
        }
    };
    let thin = config.log.thin.then(|| kafka.thin());
    for kafka in [kafka.clone(), kafka.dead_letters()]
        .into_iter()
        .chain(thin)
    {
        let word = match kafka.apply_topic().await {
            Ok(Applied::Made) => "made",
            Ok(Applied::Unchanged) => "unchanged",
            Err(fault) => {
                complain(&fault.into());
                return UNAVAILABLE;
            }
        };
        let topic = kafka.topic();
        print(&format!("{topic}: {word}, {PARTITIONS} partitions"));
    }
    OK
}
