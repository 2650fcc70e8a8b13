//! A topic that is deleted and made anew: nobody lends a hand, and nothing is lost to a group of ours. And records
//! that Kafka has removed, which is not that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use catraca::base::ids::IdSource;
use catraca::base::limits::{GROUP_RUNS_MS, PARTITIONS};
use catraca::driver::kafka::topics::Applied;
use catraca::driver::kafka::{Kafka, KafkaFault};
use catraca::event::Event;
use catraca::log::Delivery;
use catraca::log::inbox::{Rewound, Run};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio::sync::Mutex;

use crate::contract::desk::{Desk, facts};
use crate::contract::kafka::desk;
use crate::support::kafka::{self, Broker, client};
use crate::support::{chain, database, until};

fn admin(client: &ClientConfig) -> AdminClient<DefaultClientContext> {
    client.create().unwrap()
}

async fn delete(client: &ClientConfig, kafka: &Kafka) {
    let admin = admin(client);
    let deleted = admin.delete_topics(&[kafka.topic()], &AdminOptions::new());
    deleted.await.unwrap()[0].as_ref().unwrap();
    until("nobody sees it any more", async || {
        let seen = kafka.check_topic().await;
        matches!(seen, Err(KafkaFault::NoTopic(_))).then_some(())
    })
    .await;
}

/// Makes one with so many partitions, as somebody may who does not know of ours.
async fn make(topic: &str, partitions: i32) {
    let topic = [NewTopic::new(topic, partitions, TopicReplication::Fixed(1))];
    let (admin, options) = (admin(&client()), AdminOptions::new());
    let made = admin.create_topics(&topic, &options);
    made.await.unwrap()[0].as_ref().unwrap();
}

/// So many orders of a partition, two events each; the ids of those, as one step of the relay sends them.
async fn write(desk: &Desk, partition: u16, orders: usize) -> Vec<String> {
    let orders: Vec<_> = (0..orders).map(|_| desk.order_in(partition)).collect();
    let mut ids = Vec::new();
    for (version, event) in (1..).zip([Event::OrderPlaced, Event::OrderConfirmed]) {
        for order in &orders {
            ids.push(desk.write(event(facts(*order)), version).await.to_string());
        }
    }
    ids
}

/// What a group reads of a partition, once it has come so far, whatever fails meanwhile. What it has read it is past.
async fn read(desk: &Desk, group: &str, partition: u16, count: usize) -> Vec<Delivery> {
    let read = Mutex::new(Vec::new());
    until("the group has read", async || {
        let found = desk.log().poll(group, partition, 3).await.ok()?;
        let mut read = read.lock().await;
        if let Some(last) = found.last() {
            let through = [(partition, last.offset)];
            desk.inbox().pass(group, &through).await.unwrap();
        }
        read.extend(found);
        (count <= read.len()).then_some(())
    })
    .await;
    read.into_inner()
}

fn ids(deliveries: &[Delivery]) -> Vec<String> {
    let ids = deliveries.iter();
    ids.map(|delivery| delivery.event_id.clone()).collect()
}

/// Sends until so many were sent, whatever fails meanwhile.
async fn send(desk: &Desk, count: u64) {
    let (relay, sent) = (Mutex::new(desk.relay("relay")), Mutex::new(0));
    until("the relay has sent all", async || {
        let (mut relay, mut sent) = (relay.lock().await, sent.lock().await);
        *sent += relay.step().await.map_or(0, |step| step.sent);
        desk.clock.advance_ms(1_000);
        (*sent == count).then_some(())
    })
    .await;
    relay.lock().await.resign().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_was_made_anew_needs_no_hand() {
    let Some(desk) = desk().await else {
        return;
    };
    let kafka = desk.kafka.clone().unwrap();
    for group in ["through", "behind"] {
        desk.inbox().register(group).await.unwrap();
    }
    let before = write(&desk, 2, 2).await;
    let idle = write(&desk, 4, 1).await;
    send(&desk, 6).await;
    assert_eq!(ids(&read(&desk, "through", 2, 4).await), before);
    assert_eq!(ids(&read(&desk, "through", 4, 2).await), idle);
    let first = desk.poll("behind", 2, 4).await;
    desk.inbox().pass("behind", &[(2, 0)]).await.unwrap();
    assert_eq!(ids(&first), before);

    delete(&client(), &kafka).await;
    let after = write(&desk, 2, 3).await;
    let failed = until("the relay says why it waits", async || {
        let failed = desk.relay("relay").step().await.err()?;
        desk.let_leases_lapse();
        Some(chain(&failed)).filter(|failed| failed.contains("has no topic"))
    })
    .await;
    assert!(failed.contains("catraca topics apply"), "{failed}");
    until("a group says why it waits", async || {
        let failed = desk.log().poll("through", 2, 1).await.err()?;
        chain(&failed).contains("has no topic").then_some(())
    })
    .await;

    // That is all that somebody does.
    assert_eq!(kafka.apply_topic().await.unwrap(), Applied::Made);
    desk.let_leases_lapse();
    send(&desk, 6).await;
    assert_eq!(
        kafka::ends(&kafka)[2..5],
        [12, 0, 0],
        "what was sent before it was known goes again"
    );
    // Whoever was through reads what is new, from its first copy on; whoever was behind reads in the outbox what
    // went with the old topic.
    let new = read(&desk, "through", 2, 12).await;
    assert_eq!(
        BTreeSet::from_iter(ids(&new)),
        BTreeSet::from_iter(after.clone())
    );
    let all = read(&desk, "behind", 2, 15).await;
    for (from_kafka, from_outbox) in first[1..].iter().zip(&all) {
        assert_eq!(
            from_kafka.payload, from_outbox.payload,
            "by which it is known again"
        );
    }
    let all = ids(&all);
    assert_eq!(all[..3], before[1..]);
    assert_eq!(BTreeSet::from_iter(&all[3..]), BTreeSet::from_iter(&after));
    // Where nothing was new meanwhile, a group finds out by itself.
    let begins = "select begins from outbox_partitions where partition = 4";
    until("the group has seen it", async || {
        let found = desk.log().poll("through", 4, 1).await.ok()?;
        assert_eq!(found, []);
        (desk.count(begins).await == 2).then_some(())
    })
    .await;
    let more = write(&desk, 4, 1).await;
    send(&desk, 2).await;
    assert_eq!(ids(&read(&desk, "through", 4, 2).await), more);
    for partition in 0..PARTITIONS {
        let lag = desk.log().lag("through").await.unwrap();
        assert_eq!(lag[usize::from(partition)].records, 0);
    }
    assert_eq!(desk.count("select count(*) from outbox_log").await, 14);
}

/// One that asks about the same topic, and of which neither relay nor groups hear what it was told.
fn stranger(broker: &Broker, topic: &Kafka) -> Kafka {
    Kafka::new(&broker.url(), topic.topic()).unwrap()
}

/// Nobody sends or reads while it is away, so all go on with what their clients knew of the old one; and that is
/// newer than what they hear of the new one, because the broker was started twice since the old one was made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_was_made_anew_under_whoever_idles_needs_no_hand() {
    let Some(mut broker) = Broker::start() else {
        return;
    };
    let kafka = Kafka::new(&broker.url(), kafka::TOPIC).unwrap();
    until("the broker makes topics", async || {
        kafka.apply_topic().await.ok()
    })
    .await;
    broker.die();
    assert!(broker.begin());
    let folder = tempfile::tempdir().unwrap();
    let database = database::in_sqlite(folder.path()).await;
    let desk = Desk::with_kafka(database, folder, kafka.clone());
    for group in ["through", "behind"] {
        desk.inbox().register(group).await.unwrap();
    }
    let before = write(&desk, 2, 2).await;
    let idle = write(&desk, 4, 1).await;
    let unread = write(&desk, 5, 1).await;
    send(&desk, 8).await;
    assert_eq!(ids(&read(&desk, "through", 2, 4).await), before);
    assert_eq!(ids(&read(&desk, "through", 4, 2).await), idle);
    assert_eq!(ids(&desk.poll("behind", 2, 4).await), before);
    desk.inbox().pass("behind", &[(2, 0)]).await.unwrap();

    let somebody = stranger(&broker, &kafka);
    delete(&broker.client(), &somebody).await;
    assert_eq!(somebody.apply_topic().await.unwrap(), Applied::Made);

    let after = write(&desk, 2, 3).await;
    let elsewhere = write(&desk, 3, 1).await;
    send(&desk, 8).await;
    let new = ids(&read(&desk, "through", 2, 6).await);
    assert_eq!(BTreeSet::from_iter(new), BTreeSet::from_iter(after.clone()));
    assert_eq!(ids(&read(&desk, "through", 3, 2).await), elsewhere);
    let all = ids(&read(&desk, "behind", 2, 15).await);
    assert_eq!(all[..3], before[1..]);
    assert_eq!(BTreeSet::from_iter(&all[3..]), BTreeSet::from_iter(&after));
    // Where nothing is new, groups find out by themselves.
    until("the group has seen it", async || {
        let found = desk.log().poll("through", 4, 1).await.ok()?;
        assert_eq!(found, []);
        let begins = "select begins from outbox_partitions where partition = 4";
        (desk.count(begins).await == 2).then_some(())
    })
    .await;
    let more = write(&desk, 4, 1).await;
    send(&desk, 2).await;
    assert_eq!(ids(&read(&desk, "through", 4, 2).await), more);
    assert_eq!(ids(&read(&desk, "through", 5, 2).await), unread);
    assert_eq!(desk.count("select count(*) from outbox_log").await, 18);
}

/// A group that has read nothing stands where a new topic begins, so no offset of its is out of range: it finds out when
/// it looks how far it is behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_read_nothing_finds_out_that_a_topic_was_made_anew() {
    let Some(desk) = desk().await else {
        return;
    };
    let kafka = desk.kafka.clone().unwrap();
    desk.inbox().register("slow").await.unwrap();
    let unread = write(&desk, 5, 1).await;
    send(&desk, 2).await;
    delete(&client(), &kafka).await;
    assert_eq!(kafka.apply_topic().await.unwrap(), Applied::Made);
    desk.log().lag("slow").await.unwrap();
    assert_eq!(ids(&read(&desk, "slow", 5, 2).await), unread);
}

/// Somebody makes it anew with too few partitions. What was sent there until it was seen, and what could not be,
/// is in the right one in the end, or in the outbox for whoever had not read it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_was_made_anew_of_another_shape_is_named_and_loses_nothing() {
    let Some(desk) = desk().await else {
        return;
    };
    let (kafka, broker) = (desk.kafka.clone().unwrap(), kafka::broker().unwrap());
    desk.inbox().register("through").await.unwrap();
    let mut low = write(&desk, 1, 1).await;
    let mut high = write(&desk, 4, 1).await;
    send(&desk, 4).await;
    assert_eq!(ids(&read(&desk, "through", 1, 2).await), low);
    assert_eq!(ids(&read(&desk, "through", 4, 2).await), high);

    let somebody = stranger(broker, &kafka);
    delete(&client(), &somebody).await;
    make(kafka.topic(), 3).await;
    low = write(&desk, 1, 1).await;
    high = write(&desk, 4, 1).await;
    let says = "has 3 partitions and must have 6";
    until("the relay says what is wrong", async || {
        let failed = desk.relay("relay").step().await.err()?;
        chain(&failed).contains(says).then_some(())
    })
    .await;
    assert_eq!(kafka.state(), Some("shape"));

    delete(&client(), &somebody).await;
    assert_eq!(somebody.apply_topic().await.unwrap(), Applied::Made);
    desk.let_leases_lapse();
    let unmarked = "select count(*) from outbox o
        where not exists (select 1 from outbox_log l where l.seq = o.seq)";
    send(&desk, desk.count(unmarked).await.cast_unsigned()).await;
    desk.log().lag("through").await.unwrap(); // as every group does every 5 s
    for (partition, expected) in [(1, &low), (4, &high)] {
        let found = ids(&read(&desk, "through", partition, 2).await);
        assert_eq!(found[..2], expected[..], "partition {partition}");
    }
    assert_eq!(desk.count("select count(*) from outbox_log").await, 8);
}

/// Kafka removes records by age where somebody says so. Whoever had not read them stands still and says where; whoever
/// is new begins with what is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_were_removed_unread_are_named_and_not_skipped() {
    let Some(mut desk) = desk().await else {
        return;
    };
    let kafka = desk.kafka.clone().unwrap();
    desk.inbox().register("behind").await.unwrap();
    write(&desk, 2, 4).await;
    send(&desk, 8).await;
    desk.inbox().pass("behind", &[(2, 1)]).await.unwrap();
    let mut removed = TopicPartitionList::new();
    removed
        .add_partition_offset(kafka.topic(), 2, Offset::Offset(5))
        .unwrap();
    let (admin, options) = (admin(&client()), AdminOptions::new());
    admin.delete_records(&removed, &options).await.unwrap();

    desk.restart();
    let says = ".behind: Kafka no longer has offset 2 of partition 2 of its topic";
    until("the group says what it lacks", async || {
        let failed = desk.log().poll("behind", 2, 8).await;
        let Err(failed) = failed else {
            assert_eq!(failed.unwrap(), [], "nothing is skipped");
            return None;
        };
        chain(&failed).contains(says).then_some(())
    })
    .await;
    assert_eq!(kafka.state(), Some("gone"));
    assert_eq!(desk.inbox().standing("behind").await.unwrap()[&2], 2);
    let begins = "select max(begins) from outbox_partitions";
    assert_eq!(desk.count(begins).await, 0, "the topic is the same");
    desk.inbox().register("new").await.unwrap();
    assert_eq!(desk.poll("new", 2, 3).await[0].offset, 5);
}

/// Debezium marks nothing, so nobody can tell that a topic was made anew. A group stands still and says what it lacks,
/// and begins again when somebody says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_debezium_a_group_begins_again_by_hand() {
    let Some(desk) = desk().await else {
        return;
    };
    let topic = desk.kafka.clone().unwrap();
    desk.inbox().register("reader").await.unwrap();
    write(&desk, 2, 2).await;
    send(&desk, 4).await;
    let record = kafka::records(&topic).remove(0);
    // As if it had been Debezium's from the first event on.
    desk.run("update event_log set name = 'cdc:' || substr(name, 7)")
        .await;
    desk.run("delete from outbox_log").await;
    let (time, source) = (desk.time(), Arc::new(IdSource::random()));
    let stores = || desk.db.stores_with_cdc(&time, &source, &topic);
    let before = stores();
    until("the group has read", async || {
        let found = before.log.poll("reader", 2, 4).await.unwrap();
        (found.len() == 4).then_some(())
    })
    .await;
    before.inbox.pass("reader", &[(2, 3)]).await.unwrap();

    delete(&client(), &topic).await;
    assert_eq!(topic.apply_topic().await.unwrap(), Applied::Made);
    let new = "0190a1b2-0000-7000-8000-000000000001";
    kafka::send_again(&topic, &record, &BTreeMap::from([("ce_id", new)]));
    let says = ".reader: Kafka no longer has offset 4 of partition 2 of its topic";
    until("the group says what it lacks", async || {
        let failed = before.log.poll("reader", 2, 4).await.err()?;
        chain(&failed).contains(says).then_some(())
    })
    .await;
    drop(before);
    desk.clock.advance_ms(GROUP_RUNS_MS);
    let after = stores();
    let rewound = after.inbox.rewind("reader", Run::Real).await.unwrap();
    assert!(matches!(rewound, Rewound::From(_)), "{rewound:?}");
    let read = until("the group reads what is new", async || {
        let found = after.log.poll("reader", 2, 4).await.ok()?;
        (!found.is_empty()).then_some(found)
    });
    assert_eq!(ids(&read.await), [new]);
}
