//! The port to what was sent to whom.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::log::inbox::DeadLetter;
use crate::log::{Delivery, LogError};

/// What was sent. Every method is one transaction, and repeating it is harmless.
#[async_trait]
pub trait Inbox: Send + Sync + Debug {
    /// Keeps that the provider took the message of a delivery, that the group has handled the event
    /// and is past it.
    async fn sent(&self, group: &str, delivery: &Delivery, sent: &Sent) -> Result<(), LogError>;

    /// The same for a delivery that had been set aside. `None`: its message had gone out before.
    async fn replayed(&self, letter: &DeadLetter, sent: Option<&Sent>) -> Result<(), LogError>;
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
