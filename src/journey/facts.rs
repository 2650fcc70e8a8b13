//! What is known of an order: rows of several tables, as of one moment.

use crate::base::ids::{HoldId, OrderId};
use crate::base::time::Timestamp;

/// What is known of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The order.
    pub order: OrderId,
    /// The hold that it bought.
    pub hold: HoldId,
    /// Its show.
    pub show: String,
    /// `pending`, `confirmed`, `declined`, `cancelled` or `refunded`.
    pub status: String,
    /// Why it ended other than confirmed.
    pub reason: Option<String>,
    /// When it was placed.
    pub placed_at: Timestamp,
    /// When its status last changed.
    pub updated_at: Timestamp,
    /// Until when it may be paid, while it is pending.
    pub payable_until: Timestamp,
    /// Attempts to charge it.
    pub payments: u64,
    /// Of those, the ones whose money has to go back.
    pub owed: u64,
    /// How the last attempt stands, and since when.
    pub last_payment: Option<(String, Timestamp)>,
    /// The version of its last event.
    pub version: u64,
    /// Its events, by version.
    pub events: Vec<EventFacts>,
}

/// What is known of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFacts {
    /// The event.
    pub id: String,
    /// Its `type`.
    pub kind: String,
    /// 1, 2, 3… within the order.
    pub version: u64,
    /// The `traceparent` of the request that caused it.
    pub trace: Option<String>,
    /// When it became true.
    pub at: Timestamp,
    /// Its partition.
    pub partition: u16,
    /// The relay that last had the partition, and until when it has it.
    pub relay: Option<(String, Timestamp)>,
    /// Its offset, and when it was logged.
    pub logged: Option<(u64, Timestamp)>,
    /// Why and since when it is in quarantine.
    pub quarantine: Option<(String, Timestamp)>,
    /// What each group has done about it.
    pub groups: Vec<GroupFacts>,
    /// What the provider answered, and when.
    pub notice: Option<(String, Timestamp)>,
}

/// What a consumer group has done about an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupFacts {
    /// The group.
    pub group: String,
    /// The next offset it reads in the event's partition, and when that was written; `None` where it
    /// has never read at all.
    pub next: Option<(u64, Timestamp)>,
    /// When a process last said that it runs the group.
    pub seen_at: Option<Timestamp>,
    /// When it handled the event.
    pub handled_at: Option<Timestamp>,
    /// The event's dead letter that was not replayed.
    pub dead_letter: Option<DeadLetterFacts>,
    /// What the group is trying again in this partition.
    pub retry: Option<RetryFacts>,
}

/// A delivery that was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterFacts {
    /// By which it is replayed.
    pub id: u64,
    /// Why.
    pub reason: String,
    /// After how many attempts.
    pub attempts: u64,
    /// When.
    pub at: Timestamp,
}

/// A delivery that is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryFacts {
    /// Its event: this one, or one before it.
    pub event_id: String,
    /// Attempts spent.
    pub attempts: u64,
    /// What the last one said.
    pub reason: String,
    /// When the first one failed.
    pub since: Timestamp,
    /// When the next one is due.
    pub next_at: Timestamp,
}

/// What is known of a hold, which is all there is before an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldFacts {
    /// The hold.
    pub hold: HoldId,
    /// Its show.
    pub show: String,
    /// `live`, `ordered`, `expired` or `released`.
    pub state: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Until when it is kept.
    pub expires_at: Timestamp,
    /// The order that bought it.
    pub order: Option<OrderId>,
}
