//! The port to what was sold, and who came.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::analytics::window::Arrival;
use crate::base::ids::ShowId;
use crate::base::time::Timestamp;
use crate::event::JoinsCounted;
use crate::event::money::Money;
use crate::log::inbox::{Rewound, Run};
use crate::log::{Delivery, LogError};

/// What was sold, and who came. Every method is one transaction, and repeating it is harmless.
#[async_trait]
pub trait Store: Send + Sync + Debug {
    /// Counts a sale once, and keeps that the group has handled the event and is past it. `None`: it was
    /// counted before.
    async fn count(&self, delivery: &Delivery, sale: &Sale) -> Result<Option<Arrival>, LogError>;

    /// The minutes of a show after this one, oldest first, at most `SALES_PAGE_MAX` rows.
    async fn minutes(&self, show: &ShowId, after: Timestamp) -> Result<Vec<Minute>, LogError>;

    /// Counts the joins of a minute once, and keeps that the group has handled the event and is past it.
    /// `None`: they were counted before.
    async fn count_joins(
        &self,
        delivery: &Delivery,
        counted: &JoinsCounted,
    ) -> Result<Option<Arrival>, LogError>;

    /// The windows of joins of a show after this one, oldest first, at most `JOINS_PAGE_MAX`.
    async fn joins(&self, show: &ShowId, after: Timestamp) -> Result<Vec<Joined>, LogError>;

    /// Empties it and begins again at the beginning of the log.
    async fn begin_again(&self, run: Run) -> Result<Rewound, LogError>;
}

/// What happened to an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It was paid.
    Sold,
    /// Its money went back.
    Refunded,
}

impl Kind {
    /// The word in the store and in answers.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sold => "sold",
            Self::Refunded => "refunded",
        }
    }
}

/// One order, sold or refunded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sale {
    /// The show.
    pub show: ShowId,
    /// What happened.
    pub kind: Kind,
    /// When that was true.
    pub at: Timestamp,
    /// How many seats.
    pub seats: u64,
    /// For how much.
    pub total: Money,
}

/// Orders counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub orders: u64,
    /// Their seats.
    pub seats: u64,
    /// Their price.
    pub total: Money,
}

/// What happened in one minute, of one kind and in one currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minute {
    /// When the minute begins.
    pub minute: Timestamp,
    /// `sold` or `refunded`.
    pub kind: String,
    /// What came in time.
    pub in_time: Sum,
    /// What came after the minute was closed, and is not in the other.
    pub late: Sum,
}

/// How many joined a show's line in one window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// When the window begins.
    pub window: Timestamp,
    /// All of them.
    pub all: Came,
    /// From where most have come, at most `JOINS_SHOWN_MAX`.
    pub networks: Vec<(String, Came)>,
}

/// Joins counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Came {
    /// Those that were told in time.
    pub in_time: u64,
    /// Those that were told after the window was closed, and are not in the other.
    pub late: u64,
}
