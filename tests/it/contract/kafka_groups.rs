//! Groups in Kafka: who reads which partition, where the group stands, and what is held of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use catraca::base::ids::IdSource;
use catraca::base::limits::{DELIVERY_BATCH_MAX, HELD_RECORDS_MAX, PARTITIONS};
use catraca::event::Event;
use catraca::log::inbox::Because;
use catraca::log::{Consumer, Subscriber};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

use crate::contract::desk::facts;
use crate::contract::kafka::desk;
use crate::contract::provider::{Mood, Provider};
use crate::support::kafka::{self, client};
use crate::support::{chain, until};

/// By partition, whose of these it is: 0, 1, 2…, once each partition is somebody's alone and so many of them
/// have any.
async fn owners(members: &[Arc<dyn Subscriber>], busy: usize) -> [usize; PARTITIONS as usize] {
    until("every partition has one owner", async || {
        let mut owners = [Vec::new(), vec![], vec![], vec![], vec![], vec![]];
        for partition in 0..PARTITIONS {
            for (n, member) in members.iter().enumerate() {
                let found = member.poll("notify", partition, 10).await.unwrap();
                if !found.is_empty() {
                    owners[usize::from(partition)].push(n);
                }
            }
        }
        let all_one = owners.iter().all(|owners| owners.len() == 1);
        let distinct = BTreeSet::from_iter(owners.iter().flatten());
        let is_so = all_one && distinct.len() == busy;
        is_so.then(|| owners.clone().map(|owners| owners[0]))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_share_the_partitions_of_a_group() {
    let Some(desk) = desk().await else {
        return;
    };
    for partition in 0..PARTITIONS {
        let order = desk.order_in(partition);
        desk.write(Event::OrderPlaced(facts(order)), 1).await;
        if partition == 2 {
            desk.write(Event::OrderConfirmed(facts(order)), 2).await;
        }
    }
    desk.relay_all().await;
    let kafka = desk.kafka.clone().unwrap();
    let member = || {
        let ids = Arc::new(IdSource::random());
        desk.db.stores_with_kafka(&desk.time(), &ids, &kafka).log
    };
    let mut members = vec![member()];
    assert_eq!(owners(&members, 1).await, [0; 6]);
    members.push(member());
    let shared = owners(&members, 2).await;
    let of = |n| shared.iter().filter(|owner| **owner == n).count();
    assert_eq!((of(0), of(1)), (3, 3), "{shared:?}");
    // The seventh of six partitions is idle.
    members.extend((0..5).map(|_| member()));
    let busy = BTreeSet::from(owners(&members, 6).await);
    assert!(busy.iter().all(|owner| *owner < 7), "{busy:?}");
    members.truncate(1);
    assert_eq!(owners(&members, 1).await, [0; 6]);
    // Where the group stands, Kafka's own tool says, too.
    desk.inbox().register("notify").await.unwrap();
    desk.inbox().pass("notify", &[(2, 0)]).await.unwrap();
    members[0].poll("notify", 2, 1).await.unwrap();
    let group = format!("{}.notify", kafka.topic());
    let said = until("Kafka has been told", async || {
        let group = group.clone();
        let told = tokio::task::spawn_blocking(move || {
            let words = ["--describe", "--group", &group];
            let class = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";
            kafka::broker().unwrap().tool(class, &words)
        });
        members[0].poll("notify", 2, 1).await.unwrap();
        let told = told.await.unwrap();
        let row = told.lines().find(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            // group, topic, partition, where it stands, where the partition ends, lag
            words.get(2..6).is_some_and(|at| at == ["2", "1", "2", "1"])
        });
        row.map(str::to_owned)
    });
    assert!(said.await.starts_with(&group));
}

/// A process has a delivery in hand while its partition becomes another's, and goes on when that has handled it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_wakes_with_what_is_anothers_by_now_has_no_second_effect() {
    let Some(desk) = desk().await else {
        return;
    };
    for partition in 0..PARTITIONS {
        let order = facts(desk.order_in(partition));
        desk.write(Event::OrderConfirmed(order), 1).await;
    }
    desk.relay_all().await;
    let kafka = desk.kafka.clone().unwrap();
    let member = || {
        let ids = Arc::new(IdSource::random());
        desk.db.stores_with_kafka(&desk.time(), &ids, &kafka).log
    };
    desk.inbox().register("notify").await.unwrap();
    let mut members = vec![member()];
    owners(&members, 1).await;
    let mut in_hand = BTreeMap::new();
    for partition in 0..PARTITIONS {
        let found = members[0].poll("notify", partition, 1).await.unwrap();
        in_hand.extend(found.into_iter().map(|delivery| (partition, delivery)));
    }
    members.push(member());
    let shared = owners(&members, 2).await;
    let moved = (0..PARTITIONS).find(|partition| shared[usize::from(*partition)] == 1);
    let moved = moved.unwrap();

    let provider = Provider::of(&desk, Mood::Well);
    let notifier = desk.notifier(provider.clone());
    let found = members[1].poll("notify", moved, 1).await.unwrap();
    for delivery in [&found[0], &in_hand[&moved]] {
        notifier.apply(delivery).await.unwrap();
    }
    assert_eq!(provider.taken().len(), 1, "both by the same id");
    for table in ["notices", "processed_events"] {
        let count = format!("select count(*) from {table}");
        assert_eq!(desk.count(&count).await, 1, "{table}");
    }
    let standing = desk.inbox().standing("notify").await.unwrap();
    assert_eq!(standing[&moved], 1);
    let because = Because {
        reason: "no such address".to_owned(),
        attempts: 1,
    };
    let set_aside = members[0].set_aside("notify", &in_hand[&moved], &because);
    let refused = chain(&set_aside.await.unwrap_err());
    assert!(
        refused.contains("the partition is another's now"),
        "{refused}"
    );
    assert_eq!(kafka::ends(&kafka.dead_letters()), [0; 6]);
}

/// A partition that stands still is paused, so it costs no memory; others go on, and nothing is missing
/// when it moves again.
#[tokio::test]
async fn a_partition_that_stands_still_is_paused_and_goes_on() {
    let Some(desk) = desk().await else {
        return;
    };
    let kafka = desk.kafka.clone().unwrap();
    let producer: BaseProducer = client().create().unwrap();
    let many = 3 * HELD_RECORDS_MAX;
    for n in 0..many {
        let payload = n.to_string();
        let record = BaseRecord::to(kafka.topic())
            .partition(4)
            .key("a")
            .payload(&payload);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(Duration::from_secs(20)).unwrap();
    let (log, inbox) = (desk.log(), desk.inbox());
    inbox.register("slow").await.unwrap();
    let held = desk.poll("slow", 4, HELD_RECORDS_MAX).await.len();
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = log.poll("slow", 4, usize::MAX).await.unwrap().len();
        assert!(now <= held + 1, "{now} held after {held}");
    }
    let order = desk.order_in(0);
    desk.write(Event::OrderPlaced(facts(order)), 1).await;
    desk.relay_all().await;
    assert_eq!(desk.poll("slow", 0, 1).await.len(), 1, "others go on");
    let mut next = 0;
    while next < many as u64 {
        let found = desk.poll("slow", 4, 1).await;
        let found = &found[..found.len().min(4 * DELIVERY_BATCH_MAX)];
        for delivery in found {
            assert_eq!(delivery.offset, next);
            // These are no events of ours: nobody is concerned.
            assert_eq!((&*delivery.kind, &*delivery.payload), ("", ""));
            next += 1;
        }
        inbox.pass("slow", &[(4, next - 1)]).await.unwrap();
    }
    assert!(log.poll("slow", 4, 10).await.unwrap().is_empty());
}
