//! Dead letters: what is set aside, with its reason, and what a replay does.

use catraca::admin::dead_letters::Replayed;
use catraca::analytics::step::Teller;
use catraca::base::limits::PARTITIONS;
use catraca::base::time::Clock;
use catraca::event::{Customer, Event, Order, codec};
use catraca::log::consume::Consuming;
use catraca::log::inbox::Because;
use catraca::log::patience::Failure;
use catraca::log::{ANOTHERS_ID, Consumer, Delivery};
use catraca::search::step::Lister;

use crate::contract::desk::{Desk, facts};
use crate::contract::groups::{self, left};
use crate::contract::provider::{Mood, Provider, confirm, steps};
use crate::support::database::{self, End, on_every_log};
use crate::support::until;

on_every_log! {
    Desk:
    what_can_never_be_sent_is_set_aside_at_once,
    a_replay_sends_once,
    whoever_replays_all_letters_twice_sends_each_once,
    an_older_event_than_was_told_is_reported_and_not_sent,
    a_view_that_could_not_read_an_event_takes_it_later_once,
    an_older_state_of_a_listing_is_reported_and_not_shown,
    an_event_is_known_again_by_what_it_said,
}

async fn what_can_never_be_sent_is_set_aside_at_once(desk: Desk) {
    let mailbox = desk.mailbox().await;
    let nowhere = Order {
        customer: Customer {
            email: "ana\r\nBcc: all@example.com".to_owned(),
            ..facts(desk.order()).customer
        },
        ..facts(desk.order())
    };
    let foreign = desk.order();
    desk.write(Event::OrderConfirmed(nowhere), 1).await;
    desk.write(Event::OrderConfirmed(facts(foreign)), 1).await;
    desk.bend_outbox(r#"update outbox set payload = '{"type":"Other"}' where seq = 2"#)
        .await;
    desk.relay_all().await;
    let step = steps(&mut desk.notifying(mailbox), |total| total.set_aside == 2).await;
    assert_eq!((step.set_aside, step.failed), (2, 0));
    assert_eq!(
        desk.count("select max(attempts) from dead_letters").await,
        1
    );
    assert!(desk.mails().is_empty());
    let letters = desk.inbox().dead_letters(0).await.unwrap();
    assert!(
        letters
            .iter()
            .any(|l| l.delivery.payload == r#"{"type":"Other"}"#)
    );
    assert!(letters.iter().all(|l| !l.because.reason.contains('@')));
}

async fn a_replay_sends_once(desk: Desk) {
    let provider = Provider::of(&desk, Mood::Fails(Failure::Permanent("no".into())));
    confirm(&desk, 4).await;
    desk.relay_all().await;
    steps(&mut desk.notifying(provider.clone()), |total| {
        total.set_aside == 1
    })
    .await;
    let letters = desk.dead_letters(provider.clone());
    assert_eq!(
        letters.replay(1).await.unwrap(),
        Replayed::Failed("no".to_owned())
    );
    assert_eq!(letters.replay(2).await.unwrap(), Replayed::Unknown);
    provider.becomes(Mood::Well);
    assert_eq!(letters.replay(1).await.unwrap(), Replayed::Now);
    assert_eq!(letters.replay(1).await.unwrap(), Replayed::Before);
    assert_eq!(provider.tried.lock().unwrap().len(), 3);
    assert_eq!(desk.count("select count(*) from notices").await, 1);
    let letter = desk.inbox().dead_letter(1).await.unwrap().unwrap();
    assert_eq!(letter.replayed_at, Some(desk.clock.now()));
}

/// `./dev drill groups` has 10,000 letters.
async fn whoever_replays_all_letters_twice_sends_each_once(desk: Desk) {
    let provider = Provider::of(&desk, Mood::Fails(Failure::Permanent("no".into())));
    let mut consuming = desk.notifying(provider.clone());
    let many = groups::orders(20);
    for first in (0..many).step_by(500) {
        let next = many.min(first + 500);
        for order in first..next {
            let partition = order % u64::from(PARTITIONS);
            confirm(&desk, u16::try_from(partition).unwrap()).await;
        }
        desk.relay_all().await;
        steps(&mut consuming, |total| total.set_aside == next - first).await;
    }
    provider.becomes(Mood::Well);
    let letters = desk.dead_letters(provider.clone());
    for answer in [Replayed::Now, Replayed::Before] {
        for letter in 1..=many {
            assert_eq!(letters.replay(letter).await.unwrap(), answer, "{letter}");
        }
        assert_eq!(provider.taken().len() as u64, many);
        let notices = desk.count("select count(*) from notices").await;
        assert_eq!(u64::try_from(notices).unwrap(), many);
    }
}

async fn an_older_event_than_was_told_is_reported_and_not_sent(desk: Desk) {
    let provider = Provider::of(&desk, Mood::Fails(Failure::Permanent("no".into())));
    let order = confirm(&desk, 2).await;
    desk.relay_all().await;
    let mut consuming = desk.notifying(provider.clone());
    steps(&mut consuming, |total| total.set_aside == 1).await;
    provider.becomes(Mood::Well);
    // The key goes on behind its dead letter.
    desk.write(Event::OrderRefunded(facts(order)), 3).await;
    desk.relay_all().await;
    let step = steps(&mut consuming, |total| total.handled == 1).await;
    assert_eq!((step.handled, step.set_aside), (1, 0));
    let letters = desk.dead_letters(provider.clone());
    assert_eq!(letters.replay(1).await.unwrap(), Replayed::Outdated(3));
    assert_eq!(provider.taken().len(), 1);
    let letter = desk.inbox().dead_letter(1).await.unwrap().unwrap();
    assert_eq!(letter.replayed_at, None, "it stays for a human to see");
}

/// A later build reads what this one could not: here the kept payload becomes what it should have been.
async fn mend(desk: &Desk, payload: &str) {
    desk.run(&format!("update dead_letters set payload = '{payload}'"))
        .await;
}

/// Lets a group meet its poison, and handle so many others.
async fn meets<C: Consumer>(desk: &Desk, consumer: C, others: u64) {
    let consuming = Consuming::new(consumer, desk.log(), desk.inbox(), desk.time());
    let consuming = tokio::sync::Mutex::new((consuming, (0, 0)));
    until("it is set aside", async || {
        let mut guard = consuming.lock().await;
        let step = guard.0.step().await.unwrap();
        guard.1.0 += step.set_aside;
        guard.1.1 += step.handled;
        (guard.1 == (1, others)).then_some(())
    })
    .await;
}

async fn a_view_that_could_not_read_an_event_takes_it_later_once(desk: Desk) {
    let order = desk.order_in(3);
    let envelope = desk.envelope(Event::OrderConfirmed(facts(order)), 1);
    let payload = codec::to_json(&envelope);
    database::append(&desk.db, &[envelope], End::Commit).await;
    desk.bend_outbox(r#"update outbox set payload = '{"type":"Other"}' where seq = 1"#)
        .await;
    desk.relay_all().await;
    meets(&desk, Teller::new(desk.stores.analytics.clone()), 0).await;
    let letters = desk.dead_letters(desk.mailbox().await);
    assert!(matches!(
        letters.replay(1).await.unwrap(),
        Replayed::Failed(_)
    ));
    mend(&desk, &payload).await;
    assert_eq!(letters.replay(1).await.unwrap(), Replayed::Now);
    assert_eq!(letters.replay(1).await.unwrap(), Replayed::Before);
    let counted = "select cast(coalesce(sum(orders), 0) as bigint) from sales";
    assert_eq!(desk.count(counted).await, 1);
    let next = desk.inbox().standing("analytics").await.unwrap()[&3];
    assert_eq!(next, 1, "the group stands where it stood");
}

async fn an_older_state_of_a_listing_is_reported_and_not_shown(desk: Desk) {
    let envelope = desk.envelope(left("a", 3), 1);
    let payload = codec::to_json(&envelope);
    database::append(&desk.db, &[envelope], End::Commit).await;
    desk.write(left("a", 2), 2).await;
    desk.bend_outbox(r#"update outbox set payload = '{"type":"Other"}' where seq = 1"#)
        .await;
    desk.relay_all().await;
    meets(&desk, Lister::new(desk.stores.search.clone()), 1).await;
    let show = "a".parse().unwrap();
    let listing = desk.stores.search.listing(&show).await.unwrap().unwrap();
    assert_eq!(listing.version, 2);
    mend(&desk, &payload).await;
    let letters = desk.dead_letters(desk.mailbox().await);
    assert_eq!(letters.replay(1).await.unwrap(), Replayed::Outdated(2));
    let now = desk.stores.search.listing(&show).await.unwrap().unwrap();
    assert_eq!(now, listing);
}

/// The id, key and version of an event that was handled are not enough: what says something else is not a repeat, and
/// no replay makes it one. Of what an earlier build has handled nobody knows what it said.
async fn an_event_is_known_again_by_what_it_said(desk: Desk) {
    let provider = Provider::of(&desk, Mood::Well);
    confirm(&desk, 4).await;
    desk.relay_all().await;
    let told = desk.poll("notify", 4, 1).await.pop().unwrap();
    let payload = told.payload.replace("B-12", "B-21");
    let other = Delivery {
        payload,
        ..told.clone()
    };
    steps(&mut desk.notifying(provider.clone()), |total| {
        total.handled == 1
    })
    .await;
    let (inbox, id) = (desk.inbox(), &told.event_id);
    let known = inbox.handled("notify", id).await.unwrap().unwrap();
    assert!(told.is(&known) && !other.is(&known));

    let because = Because {
        reason: ANOTHERS_ID.to_owned(),
        attempts: 1,
    };
    inbox.set_aside("notify", &other, &because).await.unwrap();
    let letter = inbox.dead_letters(0).await.unwrap().remove(0).id;
    let letters = desk.dead_letters(provider.clone());
    let refused = Replayed::Failed(ANOTHERS_ID.to_owned());
    assert_eq!(letters.replay(letter).await.unwrap(), refused);
    assert_eq!(provider.taken().len(), 1);

    desk.run("update processed_events set payload_digest = null")
        .await;
    let known = inbox.handled("notify", id).await.unwrap().unwrap();
    assert!(told.is(&known) && other.is(&known));
    assert_eq!(letters.replay(letter).await.unwrap(), Replayed::Before);
}
