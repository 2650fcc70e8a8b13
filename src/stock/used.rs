//! Tells the rooms which turns are used: one message for each confirmed order.
//!
//! The gateway says the same as soon as an answer of the shop shows a confirmed order. But a buyer
//! may never ask for that answer, and a gateway may die with what it had to say; until the admission
//! runs out its slot would be kept for nobody, and the last seats would be offered to nobody.
//!
//! To say it twice is harmless, so the group keeps its offset and no inbox.

use std::sync::Arc;

use async_trait::async_trait;

use crate::base::ids::FanId;
use crate::event::{Event, codec};
use crate::log::inbox::Inbox;
use crate::log::patience::Failure;
use crate::log::{ApplyError, Consumer, Delivery};
use crate::room::{Rooms, StoreError};

/// The group's name.
pub const GROUP: &str = "admissions";

/// The consumer.
#[derive(Debug)]
pub struct Used {
    rooms: Rooms,
    inbox: Arc<dyn Inbox>,
}

impl Used {
    /// A consumer that tells these rooms. `inbox` is what the group has done.
    pub fn new(rooms: Rooms, inbox: Arc<dyn Inbox>) -> Self {
        Self { rooms, inbox }
    }
}

#[async_trait]
impl Consumer for Used {
    fn group(&self) -> &'static str {
        GROUP
    }

    fn concerns(&self, delivery: &Delivery) -> bool {
        delivery.kind == "OrderConfirmed"
    }

    async fn apply(&self, delivery: &Delivery) -> Result<(), ApplyError> {
        let permanent = |reason: String| ApplyError::Failed(Failure::Permanent(reason));
        let envelope = codec::from_json(&delivery.payload, delivery.version, None)
            .map_err(|error| permanent(error.to_string()))?;
        let Event::OrderConfirmed(order) = envelope.event else {
            return Err(permanent(
                "the payload is of another type than its delivery".to_owned(),
            ));
        };
        let fan: FanId = order
            .customer
            .id
            .parse()
            .map_err(|_| permanent("the customer is no fan".to_owned()))?;
        self.rooms
            .consume(&order.event.id, fan)
            .await
            .map_err(away)?;
        self.inbox
            .pass(GROUP, &[(delivery.partition, delivery.offset)])
            .await?;
        Ok(())
    }
}

/// A room that cannot be asked now says nothing about the delivery: it waits.
fn away(error: StoreError) -> ApplyError {
    ApplyError::Failed(Failure::Away(error.to_string()))
}
