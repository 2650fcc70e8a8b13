//! Notices by SMTP, to a provider that is not ours: each mail once, whatever the provider does, and each
//! refusal for what it is.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use catraca::base::ids::OrderId;
use catraca::base::limits::{BREAKER_FAILURES_MAX, BREAKER_OPEN_MS, SMTP_PATIENCE_MS};
use catraca::base::secret::Secret;
use catraca::driver::smtp::{Deadlines, Smtp};
use catraca::event::{Customer, Event, Order};
use catraca::log::consume::Step;
use catraca::log::patience::Failure;
use catraca::notify::compose::compose;
use catraca::notify::mail::sender;
use catraca::notify::via_smtp::ViaSmtp;
use catraca::notify::{Notice, Sender};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::contract::desk::{Desk, facts};
use crate::contract::provider::{confirm, run};
use crate::support::database;
use crate::support::smtp::{Sink, certify};

const NOBODY: &str = "nobody@example.com";

async fn desk() -> Desk {
    let folder = tempfile::tempdir().unwrap();
    let database = database::in_sqlite(folder.path()).await;
    Desk::open(database, folder).await
}

/// A sender that is impatient, for tests wait for what it gives up.
fn by_smtp(url: &str, ca: Option<&Path>) -> Arc<ViaSmtp> {
    let ca = ca.map(|path| std::fs::read(path).unwrap());
    let smtp = Smtp::new(&Secret::new(url), ca.as_deref(), "catraca.example").unwrap();
    let short = Duration::from_millis(400);
    let smtp = smtp.with_deadlines(Deadlines {
        connect: 5 * short,
        reply: short,
        taken: short,
        idle: Duration::from_secs(60),
    });
    let from = sender("Catraca <tickets@catraca.example>").unwrap();
    Arc::new(ViaSmtp::new(smtp, from))
}

/// An order of somebody else's, confirmed.
async fn confirm_for(desk: &Desk, partition: u16, email: &str) -> OrderId {
    let id = desk.order_in(partition);
    let told = Order {
        customer: Customer {
            email: email.to_owned(),
            ..facts(id).customer
        },
        ..facts(id)
    };
    desk.write(Event::OrderConfirmed(told), 1).await;
    id
}

/// The notice of one confirmed order.
fn notice(desk: &Desk, email: &str) -> Notice {
    let id = desk.order();
    let told = Order {
        customer: Customer {
            email: email.to_owned(),
            ..facts(id).customer
        },
        ..facts(id)
    };
    let envelope = desk.envelope(Event::OrderConfirmed(told), 1);
    let (order, message) = compose(&envelope).unwrap();
    Notice {
        event_id: envelope.id,
        order_id: order.order_id,
        at: envelope.at,
        message,
    }
}

/// Hands what the desk has to the sink at this address, for so long.
async fn told(desk: &Desk, url: &str, for_ms: u64) -> Step {
    desk.relay_all().await;
    run(desk, &mut desk.notifying(by_smtp(url, None)), for_ms).await
}

#[tokio::test]
async fn one_connection_takes_one_mail_after_the_other() {
    let Some(sink) = Sink::well().await else {
        return;
    };
    let desk = desk().await;
    for partition in 0..4 {
        confirm(&desk, partition).await;
    }
    let step = told(&desk, &sink.url(), 1_000).await;
    assert_eq!((step.handled, step.failed), (4, 0));
    let mails = sink.distinct(4).await;
    assert_eq!(sink.connections(), 1);
    let mail = &mails[0];
    assert_eq!(mail["to"], json!(["ana@example.com"]));
    assert_eq!(mail["sender"], "tickets@catraca.example");
    assert_eq!(mail["head_from"], "Catraca <tickets@catraca.example>");
    assert_eq!(mail["subject"], "Pedido confirmado: Stadium Show");
    assert_eq!(mail["ascii"], true);
    let text = mail["text"].as_str().unwrap();
    assert!(text.contains("Seu pedido está confirmado."), "{text}");
    let receipts: Vec<(String,)> = database::all(&desk.db, "select receipt from notices").await;
    for mail in &mails {
        let id = mail["mail"].as_str().unwrap();
        assert!(receipts.iter().any(|(receipt,)| receipt == id), "{id}");
    }
}

#[tokio::test]
async fn a_provider_that_closes_between_mails_loses_none_and_gets_none_twice() {
    let Some(sink) = Sink::start(json!({ "closes": true })).await else {
        return;
    };
    let desk = desk().await;
    let by = by_smtp(&sink.url(), None);
    for _ in 0..3 {
        by.send(&notice(&desk, "ana@example.com")).await.unwrap();
        // It says goodbye a moment after the mail.
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    sink.distinct(3).await;
    assert_eq!(sink.connections(), 3);
}

#[tokio::test]
async fn a_kept_connection_that_is_refused_is_left_for_a_new_one() {
    for code in [
        "421 4.7.0 goodbye",
        "451 4.7.0 too many mails over this connection",
    ] {
        // The first mail is taken, the second refused, once.
        let fussy = Sink::start(json!({ "replies": { "MAIL": [1, code, 1] } })).await;
        let Some(fussy) = fussy else { return };
        let desk = desk().await;
        let by = by_smtp(&fussy.url(), None);
        by.send(&notice(&desk, "ana@example.com")).await.unwrap();
        by.send(&notice(&desk, "bea@example.com")).await.unwrap();
        fussy.distinct(2).await;
        assert_eq!(fussy.connections(), 2);

        // On a new connection it is a wish for patience.
        let fussy = Sink::start(json!({ "replies": { "MAIL": [1, code] } })).await;
        let fussy = fussy.unwrap();
        let by = by_smtp(&fussy.url(), None);
        let first = notice(&desk, "ana@example.com");
        let failure = by.send(&first).await.unwrap_err();
        let says = format!("the provider refused the sender: {}", &code[..9]);
        let patience = Failure::Throttled {
            retry_after_ms: SMTP_PATIENCE_MS,
            reason: says,
        };
        assert_eq!(failure, patience);
        by.send(&first).await.unwrap();
        fussy.distinct(1).await;
        assert_eq!(fussy.connections(), 2);
    }
}

#[tokio::test]
async fn a_refused_recipient_is_a_dead_letter_and_everybody_else_gets_their_mail() {
    let refuse = json!({ "replies": {
        format!("RCPT {NOBODY}"): [99, format!("550 5.1.1 <{NOBODY}>: no such person")],
    } });
    let Some(sink) = Sink::start(refuse).await else {
        return;
    };
    let desk = desk().await;
    let refused = confirm_for(&desk, 0, NOBODY).await;
    confirm(&desk, 0).await;
    confirm(&desk, 1).await;
    let step = told(&desk, &sink.url(), 10_000).await;
    assert_eq!((step.handled, step.failed, step.set_aside), (2, 0, 1));
    sink.distinct(2).await;
    assert_eq!(sink.connections(), 1, "a refusal ends no connection");
    let letters = desk.inbox().dead_letters(0).await.unwrap();
    let [letter] = &letters[..] else {
        panic!("{letters:?}");
    };
    assert_eq!(letter.delivery.key, refused.to_string());
    let because = (&*letter.because.reason, letter.because.attempts);
    let says = "the provider refused the recipient: 550 5.1.1";
    assert_eq!(because, (says, 1), "codes, and nobody's address");
}

#[tokio::test]
async fn a_provider_that_is_busy_twice_takes_the_mail_the_third_time() {
    for (what, code) in [
        ("RCPT ana@example.com", "451 4.3.0 try later"),
        ("DATA", "451 4.3.0 try later"),
        ("DATA", "452 4.3.1 no room"),
    ] {
        let Some(sink) = Sink::start(json!({ "replies": { what: [2, code] } })).await else {
            return;
        };
        let desk = desk().await;
        confirm(&desk, 2).await;
        let step = told(&desk, &sink.url(), 10_000).await;
        assert_eq!((step.handled, step.failed, step.set_aside), (1, 2, 0));
        sink.distinct(1).await;
    }
}

#[tokio::test]
async fn a_provider_that_hangs_pauses_and_spends_no_attempts() {
    let hung = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = hung.local_addr().unwrap().port();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let hanging = tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            open.push(hung.accept().await.unwrap()); // and not a word
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let desk = desk().await;
    for partition in 0..6 {
        confirm(&desk, partition).await;
    }
    desk.relay_all().await;
    let url = format!("smtp+plain://127.0.0.1:{port}");
    let mut consuming = desk.notifying(by_smtp(&url, None));
    let down = run(&desk, &mut consuming, 2 * BREAKER_OPEN_MS).await;
    assert_eq!((down.handled, down.set_aside), (0, 0));
    let most = BREAKER_FAILURES_MAX as usize + 3;
    let asked = asked.load(Ordering::Relaxed);
    assert!(
        BREAKER_FAILURES_MAX as usize <= asked && asked <= most,
        "{asked}"
    );
    let attempts = "select coalesce(max(attempts), 0) from delivery_retries";
    assert_eq!(desk.count(attempts).await, 0);
    hanging.abort();
    drop(hanging.await);
    let Some(sink) = Sink::start(json!({ "port": port })).await else {
        return;
    };
    let up = run(&desk, &mut consuming, BREAKER_OPEN_MS + 1_000).await;
    assert_eq!((up.handled, up.set_aside), (6, 0));
    sink.distinct(6).await;
}

#[tokio::test]
async fn a_mail_that_was_taken_without_a_word_is_the_same_mail_again() {
    let Some(sink) = Sink::start(json!({ "silent_ms": 1_000 })).await else {
        return;
    };
    let desk = desk().await;
    confirm(&desk, 3).await;
    let step = told(&desk, &sink.url(), 10_000).await;
    assert_eq!((step.handled, step.failed, step.set_aside), (1, 1, 0));
    let mails = sink.mails();
    let ids: Vec<&Value> = mails.iter().map(|mail| &mail["mail"]).collect();
    assert_eq!(ids.len(), 2, "{mails:#?}");
    assert_eq!(ids[0], ids[1], "a reader's program knows them for one");
}

#[tokio::test]
async fn mail_goes_through_tls_to_whom_we_know_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    certify(folder.path());
    let password = Secret::new(format!("p:/{}", std::process::id()));
    let tls = json!({
        "cert": file("cert.pem"), "key": file("key.pem"),
        "user": "ana@shop", "password": password.expose(),
    });
    let mut from_the_first = tls.clone();
    from_the_first["wrapped"] = json!(true);
    from_the_first.as_object_mut().unwrap().remove("user");
    let (Some(sink), Some(wrapped), Some(plain)) = (
        Sink::start(tls).await,
        Sink::start(from_the_first).await,
        Sink::well().await,
    ) else {
        return;
    };
    let desk = desk().await;
    let login = format!(
        "ana%40shop:{}",
        password.expose().replace('/', "%2F").replace(':', "%3A")
    );
    let at = |scheme: &str, login: &str, port: u16| format!("{scheme}://{login}localhost:{port}");
    let (ours, other) = (file("cert.pem"), file("other.pem"));
    for (url, ca, reason) in [
        (at("smtp", &format!("{login}@"), sink.port), &ours, None),
        (at("smtps", "", wrapped.port), &ours, None),
        (
            at("smtp", &format!("{login}@"), sink.port),
            &other,
            Some("certificate"),
        ),
        (at("smtps", "", wrapped.port), &other, Some("certificate")),
        (
            at("smtp", "ana%40shop:wrong@", sink.port),
            &ours,
            Some("the connection: 535"),
        ),
        (at("smtp", "", sink.port), &ours, Some("the sender: 530")),
        (
            at("smtp", "", plain.port),
            &ours,
            Some("does not offer STARTTLS"),
        ),
    ] {
        let sent = by_smtp(&url, Some(ca))
            .send(&notice(&desk, "ana@example.com"))
            .await;
        match (sent, reason) {
            (Ok(_), None) => {}
            (Err(Failure::Away(says)), Some(reason)) => {
                assert!(says.contains(reason), "{reason:?}: {says}");
                assert!(!says.contains(password.expose()), "{says}");
            }
            (sent, reason) => panic!("{url}: {sent:?} in place of {reason:?}"),
        }
    }
    let mails = sink.distinct(1).await;
    assert_eq!(
        (&mails[0]["tls"], &mails[0]["login"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(
        (wrapped.distinct(1).await.len(), plain.mails().len()),
        (1, 0)
    );
}

#[tokio::test]
async fn an_address_that_would_be_more_than_one_never_reaches_the_provider() {
    let Some(sink) = Sink::well().await else {
        return;
    };
    let desk = desk().await;
    let by = by_smtp(&sink.url(), None);
    for bad in [
        "ana@example.com\r\nRCPT TO:<all@example.com>",
        "\"a\r\nDATA\"@example.com",
        "ana@example.com>\r\nBcc: <all@example.com",
    ] {
        let failure = by.send(&notice(&desk, bad)).await.unwrap_err();
        let says = "the address is not one that mail can go to";
        assert_eq!(failure, Failure::Permanent(says.to_owned()), "{bad:?}");
    }
    assert_eq!(sink.connections(), 0);
}
