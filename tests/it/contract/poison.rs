//! One event in a hundred is poison, all of it in one partition, in real time: the others have theirs as
//! quickly as without. `./dev drill groups` holds the times against each other; the short form only that
//! everything arrives, for speed is not for a test that runs beside others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use catraca::app::database::Database;
use catraca::base::ids::OrderId;
use catraca::base::limits::PARTITIONS;
use catraca::base::time::SystemClock;
use catraca::event::Event;
use catraca::log::consume::Consuming;
use catraca::log::inbox::{Rewound, Run};
use catraca::log::patience::Failure;
use catraca::log::rounds::MEASURE_EVERY_MS;
use catraca::log::{ApplyError, Consumer, Delivery, LogError};
use catraca::notify::{Notice, Sender};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::contract::desk::{Desk, facts};
use crate::contract::provider::transient;
use crate::support::database::on_every_log;
use crate::support::until;

on_every_log! {
    Desk:
    one_event_in_a_hundred_is_poison_and_the_others_are_as_quick,
    a_partition_that_the_store_fails_holds_up_no_other_and_the_lag_is_known,
}

/// How many events the long form has.
const EVENTS_VARIABLE: &str = "CATRACA_DRILL_POISON";
const EVENTS: u32 = 200;
/// One event in so many is poison.
const POISON: u32 = 100;
/// Between two events.
const PAUSE: Duration = Duration::from_millis(10);
/// How much longer the other partitions may take.
const LONGER_MAX: f64 = 2.0;
/// Below this both are as quick as the timer of the machine can tell.
const FLOOR: Duration = Duration::from_millis(20);

/// A provider that remembers when it took what, and does not take some of it.
#[derive(Debug, Default)]
struct Clerk {
    poison: Mutex<BTreeSet<OrderId>>,
    tried: Mutex<u32>,
    taken: Mutex<BTreeMap<OrderId, Instant>>,
}

#[async_trait]
impl Sender for Clerk {
    async fn send(&self, notice: &Notice) -> Result<String, Failure> {
        if self.poison.lock().unwrap().contains(&notice.order_id) {
            *self.tried.lock().unwrap() += 1;
            return Err(transient());
        }
        let mut taken = self.taken.lock().unwrap();
        taken.insert(notice.order_id, Instant::now());
        Ok("receipt".to_owned())
    }
}

/// How long the slowest but one in a hundred took from outbox to provider, in partitions without poison.
async fn p99(desk: &Desk, events: u32, poison: Option<u32>) -> Duration {
    let clerk = Arc::new(Clerk::default());
    let notifier = desk.notifier(clerk.clone());
    let clock = Arc::new(SystemClock);
    let consuming = Consuming::new(notifier, desk.log(), desk.inbox(), clock);
    let (nudge, stop) = (Arc::new(Notify::new()), CancellationToken::new());
    let running = tokio::spawn(consuming.run(nudge.clone(), stop.clone()));
    let mut relay = desk.relay("relay");
    let mut written = BTreeMap::new();
    for n in 0..events {
        let is_poison = poison.is_some_and(|share| n % share == 0);
        let partition = match is_poison {
            true => 0,
            false => 1 + u16::try_from(n).unwrap() % (PARTITIONS - 1),
        };
        let order = desk.order_in(partition);
        if is_poison {
            clerk.poison.lock().unwrap().insert(order);
        } else {
            written.insert(order, Instant::now());
        }
        desk.write(Event::OrderConfirmed(facts(order)), 1).await;
        relay.step().await.unwrap();
        nudge.notify_one();
        tokio::time::sleep(PAUSE).await;
    }
    until("the others have all of theirs", async || {
        (written.len() == clerk.taken.lock().unwrap().len()).then_some(())
    })
    .await;
    relay.resign().await.unwrap();
    stop.cancel();
    running.await.unwrap().unwrap();
    if poison.is_some() {
        assert!(0 < *clerk.tried.lock().unwrap(), "there was poison");
    }
    let taken = clerk.taken.lock().unwrap();
    let mut took: Vec<Duration> = written.iter().map(|(id, at)| taken[id] - *at).collect();
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

async fn one_event_in_a_hundred_is_poison_and_the_others_are_as_quick(desk: Desk) {
    let drill = std::env::var(EVENTS_VARIABLE).ok();
    let events = drill.as_ref().map_or(EVENTS, |text| text.parse().unwrap());
    let without = p99(&desk.another().await, events, None).await;
    let with = p99(&desk, events, Some(POISON)).await;
    let name = match (&desk.kafka, &desk.db) {
        (Some(_), _) => "Kafka",
        (None, Database::Sqlite(_)) => "SQLite",
        (None, Database::Postgres(_)) => "PostgreSQL",
    };
    let longer = with.max(FLOOR).as_secs_f64() / without.max(FLOOR).as_secs_f64();
    eprintln!(
        "{name}: {events} events, 99 of 100 within {without:?} without poison, {with:?} with it: {longer:.2} times"
    );
    if drill.is_some() {
        assert!(longer < LONGER_MAX, "{longer:.2} times");
    }
}

/// A group whose store fails for these partitions.
#[derive(Debug, Clone)]
struct Failing {
    partitions: Vec<u16>,
    handled: Arc<Mutex<BTreeSet<u16>>>,
    failed: Arc<Mutex<u32>>,
}

#[async_trait]
impl Consumer for Failing {
    fn group(&self) -> &'static str {
        "failing"
    }

    fn concerns(&self, _delivery: &Delivery) -> bool {
        true
    }

    async fn apply(&self, delivery: &Delivery) -> Result<(), ApplyError> {
        if self.partitions.contains(&delivery.partition) {
            *self.failed.lock().unwrap() += 1;
            return Err(LogError::Unavailable(anyhow::anyhow!("no table")).into());
        }
        self.handled.lock().unwrap().insert(delivery.partition);
        Ok(())
    }
}

async fn a_partition_that_the_store_fails_holds_up_no_other_and_the_lag_is_known(desk: Desk) {
    for partition in 0..PARTITIONS {
        let order = facts(desk.order_in(partition));
        desk.write(Event::OrderConfirmed(order), 1).await;
    }
    desk.relay_all().await;
    for failing in [vec![0], vec![1, 2], (0..PARTITIONS).collect()] {
        let consumer = Failing {
            partitions: failing.clone(),
            handled: Arc::default(),
            failed: Arc::default(),
        };
        let others = (0..PARTITIONS).filter(|partition| !failing.contains(partition));
        let others: BTreeSet<u16> = others.collect();
        let mut consuming = Consuming::new(consumer.clone(), desk.log(), desk.inbox(), desk.time());
        drop(consuming.step().await);
        let consuming = tokio::sync::Mutex::new(consuming);
        until("the others go on", async || {
            desk.clock.advance_ms(MEASURE_EVERY_MS);
            let before = *consumer.failed.lock().unwrap();
            let stepped = consuming.lock().await.step().await;
            let failed = *consumer.failed.lock().unwrap() - before;
            assert_eq!(stepped.is_err(), 0 < failed, "{failing:?}");
            // Who may be away altogether is not asked for every partition.
            assert!(failed <= 2, "{failing:?}: {failed}");
            let measured = desk.inbox().rewind("failing", Run::Dry).await.unwrap();
            assert_eq!(measured, Rewound::Running(0), "{failing:?}");
            let handled = consumer.handled.lock().unwrap();
            (0 < failed && *handled == others).then_some(())
        })
        .await;
    }
}
