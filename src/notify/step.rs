//! What the notifier does with one delivery.
//!
//! ```text
//! compose ─► send, with the event id as idempotency key ─► receipt + inbox + offset, one transaction
//! ```
//!
//! A crash between the last two sends again; the event id makes it the same message.

use std::sync::Arc;

use async_trait::async_trait;

use crate::log::patience::Failure;
use crate::log::{ApplyError, Consumer, Delivery};
use crate::notify::compose::{GROUP, compose, concerns};
use crate::notify::inbox::{Inbox, Sent};
use crate::notify::{Notice, Sender};

/// Sends people what they are to know.
#[derive(Debug, Clone)]
pub struct Notifier {
    inbox: Arc<dyn Inbox>,
    sender: Arc<dyn Sender>,
}

impl Notifier {
    /// A notifier. `inbox` is what was sent.
    pub fn new(inbox: Arc<dyn Inbox>, sender: Arc<dyn Sender>) -> Self {
        Self { inbox, sender }
    }

    /// Composes and sends the message of a delivery.
    async fn tell(&self, delivery: &Delivery) -> Result<Sent, Failure> {
        let envelope = delivery.read()?;
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
