//! Events without their facts: nothing in them tells of a person, and each key is in order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use catraca::app::database::{Database, Stores};
use catraca::base::ids::{FanId, HoldId, OrderId};
use catraca::base::limits::PARTITIONS;
use catraca::base::time::Timestamp;
use catraca::driver::kafka::Kafka;
use catraca::driver::kafka::producer::Producer;
use catraca::driver::kafka::topics::Applied;
use catraca::event::{Event, HoldPlaced, thin};
use catraca::log::{Delivery, LogError};
use catraca::thin::step::Thinner;
use catraca::thin::store::Sink;
use catraca::thin::via_kafka::ViaKafka;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::contract::desk::{Desk, T0, facts};
use crate::contract::kafka::desk;
use crate::support::database::{self, on_every_database};
use crate::support::kafka::{self, Record};
use crate::support::process::{SECRET, run_in};
use crate::support::{chain, until};

on_every_database! {
    Desk:
    a_view_of_the_log_has_no_facts,
}

/// What tells of a person in the events below.
fn personal() -> Vec<String> {
    let order = facts(OrderId(Uuid::nil()));
    vec![
        order.customer.id,
        order.customer.email,
        order.customer.locale,
        "customer".to_owned(),
        FanId([9; 16]).to_string(),
        "fanId".to_owned(),
        "B-12".to_owned(),
        "Stadium Show".to_owned(),
    ]
}

fn assert_impersonal(text: &str) {
    for personal in personal() {
        assert!(!text.contains(&personal), "{personal} in {text}");
    }
}

/// A hold and its order, in this partition or wherever they fall.
async fn sell(desk: &Desk, partition: u16) {
    let hold = HoldPlaced {
        hold_id: HoldId(desk.order().0),
        show_id: "stadium-show".parse().unwrap(),
        seats: facts(desk.order()).seats,
        total: facts(desk.order()).total,
        expires_at: T0,
        fan_id: Some(FanId([9; 16])),
    };
    desk.write(Event::HoldPlaced(hold), 1).await;
    let order = desk.order_in(partition);
    desk.write(Event::OrderPlaced(facts(order)), 1).await;
    desk.clock.advance_ms(3);
    desk.write(Event::OrderConfirmed(facts(order)), 2).await;
}

fn sink(events: &Kafka) -> Arc<dyn Sink> {
    Arc::new(ViaKafka::new(Producer::new(events.thin())))
}

fn thinner(desk: &Desk, sink: Arc<dyn Sink>) -> Thinner {
    Thinner::new(desk.log(), desk.inbox(), sink, desk.time())
}

/// A desk with a topic for thin events, too.
async fn thin_desk() -> Option<(Desk, Kafka)> {
    let desk = desk().await?;
    let events = desk.kafka.clone().unwrap();
    assert_eq!(events.thin().apply_topic().await.unwrap(), Applied::Made);
    Some((desk, events))
}

/// Steps until so many records have been passed.
async fn steps(thinner: &mut Thinner, records: u64) {
    let thinner = tokio::sync::Mutex::new((thinner, 0));
    until("the thinner has passed them", async || {
        let mut guard = thinner.lock().await;
        let (thinner, passed) = &mut *guard;
        *passed += thinner.step().await.unwrap();
        (*passed == records).then_some(())
    })
    .await;
}

/// What stays of a record: where it stands, its key, and whatever it says of the event.
fn thinned(event: &Record) -> (u16, Vec<u8>, BTreeMap<String, Vec<u8>>, Value) {
    let text = |name: &str| String::from_utf8(event.headers[name].clone()).unwrap();
    let subject = String::from_utf8(event.key.clone()).unwrap();
    // Debezium writes the same instant in another way.
    let at: Timestamp = text("ce_time").parse().unwrap();
    let mut headers = event.headers.clone();
    headers.insert("ce_time".to_owned(), at.to_string().into_bytes());
    headers.remove("ce_aggregatetype").unwrap();
    headers.insert("ce_subject".to_owned(), event.key.clone());
    let schema = thin::DATA_SCHEMA.as_bytes().to_owned();
    headers.insert("ce_dataschema".to_owned(), schema);
    let value = json!({
        "type": text("ce_type"), "eventId": text("ce_id"), "occurredAt": at.to_string(),
        "subject": subject, "version": text("ce_aggregateversion").parse::<u64>().unwrap(),
    });
    (event.partition, event.key.clone(), headers, value)
}

/// The thin topic has what stays of every record of the events' topic, in its place, and nothing else.
pub(crate) fn assert_thin(events: &Kafka) {
    let expected: Vec<_> = kafka::records(events).iter().map(thinned).collect();
    let found: Vec<_> = kafka::records(&events.thin())
        .into_iter()
        .map(|record| {
            let text = String::from_utf8(record.payload.clone()).unwrap();
            assert_impersonal(&text);
            for value in record.headers.values() {
                assert_impersonal(str::from_utf8(value).unwrap());
            }
            let value: Value = serde_json::from_str(&text).unwrap();
            (record.partition, record.key, record.headers, value)
        })
        .collect();
    assert_eq!(found, expected);
}

/// Sends what stands in the events' topic on, with these stores.
pub(crate) async fn thin_out(desk: &Desk, stores: &Stores, records: u64) {
    let events = desk.kafka.clone().unwrap();
    events.thin().apply_topic().await.unwrap();
    let (log, inbox) = (stores.log.clone(), stores.inbox.clone());
    let mut thinner = Thinner::new(log, inbox, sink(&events), desk.time());
    steps(&mut thinner, records).await;
}

#[tokio::test]
async fn a_thin_event_has_ids_type_version_and_time_and_nothing_of_a_person() {
    let Some((desk, events)) = thin_desk().await else {
        return;
    };
    for partition in 0..PARTITIONS {
        sell(&desk, partition).await;
    }
    desk.relay_all().await;
    let facts: String = kafka::records(&events)
        .into_iter()
        .map(|record| String::from_utf8(record.payload).unwrap())
        .collect();
    for personal in personal() {
        assert!(facts.contains(&personal), "{personal} is in the events");
    }
    steps(&mut thinner(&desk, sink(&events)), 18).await;
    assert_thin(&events);
    assert_eq!(kafka::records(&events.thin()).len(), 18);
}

/// Without its topic nothing is passed; with it all goes.
#[tokio::test]
async fn without_its_topic_nothing_is_passed_and_nothing_is_missing_later() {
    let Some(desk) = desk().await else {
        return;
    };
    let events = desk.kafka.clone().unwrap();
    sell(&desk, 2).await;
    desk.relay_all().await;
    let mortal = tokio::sync::Mutex::new(thinner(&desk, sink(&events)));
    let error = until("the events have come", async || {
        mortal.lock().await.step().await.err()
    });
    let says = format!("Kafka has no topic {}", events.thin().topic());
    let error = chain(&error.await);
    assert!(error.contains(&says), "{error}");
    let standing = desk.inbox().standing("thin").await.unwrap();
    assert!(standing.values().all(|next| *next == 0), "{standing:?}");
    events.thin().apply_topic().await.unwrap();
    steps(&mut mortal.into_inner(), 3).await;
    assert_thin(&events);
}

/// A sink that takes a partition's events or does not say so.
#[derive(Debug)]
struct Deaf {
    sink: Arc<dyn Sink>,
    partition: u16,
}

#[async_trait]
impl Sink for Deaf {
    async fn send(&self, deliveries: &[&Delivery]) -> Result<Vec<Result<(), LogError>>, LogError> {
        let answers = self.sink.send(deliveries).await?;
        let lost = |delivery: &&Delivery| delivery.partition == self.partition;
        Ok(deliveries
            .iter()
            .zip(answers)
            .map(|(delivery, answer)| match lost(delivery) {
                true => Err(LogError::Unavailable(anyhow::anyhow!("no answer"))),
                false => answer,
            })
            .collect())
    }
}

/// What dies between the topic and the offset sends again, with the same ids; of each version the first copy
/// comes after the first copy of the one before, and other partitions go on.
#[tokio::test]
async fn what_dies_before_its_offset_sends_the_same_again_in_order() {
    let Some((desk, events)) = thin_desk().await else {
        return;
    };
    for partition in [4, 4, 1] {
        let order = desk.order_in(partition);
        desk.write(Event::OrderPlaced(facts(order)), 1).await;
        desk.write(Event::OrderConfirmed(facts(order)), 2).await;
    }
    desk.relay_all().await;
    let deaf = Deaf {
        sink: sink(&events),
        partition: 4,
    };
    let mut mortal = thinner(&desk, Arc::new(deaf));
    let standing = async || desk.inbox().standing("thin").await.unwrap();
    let mut failed = 0;
    loop {
        failed += u32::from(mortal.step().await.is_err());
        if 2 <= failed && standing().await[&1] == 2 {
            break;
        }
    }
    assert_eq!(standing().await[&4], 0);
    steps(&mut thinner(&desk, sink(&events)), 4).await;
    let (mut seen, mut versions) = (BTreeSet::new(), BTreeMap::new());
    let mut copies = 0;
    for record in kafka::records(&events.thin()) {
        if !seen.insert(record.headers["ce_id"].clone()) {
            copies += 1;
            continue;
        }
        let version: u64 = str::from_utf8(&record.headers["ce_aggregateversion"])
            .unwrap()
            .parse()
            .unwrap();
        let last = versions.insert(record.key, version).unwrap_or_default();
        assert_eq!(version, last + 1);
    }
    assert!(2 <= copies, "{copies} copies");
    assert_eq!(seen.len(), 6);
}

/// Where the outbox is the log, the database itself has them; on PostgreSQL a right to the view is none to
/// what is behind it.
async fn a_view_of_the_log_has_no_facts(desk: Desk) {
    sell(&desk, 5).await;
    desk.relay_all().await;
    let rows: Vec<(String, String)> = database::all(
        &desk.db,
        "select type || ' ' || aggregatetype || ' ' || aggregate_version || ' ' || occurred_at_ms,
                partition || ' ' || \"offset\" || ' ' || id || ' ' || aggregateid || ' ' || traceparent
         from thin_events order by occurred_at_ms, type",
    )
    .await;
    let t0 = T0.as_millis();
    let expected = [
        format!("HoldPlaced hold 1 {t0}"),
        format!("OrderPlaced order 1 {t0}"),
        format!("OrderConfirmed order 2 {}", t0 + 3),
    ];
    let said: Vec<&String> = rows.iter().map(|(what, _)| what).collect();
    assert_eq!(said, expected.iter().collect::<Vec<_>>());
    for (_, where_it_is) in &rows {
        assert_impersonal(where_it_is);
    }
    let facts = database::try_run(&desk.db, "select payload from thin_events").await;
    facts.unwrap_err();
    if let Database::Postgres(db) = &desk.db {
        let role = format!("reader_{}", desk.order().0.simple());
        desk.run(&format!(
            "create role {role}; grant select on thin_events to {role}"
        ))
        .await;
        let mut reader = db.connection().await.unwrap();
        let set = sqlx::AssertSqlSafe(format!("set role {role}"));
        sqlx::query(set).execute(&mut *reader).await.unwrap();
        let seen: i64 = sqlx::query_scalar("select count(*) from thin_events")
            .fetch_one(&mut *reader)
            .await
            .unwrap();
        assert_eq!(seen, 3);
        let refused = sqlx::query_scalar::<_, i64>("select count(*) from outbox")
            .fetch_one(&mut *reader)
            .await
            .unwrap_err();
        assert!(
            refused.to_string().contains("permission denied"),
            "{refused}"
        );
        sqlx::query("reset role")
            .execute(&mut *reader)
            .await
            .unwrap();
        drop(reader);
        desk.run(&format!("drop owned by {role}; drop role {role}"))
            .await;
    }
}

/// The role runs only where it has something to do, and its topic is made only where it is wanted.
#[tokio::test]
async fn thin_events_are_sent_where_they_are_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let shared = [
        ("CATRACA__KEYS__SECRET", SECRET),
        ("CATRACA__ROOM__URL", "redis://127.0.0.1:1/"),
    ];
    for more in [
        ("CATRACA__LOG__THIN", "true"),
        ("CATRACA__LOG__URL", "kafka://127.0.0.1:1"),
    ] {
        let env = [&shared[..], &[more]].concat();
        let refused = run_in(folder.path(), &["thin"], &env).await;
        assert_eq!(refused.code, Some(78), "{refused:?}");
        let says = "catraca: `thin` sends to Kafka, and only with log.thin = true";
        assert!(refused.err.starts_with(says), "{refused:?}");
    }
    let Some(broker) = kafka::broker() else {
        return;
    };
    let (url, topic) = (broker.url(), kafka::name());
    let env = [
        ("CATRACA__LOG__URL", url.as_str()),
        ("CATRACA__LOG__TOPIC", topic.as_str()),
        ("CATRACA__LOG__THIN", "true"),
    ];
    let ended = run_in(folder.path(), &["topics", "apply"], &env).await;
    let made = |topic: String| format!("{topic}: made, 6 partitions\n");
    let says = ["", "-dlt", "-thin"].map(|end| made(format!("{topic}{end}")));
    assert_eq!((ended.code, ended.out), (Some(0), says.concat()));
}
