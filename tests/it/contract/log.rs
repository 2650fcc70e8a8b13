//! The outbox, the relay and the log, in SQL and in Kafka: nothing lost, nothing out of order for its key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use catraca::base::ids::OrderId;
use catraca::base::limits::{PARTITIONS, RELAY_BATCH_MAX};
use catraca::base::time::{Clock, Timestamp};
use catraca::event::Event;
use catraca::relay::plan::{Batch, Lease, Page};
use catraca::relay::step::{Relay, Settings};
use catraca::relay::store::{Cleaned, Published, Store, StoreError};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::contract::desk::{Desk, T0, facts};
use crate::support::database::{self, End, on_every_log};
use crate::support::until;

on_every_log! {
    Desk:
    three_relays_and_two_hundred_writers_lose_and_invert_nothing,
    a_relay_that_dies_anywhere_loses_and_repeats_nothing,
    a_relay_that_lost_its_lease_is_refused,
    versions_go_in_order_and_a_gap_is_waited_for_for_ever,
    quarantine_holds_up_its_key_only,
    a_step_is_bounded_and_says_that_there_is_more,
    old_rows_go_when_every_group_is_past_them,
    lag_counts_records_and_their_age,
    a_nudged_relay_sends_and_resigns_when_it_is_stopped,
}

/// The whole log: by partition, key and version of each offset from 0 on. In Kafka an event may stand
/// again, with the same id, where a relay lost its lease while it sent: consumers know it by then.
async fn logged(desk: &Desk) -> BTreeMap<u16, Vec<(String, u64)>> {
    let mut whole = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for partition in 0..PARTITIONS {
        let mut deliveries = desk.poll_all("reader", partition).await;
        let offsets: Vec<u64> = deliveries.iter().map(|d| d.offset).collect();
        let contiguous: Vec<u64> = (0..offsets.len() as u64).collect();
        assert_eq!(offsets, contiguous, "partition {partition}");
        if desk.kafka.is_some() {
            deliveries.retain(|delivery| seen.insert(delivery.event_id.clone()));
        }
        let events = deliveries.into_iter().map(|d| (d.key, d.version));
        whole.insert(partition, events.collect());
    }
    whole
}

/// Every key's versions stand in the log as 1, 2, 3…; answers how many events there are.
fn assert_order(whole: &BTreeMap<u16, Vec<(String, u64)>>) -> usize {
    let mut versions: BTreeMap<&str, u64> = BTreeMap::new();
    for (key, version) in whole.values().flatten() {
        let last = versions.entry(key).or_default();
        assert_eq!(*version, *last + 1, "{key}");
        *last = *version;
    }
    whole.values().map(Vec::len).sum()
}

/// More orders go through a partition, one after the other, until its floor has risen so far. It may lag behind:
/// where several write, be it into another database of the server, only a mark that is history says that
/// nothing can come before it.
async fn floor_rises_to(desk: &Desk, partition: u16, least: i64) {
    let floor = format!("select floor_seq from outbox_partitions where partition = {partition}");
    until("neither scan nor floor stands still", async || {
        let order = desk.order_in(partition);
        desk.write(Event::OrderPlaced(facts(order)), 1).await;
        desk.relay_all().await;
        (least <= desk.count(&floor).await).then_some(())
    })
    .await;
}

async fn write_two(desk: &Desk, order: OrderId) {
    desk.write(Event::OrderPlaced(facts(order)), 1).await;
    desk.write(Event::OrderConfirmed(facts(order)), 2).await;
}

async fn three_relays_and_two_hundred_writers_lose_and_invert_nothing(desk: Desk) {
    let desk = Arc::new(desk);
    let mut writers = JoinSet::new();
    let at_once = Arc::new(Semaphore::new(8)); // a pool has no room for all of them
    for n in 0..200 {
        let (desk, at_once) = (Arc::clone(&desk), Arc::clone(&at_once));
        writers.spawn(async move {
            let _room = at_once.acquire().await.unwrap();
            let order = desk.order();
            write_two(&desk, order).await;
            if n % 4 == 0 {
                let event = Event::OrderRefunded(facts(order));
                database::append(&desk.db, &[desk.envelope(event, 3)], End::Rollback).await;
            }
        });
    }
    let mut relays = [desk.relay("a"), desk.relay("b"), desk.relay("c")];
    let mut running = true;
    let mut turns = 0;
    while running {
        running = !writers.is_empty();
        while let Some(done) = writers.try_join_next() {
            done.unwrap();
        }
        // The leases run out again and again, so that partitions change hands.
        turns += 1;
        if turns % 3 == 0 {
            desk.let_leases_lapse();
        }
        let [a, b, c] = &mut relays;
        let steps = tokio::join!(c.step(), a.step(), b.step());
        steps.0.unwrap();
        steps.1.unwrap();
        steps.2.unwrap();
        relays.rotate_left(1);
    }
    for relay in &mut relays {
        relay.resign().await.unwrap();
    }
    desk.relay_all().await;
    assert_eq!(assert_order(&logged(&desk).await), 400);
    let holders = desk.count("select max(token) from outbox_partitions").await;
    assert!(1 < holders, "partitions never changed hands");
}

async fn a_relay_that_lost_its_lease_is_refused(desk: Desk) {
    let store = desk.stores.relay.clone();
    write_two(&desk, desk.order_in(0)).await;
    let old = store.lease("old", 1_000).await.unwrap()[0];
    let batch = Batch {
        lease: old,
        send: store.unsent(0, 1).await.unwrap().rows,
        offsets: vec![],
        quarantine: vec![],
        floor: 1,
        begins: 0,
    };
    desk.clock.advance_ms(old.until.ms_since(desk.clock.now()));
    assert_eq!(
        desk.publish(&batch).await,
        Published::Fenced,
        "its time was up"
    );
    let new = store.lease("new", 1_000).await.unwrap()[0];
    assert!(old.token < new.token);
    let answer = desk.publish(&batch).await;
    assert_eq!(answer, Published::Fenced, "somebody else holds it");
    assert_eq!(desk.count("select count(*) from outbox_log").await, 0);
    let batch = Batch {
        lease: new,
        ..batch
    };
    let done = Published::Done {
        sent: 1,
        quarantined: vec![],
    };
    assert_eq!(desk.publish(&batch).await, done);
    assert_eq!(desk.count("select seq from outbox_log").await, 1);
    assert!(store.lease("old", 1_000).await.unwrap().is_empty());
}

/// Where a relay dies in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    BeforePublish,
    AfterPublish,
}

/// A store whose `nth` publish kills the relay: its caller never hears an answer.
#[derive(Debug)]
pub(crate) struct Deadly {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) death: Death,
}

#[async_trait]
impl Store for Deadly {
    async fn lease(&self, holder: &str, ttl_ms: u64) -> Result<Vec<Lease>, StoreError> {
        self.store.lease(holder, ttl_ms).await
    }

    async fn resign(&self, holder: &str) -> Result<(), StoreError> {
        self.store.resign(holder).await
    }

    async fn unsent(&self, partition: u16, max: usize) -> Result<Page, StoreError> {
        self.store.unsent(partition, max).await
    }

    async fn publish(&self, batches: &[Batch]) -> Result<Vec<Published>, StoreError> {
        if self.death == Death::AfterPublish {
            self.store.publish(batches).await?;
        }
        Err(StoreError::Unavailable(anyhow::anyhow!("killed")))
    }

    async fn clean_up(&self, before: Timestamp, max: usize) -> Result<Cleaned, StoreError> {
        self.store.clean_up(before, max).await
    }
}

async fn a_relay_that_dies_anywhere_loses_and_repeats_nothing(desk: Desk) {
    for death in [Death::BeforePublish, Death::AfterPublish] {
        let desk = desk.another().await;
        for _ in 0..10 {
            write_two(&desk, desk.order()).await;
        }
        let store = desk.stores.relay.clone();
        let deadly = Arc::new(Deadly { store, death });
        // One that dies before has sent nothing elsewhere either.
        let sink = desk.stores.sink.clone();
        let (sent, sink) = match death {
            Death::BeforePublish => (0, None),
            Death::AfterPublish => (20, sink),
        };
        let (time, settings) = (desk.time(), Settings::default());
        let mut relay = Relay::new(deadly, sink, time, "mortal".into(), settings);
        relay.step().await.unwrap_err();
        let marks = "select count(*) from outbox_log";
        while desk.count(marks).await < sent {
            relay.step().await.unwrap_err(); // partitions may arrive one after the other
        }
        drop(relay);
        let sent = usize::try_from(sent).unwrap();
        assert_eq!(assert_order(&logged(&desk).await), sent);
        desk.relay_all().await;
        assert_eq!(
            assert_order(&logged(&desk).await),
            sent,
            "its leases still run"
        );
        desk.let_leases_lapse();
        desk.relay_all().await;
        assert_eq!(assert_order(&logged(&desk).await), 20);
    }
}

/// Versions 3, 1, 2 of a key go as 1, 2, 3. One whose predecessor never comes is no dead letter after a while:
/// events and orders are written together, so somebody's commit is under way, or the outbox is damaged, and whoever
/// is told the later one first would be told wrong. It waits, is counted as waiting, and stops nobody else.
async fn versions_go_in_order_and_a_gap_is_waited_for_for_ever(desk: Desk) {
    let (late, other, never) = (desk.order_in(3), desk.order_in(3), desk.order_in(2));
    desk.write(Event::OrderRefunded(facts(late)), 3).await;
    desk.write(Event::OrderConfirmed(facts(never)), 2).await;
    write_two(&desk, other).await;
    desk.relay_all().await;
    assert_eq!(
        assert_order(&logged(&desk).await),
        2,
        "the other key goes on"
    );
    let floor = "select floor_seq from outbox_partitions where partition = 3";
    assert_eq!(
        desk.count(floor).await,
        0,
        "the floor stays below what waits"
    );
    desk.write(Event::OrderPlaced(facts(late)), 1).await;
    desk.relay_all().await;
    assert_eq!(assert_order(&logged(&desk).await), 3);
    desk.write(Event::OrderConfirmed(facts(late)), 2).await;
    desk.relay_all().await;
    assert_eq!(assert_order(&logged(&desk).await), 5);
    floor_rises_to(&desk, 3, 4).await;

    desk.clock.advance_ms(365 * 24 * 3_600_000);
    let step = desk.relay("a year later").step().await.unwrap();
    assert_eq!((step.sent, step.quarantined, step.waiting), (0, 0, 1));
    for table in ["outbox_quarantine", "dead_letters"] {
        let count = format!("select count(*) from {table}");
        assert_eq!(desk.count(&count).await, 0, "{table}");
    }
}

async fn quarantine_holds_up_its_key_only(desk: Desk) {
    let (bad, good) = (desk.order_in(1), desk.order_in(1));
    write_two(&desk, bad).await;
    desk.bend_outbox("update outbox set payload = 'not json' where seq = 1")
        .await;
    write_two(&desk, good).await;
    let mut relay = desk.relay("relay");
    let step = relay.step().await.unwrap();
    assert_eq!((step.sent, step.quarantined), (2, 2));
    desk.write(Event::OrderRefunded(facts(bad)), 3).await;
    desk.write(Event::OrderRefunded(facts(good)), 3).await;
    relay.step().await.unwrap();
    let expected: Vec<_> = (1..=3).map(|v| (good.to_string(), v)).collect();
    assert_eq!(logged(&desk).await[&1], expected);
    assert_eq!(
        desk.count("select count(*) from outbox_quarantine").await,
        3
    );
    relay.resign().await.unwrap();
    floor_rises_to(&desk, 1, 6).await;
}

async fn a_step_is_bounded_and_says_that_there_is_more(desk: Desk) {
    let placed = || desk.envelope(Event::OrderPlaced(facts(desk.order_in(2))), 1);
    let placed: Vec<_> = (0..=RELAY_BATCH_MAX).map(|_| placed()).collect();
    database::append(&desk.db, &placed, End::Commit).await;
    let mut relay = desk.relay("relay");
    let step = relay.step().await.unwrap();
    assert_eq!((step.sent, step.more), (RELAY_BATCH_MAX as u64, true));
    let step = relay.step().await.unwrap();
    assert_eq!((step.sent, step.more), (1, false));
}

async fn old_rows_go_when_every_group_is_past_them(desk: Desk) {
    let order = desk.order_in(0);
    desk.write(Event::OrderPlaced(facts(order)), 1).await;
    desk.relay_all().await;
    desk.write(Event::OrderConfirmed(facts(order)), 2).await;
    desk.relay_all().await;
    let store = desk.stores.relay.clone();
    let inbox = desk.inbox();
    desk.clock.advance_ms(10);
    let now = desk.clock.now();
    let nobody = store.clean_up(now, 100).await.unwrap();
    assert_eq!(
        (nobody.rows, nobody.held_back),
        (0, 1),
        "nobody has read anything"
    );
    for group in ["fast", "slow"] {
        inbox.register(group).await.unwrap();
    }
    inbox.pass("fast", &[(0, 1)]).await.unwrap();
    let held = store.clean_up(now, 100).await.unwrap();
    assert_eq!((held.rows, held.held_back), (0, 1), "one has not");
    inbox.pass("slow", &[(0, 1)]).await.unwrap();
    let early = store.clean_up(T0, 100).await.unwrap();
    assert_eq!(early, Cleaned::default(), "not old enough");
    // Whoever writes at the same time, be it into another database of the server, keeps the floor down.
    let cleaned = until("nobody writes who is as old as the rows", async || {
        desk.relay_all().await;
        let cleaned = store.clean_up(now, 100).await.unwrap();
        (0 < cleaned.rows).then_some(cleaned)
    })
    .await;
    assert_eq!(
        (cleaned.rows, cleaned.held_back),
        (1, 0),
        "the last one stays"
    );
    // What was cleaned up counts as sent, and offsets go on where they were.
    desk.write(Event::OrderRefunded(facts(order)), 3).await;
    desk.relay_all().await;
    let next = desk.poll("fast", 0, 1).await;
    assert_eq!((next.len(), next[0].offset, next[0].version), (1, 2, 3));
}

async fn lag_counts_records_and_their_age(desk: Desk) {
    write_two(&desk, desk.order_in(4)).await;
    desk.relay_all().await;
    desk.clock.advance_ms(700);
    let log = desk.log();
    let inbox = desk.inbox();
    let lag = log.lag("notify").await.unwrap();
    let of = |lag: &[catraca::log::Lag]| (lag[4].records, lag[4].oldest_ms, lag[0].records);
    assert_eq!(
        (lag.len(), of(&lag)),
        (6, (2, 700, 0)),
        "never committed: all of it"
    );
    inbox.pass("notify", &[(4, 0)]).await.unwrap();
    assert_eq!(of(&log.lag("notify").await.unwrap()), (1, 700, 0));
    inbox.pass("notify", &[(4, 1)]).await.unwrap();
    inbox.pass("notify", &[(4, 0)]).await.unwrap();
    assert_eq!(
        of(&log.lag("notify").await.unwrap()),
        (0, 0, 0),
        "an offset never goes back"
    );
}

async fn a_nudged_relay_sends_and_resigns_when_it_is_stopped(desk: Desk) {
    let (nudge, reader) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let relay = desk.relay("loop");
    tasks.spawn(relay.run(nudge.clone(), vec![reader.clone()], stop.clone()));
    write_two(&desk, desk.order()).await;
    nudge.notify_one();
    let nudged = tokio::time::timeout(Duration::from_secs(10), reader.notified());
    nudged.await.unwrap();
    stop.cancel();
    tasks.join_next().await.unwrap().unwrap().unwrap();
    let held = "select count(*) from outbox_partitions where holder is not null";
    assert_eq!(desk.count(held).await, 0);
    desk.relay_all().await;
    assert_eq!(
        assert_order(&logged(&desk).await),
        2,
        "the next need not wait"
    );
}
