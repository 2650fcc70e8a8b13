//! Are people written to by a provider that is not ours, and does nobody wait for it?

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use catraca::base::time::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::cut::{Cut, Still};
use crate::support::process::{Server, run_in};
use crate::support::sale::{SHOW, settings};
use crate::support::smtp::Sink;
use crate::support::until;
use crate::support::visitor::Visitor;

/// Longer than any order takes, and shorter than a provider that hangs is waited for.
const AN_ORDER: Duration = Duration::from_secs(7);

/// Who buys, what they read at the head of a mail, and how an amount is written for them.
const BUYERS: [(&str, &str, &str, &str); 3] = [
    (
        "ana@example.com",
        "pt-BR",
        "Pedido confirmado: Small Sale",
        "R$ 120,00",
    ),
    (
        "bob@example.com",
        "en-GB",
        "Order confirmed: Small Sale",
        "R$120.00",
    ),
    (
        "eva@example.com",
        "es-AR",
        "Pedido confirmado: Small Sale",
        "120,00 R$",
    ),
];
const HEADERS: [&str; 8] = [
    "Content-Transfer-Encoding",
    "Content-Type",
    "Date",
    "From",
    "MIME-Version",
    "Message-ID",
    "Subject",
    "To",
];

/// Buys a seat and tells the order's id.
pub(super) async fn buy(client: &Client, email: &str, locale: &str) -> String {
    let visitor = Visitor::join_by(client.clone()).await.inside().await;
    let hold = visitor.hold().await;
    let began = Instant::now();
    let order = json!({
        "hold_id": hold,
        "customer": { "email": email, "locale": locale },
        "payment": { "token": "approve" },
    });
    let (status, placed) = visitor.try_ask("POST orders", &order).await.unwrap();
    assert_eq!(status, 201, "{placed}");
    let order = visitor.confirmed(&placed).await;
    let took = began.elapsed();
    assert!(took < AN_ORDER, "{took:?}");
    order
}

/// A mail says to its one reader, in their language, what became of one of these orders, and is headed as a
/// mail is, each header once.
fn is_right(mail: &Value, orders: &BTreeSet<String>) {
    let to = mail["to"][0].as_str().unwrap();
    let (_, _, subject, total) = BUYERS.iter().find(|(email, ..)| *email == to).unwrap();
    assert_eq!(mail["to"], json!([to]));
    assert_eq!(mail["head_to"], to);
    assert_eq!(mail["subject"], *subject);
    let names = mail["names"].as_array().unwrap().iter();
    let mut names: Vec<&str> = names.flat_map(Value::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, HEADERS);
    let text = mail["text"].as_str().unwrap().replace('\u{a0}', " ");
    assert!(text.contains(total), "{text}");
    let told = orders.iter().filter(|order| text.contains(*order));
    assert_eq!(told.count(), 1, "{text}");
}

pub(super) async fn create_show(server: &Server, folder: &std::path::Path) {
    let now = SystemClock.now();
    let mut document = settings(&json!({}));
    document["early_at"] = json!(now);
    document["opens_at"] = json!(now.plus_ms(1_000));
    std::fs::write(folder.join("show.json"), document.to_string()).unwrap();
    let admin = format!("http://{}", server.admin);
    let env = [
        ("CATRACA_ADMIN", admin.as_str()),
        ("CATRACA_TOKEN_FILE", "admin-token"),
    ];
    let created = run_in(folder, &["show", "create", SHOW, "show.json"], &env).await;
    assert_eq!(created.code, Some(0), "{created:?}");
    let client = Client::of(format!("http://{}", server.gateway));
    until("the board shows the seats", || async {
        let line = format!("GET /v1/shows/{SHOW}/board");
        let (_, board) = client.ask(&line, &[], &Value::Null).await;
        board["stock"]["left"].as_u64()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_tells_everybody_once_though_its_mail_provider_hangs() {
    let Some(sink) = Sink::well().await else {
        return;
    };
    let provider = Cut::before(SocketAddr::from(([127, 0, 0, 1], sink.port))).await;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let url = format!("smtp+plain://{}", provider.address());
    let server = Server::up(folder, &[("CATRACA__NOTIFY__URL", &url)]).await;
    create_show(&server, folder).await;
    let client = Client::of(format!("http://{}", server.gateway));

    let mut orders = BTreeSet::new();
    for (email, locale, ..) in BUYERS {
        orders.insert(buy(&client, email, locale).await);
    }
    sink.distinct(3).await;
    provider.stand(Still::All);
    for (email, locale, ..) in BUYERS {
        orders.insert(buy(&client, email, locale).await);
    }
    assert_eq!(sink.mails().len(), 3, "it hangs");
    provider.stand(Still::None);
    let mails = sink.distinct(6).await;
    for mail in &mails {
        is_right(mail, &orders);
    }
    let operator = Client::of(format!("http://{}", server.admin));
    let (_, metrics) = operator
        .exchange("GET /metrics", &[], &Value::Null)
        .await
        .unwrap();
    let metrics = String::from_utf8(metrics.to_vec()).unwrap();
    let taken = "catraca_smtp_mails_total{outcome=\"taken\"} 6";
    assert!(metrics.contains(taken), "{metrics}");
    assert!(!folder.join("mailbox").exists());
    assert_eq!(server.terminate().await, Some(0));
}

#[tokio::test]
async fn settings_of_a_provider_are_checked_and_masked() {
    let folder = tempfile::tempdir().unwrap();
    for (url, code) in [
        ("smtps://ana:hidden-word@mail.example", Some(0)),
        ("smtp://ana:hidden-word@mail.example:2587", Some(0)),
        ("mailbox:", Some(0)),
        ("smtp+plain://ana:hidden-word@mail.example", Some(78)),
        ("smtp://ana:hidden-word@mail.example/inbox", Some(78)),
        ("http://ana:hidden-word@mail.example", Some(78)),
    ] {
        let env = [("CATRACA__NOTIFY__URL", url)];
        let checked = run_in(folder.path(), &["config", "check"], &env).await;
        assert_eq!(checked.code, code, "{url}: {checked:?}");
        assert_eq!(
            checked.err.contains("notify.url"),
            code != Some(0),
            "{checked:?}"
        );
        let printed = run_in(folder.path(), &["config", "print"], &env).await;
        assert!(printed.out.contains("notify.url"), "{printed:?}");
        for text in [checked.out, checked.err, printed.out, printed.err] {
            assert!(!text.contains("hidden-word"), "{url}: {text}");
        }
    }
    for (name, value, says) in [
        ("CATRACA__NOTIFY__CA_FILE", "no-such-file", "notify.ca_file"),
        ("CATRACA__NOTIFY__FROM", "tickets", "notify.from"),
    ] {
        let env = [
            ("CATRACA__NOTIFY__URL", "smtp://mail.example"),
            (name, value),
        ];
        let checked = run_in(folder.path(), &["config", "check"], &env).await;
        assert_eq!(checked.code, Some(78), "{checked:?}");
        assert!(checked.err.contains(says), "{checked:?}");
    }
}
