//! The port to what was sent to whom.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::log::{Delivery, LogError};

/// What was sent. It is one transaction, and repeating it is harmless.
#[async_trait]
pub trait Inbox: Send + Sync + Debug {
    /// Keeps that the provider took the message of a delivery, that the group has handled the event
    /// and is past it.
    async fn sent(&self, group: &str, delivery: &Delivery, sent: &Sent) -> Result<(), LogError>;
}

/// What the provider took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// What the message told of: `confirmed`, `declined`, `cancelled`, `refunded`.
    pub kind: &'static str,
    /// The language it was written in.
    pub locale: &'static str,
    /// What the provider answered.
    pub receipt: String,
}
