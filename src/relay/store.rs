//! The ports to the outbox, with who relays which partition of it, and to a log that is not the outbox.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::base::time::Timestamp;
use crate::log::Elsewhere;
use crate::relay::plan::{Batch, Lease, Page};

/// The outbox, its marks and its leases. Every method is one transaction, and repeating it is
/// harmless.
#[async_trait]
pub trait Store: Send + Sync + Debug {
    /// Takes or renews every partition that nobody else holds, for `ttl_ms` from now. Answers those
    /// that `holder` has now.
    async fn lease(&self, holder: &str, ttl_ms: u64) -> Result<Vec<Lease>, StoreError>;

    /// Gives up every partition that `holder` has, so that the next relay need not wait.
    async fn resign(&self, holder: &str) -> Result<(), StoreError>;

    /// The first rows of a partition, by `seq`, that have no mark and are not quarantined.
    async fn unsent(&self, partition: u16, max: usize) -> Result<Page, StoreError>;

    /// Marks the rows of batches, at the next offsets of their partitions or where another log has put
    /// them, keeps what cannot be sent, and raises the floors. A batch whose token is no longer its
    /// partition's changes nothing. One answer a batch, in order.
    async fn publish(&self, batches: &[Batch]) -> Result<Vec<Published>, StoreError>;

    /// Removes rows and marks that were logged before `before` and that every registered group is
    /// past, at most `max` a partition. Never the last one of a partition: it knows the next offset.
    async fn clean_up(&self, before: Timestamp, max: usize) -> Result<Cleaned, StoreError>;
}

/// The log, where it is not the outbox.
#[async_trait]
pub trait Sink: Send + Sync + Debug {
    /// Sends the rows of a batch, within `ACK_DEADLINE_MS`: of each key one after the other, each when the one
    /// before is in the log. Sent again, a row may stand there twice.
    async fn send(&self, batch: Batch) -> Sent;
}

/// What became of a batch that was sent.
#[derive(Debug)]
pub struct Sent {
    /// What of it may be marked: rows with the offsets at which they stand, and those that the log takes never.
    pub marks: Batch,
    /// Why the rest is not in the log, as far as anybody knows. `None`: there is no rest.
    pub failure: Option<anyhow::Error>,
}

/// What can never be sent, as operators have it. Every method is one transaction, and repeating it is harmless.
#[async_trait]
pub trait Quarantine: Send + Sync + Debug {
    /// The events that are in quarantine and were not given up, oldest first, at most
    /// `QUARANTINE_PAGE_MAX`.
    async fn held(&self) -> Result<Vec<Held>, StoreError>;

    /// Lets the relay try an event again, and those of its key behind it.
    async fn release(&self, seq: u64) -> Result<Freed, StoreError>;

    /// Gives an event up: it will never be in the log. Those of its key behind it go.
    async fn skip(&self, seq: u64) -> Result<Freed, StoreError>;
}

/// An event in quarantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its place in the outbox, by which it is named.
    pub seq: u64,
    /// The event.
    pub event_id: String,
    /// Its `type`.
    pub kind: String,
    /// The kind of thing that changed, and which one.
    pub key: (String, String),
    /// 1, 2, 3… within the key.
    pub version: u64,
    /// Why it cannot be sent.
    pub reason: String,
    /// Since when.
    pub at: Timestamp,
}

/// What became of an event that was to leave the quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freed {
    /// So many events go now.
    Events(u64),
    /// It waits behind this one of its key, which comes first.
    Behind(u64),
    /// It is not in quarantine.
    Unknown,
}

/// The answer to a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// So many of its rows are in the log, and these never will be; any others are still unsent. None is where
    /// the topic was made anew meanwhile: all of it goes again.
    Done {
        /// Rows that are in the log.
        sent: usize,
        /// Rows that can never be sent, and why.
        quarantined: Vec<(u64, String)>,
    },
    /// Another relay holds the partition, or the lease has run out: nothing was written.
    Fenced,
}

/// What a clean-up did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Rows removed.
    pub rows: u64,
    /// Partitions whose old rows stay because a group has not read them.
    pub held_back: u32,
}

impl Published {
    /// Nothing of it is done.
    pub const fn nothing() -> Self {
        Self::Done {
            sent: 0,
            quarantined: Vec::new(),
        }
    }

    /// Whether all rows of this batch are in the log or never will be.
    pub fn is_all_of(&self, batch: &Batch) -> bool {
        matches!(self, Self::Done { sent, .. } if *sent == batch.send.len())
    }

    /// All of it is done.
    pub fn all_of(batch: Batch) -> Self {
        Self::Done {
            sent: batch.send.len(),
            quarantined: batch.quarantine,
        }
    }
}

/// Why nothing could be sent.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is away or too slow. Ask again.
    #[error("outbox unavailable")]
    Unavailable(#[source] anyhow::Error),
    /// The log that is not the outbox is away, too slow or not as it should be. Ask again.
    #[error("event log unavailable")]
    Log(#[source] anyhow::Error),
    /// The outbox's events go to another log than this relay's.
    #[error(transparent)]
    Elsewhere(#[from] Elsewhere),
}
