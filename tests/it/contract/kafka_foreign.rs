//! What anybody may have written into the topic who may write there: copies, half records, records of nobody's. Each
//! is passed over or set aside by a rule, every group goes on, and what is ours has its effect once.

use std::collections::BTreeMap;

use catraca::analytics::{self, step::Teller};
use catraca::driver::kafka::Kafka;
use catraca::event::{Event, codec};
use catraca::search::{self, step::Lister};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

use crate::contract::desk::{Desk, facts};
use crate::contract::groups::go_on;
use crate::contract::kafka::desk;
use crate::contract::provider::{Mood, Provider, confirm, steps};
use crate::support::kafka::{self, ANSWER_MAX, client};

const PARTITION: u16 = 1;
/// What no broker of ours takes.
const TOO_LARGE: usize = 10 << 20;

/// A record as somebody else writes it.
#[derive(Debug, Clone)]
struct Foreign {
    key: Option<Vec<u8>>,
    payload: Option<Vec<u8>>,
    headers: BTreeMap<String, Vec<u8>>,
}

impl Foreign {
    fn with(&self, header: &str, value: &[u8]) -> Self {
        let mut other = self.clone();
        other.headers.insert(header.to_owned(), value.to_owned());
        other
    }

    fn saying(&self, payload: Option<&[u8]>) -> Self {
        Self {
            payload: payload.map(<[u8]>::to_owned),
            ..self.clone()
        }
    }

    fn with_key(&self, key: Option<&[u8]>) -> Self {
        Self {
            key: key.map(<[u8]>::to_owned),
            ..self.clone()
        }
    }

    fn without_headers(&self) -> Self {
        Self {
            headers: BTreeMap::new(),
            ..self.clone()
        }
    }
}

fn send(topic: &Kafka, producer: &BaseProducer, record: &Foreign) {
    let mut headers = OwnedHeaders::new();
    for (key, value) in &record.headers {
        let value = Some(value);
        headers = headers.insert(Header { key, value });
    }
    let mut to: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic.topic())
        .partition(i32::from(PARTITION))
        .headers(headers);
    to.key = record.key.as_deref();
    to.payload = record.payload.as_deref();
    producer.send(to).map_err(|(error, _)| error).unwrap();
    producer.flush(ANSWER_MAX).unwrap();
}

/// The last record of the partition.
fn newest(topic: &Kafka) -> Foreign {
    let records = kafka::records(topic);
    let mut ours = records.into_iter().rev();
    let record = ours.find(|record| record.partition == PARTITION).unwrap();
    Foreign {
        key: Some(record.key),
        payload: Some(record.payload),
        headers: record.headers,
    }
}

/// Three events of ours that every group has handled.
struct Known {
    first: Foreign,
    second: Foreign,
    third: Foreign,
}

impl Known {
    /// A record of a confirmed order that was never in an outbox, with its payload changed.
    fn made_up(&self, desk: &Desk, change: impl Fn(String) -> String) -> Foreign {
        let order = desk.order_in(PARTITION);
        let envelope = desk.envelope(Event::OrderConfirmed(facts(order)), 1);
        let payload = change(codec::to_json(&envelope));
        self.first
            .with("ce_id", envelope.id.to_string().as_bytes())
            .with("ce_aggregateversion", b"1")
            .with_key(Some(order.to_string().as_bytes()))
            .saying(Some(payload.as_bytes()))
    }

    /// What is no event of ours, or none for the group, or a copy.
    fn passed_over(&self, desk: &Desk) -> Vec<Foreign> {
        let whole = || self.made_up(desk, |payload| payload);
        vec![
            self.first.clone(),
            self.first.without_headers(),
            whole().with("ce_aggregateversion", b"x"),
            whole().with("ce_time", b"soon"),
            whole().with("ce_id", b"\xff"),
            whole().with("ce_type", b"OrderFramed"),
            whole().saying(Some(b"{\"\xff\xfe")),
            whole().with_key(Some(b"\xff")),
        ]
    }

    /// What nobody can read, and what is not what it says; and what is said of it.
    fn set_aside(&self, desk: &Desk) -> Vec<(&'static str, Foreign)> {
        let new = |change: fn(String) -> String| self.made_up(desk, change);
        let whole = || new(|payload| payload);
        let Foreign { key, payload, .. } = &self.second;
        let (key, payload) = (key.as_deref(), payload.as_deref());
        let third = String::from_utf8(self.third.payload.clone().unwrap()).unwrap();
        let bent = third.replace("B-12", "B-21").into_bytes();
        let unread = "cannot read event";
        vec![
            (unread, new(|all| all[..all.len() / 2].to_owned())),
            (unread, whole().saying(Some(b""))),
            (unread, whole().saying(None)), // a tombstone
            (unread, new(|all| all.replace("\"seats\"", "\"benches\""))),
            (unread, new(|all| all.replace("[\"B-12\",\"B-13\"]", "7"))),
            (
                "schema 99",
                new(|all| all.replacen('{', "{\"schemaVersion\":99,", 1)),
            ),
            (
                "another type",
                new(|all| all.replace("OrderConfirmed", "OrderPlaced")),
            ),
            ("another event than", whole().saying(payload)),
            (
                "its id is that of another",
                self.first.with_key(key).saying(payload),
            ),
            ("its id is that of another", self.second.with_key(None)),
            ("its id is that of another", self.third.saying(Some(&bent))),
        ]
    }

    /// Events with what nobody knows, from the future, and from the past.
    fn handled(&self, desk: &Desk) -> Vec<Foreign> {
        let new = |change: fn(String) -> String| self.made_up(desk, change);
        let (future, past) = ("9999-12-30T00:00:00Z", "1970-01-01T00:00:00Z");
        vec![
            new(|all| all.replacen('{', "{\"mood\":\"good\",", 1)),
            new(|all| all.replace("2027-01-15T08:00:00Z", "9999-12-30T00:00:00Z"))
                .with("ce_time", future.as_bytes()),
            new(|all| all.replace("2027-01-15T08:00:00Z", "1970-01-01T00:00:00Z"))
                .with("ce_time", past.as_bytes()),
        ]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_stands_in_the_topic_is_passed_over_or_set_aside_and_groups_go_on() {
    let Some(desk) = desk().await else {
        return;
    };
    let topic = desk.kafka.clone().unwrap();
    let provider = Provider::of(&desk, Mood::Well);
    let mut consuming = desk.notifying(provider.clone());
    let mut ours = vec![confirm(&desk, PARTITION).await];
    desk.relay_all().await;
    let first = newest(&topic);
    ours.push(confirm(&desk, PARTITION).await);
    desk.relay_all().await;
    let second = newest(&topic);
    ours.push(confirm(&desk, PARTITION).await);
    desk.relay_all().await;
    let known = Known {
        first,
        second,
        third: newest(&topic),
    };
    steps(&mut consuming, |total| total.handled == 3).await;

    let producer: BaseProducer = client()
        .set("message.max.bytes", (2 * TOO_LARGE).to_string())
        .create()
        .unwrap();
    let (reasons, unread): (Vec<_>, Vec<_>) = known.set_aside(&desk).into_iter().unzip();
    let more = known.handled(&desk);
    let handled = more.len() as u64 + 1;
    for record in [known.passed_over(&desk), unread, more].concat() {
        send(&topic, &producer, &record);
        send(&topic, &producer, &known.first); // a copy, between all others
    }
    ours.push(confirm(&desk, PARTITION).await);
    desk.relay_all().await;
    let all = (handled, reasons.len() as u64);
    let total = steps(&mut consuming, |total| {
        (total.handled, total.set_aside) == all
    });
    assert_eq!(total.await.failed, 0, "nothing of it is tried again");
    let letters = desk.inbox().dead_letters(0).await.unwrap();
    assert_eq!(letters.len(), reasons.len());
    for (letter, expected) in letters.iter().zip(reasons) {
        let reason = &letter.because.reason;
        assert_eq!(letter.because.attempts, 1, "{reason}");
        assert!(reason.contains(expected), "{reason}: {expected}");
    }
    assert_eq!(provider.taken().len() as u64, 3 + handled);
    for order in ours {
        assert_eq!(provider.tries(order).len(), 1, "one effect");
    }
    let lister = Lister::new(desk.stores.search.clone());
    go_on(&desk, lister, search::GROUP).await;
    let teller = Teller::new(desk.stores.analytics.clone());
    go_on(&desk, teller, analytics::GROUP).await;
    no_broker_takes_a_record_that_is_too_large(&topic, &producer, &known.first);
}

fn no_broker_takes_a_record_that_is_too_large(
    topic: &Kafka,
    producer: &BaseProducer,
    like: &Foreign,
) {
    let before = kafka::ends(topic);
    send(topic, producer, &like.saying(Some(&vec![0; TOO_LARGE])));
    assert_eq!(kafka::ends(topic), before);
}
