//! The port to the listings.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::base::ids::ShowId;
use crate::base::time::Timestamp;
use crate::event::SectionStock;
use crate::log::inbox::{Rewound, Run};
use crate::log::{Delivery, LogError};

/// The listings. Every method is one transaction, and repeating it is harmless.
#[async_trait]
pub trait Store: Send + Sync + Debug {
    /// Lists what an event says, unless the show's listing has a later version, and keeps that the group
    /// has handled the event and is past it.
    async fn list(&self, delivery: &Delivery, said: &Said) -> Result<(), LogError>;

    /// The listing of a show; `None`: no event has told of its seats yet.
    async fn listing(&self, show: &ShowId) -> Result<Option<Listing>, LogError>;

    /// Empties the listings and begins again at the beginning of the log.
    async fn begin_again(&self, run: Run) -> Result<Rewound, LogError>;
}

/// What an event says of a show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The show.
    pub show: ShowId,
    /// When that was true.
    pub at: Timestamp,
    /// What of it.
    pub what: What,
}

/// What is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// What is left, by section.
    Left(Vec<SectionStock>),
    /// The last seat is sold.
    SoldOut,
}

/// A show as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Of the show's last event that is in it.
    pub version: u64,
    /// Free, held and sold by section, in the operator's order.
    pub sections: Vec<SectionStock>,
    /// When this was true.
    pub as_of: Timestamp,
    /// When the last seat was first found sold.
    pub sold_out_at: Option<Timestamp>,
}
