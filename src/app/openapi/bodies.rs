//! The bodies of the public API as its document describes them.
//!
//! Nothing is built from these: they are what others may rely on, held against real answers by the
//! tests. That is why they stand apart from the types that the services write.

use std::collections::BTreeMap;

use serde::Deserialize;
use utoipa::ToSchema;

/// A refusal or a failure (RFC 9457). Act on the last part of `type`; docs/problems.md lists them.
#[derive(Debug, Deserialize, ToSchema)]
pub struct Problem {
    /// `urn:catraca:problem:` and a word.
    pub r#type: String,
    /// A sentence for people. It may change.
    pub title: String,
    /// The status of the answer.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
}

/// A refusal that asks for patience.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TooMany {
    /// `urn:catraca:problem:too-many-requests` or `urn:catraca:problem:challenge-required`.
    pub r#type: String,
    /// A sentence for people. It may change.
    pub title: String,
    /// 429.
    pub status: u16,
    /// Of `challenge-required`: what to work out (ALTCHA, version 2) to join without waiting.
    #[schema(value_type = Object, required = false)]
    pub challenge: Option<BTreeMap<String, serde_json::Value>>,
}

/// A range of waiting times.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Eta {
    /// The middle, in seconds.
    pub seconds: u64,
    /// The lower end, in seconds.
    pub low: u64,
    /// The upper end, in seconds.
    pub high: u64,
    /// Why it is longer than it was.
    #[schema(nullable = false)]
    pub cause: Option<String>,
}

/// A place in line.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Joined {
    /// The show.
    pub show: String,
    /// Who the fan is in this line: 128 bits in hexadecimal digits.
    pub fan: String,
    /// The number that was issued.
    pub number: u64,
    /// The order in which fans are called; null before a draw.
    #[schema(required)]
    pub place: Option<u64>,
    /// At most so many are ahead; null outside of the queue.
    #[schema(required)]
    pub position: Option<u64>,
    /// How the fan stands.
    pub state: String,
    /// How long it may take; null where nothing is known.
    #[schema(required)]
    pub eta: Option<Eta>,
    /// When to ask for the status.
    pub poll_after_ms: u64,
    /// The fan's credential in line, to be kept.
    pub pass: String,
}

/// How a fan stands.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// The show.
    pub show: String,
    /// `early`, `waiting`, `admitted`, `standby`, `gone`, `paused`, `sold_out`, `closed` or
    /// `restoring`.
    pub state: String,
    /// The order in which fans are called; null before a draw.
    #[schema(required)]
    pub place: Option<u64>,
    /// At most so many are ahead; null outside of the queue.
    #[schema(required)]
    pub position: Option<u64>,
    /// How long it may take; null where nothing is known.
    #[schema(required)]
    pub eta: Option<Eta>,
    /// The place up to which seats are expected to last.
    #[schema(required)]
    pub reach: Option<u64>,
    /// When to ask again.
    pub poll_after_ms: u64,
    /// Every place up to it has been called or given up.
    pub serving: u64,
    /// Of who is admitted: what opens the gate.
    #[schema(nullable = false)]
    pub ticket: Option<String>,
    /// Until when, unless it is extended.
    #[schema(format = DateTime, nullable = false)]
    pub ticket_expires_at: Option<String>,
    /// The same as a distance.
    #[schema(nullable = false)]
    pub ticket_expires_in_ms: Option<u64>,
    /// Of who is admitted: the address of the shop, where the show names one.
    pub enter: Option<String>,
    /// Of who is gone: `used`, `expired`, `left` or `revoked`.
    #[schema(nullable = false)]
    pub reason: Option<String>,
}

/// A ticket that is live.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Ticket {
    /// The show that it opens.
    pub show: String,
    /// The fan whom it is bound to.
    pub fan: String,
    /// The same for every claim of one admission.
    pub ticket_id: String,
}

/// A proof of a fan's number for third parties.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// A JWT, signed with a key of `/.well-known/jwks.json`.
    pub receipt: String,
}

/// The keys that verify tickets and receipts (RFC 7517).
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Jwks {
    /// Each with `kid`.
    #[schema(value_type = Vec<Object>)]
    pub keys: Vec<serde_json::Value>,
}

/// The public snapshot of a show, the same for everybody.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// The show.
    pub show: String,
    /// Its name for people.
    pub name: String,
    /// `scheduled`, `early`, `open`, `paused`, `sold_out`, `closed`, `restoring` or `off`.
    pub state: String,
    /// Why fewer are called than could be.
    #[schema(required)]
    pub cause: Option<String>,
    /// Rises with a reset; passes of an older one are void.
    pub edition: u64,
    /// Rises with a loss; pages then show their pass once.
    pub generation: u64,
    /// Every place up to it has been called or given up.
    pub serving: u64,
    /// The last number that was issued.
    pub issued: u64,
    /// Fans in line.
    pub waiting: u64,
    /// Numbers that nobody holds.
    pub gaps: Vec<Gap>,
    /// Calls in a window at most.
    pub rate: u64,
    /// The window.
    pub window_ms: u64,
    /// Places a second as measured.
    #[schema(required)]
    pub pace: Option<f64>,
    /// How wide ranges of waiting times are.
    pub eta: Spread,
    /// The place up to which seats are expected to last.
    #[schema(required)]
    pub reach: Option<u64>,
    /// When the sale opens.
    #[schema(required, format = DateTime)]
    pub opens_at: Option<String>,
    /// The same as a distance, until then.
    #[schema(required)]
    pub opens_in_ms: Option<u64>,
    /// When everything was sold.
    #[schema(required, format = DateTime)]
    pub sold_out_at: Option<String>,
    /// Seats that are left.
    #[schema(required)]
    pub stock: Option<Stock>,
    /// The draw, where the show has one: its commitment from the beginning, its seed once it is open.
    #[schema(required, value_type = Option<Object>)]
    pub draw: Option<BTreeMap<String, serde_json::Value>>,
    /// What the operator says, by language.
    pub message: BTreeMap<String, String>,
    /// Where the shop is.
    #[schema(required)]
    pub shop_url: Option<String>,
    /// How often pages ask.
    pub poll: Poll,
    /// When this was so.
    #[schema(format = DateTime)]
    pub as_of: String,
}

/// Numbers from a loss that nobody holds.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    /// The first of them.
    pub first: u64,
    /// The last of them.
    pub last: u64,
    /// How many of them nobody has come back with.
    pub missing: u64,
}

/// The width of ranges.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Half of it, as a share of the middle.
    pub spread: f64,
}

/// Seats that are left.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Stock {
    /// Free or in carts.
    pub left: u64,
    /// When they were counted.
    #[schema(format = DateTime)]
    pub as_of: String,
    /// Whether that is too long ago.
    pub stale: bool,
}

/// How often pages ask.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Poll {
    /// Between two looks at the board.
    pub board_ms: u64,
    /// How many may show their pass in a second after a loss.
    pub restore_per_s: u64,
    /// How near to their turn fans show that they are there, in seconds.
    #[schema(nullable = false)]
    pub near_s: Option<u64>,
}

/// An amount of money.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Money {
    /// A decimal with the currency's digits.
    pub amount: f64,
    /// ISO 4217.
    pub currency: String,
}

/// What is left, by section.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Seats {
    /// The show.
    pub show: String,
    /// Its sections.
    #[schema(value_type = Vec<Object>)]
    pub sections: Vec<serde_json::Value>,
    /// Free seats of all sections.
    pub free: u64,
    /// When they were counted.
    #[schema(format = DateTime)]
    pub as_of: String,
}

/// Seats that are wished for: a section and a quantity, or names.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldRequest {
    /// The best seats of this section.
    pub section: Option<String>,
    /// So many.
    #[schema(minimum = 1)]
    pub quantity: Option<u32>,
    /// These seats, all or none.
    pub seats: Option<Vec<String>>,
}

/// Seats that are set aside.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// The hold.
    pub hold_id: String,
    /// Its seats.
    pub seats: Vec<String>,
    /// What they cost.
    pub total: Money,
    /// When they go back.
    #[schema(format = DateTime)]
    pub expires_at: String,
    /// The same as a distance.
    pub expires_in_ms: u64,
}

/// A purchase of seats that are held.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderRequest {
    /// The hold.
    pub hold_id: String,
    /// Who buys.
    pub customer: Customer,
    /// How it is paid.
    pub payment: Option<PaymentRequest>,
}

/// Who buys.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Customer {
    /// Where messages go.
    pub email: String,
    /// The language of messages.
    pub locale: Option<String>,
}

/// A try to pay.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PaymentRequest {
    /// What the payment provider gave the fan.
    pub token: Option<String>,
}

/// The facts of an order that never change.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The order.
    pub order_id: String,
    /// The hold that it was made of.
    pub hold_id: String,
    /// Its seats.
    pub seats: Vec<String>,
    /// What they cost.
    pub total: Money,
    /// When it was placed.
    #[schema(format = DateTime)]
    pub placed_at: String,
}

/// An order as it stands.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderStatus {
    /// The order.
    pub order_id: String,
    /// The hold that it was made of.
    pub hold_id: String,
    /// Its seats.
    pub seats: Vec<String>,
    /// What they cost.
    pub total: Money,
    /// When it was placed.
    #[schema(format = DateTime)]
    pub placed_at: String,
    /// `pending`, `confirmed`, `declined`, `cancelled` or `refunded`.
    pub status: String,
    /// Why it stands so.
    #[schema(nullable = false)]
    pub reason: Option<String>,
    /// While it is pending: until when another try to pay may begin.
    #[schema(format = DateTime, nullable = false)]
    pub payable_until: Option<String>,
    /// The same as a distance.
    #[schema(nullable = false)]
    pub payable_in_ms: Option<u64>,
}

/// All of a fan's orders.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Orders {
    /// As they stand.
    pub orders: Vec<OrderStatus>,
}
