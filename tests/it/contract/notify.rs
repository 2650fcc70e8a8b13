//! Notices: each message once, and a delivery that fails holds up nobody but its own partition.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use catraca::base::ids::OrderId;
use catraca::base::limits::{BREAKER_FAILURES_MAX, BREAKER_OPEN_MS, PARTITIONS};
use catraca::event::{Event, Order, ShowFacts};
use catraca::log::consume::Consuming;
use catraca::log::patience::Failure;
use catraca::log::{Delivery, LogError};
use catraca::notify::inbox::{Inbox, Sent};
use catraca::notify::step::Notifier;
use catraca::notify::{Notice, Sender};
use tokio_util::sync::CancellationToken;

use crate::contract::desk::{Desk, facts};
use crate::contract::provider::{Mood, Provider, away, confirm, run, transient};
use crate::support::database::{self, on_every_database};

on_every_database! {
    Desk:
    an_event_five_times_is_one_mail,
    a_mail_is_whole_and_says_who_what_and_when,
    a_crash_between_file_and_commit_is_one_mail,
    two_failures_and_a_success_are_one_message,
    a_poisoned_key_delays_nobody_but_its_partition_and_that_by_three_and_a_half_seconds,
    a_restart_grants_no_new_attempts,
    a_provider_that_asks_for_patience_gets_it_and_no_attempt_is_spent,
    a_mailbox_that_cannot_be_written_is_down_not_poisoned,
    while_the_provider_is_down_nothing_is_set_aside_and_later_all_is_sent,
    a_provider_that_comes_back_is_found_although_one_event_still_fails,
    a_stop_waits_for_one_message_and_not_for_a_batch,
}

/// How long a provider is down: some probes of the breaker, and no more, for each is many questions
/// to the database.
const DOWN_MS: u64 = 6 * BREAKER_OPEN_MS;

async fn an_event_five_times_is_one_mail(desk: Desk) {
    let mailbox = desk.mailbox().await;
    let order = confirm(&desk, 2).await;
    desk.relay_all().await;
    for _ in 0..5 {
        let step = desk.notifying(mailbox.clone()).step().await.unwrap();
        assert!(step.handled <= 1);
        // As after a reset of the group's offsets.
        desk.run("update log_groups set \"offset\" = 0").await;
    }
    let mails = desk.mails();
    assert_eq!(mails.len(), 1);
    assert!(
        mails[0].starts_with(&format!("{order}-confirmed-")),
        "{mails:?}"
    );
    assert_eq!(desk.count("select count(*) from notices").await, 1);
    let receipts: Vec<(String,)> = database::all(&desk.db, "select receipt from notices").await;
    assert_eq!(receipts[0].0, mails[0]);
}

async fn a_mail_is_whole_and_says_who_what_and_when(desk: Desk) {
    let mailbox = desk.mailbox().await;
    let order = desk.order();
    let told = Order {
        event: ShowFacts {
            name: "Coração\r\nBcc: all@example.com".to_owned(),
            ..facts(order).event
        },
        ..facts(order)
    };
    let event = desk.write(Event::OrderConfirmed(told), 1).await;
    desk.relay_all().await;
    desk.notifying(mailbox).step().await.unwrap();
    let path = desk.mail_folder().join(&desk.mails()[0]);
    let mail = std::fs::read_to_string(path).unwrap();
    let (head, body) = mail.split_once("\r\n\r\n").unwrap();
    let header = |name: &str| {
        let mut lines = head.lines().filter(|line| line.starts_with(name));
        (lines.next().unwrap_or_default(), lines.count())
    };
    let id = format!("Message-ID: <{event}@catraca.example>");
    assert_eq!(header("Message-ID:"), (id.as_str(), 0));
    assert_eq!(header("To:"), ("To: ana@example.com", 0));
    assert_eq!(
        header("Date:"),
        ("Date: Fri, 15 Jan 2027 08:00:00 +0000", 0)
    );
    assert_eq!(header("Bcc:").0, "", "{head}");
    assert!(
        body.contains("Evento: Coração Bcc: all@example.com\r\n"),
        "{body}"
    );
}

/// Notices that die with the process before they are written.
#[derive(Debug)]
struct Dying;

#[async_trait]
impl Inbox for Dying {
    async fn sent(&self, _: &str, _: &Delivery, _: &Sent) -> Result<(), LogError> {
        Err(LogError::Unavailable(anyhow::anyhow!("killed")))
    }
}

async fn a_crash_between_file_and_commit_is_one_mail(desk: Desk) {
    let mailbox = desk.mailbox().await;
    confirm(&desk, 5).await;
    desk.relay_all().await;
    let dying = Notifier::new(Arc::new(Dying), mailbox.clone());
    let mut consuming = Consuming::new(dying, desk.log(), desk.inbox(), desk.time());
    consuming.step().await.unwrap_err();
    drop(consuming);
    assert_eq!(desk.mails().len(), 1, "the file is there");
    assert_eq!(desk.count("select count(*) from processed_events").await, 0);
    desk.clock.advance_ms(60_000);
    let step = desk.notifying(mailbox).step().await.unwrap();
    assert_eq!((step.handled, step.failed), (1, 0));
    assert_eq!(desk.mails().len(), 1);
    assert_eq!(desk.count("select count(*) from notices").await, 1);
}

async fn two_failures_and_a_success_are_one_message(desk: Desk) {
    let provider = Provider::of(&desk, Mood::FailsTimes(2, transient()));
    let order = confirm(&desk, 1).await;
    desk.relay_all().await;
    let mut consuming = desk.notifying(provider.clone());
    let total = run(&desk, &mut consuming, 10_000).await;
    assert_eq!((total.handled, total.failed, total.set_aside), (1, 2, 0));
    assert_eq!(provider.tries(order), [0, 500, 1_500]);
    assert_eq!(desk.count("select count(*) from delivery_retries").await, 0);
}

async fn a_poisoned_key_delays_nobody_but_its_partition_and_that_by_three_and_a_half_seconds(
    desk: Desk,
) {
    let poisoned = confirm(&desk, 0).await;
    let behind = confirm(&desk, 0).await;
    let mut others = Vec::new();
    for partition in 1..PARTITIONS {
        others.push(confirm(&desk, partition).await);
    }
    desk.relay_all().await;
    let provider = Provider::of(&desk, Mood::FailsFor(poisoned, transient()));
    let mut consuming = desk.notifying(provider.clone());
    let total = run(&desk, &mut consuming, 10_000).await;
    assert_eq!(provider.tries(poisoned), [0, 500, 1_500, 3_500]);
    for other in others {
        assert_eq!(provider.tries(other), [0], "another partition waited");
    }
    assert_eq!(provider.tries(behind), [3_500]);
    assert_eq!((total.handled, total.set_aside), (6, 1));
    let letters = desk.inbox().dead_letters(0).await.unwrap();
    let [letter] = &letters[..] else {
        panic!("{letters:?}");
    };
    assert_eq!(letter.delivery.key, poisoned.to_string());
    assert_eq!((letter.delivery.partition, letter.delivery.version), (0, 2));
    assert_eq!(
        (&*letter.because.reason, letter.because.attempts),
        ("mailbox busy", 4)
    );
}

async fn a_restart_grants_no_new_attempts(desk: Desk) {
    let provider = Provider::of(&desk, Mood::Fails(transient()));
    let order = confirm(&desk, 3).await;
    desk.relay_all().await;
    run(&desk, &mut desk.notifying(provider.clone()), 600).await;
    run(&desk, &mut desk.notifying(provider.clone()), 10_000).await;
    assert_eq!(provider.tries(order), [0, 500, 1_500, 3_500]);
    assert_eq!(desk.count("select attempts from dead_letters").await, 4);
}

async fn while_the_provider_is_down_nothing_is_set_aside_and_later_all_is_sent(desk: Desk) {
    for failure in [transient(), away()] {
        let desk = desk.another().await;
        let mut orders = Vec::new();
        for partition in 0..PARTITIONS {
            orders.push(confirm(&desk, partition).await);
            orders.push(confirm(&desk, partition).await);
        }
        desk.relay_all().await;
        let provider = Provider::of(&desk, Mood::Fails(failure));
        let mut consuming = desk.notifying(provider.clone());
        let down = run(&desk, &mut consuming, DOWN_MS).await;
        assert_eq!((down.handled, down.set_aside), (0, 0));
        let tries = provider.tried.lock().unwrap().len() as u64;
        let probes = DOWN_MS / BREAKER_OPEN_MS + 1;
        assert!(tries <= u64::from(BREAKER_FAILURES_MAX) + probes, "{tries}");
        provider.becomes(Mood::Well);
        let up = run(&desk, &mut consuming, BREAKER_OPEN_MS + 1_000).await;
        assert_eq!((up.handled, up.set_aside), (12, 0));
        assert_eq!(provider.taken().len(), orders.len());
    }
}

async fn a_provider_that_comes_back_is_found_although_one_event_still_fails(desk: Desk) {
    let poisoned = confirm(&desk, 0).await;
    for partition in 1..PARTITIONS {
        confirm(&desk, partition).await;
    }
    desk.relay_all().await;
    let provider = Provider::of(&desk, Mood::Fails(away()));
    let mut consuming = desk.notifying(provider.clone());
    run(&desk, &mut consuming, DOWN_MS).await;
    provider.becomes(Mood::FailsFor(poisoned, transient()));
    let total = run(&desk, &mut consuming, 60_000).await;
    assert_eq!((total.handled, total.set_aside), (5, 1));
}

async fn a_provider_that_asks_for_patience_gets_it_and_no_attempt_is_spent(desk: Desk) {
    let throttled = Failure::Throttled {
        retry_after_ms: 7_000,
        reason: "429".to_owned(),
    };
    let provider = Provider::of(&desk, Mood::FailsTimes(5, throttled));
    let order = confirm(&desk, 1).await;
    desk.relay_all().await;
    let total = run(&desk, &mut desk.notifying(provider.clone()), 60_000).await;
    assert_eq!((total.handled, total.set_aside), (1, 0));
    assert_eq!(
        provider.tries(order),
        [0, 7_000, 14_000, 21_000, 28_000, 35_000]
    );
}

async fn a_mailbox_that_cannot_be_written_is_down_not_poisoned(desk: Desk) {
    let mailbox = desk.mailbox().await;
    confirm(&desk, 0).await;
    desk.relay_all().await;
    std::fs::remove_dir(desk.mail_folder()).unwrap();
    let mut consuming = desk.notifying(mailbox);
    let down = run(&desk, &mut consuming, 30_000).await;
    assert_eq!((down.handled, down.set_aside), (0, 0));
    std::fs::create_dir(desk.mail_folder()).unwrap();
    let up = run(&desk, &mut consuming, BREAKER_OPEN_MS).await;
    assert_eq!((up.handled, desk.mails().len()), (1, 1));
}

/// A provider during whose first message the process is asked to stop.
#[derive(Debug, Default)]
struct Interrupted {
    stop: CancellationToken,
    taken: Mutex<Vec<OrderId>>,
}

#[async_trait]
impl Sender for Interrupted {
    async fn send(&self, notice: &Notice) -> Result<String, Failure> {
        self.stop.cancel();
        self.taken.lock().unwrap().push(notice.order_id);
        Ok("receipt".to_owned())
    }
}

async fn a_stop_waits_for_one_message_and_not_for_a_batch(desk: Desk) {
    let mut orders = Vec::new();
    for partition in [2, 2, 2, 5] {
        orders.push(confirm(&desk, partition).await);
    }
    desk.relay_all().await;
    let provider = Arc::new(Interrupted::default());
    let running = desk.notifying(provider.clone());
    running
        .run(Arc::default(), provider.stop.clone())
        .await
        .unwrap();
    assert_eq!(*provider.taken.lock().unwrap(), orders[..1]);
    // The next process has the rest, and only that.
    let rest = desk.notifying(provider.clone()).step().await.unwrap();
    assert_eq!(rest.handled, 3);
    assert_eq!(*provider.taken.lock().unwrap(), orders);
}
