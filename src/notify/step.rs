//! What the notifier does with one delivery, and with one that was set aside.
//!
//! ```text
//! compose ─► send, with the event id as idempotency key ─► receipt + inbox + offset, one transaction
//! ```
//!
//! A crash between the last two sends again; the event id makes it the same message.

use std::sync::Arc;

use async_trait::async_trait;

use crate::event::codec;
use crate::log::inbox::{DeadLetter, Inbox as Log};
use crate::log::patience::Failure;
use crate::log::{ApplyError, Consumer, Delivery, LogError};
use crate::notify::compose::{GROUP, compose, concerns};
use crate::notify::inbox::{Inbox, Sent};
use crate::notify::{Notice, Sender};

/// Sends people what they are to know.
#[derive(Debug, Clone)]
pub struct Notifier {
    log: Arc<dyn Log>,
    inbox: Arc<dyn Inbox>,
    sender: Arc<dyn Sender>,
}

/// What became of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replayed {
    /// It was handled now; the provider's receipt.
    Now(String),
    /// It had been handled before, and nothing was sent.
    Before,
    /// A later version of the key has been handled, so that this one would be old news. Nothing was
    /// sent; the version.
    Outdated(u64),
    /// It failed again; it stays set aside.
    Failed(String),
    /// The notifier has no such dead letter.
    Unknown,
}

impl Notifier {
    /// A notifier. `log` is what the group has done, `inbox` what was sent.
    pub fn new(log: Arc<dyn Log>, inbox: Arc<dyn Inbox>, sender: Arc<dyn Sender>) -> Self {
        Self { log, inbox, sender }
    }

    /// Tries a delivery again that was set aside. Repeating it sends nothing twice.
    ///
    /// # Errors
    /// [`LogError`] where the store could not be asked.
    pub async fn replay(&self, id: u64) -> Result<Replayed, LogError> {
        let found = self.log.dead_letter(id).await?;
        let Some(letter) = found.filter(|letter| letter.group == GROUP) else {
            return Ok(Replayed::Unknown);
        };
        let delivery = &letter.delivery;
        let handled = self.log.is_handled(GROUP, &delivery.event_id).await?;
        if handled || letter.replayed_at.is_some() {
            self.settle(&letter).await?;
            return Ok(Replayed::Before);
        }
        match self.log.newest(GROUP, &delivery.key).await? {
            Some(newest) if delivery.version < newest => return Ok(Replayed::Outdated(newest)),
            Some(_) | None => {}
        }
        match self.tell(delivery).await {
            Ok(sent) => {
                self.inbox.replayed(&letter, Some(&sent)).await?;
                Ok(Replayed::Now(sent.receipt))
            }
            Err(failure) => Ok(Replayed::Failed(failure.to_string())),
        }
    }

    /// Closes a dead letter whose event was handled by other means.
    async fn settle(&self, letter: &DeadLetter) -> Result<(), LogError> {
        match letter.replayed_at {
            Some(_) => Ok(()),
            None => self.inbox.replayed(letter, None).await,
        }
    }

    /// Composes and sends the message of a delivery.
    async fn tell(&self, delivery: &Delivery) -> Result<Sent, Failure> {
        let trace = delivery.trace.clone();
        let envelope = codec::from_json(&delivery.payload, delivery.version, trace)
            .map_err(|error| Failure::Permanent(error.to_string()))?;
        let Some((order, message)) = compose(&envelope) else {
            let reason = "the payload is of another type than its delivery";
            return Err(Failure::Permanent(reason.to_owned()));
        };
        let notice = Notice {
            event_id: envelope.id,
            order_id: order.order_id,
            at: envelope.at,
            message,
        };
        let receipt = self.sender.send(&notice).await?;
        Ok(Sent {
            kind: notice.message.kind.word(),
            locale: notice.message.language.tag(),
            receipt,
        })
    }
}

#[async_trait]
impl Consumer for Notifier {
    fn group(&self) -> &'static str {
        GROUP
    }

    fn concerns(&self, delivery: &Delivery) -> bool {
        concerns(&delivery.kind)
    }

    async fn apply(&self, delivery: &Delivery) -> Result<(), ApplyError> {
        let sent = self.tell(delivery).await?;
        self.inbox.sent(GROUP, delivery, &sent).await?;
        Ok(())
    }
}
