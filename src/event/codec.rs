//! Events in and out of JSON. Golden files in `tests/golden/event/` pin each of them.
//!
//! On the wire an event is one flat, compact object: `type` and `eventId` first, then the facts,
//! with `occurredAt` after the identity. Readers skip members that they do not know.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::base::ids::EventId;
use crate::base::time::Timestamp;
use crate::event::{Customer, Envelope, Event, Order, ShowFacts};

/// The version of the payloads that this build writes. A change that an old reader cannot skip
/// raises it and adds an upcaster.
pub const SCHEMA_VERSION: u32 = 1;

/// Why a payload is no event of ours.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The `type` is none that this build knows.
    #[error("unknown event type {0:?}")]
    UnknownType(String),
    /// The text is not JSON, or a member is missing or of the wrong kind.
    #[error("cannot read event")]
    Malformed(#[from] serde_json::Error),
}

/// Writes the payload of an event, compact.
pub fn to_json(envelope: &Envelope) -> String {
    let json = match &envelope.event {
        Event::HoldPlaced(facts) => write(envelope, facts),
        Event::HoldExpired(facts) => write(envelope, facts),
        Event::OrderPlaced(order)
        | Event::OrderConfirmed(order)
        | Event::OrderDeclined(order)
        | Event::OrderCancelled(order)
        | Event::OrderRefunded(order) => write_order(envelope, order),
        Event::StockChanged(facts) => write(envelope, facts),
        Event::ShowSoldOut(facts) => write(envelope, facts),
    };
    json.expect("plain structs with text keys always serialize")
}

/// Reads an event back. `version` and `trace` travel beside the payload, in columns or headers.
///
/// # Errors
/// [`CodecError`] where the payload is no event that this build knows.
pub fn from_json(
    payload: &str,
    version: u64,
    trace: Option<String>,
) -> Result<Envelope, CodecError> {
    let head: Head = serde_json::from_str(payload)?;
    let event = match head.kind.as_str() {
        "HoldPlaced" => Event::HoldPlaced(read(payload)?),
        "HoldExpired" => Event::HoldExpired(read(payload)?),
        "OrderPlaced" => Event::OrderPlaced(read(payload)?),
        "OrderConfirmed" => Event::OrderConfirmed(read(payload)?),
        "OrderDeclined" => Event::OrderDeclined(read(payload)?),
        "OrderCancelled" => Event::OrderCancelled(read(payload)?),
        "OrderRefunded" => Event::OrderRefunded(read(payload)?),
        "StockChanged" => Event::StockChanged(read(payload)?),
        "ShowSoldOut" => Event::ShowSoldOut(read(payload)?),
        _ => return Err(CodecError::UnknownType(head.kind)),
    };
    Ok(Envelope {
        id: head.event_id,
        version,
        at: head.occurred_at,
        trace,
        event,
    })
}

/// Whether a payload is JSON at all: what is not, no log takes.
///
/// # Errors
/// [`CodecError::Malformed`], with the place of the first fault.
pub fn check_json(payload: &str) -> Result<(), CodecError> {
    read::<serde::de::IgnoredAny>(payload).map(|_| ())
}

fn read<T: DeserializeOwned>(payload: &str) -> Result<T, CodecError> {
    Ok(serde_json::from_str(payload)?)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    #[serde(rename = "type")]
    kind: String,
    event_id: EventId,
    occurred_at: Timestamp,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Flat<'a, T> {
    #[serde(rename = "type")]
    kind: &'a str,
    event_id: EventId,
    occurred_at: Timestamp,
    #[serde(flatten)]
    facts: &'a T,
}

fn write<T: Serialize>(envelope: &Envelope, facts: &T) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Flat {
        kind: envelope.event.kind(),
        event_id: envelope.id,
        occurred_at: envelope.at,
        facts,
    })
}

/// The order of the members is part of the published format, so it is written out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FlatOrder<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    event_id: EventId,
    order_id: crate::base::ids::OrderId,
    occurred_at: Timestamp,
    customer: &'a Customer,
    event: &'a ShowFacts,
    seats: &'a [String],
    total: crate::event::money::Money,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

fn write_order(envelope: &Envelope, order: &Order) -> Result<String, serde_json::Error> {
    serde_json::to_string(&FlatOrder {
        kind: envelope.event.kind(),
        event_id: envelope.id,
        order_id: order.order_id,
        occurred_at: envelope.at,
        customer: &order.customer,
        event: &order.event,
        seats: &order.seats,
        total: order.total,
        reason: order.reason.as_deref(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every golden file reads, and writes back to the same bytes.
    #[test]
    fn golden_files_are_what_we_write() {
        for (name, golden) in [
            (
                "HoldPlaced",
                include_str!("../../tests/golden/event/hold_placed.json"),
            ),
            (
                "HoldExpired",
                include_str!("../../tests/golden/event/hold_expired.json"),
            ),
            (
                "OrderPlaced",
                include_str!("../../tests/golden/event/order_placed.json"),
            ),
            (
                "OrderConfirmed",
                include_str!("../../tests/golden/event/order_confirmed.json"),
            ),
            (
                "OrderDeclined",
                include_str!("../../tests/golden/event/order_declined.json"),
            ),
            (
                "OrderCancelled",
                include_str!("../../tests/golden/event/order_cancelled.json"),
            ),
            (
                "OrderRefunded",
                include_str!("../../tests/golden/event/order_refunded.json"),
            ),
            (
                "StockChanged",
                include_str!("../../tests/golden/event/stock_changed.json"),
            ),
            (
                "ShowSoldOut",
                include_str!("../../tests/golden/event/show_sold_out.json"),
            ),
        ] {
            let golden = golden.trim_end();
            let envelope = from_json(golden, 1, None).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(envelope.event.kind(), name);
            assert_eq!(to_json(&envelope), golden);
        }
    }

    #[test]
    fn a_confirmed_order_carries_its_total_to_the_last_digit() {
        let golden = include_str!("../../tests/golden/event/order_confirmed.json");
        assert!(golden.contains(r#""total":{"amount":780.00,"currency":"BRL"}"#));
        let keys: Vec<&str> = [
            "type",
            "eventId",
            "orderId",
            "occurredAt",
            "customer",
            "event",
            "seats",
            "total",
        ]
        .into();
        let at: Vec<_> = keys
            .iter()
            .map(|key| golden.find(&format!("\"{key}\":")))
            .collect();
        assert!(at.is_sorted() && at.iter().all(Option::is_some), "{at:?}");
    }

    /// As events were written before a hold said whose it is.
    #[test]
    fn a_hold_of_nobody_reads_and_writes_back() {
        let golden = include_str!("../../tests/golden/event/hold_placed.json").trim_end();
        let fan = r#","fanId":"000102030405060708090a0b0c0d0e0f""#;
        let older = golden.replace(fan, "");
        assert_ne!(older, golden);
        let envelope = from_json(&older, 1, None).unwrap();
        assert!(matches!(&envelope.event, Event::HoldPlaced(hold) if hold.fan_id.is_none()));
        assert_eq!(to_json(&envelope), older);
    }

    #[test]
    fn unknown_members_are_skipped_and_unknown_types_are_named() {
        let golden = include_str!("../../tests/golden/event/show_sold_out.json").trim_end();
        let newer = golden.replacen('{', r#"{"later":{"a":[1]},"#, 1);
        assert_eq!(
            from_json(&newer, 1, None).unwrap(),
            from_json(golden, 1, None).unwrap()
        );
        let foreign = golden.replacen("ShowSoldOut", "SeatPainted", 1);
        assert!(matches!(
            from_json(&foreign, 1, None),
            Err(CodecError::UnknownType(_))
        ));
        assert!(matches!(
            from_json("{}", 1, None),
            Err(CodecError::Malformed(_))
        ));
    }
}
