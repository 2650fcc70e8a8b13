//! What is set aside goes to Kafka first: where it stands there, and what happens when it does not get there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use catraca::base::limits::{BREAKER_FAILURES_MAX, BREAKER_OPEN_MS, PARTITIONS};
use catraca::driver::kafka::Kafka;
use catraca::driver::kafka::topics::Applied;
use catraca::event::Event;
use catraca::log::consume::{Consuming, Step};
use catraca::log::inbox::Because;
use catraca::log::patience::Failure;
use catraca::log::{Delivery, Lag, LogError, Subscriber};

use crate::contract::desk::{Desk, facts};
use crate::contract::kafka::desk;
use crate::contract::provider::{Mood, Provider, away, confirm, steps, transient};
use crate::support::kafka::{self, Record};
use crate::support::{database, until};

fn permanent() -> Failure {
    Failure::Permanent("no such address".to_owned())
}

/// What stands in the topic of dead letters, by partition.
fn dead_letters(topic: &Kafka) -> Vec<Record> {
    kafka::records(&topic.dead_letters())
}

fn text<'a>(record: &'a Record, header: &str) -> &'a str {
    str::from_utf8(&record.headers[header]).unwrap()
}

#[tokio::test]
async fn a_dead_letter_is_the_record_with_its_reason_and_origin() {
    let Some(desk) = desk().await else {
        return;
    };
    let provider = Provider::of(&desk, Mood::Fails(permanent()));
    let order = confirm(&desk, 4).await;
    desk.relay_all().await;
    let mut consuming = desk.notifying(provider);
    steps(&mut consuming, |total| total.set_aside == 1).await;

    let topic = desk.kafka.clone().unwrap();
    let before = &kafka::records(&topic)[1];
    let letters = dead_letters(&topic);
    let [letter] = &letters[..] else {
        panic!("one dead letter");
    };
    assert_eq!(
        (before.offset, before.partition, letter.partition),
        (1, 4, 4)
    );
    assert_eq!(letter.key, order.to_string().into_bytes());
    assert_eq!(
        (&letter.key, &letter.payload),
        (&before.key, &before.payload)
    );
    let mut headers = before.headers.clone();
    for (name, value) in [
        ("dlt-group", "notify"),
        ("dlt-reason", "no such address"),
        ("dlt-attempts", "1"),
        ("dlt-topic", topic.topic()),
        ("dlt-partition", "4"),
        ("dlt-offset", "1"),
    ] {
        headers.insert(name.to_owned(), value.as_bytes().to_owned());
    }
    assert_eq!(letter.headers, headers);
    assert!(headers.contains_key("traceparent") && headers.contains_key("ce_id"));
    assert_eq!(desk.inbox().standing("notify").await.unwrap()[&4], 2);
    assert_eq!(desk.count("select count(*) from dead_letters").await, 1);
}

/// A crash after Kafka has it and before the inbox does: the next process sets it aside again, and readers
/// know the copy by its event and its group.
#[tokio::test]
async fn a_crash_before_the_inbox_repeats_with_the_same_event_and_group() {
    let Some(mut desk) = desk().await else {
        return;
    };
    let provider = Provider::of(&desk, Mood::Fails(permanent()));
    confirm(&desk, 2).await;
    desk.relay_all().await;
    desk.run(
        "create trigger killed before insert on dead_letters
         begin select raise(abort, 'killed'); end",
    )
    .await;
    let topic = desk.kafka.clone().unwrap();
    let mortal = tokio::sync::Mutex::new(desk.notifying(provider.clone()));
    until("it has died", async || {
        mortal.lock().await.step().await.err()
    })
    .await;
    drop(mortal);
    assert_eq!(dead_letters(&topic).len(), 1);
    assert_eq!(desk.count("select count(*) from dead_letters").await, 0);
    assert!(desk.inbox().standing("notify").await.unwrap()[&2] <= 1);

    desk.run("drop trigger killed").await;
    desk.restart();
    let mut consuming = desk.notifying(provider);
    steps(&mut consuming, |total| total.set_aside == 1).await;
    let letters = dead_letters(&topic);
    let names: Vec<_> = letters
        .iter()
        .map(|letter| (text(letter, "ce_id"), text(letter, "dlt-group")))
        .collect();
    assert_eq!(names.len(), 2);
    assert_eq!(names[0], names[1]);
    assert_eq!(desk.count("select count(*) from dead_letters").await, 1);
}

/// Without the topic nothing is set aside and nothing is passed over; the provider is not asked again, and
/// other partitions go on.
#[tokio::test]
async fn without_its_topic_a_partition_waits_and_the_others_go_on() {
    let Some(broker) = kafka::broker() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let database = database::in_sqlite(folder.path()).await;
    let topic = Kafka::new(&broker.url(), &kafka::name()).unwrap();
    assert_eq!(topic.apply_topic().await.unwrap(), Applied::Made);
    let desk = Desk::with_kafka(database, folder, topic.clone());
    let poisoned = confirm(&desk, 0).await;
    let behind = confirm(&desk, 0).await;
    let mut others = Vec::new();
    for partition in 1..PARTITIONS {
        others.push(confirm(&desk, partition).await);
    }
    desk.relay_all().await;
    let provider = Provider::of(&desk, Mood::FailsFor(poisoned, permanent()));
    let mut consuming = desk.notifying(provider.clone());
    let done = |total: &Step| (total.handled, total.failed) == (5, 1);
    steps(&mut consuming, done).await;
    for rest_ms in [500, 1_000, 2_000, 2_000] {
        desk.clock.advance_ms(rest_ms - 1);
        assert_eq!(consuming.step().await.unwrap().failed, 0, "it rests");
        desk.clock.advance_ms(1);
        steps(&mut consuming, |total| total.failed == 1).await;
    }
    assert_eq!(provider.tries(poisoned), [0], "the provider has answered");
    for other in &others {
        assert_eq!(provider.tries(*other), [0]);
    }
    assert!(provider.tries(behind).is_empty());
    assert_eq!(desk.count("select count(*) from dead_letters").await, 0);
    let said = desk.inbox().retries("notify").await.unwrap().remove(0);
    // Both were placed before either was confirmed, so two events were passed over.
    let standing = desk.inbox().standing("notify").await.unwrap();
    assert_eq!((standing[&0], said.offset), (2, 2));
    let dlt = topic.dead_letters();
    let says = format!(
        "no such address; it cannot be set aside: event log unavailable: Kafka has no topic {}; `catraca \
         topics apply` makes it",
        dlt.topic()
    );
    assert_eq!((said.attempts, said.reason), (1, says));

    assert_eq!(dlt.apply_topic().await.unwrap(), Applied::Made);
    desk.clock.advance_ms(2_000);
    let done = |total: &Step| (total.set_aside, total.handled) == (1, 1);
    steps(&mut consuming, done).await;
    assert_eq!(dead_letters(&topic).len(), 1);
    assert_eq!(provider.tries(behind).len(), 1);
    assert_eq!(desk.count("select count(*) from delivery_retries").await, 0);
}

/// A log that answers nothing about what is to be set aside, for as long as it hangs.
#[derive(Debug)]
struct Hanging {
    log: Arc<dyn Subscriber>,
    hangs: AtomicBool,
}

#[async_trait]
impl Subscriber for Hanging {
    async fn poll(&self, group: &str, at: u16, max: usize) -> Result<Vec<Delivery>, LogError> {
        self.log.poll(group, at, max).await
    }

    async fn lag(&self, group: &str) -> Result<Vec<Lag>, LogError> {
        self.log.lag(group).await
    }

    async fn set_aside(&self, _: &str, _: &Delivery, _: &Because) -> Result<(), LogError> {
        while self.hangs.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_log_that_hangs_on_a_dead_letter_holds_up_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let desk = Desk::open(database::in_sqlite(folder.path()).await, folder).await;
    let poisoned = confirm(&desk, 0).await;
    for partition in 1..PARTITIONS {
        confirm(&desk, partition).await;
    }
    desk.relay_all().await;
    let log = Arc::new(Hanging {
        log: desk.log(),
        hangs: AtomicBool::new(true),
    });
    let provider = Provider::of(&desk, Mood::FailsFor(poisoned, permanent()));
    let notifier = desk.notifier(provider.clone());
    let mut consuming = Consuming::new(notifier, log.clone(), desk.inbox(), desk.time());
    let step = consuming.step().await.unwrap();
    assert_eq!((step.handled, step.set_aside, step.failed), (5, 0, 0));
    assert_ne!(step.pause_ms, 0, "nobody turns in a circle");
    confirm(&desk, 3).await;
    desk.relay_all().await;
    let step = consuming.step().await.unwrap();
    assert_eq!((step.handled, step.set_aside), (1, 0));
    assert_eq!(desk.count("select count(*) from dead_letters").await, 0);
    log.hangs.store(false, Ordering::Relaxed);
    assert_eq!(consuming.step().await.unwrap().set_aside, 1);
    assert_eq!(provider.tries(poisoned), [0]);
}

/// Poison in one partition: what stands in the others is handled while it is tried again after 0.5, 1 and
/// 2 seconds; then it is set aside on its own partition.
#[tokio::test]
async fn poison_in_one_partition_holds_up_no_other() {
    let Some(desk) = desk().await else {
        return;
    };
    let poisoned = confirm(&desk, 0).await;
    let behind = confirm(&desk, 0).await;
    for n in 0..50 {
        confirm(&desk, 1 + n % (PARTITIONS - 1)).await;
    }
    desk.relay_all().await;
    let provider = Provider::of(&desk, Mood::FailsFor(poisoned, transient()));
    let mut consuming = desk.notifying(provider.clone());
    let done = |total: &Step| (total.handled, total.failed) == (50, 1);
    steps(&mut consuming, done).await;
    assert_eq!(provider.tries(poisoned), [0]);
    for rest_ms in [500, 1_000] {
        desk.clock.advance_ms(rest_ms);
        for partition in 1..PARTITIONS {
            confirm(&desk, partition).await;
        }
        desk.relay_all().await;
        let done = |total: &Step| (total.handled, total.failed) == (5, 1);
        steps(&mut consuming, done).await;
    }
    desk.clock.advance_ms(2_000);
    let done = |total: &Step| (total.handled, total.set_aside) == (1, 1);
    steps(&mut consuming, done).await;
    assert_eq!(provider.tries(poisoned), [0, 500, 1_500, 3_500]);
    assert_eq!(provider.tries(behind), [3_500]);
    let letters = dead_letters(&desk.kafka.clone().unwrap());
    let at: Vec<_> = letters
        .iter()
        .map(|letter| (letter.partition, text(letter, "dlt-attempts")))
        .collect();
    assert_eq!(at, [(0, "4")]);
}

/// While the breaker is open nothing goes to the dead letters, and it goes on by itself.
#[tokio::test]
async fn while_the_breaker_is_open_nothing_is_set_aside() {
    let Some(desk) = desk().await else {
        return;
    };
    for partition in 0..PARTITIONS {
        confirm(&desk, partition).await;
    }
    desk.relay_all().await;
    let provider = Provider::of(&desk, Mood::Fails(away()));
    let mut consuming = desk.notifying(provider.clone());
    let opens = u64::from(BREAKER_FAILURES_MAX);
    let mut failed = 0;
    while failed < opens {
        failed += steps(&mut consuming, |total| 0 < total.failed).await.failed;
        desk.clock.advance_ms(500);
    }
    let tries = provider.tried.lock().unwrap().len();
    desk.clock.advance_ms(BREAKER_OPEN_MS / 2);
    consuming.step().await.unwrap();
    assert_eq!(
        provider.tried.lock().unwrap().len(),
        tries,
        "all partitions wait"
    );
    provider.becomes(Mood::Well);
    desk.clock.advance_ms(BREAKER_OPEN_MS);
    let total = steps(&mut consuming, |total| total.handled == 6).await;
    assert_eq!(total.set_aside, 0);
    assert!(dead_letters(&desk.kafka.clone().unwrap()).is_empty());
}

/// What was set aside twice is as long as what was once: an event that somebody sent back to the topic with
/// the headers of its earlier life.
#[tokio::test]
async fn a_dead_letter_that_comes_back_does_not_grow() {
    let Some(desk) = desk().await else {
        return;
    };
    let provider = Provider::of(&desk, Mood::Fails(permanent()));
    let order = desk.order_in(5);
    desk.write(Event::OrderConfirmed(facts(order)), 1).await;
    desk.relay_all().await;
    let mut consuming = desk.notifying(provider);
    steps(&mut consuming, |total| total.set_aside == 1).await;
    let topic = desk.kafka.clone().unwrap();
    let first = dead_letters(&topic).remove(0);
    let changes = BTreeMap::from([("ce_id", "0190a1b2-0000-7000-8000-000000000001")]);
    kafka::send_again(&topic, &first, &changes);
    steps(&mut consuming, |total| total.set_aside == 1).await;
    let second = &dead_letters(&topic)[1];
    let names = |record: &Record| Vec::from_iter(record.headers.keys().cloned());
    assert_eq!(names(second), names(&first));
    assert_eq!(
        (text(&first, "dlt-offset"), text(second, "dlt-offset")),
        ("0", "1")
    );
}
