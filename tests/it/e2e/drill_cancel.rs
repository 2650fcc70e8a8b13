//! What becomes of a sale whose show is called off while it is on, as operators and customers see it.

use std::collections::BTreeMap;

use catraca::check::{self, Finding, Paths};
use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::process::run_in;
use crate::support::sale::{Running, SHOW, found};
use crate::support::until;
use crate::support::visitor::Visitor;

/// An operator who asks the admin API.
struct Operator {
    client: Client,
    token: String,
}

impl Operator {
    async fn ask(&self, line: &str, body: &Value) -> (u16, Value) {
        let bearer = format!("Bearer {}", self.token);
        let headers = [("authorization", bearer.as_str())];
        let (status, answer) = self.client.ask(line, &headers, body).await;
        (status.as_u16(), answer)
    }
}

/// The messages in the mailbox: how many begin with each subject.
fn subjects(running: &Running) -> BTreeMap<String, usize> {
    let mut subjects = BTreeMap::new();
    for entry in std::fs::read_dir(running.folder.join("mailbox")).unwrap() {
        let mail = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let subject = mail.lines().find_map(|line| line.strip_prefix("Subject: "));
        *subjects.entry(subject.unwrap().to_owned()).or_default() += 1;
    }
    subjects
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_show_that_is_called_off_is_paid_back_and_everybody_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let long = json!({ "ticket_ttl_ms": 60_000, "hold_ms": 50_000 });
    let running = Running::start(folder.path(), &long, |_, _| {}).await;
    let token = std::fs::read_to_string(folder.path().join("admin-token")).unwrap();
    let operator = Operator {
        client: Client::of(format!("http://{}", running.admin)),
        token: token.trim().to_owned(),
    };
    let (first, second, third) = (
        Visitor::join(&running).await.inside().await,
        Visitor::join(&running).await.inside().await,
        Visitor::join(&running).await.inside().await,
    );
    let paid = buy(&first).await;
    let alone = buy(&second).await;
    third.hold().await;

    // One order alone.
    let line = format!("POST /admin/v1/orders/{alone}/cancel");
    for _ in 0..2 {
        let (status, told) = operator.ask(&line, &Value::Null).await;
        assert_eq!(status, 200, "{told}");
        assert!(matches!(
            told["status"].as_str(),
            Some("cancelled" | "refunded")
        ));
    }
    let unknown = "POST /admin/v1/orders/01958c5e-7a00-7000-8000-000000000002/cancel";
    assert_eq!(operator.ask(unknown, &Value::Null).await.0, 404);

    // The whole show: not by a slip of the finger.
    let cancel = format!("POST /admin/v1/shows/{SHOW}/cancel");
    for slip in [json!({}), json!({ "show": "another" })] {
        assert_eq!(operator.ask(&cancel, &slip).await.0, 422, "{slip}");
    }
    let mut env = vec![("CATRACA_TOKEN_FILE", "admin-token")];
    let admin = format!("http://{}", running.admin);
    env.push(("CATRACA_ADMIN", &admin));
    let words = ["show", "cancel", SHOW, "--repeat", SHOW];
    let ended = run_in(folder.path(), &words, &env).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let last = format!(
        "{SHOW}: seats to take back 0 held, 0 sold; orders 0 cancelled, 2 refunded; 0 payments open"
    );
    assert_eq!(ended.out.lines().last(), Some(last.as_str()));

    let (status, refused) = third.try_hold().await;
    assert!(matches!(status, 401 | 409), "{refused}");
    everybody_is_told(&running).await;
    for order in [&paid, &alone] {
        until("the order has arrived", || async {
            let line = format!("GET /admin/v1/orders/{order}/journey");
            let (_, journey) = operator.ask(&line, &Value::Null).await;
            (journey["stopped"].is_null() && journey["status"] == "refunded").then_some(())
        })
        .await;
    }
    the_show_stays_closed(&running, &operator).await;
    running.stop().await;
}

/// Each customer of what became of their order, in words that say why.
async fn everybody_is_told(running: &Running) {
    let expected: BTreeMap<String, usize> = [
        ("Pedido confirmado: Small Sale", 2),
        ("Pedido cancelado: Small Sale", 1),
        ("Evento cancelado: Small Sale", 1),
        ("Valor devolvido: Small Sale", 2),
    ]
    .map(|(subject, count)| (subject.to_owned(), count))
    .into();
    until("everybody is told", || async {
        (subjects(running) == expected).then_some(())
    })
    .await;
}

/// And nothing is for sale, nothing looks sold out, and the checker finds nothing broken.
async fn the_show_stays_closed(running: &Running, operator: &Operator) {
    let open = format!("POST /admin/v1/shows/{SHOW}/open");
    let (status, opened) = operator.ask(&open, &Value::Null).await;
    let word = json!("urn:catraca:problem:show-cancelled");
    assert_eq!((status, &opened["type"]), (409, &word));
    let ask = async |path: &str| {
        let line = format!("GET /v1/shows/{SHOW}/{path}");
        running.client().ask(&line, &[], &Value::Null).await.1
    };
    let board = ask("board").await;
    assert_eq!(board["state"], "closed");
    assert!(board["sold_out_at"].is_null(), "{board}");
    until("nothing is for sale", || async {
        (ask("seats").await["sections"] == json!([])).then_some(())
    })
    .await;
    let paths = Paths {
        data_dir: running.folder.clone(),
        database: None,
        histories: Vec::new(),
    };
    until("the checker finds nothing broken", || async {
        let verdicts = check::judge(&check::load(&paths).await.unwrap());
        found(&verdicts, Finding::Broken).is_empty().then_some(())
    })
    .await;
}

async fn buy(visitor: &Visitor) -> String {
    let hold = visitor.hold().await;
    let (status, placed) = visitor.order(&hold, "approve").await;
    assert_eq!(status, 201, "{placed}");
    visitor.confirmed(&placed).await
}
