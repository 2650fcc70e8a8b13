//! How events travel: the ports of the event log, and the loop that every consumer runs.
//!
//! `outbox_in_*.rs` is how an event gets in. `in_sqlite.rs` and `in_postgres.rs` read the outbox as a log;
//! `in_kafka.rs` reads Kafka. `name_in_*.rs` keeps which of them it is, `topic_in_*.rs` where the topic begins,
//! and `via_debezium.rs` takes the outbox from the relays.
//! `inbox.rs` is what the groups have done: offsets, handled events, retries, dead letters.
//! `rounds` is the rhythm of every group; `consume.rs` hands deliveries to a consumer, one partition after the
//! other; `breaker.rs` tells a poisoned event from a provider that is down, `patience.rs` decides what becomes
//! of a failure, and `aside.rs` takes what is given up to the dead letters.

pub mod breaker;
pub mod consume;
pub mod in_kafka;
pub mod in_postgres;
pub mod in_sqlite;
pub mod inbox;
pub mod inbox_in_postgres;
pub mod inbox_in_sqlite;
pub mod name_in_postgres;
pub mod name_in_sqlite;
pub mod outbox_in_postgres;
pub mod outbox_in_sqlite;
pub mod patience;
pub mod rounds;
pub mod topic_in_postgres;
pub mod topic_in_sqlite;
pub mod via_debezium;

mod aside;
mod in_sql;
mod standings;

use std::fmt::Debug;

use async_trait::async_trait;
use sha2::{Digest, Sha256};

use crate::base::time::Timestamp;
use crate::event::{Envelope, codec};
use crate::log::inbox::Because;
use crate::log::patience::Failure;

/// One event at its place in the log, handed to a consumer group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// 0 to `PARTITIONS` − 1.
    pub partition: u16,
    /// 0, 1, 2… within the partition.
    pub offset: u64,
    /// The event's id, by which an inbox knows it again.
    pub event_id: String,
    /// The aggregate whose events keep their order.
    pub key: String,
    /// 1, 2, 3… within the key.
    pub version: u64,
    /// The event's `type`.
    pub kind: String,
    /// The payload as it was written; `event::codec` reads it.
    pub payload: String,
    /// W3C trace context of the request that caused it.
    pub trace: Option<String>,
    /// When it became true.
    pub at: Timestamp,
}

/// Why a delivery fails whose id a group has handled as another event's.
pub const ANOTHERS_ID: &str = "its id is that of another event, which was handled";
/// How much of the SHA-256 of a payload an inbox keeps.
const DIGEST_BYTES: usize = 16;

/// What a group knows of an event that it has handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handled {
    /// Its key.
    pub key: String,
    /// Its version.
    pub version: u64,
    /// What it said, as [`Delivery::digest`] has it; `None` where an earlier build has handled it.
    pub digest: Option<Vec<u8>>,
}

impl Delivery {
    /// The event.
    ///
    /// # Errors
    /// A permanent [`Failure`] where the payload is none that this build reads, or another's.
    pub fn read(&self) -> Result<Envelope, Failure> {
        let read = codec::from_json(&self.payload, self.version, self.trace.clone());
        let envelope = read.map_err(|error| Failure::Permanent(error.to_string()))?;
        if envelope.id.to_string() != self.event_id {
            let reason = "the payload is of another event than its delivery";
            return Err(Failure::Permanent(reason.to_owned()));
        }
        Ok(envelope)
    }

    /// Whether it is the event that was handled: of its key and version, and says what that said. Every log hands
    /// over the very payload that is in the outbox.
    pub fn is(&self, handled: &Handled) -> bool {
        let said = handled.digest.as_ref();
        self.key == handled.key
            && self.version == handled.version
            && said.is_none_or(|digest| *digest == self.digest())
    }

    /// What an inbox keeps of its payload.
    pub fn digest(&self) -> Vec<u8> {
        Sha256::digest(&self.payload)[..DIGEST_BYTES].to_vec()
    }
}

/// How far a group is behind in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lag {
    /// 0 to `PARTITIONS` − 1.
    pub partition: u16,
    /// Events not yet handled.
    pub records: u64,
    /// Age of the oldest of them, in milliseconds; 0 where there is none.
    pub oldest_ms: u64,
}

/// The log as a consumer group sees it. The offset itself is committed by the consumer's own store,
/// in the transaction of the effect.
#[async_trait]
pub trait Subscriber: Send + Sync + Debug {
    /// The next events of a partition that the group has not committed, in order, at most `max`.
    async fn poll(
        &self,
        group: &str,
        partition: u16,
        max: usize,
    ) -> Result<Vec<Delivery>, LogError>;

    /// How a log outside of the database was when it was last asked: `ok`, or what is wrong in a word. None where the
    /// database is the log, or nobody has asked.
    fn state(&self) -> Option<&'static str> {
        None
    }

    /// How far the group is behind, by partition.
    async fn lag(&self, group: &str) -> Result<Vec<Lag>, LogError>;

    /// Keeps a copy of a delivery that is to be set aside where others find it, before the inbox keeps
    /// that it was. After a crash in between there are two: the same event, the same group.
    ///
    /// A log in the database keeps none: the inbox is there, too.
    async fn set_aside(&self, _: &str, _: &Delivery, _: &Because) -> Result<(), LogError> {
        Ok(())
    }
}

/// What one consumer group does.
#[async_trait]
pub trait Consumer: Send + Sync + Debug {
    /// The name of the group. Each group reads the whole log, at its own pace.
    fn group(&self) -> &'static str;

    /// Whether the group does anything about such an event.
    fn concerns(&self, delivery: &Delivery) -> bool;

    /// Does it, and commits inbox row and offset together with the effect.
    ///
    /// # Errors
    /// [`ApplyError`]; nothing was committed then.
    async fn apply(&self, delivery: &Delivery) -> Result<(), ApplyError>;
}

/// Why nothing was committed for a delivery.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// It could not be handled.
    #[error("delivery failed")]
    Failed(#[from] Failure),
    /// Our own store could not be asked, which says nothing about the delivery. Where it could, and can never
    /// take what the delivery says, that is a [`Failure`].
    #[error("store failed")]
    Store(#[source] LogError),
}

/// The names of logs to which Debezium sends.
const BY_CDC: &str = "cdc:";

/// Which log it is. Places in one mean nothing in another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogName(pub String);

impl LogName {
    /// The outbox itself, read in order.
    pub fn sql() -> Self {
        Self("sql:".to_owned())
    }

    /// A topic of Kafka. Which brokers have it may change.
    pub fn topic(topic: &str) -> Self {
        Self(format!("kafka:{topic}"))
    }

    /// The same topic, where Debezium sends to it and no relay: places in it stay what they were.
    pub fn topic_by_cdc(topic: &str) -> Self {
        Self(format!("{BY_CDC}{topic}"))
    }

    /// Whether the first who names this log decides for it. That Debezium sends is decided otherwise: its
    /// slot must be there before the first event.
    pub fn may_begin(&self) -> bool {
        !self.0.starts_with(BY_CDC)
    }

    /// Whether this is the log that a database is known to belong to.
    ///
    /// # Errors
    /// [`Elsewhere`]: it is another.
    pub fn is(&self, known: &str) -> Result<(), Elsewhere> {
        match self.0 == known {
            true => Ok(()),
            false => Err(Elsewhere {
                known: known.to_owned(),
                named: self.0.clone(),
            }),
        }
    }
}

/// The database belongs to another log than the configuration names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the events of this database go to log {known}, and log.url and log.topic name {named}: {}", self.why())]
pub struct Elsewhere {
    /// Where they have gone so far.
    pub known: String,
    /// Where they were to go.
    pub named: String,
}

impl Elsewhere {
    fn why(&self) -> &'static str {
        if self.known.starts_with(BY_CDC) {
            "change data capture sends them, so no relay may, and log.writer must be cdc"
        } else if self.named.starts_with(BY_CDC) {
            "change data capture sends them only after `catraca cdc claim`"
        } else {
            "offsets of one mean nothing in the other"
        }
    }
}

/// Why the log could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The log is away or too slow. Ask again.
    #[error("event log unavailable")]
    Unavailable(#[source] anyhow::Error),
    /// The group's offsets are places in another log.
    #[error(transparent)]
    Elsewhere(#[from] Elsewhere),
}
