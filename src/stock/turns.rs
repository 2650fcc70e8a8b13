//! Tells the rooms what the shop decided about turns: a hold keeps one alive, a confirmed order uses it.
//!
//! The gateway says the same as soon as an answer of the shop tells it so. But an answer may be lost
//! on its way to the gateway, and a gateway may die with what it had to say: then a buyer would stand
//! before the gate while seats are held for them, or a slot would be kept for somebody who has bought,
//! and the last seats would be offered to nobody.
//!
//! To say it twice is harmless, so the group keeps its offset and no inbox.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::base::ids::{FanId, ShowId};
use crate::base::limits::HOLD_GRACE_LOGGED_MS;
use crate::base::time::{Clock, Timestamp};
use crate::event::{Event, HoldPlaced, Order};
use crate::log::inbox::Inbox;
use crate::log::patience::Failure;
use crate::log::{ApplyError, Consumer, Delivery};
use crate::room::{Rooms, StoreError};

/// The group's name.
pub const GROUP: &str = "admissions";
/// How long it is taken for true how far a room's time is from ours: a crowd of holds is one question.
const KNOWN_MS: u64 = 1_000;

/// What time a room had when it was asked, and what time it was here.
#[derive(Debug, Clone, Copy)]
struct Asked {
    there: Timestamp,
    here: Timestamp,
}

/// The consumer.
#[derive(Debug)]
pub struct Turns {
    rooms: Rooms,
    inbox: Arc<dyn Inbox>,
    clock: Arc<dyn Clock>,
    /// The rooms that were asked lately.
    asked: Mutex<BTreeMap<ShowId, Asked>>,
}

impl Turns {
    /// A consumer that tells these rooms. `inbox` is what the group has done; `clock` is the wall
    /// clock, as the shop's.
    pub fn new(rooms: Rooms, inbox: Arc<dyn Inbox>, clock: Arc<dyn Clock>) -> Self {
        Self {
            rooms,
            inbox,
            clock,
            asked: Mutex::default(),
        }
    }

    async fn use_up(&self, order: &Order) -> Result<(), ApplyError> {
        let fan = order.customer.id.parse();
        let fan: FanId = fan.map_err(|_| permanent("the customer is no fan"))?;
        let consumed = self.rooms.consume(&order.event.id, fan).await;
        consumed.map(drop).map_err(away)
    }

    /// The room has its own time, so the distance counts. Of a hold that is over, or nobody's, nothing
    /// is said.
    async fn prolong(&self, hold: &HoldPlaced) -> Result<(), ApplyError> {
        let now = self.clock.now();
        let Some(fan) = hold.fan_id.filter(|_| now < hold.expires_at) else {
            return Ok(());
        };
        let asked = self.time_of(&hold.show_id, now).await?;
        let left_ms = hold.expires_at.ms_since(asked.here) + HOLD_GRACE_LOGGED_MS;
        let until = asked.there.plus_ms(left_ms);
        let extended = self.rooms.extend(&hold.show_id, fan, until).await;
        extended.map(drop).map_err(away)
    }

    /// What time a room had, not long before `now`.
    async fn time_of(&self, show: &ShowId, now: Timestamp) -> Result<Asked, ApplyError> {
        let is_fresh = |asked: &Asked| asked.here <= now && now < asked.here.plus_ms(KNOWN_MS);
        if let Some(asked) = self.asked().get(show).copied().filter(is_fresh) {
            return Ok(asked);
        }
        let there = self.rooms.board(show).await.map_err(away)?.now;
        let asked = Asked { there, here: now };
        let mut all = self.asked();
        all.retain(|_, asked| is_fresh(asked));
        all.insert(show.clone(), asked);
        Ok(asked)
    }

    fn asked(&self) -> MutexGuard<'_, BTreeMap<ShowId, Asked>> {
        // Nothing panics under this lock; if it did, the map would still be whole.
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
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
        let envelope = delivery.read()?;
        match &envelope.event {
            Event::OrderConfirmed(order) => self.use_up(order).await?,
            Event::HoldPlaced(hold) => self.prolong(hold).await?,
            Event::HoldExpired(_)
            | Event::OrderPlaced(_)
            | Event::OrderDeclined(_)
            | Event::OrderCancelled(_)
            | Event::OrderRefunded(_)
            | Event::StockChanged(_)
            | Event::ShowSoldOut(_)
            | Event::JoinsCounted(_) => {
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
