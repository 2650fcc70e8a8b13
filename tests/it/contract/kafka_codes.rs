//! Codes with which a broker may answer what the relay sends, one after the other, most of them such as
//! no broker can be made to say: librdkafka's own mock of a cluster says them. And records that a broker
//! refuses for their own sake: only their keys wait.

use std::collections::{BTreeMap, BTreeSet};

use catraca::base::limits::PARTITIONS;
use catraca::driver::kafka::Kafka;
use catraca::event::Event;
use catraca::relay::step::Step;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::RDKafkaApiKey::{self, InitProducerId, Produce};
use rdkafka::types::RDKafkaRespErr::{self, *};
use tokio::task::spawn_blocking;

use crate::contract::desk::{Desk, facts};
use crate::support::kafka::{self, Record, TOPIC};
use crate::support::{chain, database};

/// Steps within which a relay has got over any of the codes.
const STEPS_MAX: usize = 5;

/// A cluster that says what it is told to say.
struct Mock {
    cluster: MockCluster<'static, DefaultProducerContext>,
    desk: Desk,
}

impl Mock {
    async fn open() -> Self {
        let cluster = MockCluster::new(1).unwrap();
        let topic = cluster.create_topic(TOPIC, i32::from(PARTITIONS), 1);
        topic.unwrap();
        let url = format!("kafka://{}", cluster.bootstrap_servers());
        let folder = tempfile::tempdir().unwrap();
        let database = database::in_sqlite(folder.path()).await;
        let kafka = Kafka::new(&url, TOPIC).unwrap();
        Self {
            desk: Desk::with_kafka(database, folder, kafka),
            cluster,
        }
    }

    /// The next requests of this kind are answered so.
    fn says(&self, to: RDKafkaApiKey, codes: &[RDKafkaRespErr]) {
        self.cluster.request_errors(to, codes);
    }

    /// Two events of three orders each, in one partition.
    async fn write(&self) {
        for _ in 0..3 {
            let order = self.desk.order_in(0);
            self.desk.write(Event::OrderPlaced(facts(order)), 1).await;
            self.desk
                .write(Event::OrderConfirmed(facts(order)), 2)
                .await;
        }
    }

    async fn records(&self) -> Vec<Record> {
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", self.cluster.bootstrap_servers());
        let kafka = self.desk.kafka.clone().unwrap();
        let reading = spawn_blocking(move || kafka::records_by(client, &kafka));
        reading.await.unwrap()
    }
}

fn header<'a>(record: &'a Record, name: &str) -> &'a str {
    str::from_utf8(&record.headers[name]).unwrap()
}

/// First copies stand in the order of their versions, and marks name places at which their events stand.
async fn is_in_order(desk: &Desk, records: &[Record]) {
    let (mut seen, mut versions) = (BTreeSet::new(), BTreeMap::new());
    let mut places = BTreeSet::new();
    for record in records {
        let id = header(record, "ce_id");
        places.insert((i64::from(record.partition), record.offset, id.to_owned()));
        if seen.insert(id) {
            let version: u64 = header(record, "ce_aggregateversion").parse().unwrap();
            let before = versions.insert(&record.key, version);
            assert_eq!(before.unwrap_or(0) + 1, version);
        }
    }
    let marks =
        r#"select l.partition, l."offset", o.id from outbox_log l join outbox o on o.seq = l.seq"#;
    let marks: Vec<(i64, i64, String)> = database::all(&desk.db, marks).await;
    assert_eq!(marks.len(), seen.len());
    for mark in marks {
        assert!(places.contains(&mark), "{mark:?} in {places:?}");
    }
}

/// Steps until everything is settled; what became of it.
async fn settled(desk: &Desk) -> Step {
    let (mut relay, mut all) = (desk.relay("relay"), Step::default());
    for _ in 0..STEPS_MAX {
        if let Ok(step) = relay.step().await {
            all.sent += step.sent;
            all.quarantined += step.quarantined;
        }
        desk.let_leases_lapse(); // as the time that it took
    }
    all
}

/// Whatever the code, and however often: all is sent, in order, and nothing is set aside.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_code_loses_an_event_or_sets_it_aside() {
    let codes = [
        RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
        RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
        RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
        RD_KAFKA_RESP_ERR_DUPLICATE_SEQUENCE_NUMBER,
        RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH,
        RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID,
        RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
        RD_KAFKA_RESP_ERR_POLICY_VIOLATION,
        RD_KAFKA_RESP_ERR_UNKNOWN,
        RD_KAFKA_RESP_ERR__TRANSPORT,
    ];
    for code in codes {
        let mock = Mock::open().await;
        mock.write().await;
        mock.says(Produce, &[code, code]);
        let step = settled(&mock.desk).await;
        assert_eq!((step.sent, step.quarantined), (6, 0), "{code:?}");
        is_in_order(&mock.desk, &mock.records().await).await;
    }
}

/// A client of the library that has met a fatal error never sends again. Another is built in its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_fatal_error_the_producer_is_built_anew() {
    for (to, code) in [
        (Produce, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER),
        (
            InitProducerId,
            RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED,
        ),
    ] {
        let mock = Mock::open().await;
        mock.write().await;
        mock.says(to, &[code]);
        let mut relay = mock.desk.relay("relay");
        let failed = chain(&relay.step().await.unwrap_err());
        assert!(failed.starts_with("event log unavailable: "), "{failed}");
        let step = relay.step().await.unwrap();
        assert_eq!((step.sent, step.quarantined), (6, 0), "{code:?}");
        is_in_order(&mock.desk, &mock.records().await).await;
    }
}

/// A broker refuses a whole request for one record. Only what is refused alone waits, with its key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_beside_others_is_not_set_aside_for_it() {
    for code in [
        RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
        RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE,
        RD_KAFKA_RESP_ERR_INVALID_RECORD,
    ] {
        let mock = Mock::open().await;
        mock.write().await;
        mock.says(Produce, &[code]);
        let step = settled(&mock.desk).await;
        assert_eq!((step.sent, step.quarantined), (6, 0), "{code:?}");
        is_in_order(&mock.desk, &mock.records().await).await;
    }
}

/// On a real broker: a topic takes no large records, and one order has one. It waits, with what comes after
/// it; the small ones of other orders beside it do not, though all of them together are too large as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_too_large_stops_its_key_only() {
    let Some(broker) = kafka::broker() else {
        return;
    };
    let kafka = Kafka::new(&broker.url(), &kafka::name()).unwrap();
    let admin: AdminClient<DefaultClientContext> = kafka::client().create().unwrap();
    let small = NewTopic::new(
        kafka.topic(),
        i32::from(PARTITIONS),
        TopicReplication::Fixed(1),
    )
    .set("max.message.bytes", "4096");
    let made = admin.create_topics(&[small], &AdminOptions::new()).await;
    made.unwrap()[0].as_ref().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let database = database::in_sqlite(folder.path()).await;
    let desk = Desk::with_kafka(database, folder, kafka.clone());
    let orders: Vec<_> = (0..40).map(|_| desk.order_in(3)).collect();
    for order in &orders {
        desk.write(Event::OrderPlaced(facts(*order)), 1).await;
        desk.write(Event::OrderConfirmed(facts(*order)), 2).await;
    }
    // Noise, for what repeats itself is small when it is sent.
    let noise: String = (0..300)
        .map(|_| format!("{:032x}", rand::random::<u128>()))
        .collect();
    let large = orders[7];
    desk.bend_outbox(&format!(
        "update outbox set payload = '{{\"noise\":\"{noise}\"}}' where aggregateid = '{large}' and aggregate_version = 1"
    ))
    .await;
    let step = settled(&desk).await;
    assert_eq!((step.sent, step.quarantined), (78, 2));
    let kept = "select o.aggregateid, q.reason from outbox_quarantine q join outbox o on o.seq = q.seq order by o.seq";
    let kept: Vec<(String, String)> = database::all(&desk.db, kept).await;
    assert!(
        kept.iter().all(|(key, _)| *key == large.to_string()),
        "{kept:?}"
    );
    assert!(kept[0].1.contains("Message size too large"), "{kept:?}");
    let records = spawn_blocking(move || kafka::records(&kafka))
        .await
        .unwrap();
    is_in_order(&desk, &records).await;
}
