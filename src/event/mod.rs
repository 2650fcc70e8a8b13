//! Facts that leave a service: what happened to a hold, an order, a show's stock or its line.
//!
//! An event is written into the outbox in the transaction that made it true. It carries the facts a
//! consumer needs, so that nobody has to call back. `codec.rs` turns it into JSON, a corpus pins every
//! schema of it, and `upcast.rs` reads the older ones; `money.rs` keeps amounts exact; `partition.rs` says where a key goes, and
//! `headers.rs` what stands beside the payload in Kafka. `thin.rs` is what is left of an event without its facts.

pub mod codec;
pub mod headers;
pub mod money;
pub mod partition;
pub mod thin;
pub mod upcast;

use serde::{Deserialize, Serialize};

use crate::base::ids::{EventId, FanId, HoldId, OrderId, ShowId};
use crate::base::time::Timestamp;
use crate::event::money::Money;

/// One event with what is needed to route, order and forget it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// Names this event for ever: consumers drop a second delivery by it.
    pub id: EventId,
    /// 1, 2, 3… without a gap for one key.
    pub version: u64,
    /// When it became true, by the clock of the service that says so.
    pub at: Timestamp,
    /// The W3C `traceparent` of the request that caused it.
    pub trace: Option<String>,
    /// What happened.
    pub event: Event,
}

impl Envelope {
    /// The identity of the thing that changed: events of one key keep their order.
    pub fn key(&self) -> String {
        match &self.event {
            Event::HoldPlaced(hold) => hold.hold_id.to_string(),
            Event::HoldExpired(hold) => hold.hold_id.to_string(),
            Event::OrderPlaced(order)
            | Event::OrderConfirmed(order)
            | Event::OrderDeclined(order)
            | Event::OrderCancelled(order)
            | Event::OrderRefunded(order) => order.order_id.to_string(),
            Event::StockChanged(stock) => stock.show_id.to_string(),
            Event::ShowSoldOut(sold_out) => sold_out.show_id.to_string(),
            Event::JoinsCounted(counted) => format!("{}/joins", counted.show_id),
        }
    }
}

/// What happened. The name of a variant is the `type` on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Seats were set aside. Key: the hold.
    HoldPlaced(HoldPlaced),
    /// A hold ended without an order. Key: the hold.
    HoldExpired(HoldExpired),
    /// An order exists and waits for its payment. Key: the order.
    OrderPlaced(Order),
    /// The order is paid; its seats are sold. Key: the order.
    OrderConfirmed(Order),
    /// The payment failed for good; the seats are free again. Key: the order.
    OrderDeclined(Order),
    /// An operator cancelled the order. Key: the order.
    OrderCancelled(Order),
    /// The money went back. Key: the order.
    OrderRefunded(Order),
    /// How many seats a show has left. Key: the show.
    StockChanged(StockChanged),
    /// The last seat is sold. Key: the show.
    ShowSoldOut(ShowSoldOut),
    /// How many joined a show's line in a minute. Key: the show's id and `/joins`.
    JoinsCounted(JoinsCounted),
}

impl Event {
    /// The `type` on the wire and in the outbox.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::HoldPlaced(_) => "HoldPlaced",
            Self::HoldExpired(_) => "HoldExpired",
            Self::OrderPlaced(_) => "OrderPlaced",
            Self::OrderConfirmed(_) => "OrderConfirmed",
            Self::OrderDeclined(_) => "OrderDeclined",
            Self::OrderCancelled(_) => "OrderCancelled",
            Self::OrderRefunded(_) => "OrderRefunded",
            Self::StockChanged(_) => "StockChanged",
            Self::ShowSoldOut(_) => "ShowSoldOut",
            Self::JoinsCounted(_) => "JoinsCounted",
        }
    }

    /// The kind of thing that changed: the outbox's `aggregatetype`.
    pub const fn aggregate(&self) -> &'static str {
        match self {
            Self::HoldPlaced(_) | Self::HoldExpired(_) => "hold",
            Self::OrderPlaced(_)
            | Self::OrderConfirmed(_)
            | Self::OrderDeclined(_)
            | Self::OrderCancelled(_)
            | Self::OrderRefunded(_) => "order",
            Self::StockChanged(_) | Self::ShowSoldOut(_) => "show",
            Self::JoinsCounted(_) => "joins",
        }
    }
}

/// The facts of an order, the same in each of its events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    /// The order.
    pub order_id: OrderId,
    /// Who bought.
    pub customer: Customer,
    /// What for.
    pub event: ShowFacts,
    /// The seats by name; general admission numbers its places within the section.
    pub seats: Vec<String>,
    /// The price of all seats together.
    pub total: Money,
    /// Why, where an order ends other than confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Who bought, as far as a message needs to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Customer {
    /// The fan's id: a pseudonym that belongs to this show only.
    pub id: String,
    /// Where messages go.
    pub email: String,
    /// BCP 47 language of the messages.
    pub locale: String,
}

/// The show as its fans know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShowFacts {
    /// The show.
    pub id: ShowId,
    /// Its public name.
    pub name: String,
    /// When it starts, RFC 3339 with the venue's own offset; absent where the operator gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<String>,
}

/// Seats were set aside until a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HoldPlaced {
    /// The hold.
    pub hold_id: HoldId,
    /// The show.
    pub show_id: ShowId,
    /// The seats by name.
    pub seats: Vec<String>,
    /// Their price.
    pub total: Money,
    /// When the seats become free again.
    pub expires_at: Timestamp,
    /// Who holds them; absent in events from before it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan_id: Option<FanId>,
}

/// A hold ended without an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HoldExpired {
    /// The hold.
    pub hold_id: HoldId,
    /// The show.
    pub show_id: ShowId,
    /// The seats that are free again.
    pub seats: Vec<String>,
    /// `expired` by time or `released` by the fan.
    pub reason: String,
}

/// How many seats a show has left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StockChanged {
    /// The show.
    pub show_id: ShowId,
    /// Seats nobody has.
    pub free: u64,
    /// Seats set aside in holds.
    pub held: u64,
    /// Seats sold.
    pub sold: u64,
    /// The same by section.
    pub sections: Vec<SectionStock>,
}

/// How many seats a section has left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SectionStock {
    /// The section.
    pub name: String,
    /// Seats nobody has.
    pub free: u64,
    /// Seats set aside in holds.
    pub held: u64,
    /// Seats sold.
    pub sold: u64,
}

/// The last seat is sold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShowSoldOut {
    /// The show.
    pub show_id: ShowId,
    /// Seats sold in all.
    pub sold: u64,
}

/// How many joined a show's line in one minute: those whom the limits let pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinsCounted {
    /// The show.
    pub show_id: ShowId,
    /// When the minute begins.
    pub minute: Timestamp,
    /// All of them.
    pub joins: u64,
    /// The networks from which most have joined, and how many from each.
    pub networks: Vec<NetworkJoins>,
}

/// How many joined from one network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkJoins {
    /// `203.0.113.0/24` or `2001:db8:1::/48`.
    pub network: String,
    /// How many.
    pub joins: u64,
}
