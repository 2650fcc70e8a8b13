//! The port to the seats, and to what was last said of them.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::base::ids::ShowId;
use crate::base::time::Timestamp;
use crate::event::{Envelope, SectionStock};
use crate::stock::count::{Sale, Stock};

/// Seats and stock. Every method is one transaction, and repeating it is harmless.
#[async_trait]
pub trait Store: Send + Sync + Debug {
    /// The shows that have sections, or had seats when they were last counted, in order.
    async fn shows(&self) -> Result<Vec<ShowId>, StoreError>;

    /// The seats of a show by section, in the operator's order, and what was last said of them.
    async fn count(&self, show: &ShowId) -> Result<Seats, StoreError>;

    /// Keeps what shows have left, together with the events this causes, and moves the group past
    /// the deliveries that asked for it. One answer a statement, in order.
    async fn save(
        &self,
        group: &str,
        statements: &[Statement],
        through: &[(u16, u64)],
    ) -> Result<Vec<Saved>, StoreError>;
}

/// What became of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saved {
    /// It stands, and its events are in the outbox.
    Now,
    /// The show was no longer at the version it was counted against: somebody else has counted
    /// since, and nothing was written.
    Overtaken,
}

/// A count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seats {
    /// By section.
    pub sections: Vec<SectionStock>,
    /// Whether the show still sells.
    pub sale: Sale,
    /// What was last said; `None` for a new show.
    pub before: Option<Stock>,
}

/// What is said of a show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The show.
    pub show: ShowId,
    /// The version it was counted against; 0 for a new show.
    pub against: u64,
    /// What it has left.
    pub stock: Stock,
    /// Whether it still sells.
    pub sale: Sale,
    /// When this was true.
    pub as_of: Timestamp,
    /// What became true.
    pub events: Vec<Envelope>,
}

/// Why seats could not be counted.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is away or too slow. Ask again.
    #[error("stock store unavailable")]
    Unavailable(#[source] anyhow::Error),
    /// A row holds something that no build of ours writes.
    #[error("stock store holds foreign data")]
    Corrupt(#[source] anyhow::Error),
}
