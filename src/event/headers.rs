//! The headers of an event in Kafka: CloudEvents in binary mode. The record's value is the payload as it
//! was written, its key the aggregate's id, and all the rest is headers, which anybody can read without
//! knowing us: <https://github.com/cloudevents/spec>.

use std::collections::BTreeMap;

use crate::base::time::Timestamp;

const SPEC: &str = "ce_specversion";
const ID: &str = "ce_id";
const KIND: &str = "ce_type";
const SOURCE: &str = "ce_source";
const TIME: &str = "ce_time";
/// Extensions of ours, after the columns of the outbox.
const AGGREGATE: &str = "ce_aggregatetype";
pub(super) const VERSION: &str = "ce_aggregateversion";
pub(super) const TRACE: &str = "traceparent";

/// What headers say of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About<'a> {
    /// Names it for ever.
    pub id: &'a str,
    /// Its `type`.
    pub kind: &'a str,
    /// The kind of thing that changed.
    pub aggregate: &'a str,
    /// 1, 2, 3… within the key.
    pub version: u64,
    /// When it became true.
    pub at: Timestamp,
    /// W3C trace context of the request that caused it.
    pub trace: Option<&'a str>,
}

/// The headers of an event, by name.
pub fn write(about: &About<'_>) -> Vec<(&'static str, String)> {
    let mut headers = common((about.id, about.kind), about.at);
    headers.extend([
        (AGGREGATE, about.aggregate.to_owned()),
        (VERSION, about.version.to_string()),
    ]);
    headers.extend(about.trace.map(|trace| (TRACE, trace.to_owned())));
    headers
}

/// What every record says of its event.
pub(super) fn common((id, kind): (&str, &str), at: Timestamp) -> Vec<(&'static str, String)> {
    vec![
        (SPEC, "1.0".to_owned()),
        (ID, id.to_owned()),
        (KIND, kind.to_owned()),
        (SOURCE, "/catraca".to_owned()),
        (TIME, at.to_string()),
        ("content-type", "application/json".to_owned()),
    ]
}

/// Reads what [`write`] has written. Other headers are left alone.
///
/// # Errors
/// The header that is missing or makes no sense: then it is no event of ours.
pub fn read(headers: &BTreeMap<String, Vec<u8>>) -> Result<About<'_>, &'static str> {
    let header = |name: &'static str| {
        let value = headers.get(name);
        let text = value.and_then(|value| str::from_utf8(value).ok());
        text.ok_or(name)
    };
    Ok(About {
        id: header(ID)?,
        kind: header(KIND)?,
        aggregate: header(AGGREGATE)?,
        version: header(VERSION)?.parse().map_err(|_| VERSION)?,
        at: header(TIME)?.parse().map_err(|_| TIME)?,
        trace: header(TRACE).ok(),
    })
}

/// Why a record was set aside, and where it stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aside<'a> {
    /// The group that could not handle it.
    pub group: &'a str,
    /// What the last attempt said.
    pub reason: &'a str,
    /// How often it was tried.
    pub attempts: u32,
    /// The topic.
    pub topic: &'a str,
    /// Its partition.
    pub partition: u16,
    /// Its offset there.
    pub offset: u64,
}

/// What a dead letter has beside the headers of its event.
pub fn write_aside(aside: &Aside<'_>) -> [(&'static str, String); 6] {
    [
        ("dlt-group", aside.group.to_owned()),
        ("dlt-reason", aside.reason.to_owned()),
        ("dlt-attempts", aside.attempts.to_string()),
        ("dlt-topic", aside.topic.to_owned()),
        ("dlt-partition", aside.partition.to_string()),
        ("dlt-offset", aside.offset.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOUT: About<'_> = About {
        id: "0190a1b2-0000-7000-8000-000000000001",
        kind: "OrderConfirmed",
        aggregate: "order",
        version: 2,
        at: Timestamp::from_unix_ms(1_800_000_000_000),
        trace: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    };

    fn written() -> BTreeMap<String, Vec<u8>> {
        let headers = write(&ABOUT).into_iter();
        headers
            .map(|(name, value)| (name.to_owned(), value.into_bytes()))
            .collect()
    }

    #[test]
    fn headers_are_those_of_the_specification() {
        let written: Vec<String> = write(&ABOUT)
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
                "ce_aggregatetype: order",
                "ce_aggregateversion: 2",
                "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            ]
        );
    }

    #[test]
    fn what_is_written_is_read() {
        let mut headers = written();
        headers.insert("ce_unknown".to_owned(), vec![0xff]);
        assert_eq!(read(&headers), Ok(ABOUT));
        headers.remove(TRACE);
        let without = About {
            trace: None,
            ..ABOUT
        };
        assert_eq!(read(&headers), Ok(without));
    }

    #[test]
    fn what_is_no_event_of_ours_says_why() {
        for missing in [ID, KIND, TIME, AGGREGATE, VERSION] {
            let mut headers = written();
            headers.remove(missing);
            assert_eq!(read(&headers), Err(missing));
        }
        for (name, value) in [
            (VERSION, &b"-1"[..]),
            (VERSION, b"two"),
            (TIME, b"yesterday"),
            (ID, b"\xff"),
        ] {
            let mut headers = written();
            headers.insert(name.to_owned(), value.to_owned());
            assert_eq!(read(&headers), Err(name));
        }
    }
}
