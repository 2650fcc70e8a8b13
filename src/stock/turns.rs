//! Tells the rooms what the shop decided about turns: a hold keeps one alive, a confirmed order uses it.
//!
//! The gateway says the same as soon as an answer of the shop tells it so. But an answer may be lost
//! on its way to the gateway, and a gateway may die with what it had to say: then a buyer would stand
//! before the gate while seats are held for them, or a slot would be kept for somebody who has bought,
//! and the last seats would be offered to nobody.
//!
//! To say it twice is harmless, so the group keeps its offset and no inbox.

use std::sync::Arc;

use async_trait::async_trait;

use crate::base::ids::FanId;
use crate::base::time::Clock;
use crate::event::{Event, HoldPlaced, Order, codec};
use crate::log::inbox::Inbox;
use crate::log::patience::Failure;
use crate::log::{ApplyError, Consumer, Delivery};
use crate::room::{Rooms, StoreError};

/// The group's name.
pub const GROUP: &str = "admissions";
/// What a turn gets beyond the end of a hold. Less than what the shop gives in its answers, so that
/// where those arrived, nothing changes here.
const GRACE_MS: u64 = 30_000;

/// The consumer.
#[derive(Debug)]
pub struct Turns {
    rooms: Rooms,
    inbox: Arc<dyn Inbox>,
    clock: Arc<dyn Clock>,
}

impl Turns {
    /// A consumer that tells these rooms. `inbox` is what the group has done; `clock` is the wall
    /// clock, as the shop's.
    pub fn new(rooms: Rooms, inbox: Arc<dyn Inbox>, clock: Arc<dyn Clock>) -> Self {
        Self {
            rooms,
            inbox,
            clock,
        }
    }

    async fn use_up(&self, order: &Order) -> Result<(), ApplyError> {
        let fan = order.customer.id.parse();
        let fan: FanId = fan.map_err(|_| permanent("the customer is no fan"))?;
        let consumed = self.rooms.consume(&order.event.id, fan).await;
        consumed.map(drop).map_err(away)
    }

    /// The room has its own time, so the distance counts. Of a hold that is over, nothing is said.
    async fn prolong(&self, hold: &HoldPlaced) -> Result<(), ApplyError> {
        let now = self.clock.now();
        if hold.expires_at <= now {
            return Ok(());
        }
        let board = self.rooms.board(&hold.show_id).await.map_err(away)?;
        let left_ms = hold.expires_at.ms_since(now) + GRACE_MS;
        let until = board.now.plus_ms(left_ms);
        let extended = self.rooms.extend(&hold.show_id, hold.fan_id, until).await;
        extended.map(drop).map_err(away)
    }
}

#[async_trait]
impl Consumer for Turns {
    fn group(&self) -> &'static str {
        GROUP
    }

    fn concerns(&self, delivery: &Delivery) -> bool {
        matches!(delivery.kind.as_str(), "HoldPlaced" | "OrderConfirmed")
    }

    async fn apply(&self, delivery: &Delivery) -> Result<(), ApplyError> {
        let envelope = codec::from_json(&delivery.payload, delivery.version, None)
            .map_err(|error| permanent(&error.to_string()))?;
        match &envelope.event {
            Event::OrderConfirmed(order) => self.use_up(order).await?,
            Event::HoldPlaced(hold) => self.prolong(hold).await?,
            Event::HoldExpired(_)
            | Event::OrderPlaced(_)
            | Event::OrderDeclined(_)
            | Event::OrderCancelled(_)
            | Event::OrderRefunded(_)
            | Event::StockChanged(_)
            | Event::ShowSoldOut(_) => {
                return Err(permanent(
                    "the payload is of another type than its delivery",
                ));
            }
        }
        self.inbox
            .pass(GROUP, &[(delivery.partition, delivery.offset)])
            .await?;
        Ok(())
    }
}

fn permanent(reason: &str) -> ApplyError {
    ApplyError::Failed(Failure::Permanent(reason.to_owned()))
}

/// A room that cannot be asked now says nothing about the delivery: it waits.
fn away(error: StoreError) -> ApplyError {
    ApplyError::Failed(Failure::Away(error.to_string()))
}
