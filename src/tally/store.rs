//! The port to what was told of joins.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::base::ids::EventId;
use crate::base::time::Timestamp;
use crate::event::JoinsCounted;

/// What was told of joins.
#[async_trait]
pub trait Store: Send + Sync + Debug {
    /// Writes the event of a minute, unless that minute of the show or a later one was told before. One
    /// transaction, and repeating it is harmless.
    async fn tell(&self, said: &Said) -> Result<Told, StoreError>;
}

/// An event without its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Its id.
    pub id: EventId,
    /// When it became true: at the end of the minute.
    pub at: Timestamp,
    /// What it says.
    pub counted: JoinsCounted,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It is in the outbox.
    Now,
    /// That minute was told before.
    Before,
    /// A later one was told before: the store of the joins has gone back in time.
    Overtaken,
}

/// Why nothing was told.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQL is away or too slow. Ask again.
    #[error("the store of events is not available")]
    Unavailable(#[source] anyhow::Error),
}
