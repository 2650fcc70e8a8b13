//! The port to what a consumer group has done: offsets, inbox, retries and dead letters.

use std::collections::BTreeMap;
use std::fmt::Debug;

use async_trait::async_trait;

use crate::base::time::Timestamp;
use crate::log::{Delivery, Handled, LogError};

/// What the groups have done. Every method is one transaction, and repeating it is harmless:
/// offsets never go back, and an event is handled or set aside once.
#[async_trait]
pub trait Inbox: Send + Sync + Debug {
    /// Says that a group runs, and makes it known, at the start of the log, so that nothing is cleaned
    /// up before it has read it. Refused where the database belongs to another log.
    async fn register(&self, group: &str) -> Result<(), LogError>;

    /// Where the group stands: by partition, the next offset to read.
    async fn standing(&self, group: &str) -> Result<BTreeMap<u16, u64>, LogError> {
        Ok(self.stands(group).await?.next)
    }

    /// The same, and where the topic of Kafka begins.
    async fn stands(&self, group: &str) -> Result<Stands, LogError>;

    /// By partition, the place behind the last mark.
    async fn marked(&self) -> Result<BTreeMap<u16, u64>, LogError>;

    /// Keeps that the topic was made anew in these partitions, in which it ends before what is marked of it: by
    /// partition, how many records it has. `stands` and what is marked were known before it was asked: meanwhile
    /// a relay may mark what is behind that end.
    async fn renew(&self, stands: &Stands, ends: &BTreeMap<u16, u64>) -> Result<(), LogError>;

    /// Moves the group back to the beginning of the log, unless it runs. What it has handled stays
    /// known, so that it passes over all of it.
    async fn rewind(&self, group: &str, run: Run) -> Result<Rewound, LogError>;

    /// What the group has handled under this event id.
    async fn handled(&self, group: &str, event_id: &str) -> Result<Option<Handled>, LogError>;

    /// The highest version of a key that the group has handled.
    async fn newest(&self, group: &str, key: &str) -> Result<Option<u64>, LogError>;

    /// Moves the group past what does not concern it: by partition, the last offset passed over.
    async fn pass(&self, group: &str, through: &[(u16, u64)]) -> Result<(), LogError>;

    /// The deliveries that the group is trying again, at most one a partition.
    async fn retries(&self, group: &str) -> Result<Vec<Retry>, LogError>;

    /// Keeps that a delivery is to be tried again.
    async fn retry(&self, group: &str, retry: &Retry) -> Result<(), LogError>;

    /// Sets a delivery aside for a human and moves the group past it.
    async fn set_aside(
        &self,
        group: &str,
        delivery: &Delivery,
        because: &Because,
    ) -> Result<(), LogError>;

    /// The dead letters with an id after `after`, oldest first, at most `DEAD_LETTERS_PAGE_MAX`.
    async fn dead_letters(&self, after: u64) -> Result<Vec<DeadLetter>, LogError>;

    /// One dead letter.
    async fn dead_letter(&self, id: u64) -> Result<Option<DeadLetter>, LogError>;

    /// Keeps that the group has handled a dead letter after all.
    async fn replayed(&self, id: u64) -> Result<(), LogError>;
}

/// Where a group stands, and its log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stands {
    /// By partition, the next offset to read.
    pub next: BTreeMap<u16, u64>,
    /// By partition, the place of the first record of Kafka's topic, where that was made anew: what is before it is
    /// in the outbox alone.
    pub begins: BTreeMap<u16, u64>,
}

/// Whether something is done, or only told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// All of it happens, and is then taken back.
    Dry,
    /// It stays.
    Real,
}

/// What became of a group that was to begin again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rewound {
    /// It stands at offset 0 of every partition; where it stood, by partition.
    From(BTreeMap<u16, u64>),
    /// It was seen so many milliseconds ago, so it may run: what it has in hand would take it forward
    /// again, past what it has not read. Nothing was changed.
    Running(u64),
    /// So many events are no longer in the log, and what they said could not be built again. Nothing was
    /// changed.
    Trimmed(u64),
    /// No such group has ever run. Nothing was changed.
    Unknown,
}

/// A delivery at the head of its partition that is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Its partition.
    pub partition: u16,
    /// Its offset.
    pub offset: u64,
    /// The event.
    pub event_id: String,
    /// Attempts that failed by the delivery's own fault.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub reason: String,
    /// When the first attempt failed.
    pub since: Timestamp,
    /// When the next attempt is due.
    pub next_at: Timestamp,
}

/// Why a delivery was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Because {
    /// What the last attempt said.
    pub reason: String,
    /// How often it was tried.
    pub attempts: u32,
}

/// A delivery that was set aside for a human.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// 1, 2, 3… in the order in which they were set aside.
    pub id: u64,
    /// The group that could not handle it.
    pub group: String,
    /// What it could not handle, and where in the log that stands.
    pub delivery: Delivery,
    /// Why.
    pub because: Because,
    /// When it was set aside.
    pub at: Timestamp,
    /// When it was handled after all.
    pub replayed_at: Option<Timestamp>,
}
