//! What can never be sent: an operator lets it go again, or goes on without it, and order holds.

use catraca::event::Event;
use catraca::relay::plan::{Plan, plan};
use catraca::relay::step::Relay;
use catraca::relay::store::{Freed, Published};

use crate::contract::desk::{Desk, facts};
use crate::support::database::on_every_log;

on_every_log! {
    Desk:
    what_is_released_goes_in_order_also_past_a_relay_that_holds_its_partition,
    a_batch_that_is_under_way_at_a_release_is_fenced,
    what_is_skipped_is_never_sent_and_its_key_goes_on,
    what_waits_behind_another_is_not_released_before_it,
    the_outbox_refuses_to_be_changed,
}

const GOOD: &str =
    "update outbox set payload = (select g.payload from outbox g where g.seq = 2) where seq = 1";

/// Three events of a key of which the first cannot be sent, and one of another key: rows 1 to 4.
async fn stuck(desk: &Desk) -> (String, Relay) {
    let (bad, good) = (desk.order_in(1), desk.order_in(1));
    desk.write(Event::OrderPlaced(facts(bad)), 1).await;
    desk.write(Event::OrderConfirmed(facts(bad)), 2).await;
    desk.write(Event::OrderRefunded(facts(bad)), 3).await;
    desk.write(Event::OrderPlaced(facts(good)), 1).await;
    desk.bend_outbox("update outbox set payload = 'not json' where seq = 1")
        .await;
    let mut relay = desk.relay("relay");
    let step = relay.step().await.unwrap();
    assert_eq!((step.sent, step.quarantined), (1, 3));
    let held = desk.stores.quarantine.held().await.unwrap();
    let told: Vec<_> = held.iter().map(|held| (held.seq, &*held.reason)).collect();
    let behind = "an earlier version of its key is quarantined";
    let said = [(1, "its payload is not JSON"), (2, behind), (3, behind)];
    assert_eq!(told, said);
    assert_eq!(held[0].key, ("order".to_owned(), bad.to_string()));
    (bad.to_string(), relay)
}

/// The versions of a key in the log, in order.
async fn sent(desk: &Desk, key: &str) -> Vec<u64> {
    let all = desk.poll_all("reader", 1).await;
    let of_key = all.into_iter().filter(|delivery| delivery.key == key);
    of_key.map(|delivery| delivery.version).collect()
}

/// Steps until the relay has its partitions again and has sent all.
async fn sends(desk: &Desk, relay: &mut Relay, count: u64) {
    let mut sent = 0;
    for _ in 0..5 {
        // The lease that it lost is asked for again when it would be renewed.
        desk.clock.advance_ms(1_500);
        sent += relay.step().await.unwrap().sent;
    }
    assert_eq!(sent, count);
}

async fn what_is_released_goes_in_order_also_past_a_relay_that_holds_its_partition(desk: Desk) {
    let (bad, mut relay) = stuck(&desk).await;
    // The reason is gone, and everything was settled up to here: the floor has risen past it.
    desk.bend_outbox(GOOD).await;
    let quarantine = desk.stores.quarantine.clone();
    assert_eq!(quarantine.release(1).await.unwrap(), Freed::Events(3));
    assert_eq!(quarantine.release(1).await.unwrap(), Freed::Unknown);
    assert!(quarantine.held().await.unwrap().is_empty());
    sends(&desk, &mut relay, 3).await;
    assert_eq!(sent(&desk, &bad).await, [1, 2, 3]);
}

/// A relay that has read before the release would raise the floor past the released rows.
async fn a_batch_that_is_under_way_at_a_release_is_fenced(desk: Desk) {
    let (bad, mut relay) = stuck(&desk).await;
    let late = desk.order_in(1);
    desk.write(Event::OrderPlaced(facts(late)), 1).await;
    let store = desk.stores.relay.clone();
    let mut leases = store.lease("relay", 10_000).await.unwrap().into_iter();
    let lease = leases.find(|lease| lease.partition == 1).unwrap();
    let Plan { batch, .. } = plan(lease, store.unsent(1, 10).await.unwrap());
    assert_eq!(batch.send.len(), 1);
    desk.bend_outbox(GOOD).await;
    let freed = desk.stores.quarantine.release(1).await;
    assert_eq!(freed.unwrap(), Freed::Events(3));
    assert_eq!(desk.publish(&batch).await, Published::Fenced);
    let below = "select count(*) from outbox_partitions where partition = 1 and floor_seq < 1";
    assert_eq!(
        desk.count(below).await,
        1,
        "the released rows are looked at"
    );
    sends(&desk, &mut relay, 4).await;
    assert_eq!(sent(&desk, &bad).await, [1, 2, 3]);
}

async fn what_is_skipped_is_never_sent_and_its_key_goes_on(desk: Desk) {
    let (bad, mut relay) = stuck(&desk).await;
    let quarantine = desk.stores.quarantine.clone();
    assert_eq!(quarantine.skip(1).await.unwrap(), Freed::Events(2));
    assert_eq!(quarantine.skip(1).await.unwrap(), Freed::Unknown);
    assert_eq!(quarantine.release(1).await.unwrap(), Freed::Unknown);
    assert!(quarantine.held().await.unwrap().is_empty());
    sends(&desk, &mut relay, 2).await;
    assert_eq!(sent(&desk, &bad).await, [2, 3]);
    let reasons = "select count(*) from outbox_quarantine
                   where seq = 1 and reason = 'given up by an operator: its payload is not JSON'";
    assert_eq!(desk.count(reasons).await, 1);
}

async fn what_waits_behind_another_is_not_released_before_it(desk: Desk) {
    let (bad, mut relay) = stuck(&desk).await;
    let quarantine = desk.stores.quarantine.clone();
    assert_eq!(quarantine.release(3).await.unwrap(), Freed::Behind(1));
    assert_eq!(quarantine.skip(2).await.unwrap(), Freed::Behind(1));
    assert_eq!(quarantine.release(4).await.unwrap(), Freed::Unknown);
    assert_eq!(quarantine.held().await.unwrap().len(), 3);
    // What is still wrong comes back, with those behind it.
    assert_eq!(quarantine.release(1).await.unwrap(), Freed::Events(3));
    sends(&desk, &mut relay, 0).await;
    assert_eq!(quarantine.held().await.unwrap().len(), 3);
    assert!(sent(&desk, &bad).await.is_empty());
}

/// O10: what is in the outbox is a fact.
async fn the_outbox_refuses_to_be_changed(desk: Desk) {
    desk.write(Event::OrderPlaced(facts(desk.order_in(1))), 1)
        .await;
    for change in [
        "update outbox set payload = '{}'",
        "update outbox set aggregate_version = 2 where seq = 1",
    ] {
        let refused = crate::support::database::try_run(&desk.db, change).await;
        let why = refused.unwrap_err().to_string();
        assert!(why.contains("the outbox is insert-only"), "{why}");
    }
    desk.relay_all().await;
    assert_eq!(desk.poll_all("reader", 1).await.len(), 1);
}
