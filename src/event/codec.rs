//! Events in and out of JSON. The corpus in `tests/golden/event/` pins each schema of them.
//!
//! On the wire an event is one flat, compact object: `type` and `eventId` first, then the facts,
//! with `occurredAt` after the identity. Readers skip members that they do not know; `upcast.rs` brings
//! older schemas up to date.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::base::ids::EventId;
use crate::base::time::Timestamp;
use crate::event::upcast::{self, UPCASTERS};
use crate::event::{Customer, Envelope, Event, Order, ShowFacts};

/// Why a payload is no event of ours.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The `type` is none that this build knows.
    #[error("unknown event type {0:?}")]
    UnknownType(String),
    /// The payload is of a schema that this build does not know: a later build wrote it.
    #[error("{kind} of schema {schema} is not known; this build reads 1 to {known}")]
    Future {
        /// The event's `type`.
        kind: String,
        /// What it is of.
        schema: u32,
        /// The last one that this build reads.
        known: u32,
    },
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
        Event::JoinsCounted(facts) => write(envelope, facts),
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
    let schema = head.schema_version.unwrap_or(upcast::FIRST);
    let upcast = upcast::upcast(UPCASTERS, (&head.kind, schema), payload)?;
    let payload = upcast.as_deref().unwrap_or(payload);
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
        "JoinsCounted" => Event::JoinsCounted(read(payload)?),
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

/// What a payload says of its schema: nothing where it is of the first.
fn schema(kind: &str) -> Option<u32> {
    let current = upcast::current(UPCASTERS, kind);
    (current != upcast::FIRST).then_some(current)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    #[serde(rename = "type")]
    kind: String,
    event_id: EventId,
    occurred_at: Timestamp,
    schema_version: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Flat<'a, T> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_version: Option<u32>,
    event_id: EventId,
    occurred_at: Timestamp,
    #[serde(flatten)]
    facts: &'a T,
}

fn write<T: Serialize>(envelope: &Envelope, facts: &T) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Flat {
        kind: envelope.event.kind(),
        schema_version: schema(envelope.event.kind()),
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
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_version: Option<u32>,
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
        schema_version: schema(envelope.event.kind()),
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

    /// The corpus: every file of it, with its schema.
    fn corpus() -> Vec<(u32, String, String)> {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/event");
        let sums = include_str!("../../tests/golden/event/sums");
        let names = sums.lines().map(|line| line.split_once("  ").unwrap().1);
        names
            .map(|name| {
                let (schema, file) = name.trim_start_matches('v').split_once('/').unwrap();
                let text = std::fs::read_to_string(format!("{root}/{name}")).unwrap();
                (schema.parse().unwrap(), file.to_owned(), text)
            })
            .collect()
    }

    /// Every file of every schema reads to an event of its type, and what is of the current schema writes
    /// back to the same bytes. Of each type there is one.
    #[test]
    fn the_corpus_reads_for_ever() {
        let mut kinds = std::collections::BTreeSet::new();
        for (schema, name, text) in corpus() {
            let text = text.trim_end();
            let envelope = from_json(text, 1, None).unwrap_or_else(|e| panic!("{name}: {e}"));
            let kind = envelope.event.kind();
            let words = name.trim_end_matches(".json").split('_');
            let named: String = words
                .map(|word| word[..1].to_uppercase() + &word[1..])
                .collect();
            assert!(named.starts_with(kind), "{name} is {kind}");
            let again = to_json(&envelope);
            if schema == upcast::current(UPCASTERS, kind) {
                assert_eq!(again, text, "{name}");
                kinds.insert(kind);
            }
            assert_eq!(from_json(&again, 1, None).unwrap(), envelope, "{name}");
            let later = text.replacen('{', r#"{"schemaVersion":99,"#, 1);
            let refused = from_json(&later, 1, None).unwrap_err();
            assert!(
                matches!(&refused, CodecError::Future { schema: 99, .. }),
                "{refused}"
            );
        }
        let all = [
            "HoldExpired",
            "HoldPlaced",
            "JoinsCounted",
            "OrderCancelled",
            "OrderConfirmed",
            "OrderDeclined",
            "OrderPlaced",
            "OrderRefunded",
            "ShowSoldOut",
            "StockChanged",
        ];
        assert!(kinds.iter().eq(&all), "{kinds:?}");
    }

    #[test]
    fn a_confirmed_order_carries_its_total_to_the_last_digit() {
        let golden = include_str!("../../tests/golden/event/v1/order_confirmed.json");
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
    fn a_hold_of_nobody_reads() {
        let golden = include_str!("../../tests/golden/event/v1/hold_placed.json").trim_end();
        let older =
            include_str!("../../tests/golden/event/v1/hold_placed_of_nobody.json").trim_end();
        let of = |text| match from_json(text, 1, None).unwrap().event {
            Event::HoldPlaced(hold) => hold,
            other => panic!("{other:?}"),
        };
        assert_eq!(of(older).fan_id, None);
        let fan_id = of(golden).fan_id;
        assert!(fan_id.is_some());
        let told = crate::event::HoldPlaced {
            fan_id,
            ..of(older)
        };
        assert_eq!(told, of(golden));
    }

    #[test]
    fn unknown_members_are_skipped_and_unknown_types_are_named() {
        let golden = include_str!("../../tests/golden/event/v1/show_sold_out.json").trim_end();
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
