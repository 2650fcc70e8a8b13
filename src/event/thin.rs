//! An event without its facts: that something happened, to what, and when. It has ids, type, version and time,
//! and nothing that tells of a person, so it may go where the events themselves may not.
//!
//! Id, type and time are the event's own; `ce_dataschema` says that the value is a thin one.

use serde::Serialize;

use crate::base::time::Timestamp;
use crate::event::headers::{TRACE, VERSION, common};

/// What the value is: CloudEvents names it by a URI.
pub const DATA_SCHEMA: &str = "urn:catraca:thin-event:1";

/// What is left of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thin<'a> {
    /// Names the event for ever; the same as on the event itself.
    pub id: &'a str,
    /// Its `type`.
    pub kind: &'a str,
    /// What it happened to: the key.
    pub subject: &'a str,
    /// 1, 2, 3… within the key.
    pub version: u64,
    /// When it became true.
    pub at: Timestamp,
    /// W3C trace context of the request that caused it.
    pub trace: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Value<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    event_id: &'a str,
    occurred_at: Timestamp,
    subject: &'a str,
    version: u64,
}

impl Thin<'_> {
    /// The value of the record.
    pub fn to_json(&self) -> String {
        let value = Value {
            kind: self.kind,
            event_id: self.id,
            occurred_at: self.at,
            subject: self.subject,
            version: self.version,
        };
        serde_json::to_string(&value).expect("plain structs with text keys always serialize")
    }

    /// The headers of the record, by name.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = common((self.id, self.kind), self.at);
        headers.extend([
            ("ce_dataschema", DATA_SCHEMA.to_owned()),
            ("ce_subject", self.subject.to_owned()),
            (VERSION, self.version.to_string()),
        ]);
        headers.extend(self.trace.map(|trace| (TRACE, trace.to_owned())));
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thin_event_is_what_readers_were_told() {
        let thin = Thin {
            id: "0190a1b2-0000-7000-8000-000000000001",
            kind: "OrderConfirmed",
            subject: "0190a1b2-0000-7000-8000-000000000002",
            version: 2,
            at: Timestamp::from_unix_ms(1_800_000_000_000),
            trace: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        };
        assert_eq!(
            thin.to_json(),
            r#"{"type":"OrderConfirmed","eventId":"0190a1b2-0000-7000-8000-000000000001","occurredAt":"2027-01-15T08:00:00Z","subject":"0190a1b2-0000-7000-8000-000000000002","version":2}"#
        );
        let written: Vec<String> = thin
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        assert_eq!(
            written,
            [
                "ce_specversion: 1.0",
                "ce_id: 0190a1b2-0000-7000-8000-000000000001",
                "ce_type: OrderConfirmed",
                "ce_source: /catraca",
                "ce_time: 2027-01-15T08:00:00Z",
                "content-type: application/json",
                "ce_dataschema: urn:catraca:thin-event:1",
                "ce_subject: 0190a1b2-0000-7000-8000-000000000002",
                "ce_aggregateversion: 2",
                "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            ]
        );
    }
}
