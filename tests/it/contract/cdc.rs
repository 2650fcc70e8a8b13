//! Change data capture: Debezium's own engine sends the outbox in the relay's place, and what it sends is
//! what the relay would have sent.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catraca::app::database::Database;
use catraca::base::ids::IdSource;
use catraca::base::limits::PARTITIONS;
use catraca::driver::kafka::Kafka;
use catraca::event::headers::{self, About};
use catraca::event::{Envelope, Event, codec, partition};
use catraca::log::via_debezium::{HandoverError, ViaDebezium};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::{Offset, TopicPartitionList};
use tokio_util::sync::CancellationToken;

use crate::contract::desk::{Desk, facts};
use crate::contract::thin::{assert_thin, thin_out};
use crate::support::database::{self, End};
use crate::support::debezium::{self, Engine};
use crate::support::postgres::Server;
use crate::support::process::{Ended, run_in};
use crate::support::{kafka, until};

/// What the slot needs; the data is thrown away.
const LOGICAL: [&str; 2] = ["wal_level=logical", "fsync=off"];
/// How long all records may take to be read.
const READ_MAX: Duration = Duration::from_secs(30);

/// A shop whose outbox Debezium may read.
struct Shop {
    desk: Desk,
    topic: Kafka,
    server: Server,
    url: String,
}

impl Shop {
    async fn open() -> Option<Self> {
        let server = Server::start(&LOGICAL)?;
        let topic = kafka::topic().await?;
        let url = server.database().await;
        let database = database::at(&url).await;
        let folder = tempfile::tempdir().unwrap();
        let desk = Desk::with_kafka(database, folder, topic.clone());
        Some(Self {
            desk,
            topic,
            server,
            url,
        })
    }

    fn outbox(&self) -> ViaDebezium {
        let Database::Postgres(db) = &self.desk.db else {
            panic!("the shop is on PostgreSQL");
        };
        ViaDebezium::new(db.clone(), self.topic.topic())
    }

    /// `catraca cdc`.
    async fn cdc(&self, words: &[&str]) -> Ended {
        let words = [&["cdc"], words].concat();
        let log = kafka::broker().unwrap().url();
        let env = [
            ("CATRACA__DATABASE__URL", self.url.as_str()),
            ("CATRACA__LOG__URL", log.as_str()),
            ("CATRACA__LOG__TOPIC", self.topic.topic()),
            ("CATRACA__LOG__WRITER", "cdc"),
        ];
        run_in(self.desk.folder.path(), &words, &env).await
    }

    /// The connector as it is in `deploy/`, but for where everything is.
    fn engine(&self) -> Option<Engine> {
        let topic = self.topic.topic();
        let offsets = self.desk.folder.path().join("offsets");
        let changes = [
            ("database.port", self.server.port.to_string()),
            ("database.user", "catraca".to_owned()),
            ("database.password", "none".to_owned()),
            (
                "database.dbname",
                Path::new(&self.url).file_name()?.to_str()?.to_owned(),
            ),
            ("predicates.isEvent.pattern", topic.to_owned()),
            ("transforms.event.route.topic.replacement", topic.to_owned()),
            ("heartbeat.interval.ms", "500".to_owned()),
            ("offset.flush.interval.ms", "100".to_owned()),
            (
                "offset.storage.file.filename",
                offsets.display().to_string(),
            ),
            (
                "offset.storage",
                "org.apache.kafka.connect.storage.FileOffsetBackingStore".to_owned(),
            ),
        ];
        let brokers = kafka::broker()?.url();
        Engine::start(brokers.trim_start_matches("kafka://"), &changes)
    }

    /// Orders with two events each, the second without a trace, and as many that never were.
    async fn sell(&self, orders: u32) -> Vec<Envelope> {
        let mut written = Vec::new();
        for _ in 0..orders {
            let order = self.desk.order();
            let placed = self.desk.envelope(Event::OrderPlaced(facts(order)), 1);
            self.desk.clock.advance_ms(7);
            let mut confirmed = self.desk.envelope(Event::OrderConfirmed(facts(order)), 2);
            confirmed.trace = None;
            let both = [placed, confirmed];
            database::append(&self.desk.db, &both, End::Commit).await;
            written.extend(both);
            let never = Event::OrderPlaced(facts(self.desk.order()));
            let never = self.desk.envelope(never, 1);
            database::append(&self.desk.db, &[never], End::Rollback).await;
        }
        written
    }

    /// The records of the topic, once there are so many.
    async fn records(&self, count: usize) -> Vec<Found> {
        until("the records are there", async || {
            let there: usize = kafka::ends(&self.topic).iter().sum();
            (count <= there).then_some(())
        })
        .await;
        read(&self.topic)
    }
}

/// A record as anybody finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    partition: u16,
    key: String,
    value: String,
    headers: BTreeMap<String, Vec<u8>>,
}

/// All records, by partition and offset.
fn read(topic: &Kafka) -> Vec<Found> {
    let mut settings = kafka::client();
    let consumer: BaseConsumer = settings.set("group.id", "anybody").create().unwrap();
    let mut from = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        let begun = from.add_partition_offset(topic.topic(), partition.into(), Offset::Beginning);
        begun.unwrap();
    }
    consumer.assign(&from).unwrap();
    let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap().to_vec()).unwrap();
    let (count, end) = (kafka::ends(topic).iter().sum(), Instant::now() + READ_MAX);
    let mut all = Vec::new();
    while all.len() < count {
        assert!(Instant::now() < end, "{} of {count} records", all.len());
        let Some(record) = consumer.poll(Duration::from_secs(1)) else {
            continue;
        };
        let record = record.unwrap();
        let headers = record.headers().unwrap().iter();
        all.push(Found {
            partition: u16::try_from(record.partition()).unwrap(),
            key: text(record.key()),
            value: text(record.payload()),
            headers: headers
                .filter_map(|h| Some((h.key.to_owned(), h.value?.to_vec())))
                .collect(),
        });
    }
    all.sort_by_key(|record| record.partition); // stable: offsets stay in order
    all
}

/// What the relay sends of an event, the instant in the three digits that Debezium writes.
fn as_the_relay(envelope: &Envelope) -> Found {
    let id = envelope.id.to_string();
    let key = envelope.key();
    let written = headers::write(&About {
        id: &id,
        kind: envelope.event.kind(),
        aggregate: envelope.event.aggregate(),
        version: envelope.version,
        at: envelope.at,
        trace: envelope.trace.as_deref(),
    });
    Found {
        partition: partition::of_key(&key),
        value: codec::to_json(envelope),
        key,
        headers: written
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.into_bytes()))
            .collect(),
    }
}

/// Every event once, each key in order, each record as the relay's. The same instant may be written in
/// two ways, so `ce_time` is compared by what it says.
fn assert_same(found: &[Found], written: &[Envelope]) {
    let at = |record: &Found| headers::read(&record.headers).unwrap().at;
    let plain = |record: &Found| {
        let mut record = record.clone();
        record.headers.remove("ce_time").expect("it has a time");
        record
    };
    for partition in 0..PARTITIONS {
        let expected = written.iter().map(as_the_relay);
        let expected: Vec<Found> = expected.filter(|r| r.partition == partition).collect();
        let found: Vec<&Found> = found.iter().filter(|r| r.partition == partition).collect();
        assert_eq!(found.len(), expected.len(), "partition {partition}");
        for (found, expected) in found.into_iter().zip(&expected) {
            assert_eq!(plain(found), plain(expected));
            assert_eq!(at(found), at(expected));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn debezium_sends_what_the_relay_would() {
    if debezium::find().is_none() {
        return;
    }
    let Some(shop) = Shop::open().await else {
        return;
    };
    // The relay has begun; change data capture goes on in the same topic, by its two verbs.
    let mut written = shop.sell(5).await;
    shop.desk.relay_all().await;
    let claimed = shop.cdc(&["claim"]).await;
    assert_eq!(claimed.code, Some(0), "{}", claimed.err);
    let engine = shop.engine().unwrap();
    written.extend(shop.sell(20).await);
    assert_same(&shop.records(50).await, &written);
    written.extend(shop.sell(5).await);
    shop.records(60).await;

    // Without it rows stay, also old ones; after it they go, and going is no event.
    engine.end();
    written.extend(shop.sell(1).await);
    let outbox = shop.outbox();
    let point = outbox.point().await.unwrap();
    assert!(!outbox.is_past(&point).await.unwrap());
    let engine = shop.engine().unwrap();
    assert_same(&shop.records(62).await, &written);
    // The desk's clock is ahead of the world's: to the verb these rows are young, until they are made old.
    for (rows, then) in [
        (0, "update outbox set occurred_at_ms = 0"),
        (62, "select 1"),
    ] {
        let cleaned = shop.cdc(&["clean-up", "--older-than-ms", "0"]).await;
        assert_eq!(cleaned.code, Some(0), "{}", cleaned.err);
        assert_eq!(cleaned.out, format!("{rows} rows removed\n"));
        shop.desk.bend_outbox(then).await;
    }
    assert_eq!(shop.desk.count("select count(*) from outbox").await, 0);
    written.extend(shop.sell(1).await);
    assert_same(&shop.records(64).await, &written);

    // Groups of ours read it, and begin only where the claim was taken.
    let time = shop.desk.time();
    let ids = Arc::new(IdSource::random());
    let stores = shop.desk.db.stores_with_cdc(&time, &ids, &shop.topic);
    stores.inbox.register("reader").await.unwrap();
    let mut ids = Vec::new();
    for (partition, end) in (0..PARTITIONS).zip(kafka::ends(&shop.topic)) {
        let deliveries = until("the group reads", async || {
            let found = stores.log.poll("reader", partition, usize::MAX).await;
            let found = found.unwrap();
            (found.len() == end).then_some(found)
        });
        ids.extend(deliveries.await.into_iter().map(|d| d.event_id));
    }
    ids.sort();
    let mut expected: Vec<String> = written.iter().map(|e| e.id.to_string()).collect();
    expected.sort();
    assert_eq!(ids, expected);
    // Nor does it matter to thin events who has sent the others.
    thin_out(&shop.desk, &stores, 64).await;
    assert_thin(&shop.topic);
    engine.kill();
}

/// Exactly one of the two sends: the relay ends, by a clear word, also one that had the partitions.
#[tokio::test]
async fn the_outbox_is_taken_from_the_relay_when_all_is_sent() {
    let Some(shop) = Shop::open().await else {
        return;
    };
    let (desk, outbox) = (&shop.desk, shop.outbox());
    let time = desk.time();
    let ids = Arc::new(IdSource::random());
    let by_cdc = desk.db.stores_with_cdc(&time, &ids, &shop.topic);
    let refused = by_cdc.inbox.register("notify").await.unwrap_err();
    let says = "change data capture sends them only after `catraca cdc claim`";
    assert!(refused.to_string().ends_with(says), "{refused}");

    shop.sell(1).await;
    let mut relay = desk.relay("relay");
    outbox.prepare().await.unwrap();
    outbox.prepare().await.unwrap();
    let refused = outbox.claim().await.unwrap_err();
    assert!(matches!(refused, HandoverError::Unsent(2)), "{refused}");
    assert_eq!(relay.step().await.unwrap().sent, 2);
    // What no relay can send stands in the way, by name, until somebody decides.
    shop.sell(1).await;
    desk.bend_outbox(
        "update outbox set payload = 'not json' where aggregate_version = 1 and seq > 2",
    )
    .await;
    assert_eq!(relay.step().await.unwrap().quarantined, 2);
    let refused = outbox.claim().await.unwrap_err();
    let HandoverError::Quarantined { count: 2, first } = refused else {
        panic!("{refused}");
    };
    let first = u64::try_from(first).unwrap();
    desk.stores.quarantine.skip(first).await.unwrap();
    desk.clock.advance_ms(1_500);
    let refused = outbox.claim().await.unwrap_err();
    assert!(matches!(refused, HandoverError::Unsent(1)), "{refused}");
    assert_eq!(relay.step().await.unwrap().sent, 1);
    let refused = outbox.point().await.unwrap_err();
    assert!(matches!(refused, HandoverError::Elsewhere(_)), "{refused}");
    outbox.claim().await.unwrap();
    outbox.claim().await.unwrap();

    // It still believes that the partitions are its own, and marks nothing.
    shop.sell(1).await;
    let step = relay.step().await.unwrap();
    assert_eq!((step.sent, step.fenced), (0, 1));
    let marks = desk.count("select count(*) from outbox_log").await;
    assert_eq!(marks, 3);
    let run = desk.relay("next");
    let stop = CancellationToken::new();
    let ended = run.run(Arc::default(), Vec::new(), stop).await.unwrap_err();
    let known = format!("cdc:{}", shop.topic.topic());
    let says = format!("the events of this database go to log {known}, ");
    assert!(ended.to_string().starts_with(&says), "{ended}");
    let says = "change data capture sends them, so no relay may, and log.writer must be cdc";
    assert!(ended.to_string().ends_with(says), "{ended}");
    by_cdc.relay.lease("relay", 1_000).await.unwrap_err();
    by_cdc.inbox.register("notify").await.unwrap();

    let Database::Postgres(db) = &desk.db else {
        panic!("the shop is on PostgreSQL");
    };
    let elsewhere = ViaDebezium::new(db.clone(), "another-topic");
    let refused = elsewhere.claim().await.unwrap_err();
    assert!(matches!(refused, HandoverError::Elsewhere(_)), "{refused}");
    // What nobody keeps, nobody may remove.
    desk.run("select pg_drop_replication_slot('catraca_outbox')")
        .await;
    let point = outbox.point().await.unwrap();
    let refused = outbox.is_past(&point).await.unwrap_err();
    assert!(matches!(refused, HandoverError::NoSlot), "{refused}");
}
