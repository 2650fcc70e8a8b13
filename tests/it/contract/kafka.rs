//! Kafka itself: topics, what stands in them, relays that die, and a broker that does not answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use catraca::app::alone::Role;
use catraca::app::database::Database;
use catraca::base::ids::IdSource;
use catraca::base::limits::PARTITIONS;
use catraca::driver::kafka::topics::{Applied, Shape};
use catraca::driver::kafka::{Kafka, KafkaFault};
use catraca::event::Event;
use catraca::log::LogName;
use catraca::relay::step::{Relay, Settings};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use tokio::sync::Mutex;

use crate::contract::desk::{Desk, facts};
use crate::contract::log::{Deadly, Death};
use crate::support::database::{self, End};
use crate::support::kafka::{self, Broker, client};
use crate::support::need::REDIS;
use crate::support::process::{Alone, run_in};
use crate::support::redis::Server as Redis;
use crate::support::{chain, until};

/// A desk whose events go to a topic of its own. `None` where this machine may do without.
pub(crate) async fn desk() -> Option<Desk> {
    let folder = tempfile::tempdir().unwrap();
    let topic = kafka::topic().await?;
    let database = database::in_sqlite(folder.path()).await;
    Some(Desk::with_kafka(database, folder, topic))
}

#[tokio::test]
async fn topics_are_made_once_and_another_shape_is_refused() {
    let Some(broker) = kafka::broker() else {
        return;
    };
    let (url, topic) = (broker.url(), kafka::name());
    let folder = tempfile::tempdir().unwrap();
    let apply = async |topic: &str| {
        let env = [
            ("CATRACA__LOG__URL", url.as_str()),
            ("CATRACA__LOG__TOPIC", topic),
        ];
        run_in(folder.path(), &["topics", "apply"], &env).await
    };
    let kafka = Kafka::new(&url, &topic).unwrap();
    let fault = kafka.check_topic().await.unwrap_err();
    assert!(matches!(fault, KafkaFault::NoTopic(name) if name == topic));
    for word in ["made", "unchanged"] {
        let ended = apply(&topic).await;
        let says = format!("{topic}: {word}, 6 partitions\n{topic}-dlt: {word}, 6 partitions\n");
        assert_eq!((ended.code, ended.out), (Some(0), says), "{}", ended.err);
    }

    let admin: AdminClient<DefaultClientContext> = client().create().unwrap();
    let foreign = kafka::name();
    let three = NewTopic::new(&foreign, 3, TopicReplication::Fixed(1));
    let made = admin.create_topics(&[three], &AdminOptions::new()).await;
    made.unwrap()[0].as_ref().unwrap();
    let ended = apply(&foreign).await;
    assert_eq!(ended.code, Some(69));
    let says = format!("catraca: topic {foreign} has 3 partitions and must have 6");
    assert!(ended.err.starts_with(&says), "{}", ended.err);
    let kafka = Kafka::new(&url, &foreign).unwrap();
    let shape = Shape {
        topic: foreign,
        partitions: 3,
    };
    let fault = kafka.check_topic().await.unwrap_err();
    assert!(matches!(fault, KafkaFault::Shape(found) if found == shape));

    let ended = run_in(folder.path(), &["topics", "apply"], &[]).await;
    assert_eq!(ended.code, Some(78), "{}", ended.err);
}

/// Nothing is sent to a topic that is not there or is of another shape, and none is made by sending.
#[tokio::test]
async fn a_relay_waits_for_a_topic_that_is_not_there() {
    let Some(broker) = kafka::broker() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let database = database::in_sqlite(folder.path()).await;
    let kafka = Kafka::new(&broker.url(), &kafka::name()).unwrap();
    let desk = Desk::with_kafka(database, folder, kafka.clone());
    let order = desk.order();
    desk.write(Event::OrderPlaced(facts(order)), 1).await;
    let mut relay = desk.relay("relay");
    for _ in 0..2 {
        let says = format!(
            "event log unavailable: Kafka has no topic {}; `catraca topics apply` makes it",
            kafka.topic()
        );
        assert_eq!(chain(&relay.step().await.unwrap_err()), says);
    }
    assert_eq!(kafka.apply_topic().await.unwrap(), Applied::Made);
    assert_eq!(relay.step().await.unwrap().sent, 1);
}

/// What a database was begun with it stays with: offsets of one log are not places in another.
#[tokio::test]
async fn a_database_stays_with_its_log() {
    let Some(desk) = desk().await else {
        return;
    };
    let time = desk.time();
    let sql = desk.db.stores(&time, &Arc::new(IdSource::random()));
    desk.inbox().register("notify").await.unwrap();
    let says = "the events of this database go to log kafka:";
    let refused = sql.inbox.register("notify").await.unwrap_err();
    assert!(refused.to_string().starts_with(says), "{refused}");
    let refused = sql.relay.lease("relay", 1_000).await.unwrap_err();
    assert!(refused.to_string().starts_with(says), "{refused}");
    desk.relay_all().await;
}

/// A relay that dies when Kafka has an event and the outbox has no mark: the next sends it again, with the
/// same id, so that consumers know it.
#[tokio::test]
async fn a_crash_before_the_marks_repeats_with_the_same_ids() {
    let Some(desk) = desk().await else {
        return;
    };
    for _ in 0..10 {
        let order = desk.order();
        desk.write(Event::OrderPlaced(facts(order)), 1).await;
        desk.write(Event::OrderConfirmed(facts(order)), 2).await;
    }
    let Database::Sqlite(db) = &desk.db else {
        panic!("the desk is on SQLite");
    };
    let topic = desk.kafka.clone().unwrap();
    let log = LogName::topic(topic.topic());
    let outbox = catraca::relay::in_sqlite::InSqlite::new(db.clone(), desk.time(), log);
    let deadly = Deadly {
        store: Arc::new(outbox),
        death: Death::BeforePublish,
    };
    let sink = desk.stores.sink.clone();
    let (time, settings) = (desk.time(), Settings::default());
    let mut relay = Relay::new(Arc::new(deadly), sink, time, "mortal".into(), settings);
    relay.step().await.unwrap_err();
    until("the topic has all, and each once", async || {
        (kafka::ends(&topic).iter().sum::<usize>() == 20).then_some(())
    })
    .await;
    drop(relay);
    assert_eq!(desk.count("select count(*) from outbox_log").await, 0);
    desk.let_leases_lapse();
    desk.relay_all().await;
    let (mut copies, mut versions) = (BTreeMap::new(), BTreeMap::new());
    let mut second = BTreeSet::new();
    for partition in 0..PARTITIONS {
        for delivery in desk.poll_all("reader", partition).await {
            let copy: &mut u32 = copies.entry(delivery.event_id).or_default();
            *copy += 1;
            if *copy == 1 {
                let before = versions.insert(delivery.key, delivery.version);
                assert_eq!(before.unwrap_or(0) + 1, delivery.version);
            } else {
                second.insert((i64::from(partition), delivery.offset.cast_signed()));
            }
        }
    }
    assert_eq!(copies.len(), 20);
    assert!(copies.values().all(|copies| *copies == 2), "{copies:?}");
    // The marks say where the copies stand that were marked.
    let marks = r#"select partition, "offset" from outbox_log"#;
    let marked: Vec<(i64, i64)> = database::all(&desk.db, marks).await;
    assert_eq!(BTreeSet::from_iter(marked), second);
}

/// Of records of the topic, by Kafka's own consumer: partition, headers, key and payload.
fn consumed(broker: &Broker, topic: &str) -> Vec<[String; 4]> {
    let shown = ["partition", "headers", "key", "value"].map(|what| format!("print.{what}=true"));
    let mut words = vec!["--topic", topic, "--from-beginning", "--timeout-ms", "6000"];
    for what in &shown {
        words.extend(["--formatter-property", what]);
    }
    let said = broker.tool("org.apache.kafka.tools.consumer.ConsoleConsumer", &words);
    let fields = |line: &str| -> [String; 4] {
        let fields: Vec<String> = line.splitn(4, '\t').map(str::to_owned).collect();
        fields.try_into().unwrap_or_else(|f| panic!("{f:?}"))
    };
    said.lines().map(fields).collect()
}

/// The value of a header, as Kafka's own consumer prints them.
fn header<'a>(headers: &'a str, name: &str) -> &'a str {
    let found = headers
        .split(',')
        .find_map(|header| header.strip_prefix(name));
    found.unwrap_or_else(|| panic!("{name} in {headers}"))
}

/// Three relays as processes, of which the one that has the partitions is killed in the middle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_relays_one_is_killed_and_nothing_is_lost_or_turned_around() {
    let (Some(redis), Some(topic)) = (Redis::start(&REDIS), kafka::topic().await) else {
        return;
    };
    let Some(url) = crate::support::postgres::database().await else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let broker = kafka::broker().unwrap();
    let env = [
        ("CATRACA__ROOM__URL", redis.url()),
        ("CATRACA__DATABASE__URL", url.clone()),
        ("CATRACA__LOG__URL", broker.url()),
        ("CATRACA__LOG__TOPIC", topic.topic().to_owned()),
    ];
    let mut relays = Vec::new();
    for _ in 0..3 {
        relays.push(Alone::start(Role::Relay, folder.path(), &env).await);
    }
    let database = crate::support::database::at(&url).await;
    let desk = Desk::with_kafka(database, folder, topic.clone());
    let holder = until("a relay has the partitions", async || {
        let sql = "select coalesce(max(holder), '') from outbox_partitions";
        let holder = database::all::<(String,)>(&desk.db, sql).await.remove(0).0;
        (!holder.is_empty()).then_some(holder)
    })
    .await;
    let mut written = BTreeSet::new();
    for n in 0..300 {
        let order = desk.order();
        for (version, event) in (1..).zip([
            Event::OrderPlaced(facts(order)),
            Event::OrderConfirmed(facts(order)),
        ]) {
            written.insert(desk.write(event, version).await.to_string());
        }
        if n == 150 {
            relays.retain(|relay| !holder.starts_with(&format!("relay-{}-", relay.id())));
            assert_eq!(relays.len(), 2, "{holder}");
        }
    }
    until("everything is marked", async || {
        let marked = desk.count("select count(*) from outbox_log").await;
        (marked == 600).then_some(())
    })
    .await;
    let records = {
        let topic = topic.topic().to_owned();
        tokio::task::spawn_blocking(move || consumed(broker, &topic))
    };
    let (mut seen, mut versions) = (BTreeSet::new(), BTreeMap::new());
    for [partition, headers, key, payload] in records.await.unwrap() {
        let number = catraca::event::partition::of_key(&key);
        assert_eq!(partition, format!("Partition:{number}"));
        let id = header(&headers, "ce_id:").to_owned();
        assert!(payload.contains(&id), "{payload}");
        assert!(header(&headers, "traceparent:").starts_with("00-"));
        if seen.insert(id) {
            let version: u64 = header(&headers, "ce_aggregateversion:").parse().unwrap();
            let before = versions.insert(key.clone(), version);
            assert_eq!(before.unwrap_or(0) + 1, version, "{key}");
        }
    }
    assert_eq!(seen, written);
    desk.db.close().await;
}

/// Sessions of the database, beside one's own, that have held back for more than a look what others may clean up.
const OPEN: &str = "select count(*) from pg_stat_activity where datname = current_database()
    and pid <> pg_backend_pid() and (state like 'idle in transaction%' or backend_xmin is not null)
    and xact_start < clock_timestamp() - interval '2 s'";

/// A broker that does not answer costs orders nothing, nor is a transaction open while it is waited for; what they
/// wrote meanwhile is sent when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_hangs_loses_nothing() {
    let (Some(broker), Some(database)) = (Broker::start(), database::in_postgres().await) else {
        return;
    };
    let kafka = Kafka::new(&broker.url(), "order-events").unwrap();
    until("the broker makes topics", async || {
        kafka.apply_topic().await.ok()
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let desk = Desk::with_kafka(database, folder, kafka);
    let mut relay = desk.relay("relay");
    let order = desk.order();
    desk.write(Event::OrderPlaced(facts(order)), 1).await;
    assert_eq!(relay.step().await.unwrap().sent, 1);
    broker.pause();
    let confirmed = desk.envelope(Event::OrderConfirmed(facts(order)), 2);
    database::append(&desk.db, std::slice::from_ref(&confirmed), End::Commit).await;
    let mut open = Vec::new();
    let looking = async {
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            open.push(desk.count(OPEN).await);
        }
    };
    let failed = tokio::select! {
        failed = relay.step() => failed.unwrap_err(),
        () = looking => unreachable!("nobody is told to end"),
    };
    let says = "event log unavailable: Kafka did not acknowledge in time";
    assert_eq!(chain(&failed), says);
    assert!(
        5 < open.len() && open.iter().all(|open| *open == 0),
        "{open:?}"
    );
    broker.resume();
    let relay = Mutex::new(relay);
    until("the rest is sent", async || {
        desk.let_leases_lapse();
        let step = relay.lock().await.step().await.ok()?;
        (step.sent == 1).then_some(())
    })
    .await;
    assert_eq!(desk.count("select count(*) from outbox_log").await, 2);
    desk.db.close().await;
}
