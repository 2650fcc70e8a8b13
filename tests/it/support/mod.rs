//! What several chapters need.

pub(crate) mod authority;
pub(crate) mod bent_log;
pub(crate) mod bent_room;
pub(crate) mod bent_shop;
pub(crate) mod browser;
pub(crate) mod client;
pub(crate) mod cut;
pub(crate) mod database;
pub(crate) mod debezium;
pub(crate) mod foreign;
pub(crate) mod kafka;
pub(crate) mod kafka_doors;
pub(crate) mod kafka_node;
pub(crate) mod need;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod redis;
pub(crate) mod sale;
pub(crate) mod signpost;
pub(crate) mod small_disk;
pub(crate) mod smtp;
pub(crate) mod tab;
pub(crate) mod visitor;

use std::future::Future;
use std::net::TcpListener;
use std::time::Duration;

/// How long a state may take to come about on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// Between two questions: as often as a fan may ask.
const PAUSE: Duration = Duration::from_millis(250);

/// Asks until there is an answer.
pub(crate) async fn until<T, F>(what: &str, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(answer) => answer,
        Err(_) => panic!("waited in vain until {what}"),
    }
}

/// A port that nobody listens on now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
