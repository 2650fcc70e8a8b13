//! The bodies of the operators' API as its document describes them. As with the public ones, nothing is
//! built from these.

use std::collections::BTreeMap;

use serde::Deserialize;
use utoipa::ToSchema;

use crate::app::openapi::bodies::Money;

/// All shows.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Shows {
    /// Each with its state and its line.
    pub shows: Vec<Show>,
}

/// A show as operators read it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Show {
    /// Its id.
    pub show: String,
    /// Rises with every change; also the `ETag`.
    pub version: u64,
    /// What its operators, its schedule or its stock have come to.
    pub state: String,
    /// When it was cancelled for good.
    #[schema(format = DateTime, nullable = false)]
    pub cancelled_at: Option<String>,
    /// Rises when the room is emptied.
    pub edition: u64,
    /// Rises when the room's data was lost.
    pub generation: u64,
    /// What was decided.
    pub settings: ShowSettings,
    /// Where it draws lots.
    #[schema(nullable = false)]
    pub draw: Option<Draw>,
    /// What its room says.
    pub room: Room,
}

/// What an operator decides about a show; docs/shows.md has every member, its default and its range.
#[derive(Debug, Deserialize, ToSchema)]
pub struct ShowSettings {
    /// The public name.
    pub name: String,
    /// Fans called in any window; 0 pauses the calling.
    pub rate: u64,
    /// The window of `rate`.
    #[schema(nullable = false)]
    pub window_ms: Option<u64>,
    /// The highest `rate` that may be set live.
    #[schema(nullable = false)]
    pub rate_max: Option<u64>,
    /// Admissions that may be live at once.
    #[schema(nullable = false)]
    pub capacity: Option<u64>,
    /// When joining begins.
    #[schema(format = DateTime, nullable = false)]
    pub early_at: Option<String>,
    /// When calling begins.
    #[schema(format = DateTime, nullable = false)]
    pub opens_at: Option<String>,
    /// When the sale ends.
    #[schema(format = DateTime, nullable = false)]
    pub closes_at: Option<String>,
    /// Where an admitted fan buys.
    #[schema(nullable = false)]
    pub shop_url: Option<String>,
    /// What is sold.
    #[schema(nullable = false)]
    pub sections: Option<Vec<Section>>,
    /// A line to everybody, by language.
    #[schema(nullable = false)]
    pub message: Option<BTreeMap<String, String>>,
}

/// A part of the house with one price.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// How many seats it has.
    pub seats: u32,
    /// Whether fans may choose seats by name.
    #[schema(nullable = false)]
    pub numbered: Option<bool>,
    /// The price of one seat.
    pub price: Money,
}

/// Members of the settings that are to change; null takes one away.
#[derive(Debug, Deserialize, ToSchema)]
pub struct ShowChange {
    /// Fans called in any window.
    #[schema(nullable = false)]
    pub rate: Option<u64>,
    /// Admissions that may be live at once.
    pub capacity: Option<u64>,
    /// A line to everybody, by language.
    pub message: Option<BTreeMap<String, String>>,
}

/// What a room says, or why it says nothing: `unfenced`, `unavailable`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Room {
    /// Its state.
    pub state: String,
    /// Why it says nothing.
    #[schema(nullable = false)]
    pub error: Option<String>,
    /// Every place up to it has been called or given up.
    #[schema(nullable = false)]
    pub serving: Option<u64>,
    /// The last number that was issued.
    #[schema(nullable = false)]
    pub issued: Option<u64>,
    /// Fans in the queue.
    #[schema(nullable = false)]
    pub waiting: Option<u64>,
    /// Fans who were called and have not come.
    #[schema(nullable = false)]
    pub standby: Option<u64>,
    /// Live admissions.
    #[schema(nullable = false)]
    pub live: Option<u64>,
    /// Who calls; null where nobody does.
    pub leader: Option<String>,
    /// Entries of the ledger that are not in SQL yet.
    #[schema(nullable = false)]
    pub uncopied: Option<u64>,
    /// What is left, where anybody has said so.
    pub stock: Option<RoomStock>,
    /// The room's time.
    #[schema(format = DateTime, nullable = false)]
    pub as_of: Option<String>,
}

/// Seats as the room knows them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RoomStock {
    /// Seats nobody has.
    pub free: u64,
    /// Seats set aside.
    pub held: u64,
    /// Seats sold.
    pub sold: u64,
    /// When they were counted.
    #[schema(format = DateTime)]
    pub as_of: String,
}

/// A draw; its secret is `***` until the seed is public.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Draw {
    /// What seals it.
    pub commitment: String,
    /// What is sealed.
    pub secret: String,
    /// How many take part; null before it begins.
    #[schema(required)]
    pub size: Option<u64>,
    /// The beacon's value; null before it was entered.
    #[schema(required)]
    pub beacon_value: Option<String>,
    /// What the order follows from; null before the draw.
    #[schema(required)]
    pub seed: Option<String>,
}

/// The value that a draw's beacon has published.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BeaconRequest {
    /// Exactly as fans can look it up.
    #[schema(min_length = 1)]
    pub value: String,
}

/// What nothing undoes is said twice.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// The show's id once more.
    pub show: String,
}

/// Whose turn ends.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeRequest {
    /// The fan, 32 hexadecimal digits.
    #[schema(pattern = "^[0-9a-f]{32}$")]
    pub fan: String,
    /// `out`, or `returned`: next in line again.
    #[schema(pattern = "^(out|returned)$", nullable = false)]
    pub then: Option<String>,
}

/// That it has ended.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Revoked {
    /// The show.
    pub show: String,
    /// The fan.
    pub fan: String,
    /// `now`, or `before`.
    pub revoked: String,
}

/// How far the cancellation of a show has come.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Cancellation {
    /// The show.
    pub show: String,
    /// When it was cancelled; null where it was not.
    #[schema(format = DateTime, required)]
    pub cancelled_at: Option<String>,
    /// Whether nothing is left to do.
    pub done: bool,
    /// Seats that could still be had.
    pub seats_free: u64,
    /// Seats in holds.
    pub seats_held: u64,
    /// Seats sold.
    pub seats_sold: u64,
    /// Orders taken back.
    pub orders_cancelled: u64,
    /// Orders paid back.
    pub orders_refunded: u64,
    /// Payments that are not over.
    pub payments_open: u64,
}

/// Where an order stopped.
#[derive(Debug, Deserialize, ToSchema)]
pub struct Journey {
    /// The hold that it bought.
    pub hold: String,
    /// Its show.
    pub show: String,
    /// Its status.
    pub status: String,
    /// Its stages, in order.
    #[schema(value_type = Vec<Object>)]
    pub stages: Vec<serde_json::Value>,
    /// The same for a person.
    pub text: String,
}

/// Deliveries that were set aside.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadLetters {
    /// Oldest first.
    pub dead_letters: Vec<DeadLetter>,
}

/// One of them, without what it carries.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadLetter {
    /// By which it is tried again.
    pub id: u64,
    /// The group that could not handle it.
    pub consumer: String,
    /// Where it stood in the log.
    pub partition: u16,
    /// Where in its partition.
    pub offset: u64,
    /// The event.
    pub event_id: String,
    /// What it is about.
    pub key: String,
    /// The version of that.
    pub version: u64,
    /// What kind of event.
    pub r#type: String,
    /// Why it was set aside.
    pub reason: String,
    /// How often it was tried.
    pub attempts: u32,
    /// When.
    #[schema(format = DateTime)]
    pub at: String,
    /// When it was tried again; null: never.
    #[schema(format = DateTime, required)]
    pub replayed_at: Option<String>,
}

/// Events that can never be sent as they are.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Quarantine {
    /// Oldest first.
    pub quarantine: Vec<Quarantined>,
}

/// One of them, without what it carries. Later events of its key wait behind it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Quarantined {
    /// Its number in the outbox, by which it is released or skipped.
    pub seq: u64,
    /// The event.
    pub event_id: String,
    /// What kind of event.
    pub r#type: String,
    /// What kind of thing it is about.
    pub aggregate: String,
    /// Which one.
    pub key: String,
    /// The version of that.
    pub version: u64,
    /// Why it cannot be sent.
    pub reason: String,
    /// Since when it waits.
    #[schema(format = DateTime)]
    pub since: String,
}

/// What goes now that waited.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Released {
    /// Events that go now.
    pub released: u64,
}

/// What became of another try.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Replayed {
    /// `replayed`, `handled-before`, `outdated` or `failed`.
    pub outcome: String,
    /// Who took it, and how it is named there.
    #[schema(nullable = false)]
    pub receipt: Option<String>,
    /// Why it failed.
    #[schema(nullable = false)]
    pub reason: Option<String>,
    /// Where it is outdated: by what.
    #[schema(nullable = false)]
    pub newer_version: Option<u64>,
}
