//! One partition of six has no answer: the only broker that has it stands still. The others' events are
//! published as before, and its own when it is back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use catraca::base::ids::OrderId;
use catraca::base::limits::{ACK_DEADLINE_MS, PARTITIONS};
use catraca::driver::kafka::Kafka;
use catraca::event::Event;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use tokio::sync::Notify;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::contract::desk::{Desk, facts};
use crate::support::kafka::{self, Broker, Record};
use crate::support::{database, until};

/// The partition that only the second broker has.
const STUCK: u16 = 3;
/// How long it has no answer: longer than a relay waits for one, and longer than a cluster takes to learn that
/// a broker is gone.
const STANDS_STILL: Duration = Duration::from_millis(ACK_DEADLINE_MS + 3_000);
/// How long the others may take from the outbox to their marks: a third of what they would wait for it.
const OTHERS_MAX: Duration = Duration::from_millis(ACK_DEADLINE_MS / 3);

/// A topic of which one partition is with the second broker and all others with the first.
async fn topic(broker: &Broker) -> Kafka {
    let kafka = Kafka::new(&broker.url(), kafka::TOPIC).unwrap();
    let admin: AdminClient<DefaultClientContext> = broker.client().create().unwrap();
    let placed: Vec<&[i32]> = (0..PARTITIONS)
        .map(|partition| if partition == STUCK { &[2][..] } else { &[1] })
        .collect();
    let replication = TopicReplication::Variable(&placed);
    let topic = NewTopic::new(kafka.topic(), i32::from(PARTITIONS), replication);
    until("both brokers are there", async || {
        let made = admin.create_topics([&topic], &AdminOptions::new()).await;
        made.unwrap().remove(0).ok()
    })
    .await;
    until("the topic is seen", async || kafka.check_topic().await.ok()).await;
    kafka
}

/// An order in each partition, and how many events each has had.
struct Orders {
    desk: Desk,
    orders: Vec<OrderId>,
    written: u64,
    ids: BTreeSet<String>,
}

impl Orders {
    /// One more event of each.
    async fn write(&mut self) {
        self.written += 1;
        for order in &self.orders {
            let event = Event::OrderConfirmed(facts(*order));
            let id = self.desk.write(event, self.written).await;
            self.ids.insert(id.to_string());
        }
    }

    async fn marked(&self, which: &str) -> u64 {
        let marks = format!("select count(*) from outbox_log where partition {which} {STUCK}");
        self.desk.count(&marks).await.cast_unsigned()
    }

    /// Waits until all that was written into the other partitions is marked; how long that took.
    async fn others_are_marked(&self) -> Duration {
        let (began, all) = (Instant::now(), u64::from(PARTITIONS - 1) * self.written);
        while self.marked("<>").await < all {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        began.elapsed()
    }
}

/// First copies stand in the order of their versions; the ids of all.
fn in_order(records: &[Record]) -> BTreeSet<String> {
    let header =
        |record: &Record, name: &str| String::from_utf8(record.headers[name].clone()).unwrap();
    let (mut seen, mut versions) = (BTreeSet::new(), BTreeMap::new());
    for record in records {
        if seen.insert(header(record, "ce_id")) {
            let version: u64 = header(record, "ce_aggregateversion").parse().unwrap();
            let before = versions.insert(&record.key, version);
            assert_eq!(before.unwrap_or(0) + 1, version);
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_without_an_answer_holds_up_no_other() {
    let Some(broker) = Broker::start() else {
        return;
    };
    let second = broker.beside();
    let kafka = topic(&broker).await;
    let folder = tempfile::tempdir().unwrap();
    let database = database::in_sqlite(folder.path()).await;
    let desk = Desk::with_kafka(database, folder, kafka.clone());
    let (nudge, stop, mut tasks) = (
        Arc::new(Notify::new()),
        CancellationToken::new(),
        JoinSet::new(),
    );
    tasks.spawn(desk.relay("relay").run(nudge, Vec::new(), stop.clone()));
    let mut orders = Orders {
        orders: (0..PARTITIONS)
            .map(|partition| desk.order_in(partition))
            .collect(),
        desk,
        written: 0,
        ids: BTreeSet::new(),
    };
    orders.write().await;
    until("all is sent", async || {
        (orders.marked("=").await == 1).then_some(())
    })
    .await;
    orders.others_are_marked().await;

    second.pause();
    let (still, mut slowest) = (Instant::now(), Duration::ZERO);
    while still.elapsed() < STANDS_STILL {
        let round = Instant::now();
        orders.write().await;
        slowest = slowest.max(orders.others_are_marked().await);
        assert!(slowest < OTHERS_MAX, "{slowest:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        let ms = u64::try_from(round.elapsed().as_millis()).unwrap();
        orders.desk.clock.advance_ms(ms); // as time goes by
    }
    eprintln!(
        "stuck: {} events of each order, the slowest of the others {slowest:?}",
        orders.written
    );
    assert_eq!(orders.marked("=").await, 1, "it has no answer");
    second.resume();
    until("the stuck ones are sent", async || {
        (orders.marked("=").await == orders.written).then_some(())
    })
    .await;
    stop.cancel();
    tasks.join_next().await.unwrap().unwrap().unwrap();
    let client = broker.client();
    let records = spawn_blocking(move || kafka::records_by(client, &kafka));
    assert_eq!(in_order(&records.await.unwrap()), orders.ids);
    orders.desk.db.close().await;
}
