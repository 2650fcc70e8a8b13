//! Tells people what became of their order.
//!
//! `compose.rs` writes the message, in the words of `language.rs`; `step.rs` sends it, once per
//! event. `inbox.rs` is the port to what was sent. `mail.rs` makes a
//! mail of a message; `via_mailbox.rs` puts it into a folder of `.eml` files, as the embedded system
//! does, and `via_smtp.rs` hands it to a provider.

pub mod compose;
pub mod in_postgres;
pub mod in_sqlite;
pub mod inbox;
pub mod language;
pub mod mail;
pub mod step;
pub mod via_mailbox;
pub mod via_smtp;

use std::fmt::Debug;

use async_trait::async_trait;

use crate::base::ids::{EventId, OrderId};
use crate::base::time::Timestamp;
use crate::log::patience::Failure;
use crate::notify::compose::Message;

/// A message with what makes it the same message when it is sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The event it tells of: the provider's idempotency key, and the mail's Message-ID.
    pub event_id: EventId,
    /// The order it is about.
    pub order_id: OrderId,
    /// When what it tells became true.
    pub at: Timestamp,
    /// What it says, and to whom.
    pub message: Message,
}

/// A provider that takes messages to people.
#[async_trait]
pub trait Sender: Send + Sync + Debug {
    /// Hands a message over and answers the provider's receipt. The same event sent again reaches
    /// its reader once, and answers the same receipt.
    ///
    /// # Errors
    /// [`Failure`], by which the consumer knows whether and when to try again.
    async fn send(&self, notice: &Notice) -> Result<String, Failure>;
}
