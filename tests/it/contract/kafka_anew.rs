//! A topic that is deleted and made anew: nobody lends a hand, and nothing is lost to a group of ours.

use std::collections::BTreeSet;

use catraca::base::limits::PARTITIONS;
use catraca::driver::kafka::topics::Applied;
use catraca::driver::kafka::{Kafka, KafkaFault};
use catraca::event::Event;
use catraca::log::Delivery;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use tokio::sync::Mutex;

use crate::contract::desk::{Desk, facts};
use crate::contract::kafka::desk;
use crate::support::kafka::{self, client};
use crate::support::{chain, until};

async fn delete(kafka: &Kafka) {
    let admin: AdminClient<DefaultClientContext> = client().create().unwrap();
    let deleted = admin.delete_topics(&[kafka.topic()], &AdminOptions::new());
    deleted.await.unwrap()[0].as_ref().unwrap();
    until("nobody sees it any more", async || {
        let seen = kafka.check_topic().await;
        matches!(seen, Err(KafkaFault::NoTopic(_))).then_some(())
    })
    .await;
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

    delete(&kafka).await;
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
    let all = ids(&read(&desk, "behind", 2, 15).await);
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
