//! Dead letters: what is set aside, with its reason, and what a replay does.

use catraca::base::time::Clock;
use catraca::event::{Customer, Event, Order};
use catraca::log::patience::Failure;
use catraca::notify::step::Replayed;

use crate::contract::desk::{Desk, facts};
use crate::contract::provider::{Mood, Provider, confirm};
use crate::support::database::on_every_database;

on_every_database! {
    Desk:
    what_can_never_be_sent_is_set_aside_at_once,
    a_replay_sends_once,
    an_older_event_than_was_told_is_reported_and_not_sent,
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
    desk.run(r#"update outbox set payload = '{"type":"Other"}' where seq = 2"#)
        .await;
    desk.relay_all().await;
    let step = desk.notifying(mailbox).step().await.unwrap();
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
    desk.notifying(provider.clone()).step().await.unwrap();
    let notifier = desk.notifier(provider.clone());
    assert_eq!(
        notifier.replay(1).await.unwrap(),
        Replayed::Failed("no".to_owned())
    );
    assert_eq!(notifier.replay(2).await.unwrap(), Replayed::Unknown);
    provider.becomes(Mood::Well);
    assert!(matches!(
        notifier.replay(1).await.unwrap(),
        Replayed::Now(_)
    ));
    assert_eq!(notifier.replay(1).await.unwrap(), Replayed::Before);
    assert_eq!(provider.tried.lock().unwrap().len(), 3);
    assert_eq!(desk.count("select count(*) from notices").await, 1);
    let letter = desk.inbox().dead_letter(1).await.unwrap().unwrap();
    assert_eq!(letter.replayed_at, Some(desk.clock.now()));
}

async fn an_older_event_than_was_told_is_reported_and_not_sent(desk: Desk) {
    let provider = Provider::of(&desk, Mood::Fails(Failure::Permanent("no".into())));
    let order = confirm(&desk, 2).await;
    desk.relay_all().await;
    let mut consuming = desk.notifying(provider.clone());
    consuming.step().await.unwrap();
    provider.becomes(Mood::Well);
    // The key goes on behind its dead letter.
    desk.write(Event::OrderRefunded(facts(order)), 3).await;
    desk.relay_all().await;
    assert_eq!(consuming.step().await.unwrap().handled, 1);
    let notifier = desk.notifier(provider.clone());
    assert_eq!(notifier.replay(1).await.unwrap(), Replayed::Outdated(3));
    assert_eq!(provider.taken().len(), 1);
    let letter = desk.inbox().dead_letter(1).await.unwrap().unwrap();
    assert_eq!(letter.replayed_at, None, "it stays for a human to see");
}
