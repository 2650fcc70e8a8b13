//! What hostile buyers send to the shop: through the gateway with a live ticket, and past it, straight
//! to the shop's listener, with an assertion that is signed as the gateway would. Both say the same.

use std::net::SocketAddr;

use catraca::base::ids::{FanId, IdSource, TicketId};
use catraca::base::secret::Secret;
use catraca::base::time::Clock;
use catraca::token::assertion::{Asserted, HEADER, sign};

use crate::e2e::gateway::door::{Answer, show};
use crate::e2e::gateway::till::{Buyer, Till};
use crate::support::database::on_every_database;

on_every_database! {
    Till:
    no_hostile_request_gets_anything_through_the_gate_or_past_it,
    past_the_gateway_nobody_gets_in_without_a_fresh_assertion_of_their_own,
}

/// What is asked (method and path below the show), with which body, and what is told.
type Row<'a> = (&'a str, &'a str, u16, &'a str);

const ONE: &str = r#"{"section":"B","quantity":1}"#;

/// How a request gets to the shop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Past the gate.
    Gate,
    /// Straight to its listener, as the gateway would.
    Listener,
}

/// Somebody on one of the two ways.
enum Asker<'a> {
    Gate(&'a Till, Buyer),
    Listener(&'a Till, FanId),
}

impl<'a> Asker<'a> {
    async fn new(till: &'a Till, way: Way) -> Self {
        match way {
            Way::Gate => Self::Gate(till, till.buyer().await),
            Way::Listener => Self::Listener(till, IdSource::random().fan()),
        }
    }

    async fn ask(&self, line: &str, more: &[(&str, &str)], body: &str) -> Answer {
        match self {
            Self::Gate(till, buyer) => till.ask(buyer, line, more, body).await,
            Self::Listener(till, fan) => {
                let headers = signed(till, *fan, line);
                let mut all = with_json(&headers);
                all.extend(more);
                direct(till, till.address, line, &all, body).await
            }
        }
    }
}

async fn direct(
    till: &Till,
    address: SocketAddr,
    line: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let (method, path) = line.split_once(' ').unwrap();
    let path = format!("/v1/shows/{}/{path}", show());
    till.door
        .ask_at(address, (method, &path), headers, body)
        .await
}

/// The headers with which the gateway asserts a fan for one request.
fn signed(till: &Till, fan: FanId, line: &str) -> Vec<(&'static str, String)> {
    let (method, path) = line.split_once(' ').unwrap();
    let (show, path) = (show(), format!("/v1/shows/{}/{path}", show()));
    let now = till.door.clock.now();
    let asserted = Asserted {
        fan,
        show: &show,
        ticket_id: Some(TicketId(fan.0)),
        nonce: IdSource::random().request(now),
        method,
        path: &path,
    };
    vec![
        ("x-catraca-fan", fan.to_string()),
        ("x-catraca-show", show.to_string()),
        ("x-catraca-ticket-id", TicketId(fan.0).to_string()),
        ("x-catraca-nonce", asserted.nonce.to_string()),
        (HEADER, sign(&asserted, &Secret::new("shared"), now)),
    ]
}

fn with_json<'a>(headers: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    let mut all = vec![("content-type", "application/json")];
    all.extend(headers.iter().map(|(name, value)| (*name, value.as_str())));
    all
}

/// Each row by somebody of their own: nobody asks too often.
async fn check(till: &Till, way: Way, rows: &[Row<'_>]) {
    for (line, body, status, word) in rows {
        let told = Asker::new(till, way).await.ask(line, &[], body).await;
        let shown = &body[..body.len().min(60)];
        assert_eq!(
            (told.status, told.word().as_str()),
            (*status, *word),
            "{line} {shown}"
        );
    }
}

/// Somebody else's order, which nobody may see, pay or take.
async fn somebody_elses(till: &Till) -> (String, String) {
    let bia = till.buyer().await;
    let hold = till.ask(&bia, "POST holds", &[], ONE).await.json();
    let hold = hold["hold_id"].as_str().unwrap().to_owned();
    let body = format!(r#"{{"hold_id":"{hold}","customer":{{"email":"bia@example.com"}}}}"#);
    let order = till.ask(&bia, "POST orders", &[], &body).await.json();
    (hold, order["order_id"].as_str().unwrap().to_owned())
}

/// Nobody's, but well-formed.
const NOBODYS: &str = "01958c5e-7a00-7000-8000-000000000002";

/// Bodies of `POST holds` that cannot be meant: quantities, prices, seats of another show, SQL.
const HOLDS: [&str; 17] = [
    r#"{"section":"B","quantity":0}"#,
    r#"{"section":"B","quantity":-1}"#,
    r#"{"section":"B","quantity":2147483648}"#,
    r#"{"section":"B","quantity":1e99}"#,
    r#"{"section":"B","quantity":1.5}"#,
    r#"{"section":"B","quantity":"2"}"#,
    r#"{"section":"B","quantity":null}"#,
    r#"{"section":"B","quantity":11}"#,
    r#"{"section":"B","quantity":1,"price":1}"#,
    r#"{"section":"B","quantity":1,"total":1}"#,
    r#"{"section":"B","quantity":1,"currency":"USD"}"#,
    r#"{"section":"Z","quantity":1}"#,
    r#"{"seats":["Z-1"]}"#,
    r#"{"seats":["B-1' or '1'='1"]}"#,
    r#"{"seats":["B-１"]}"#,
    r#"{"seats":["B-1","B-1"]}"#,
    r#"{"section":"B'; drop table seats; --","quantity":1}"#,
];

/// Lists that are too long.
async fn no_list_gets_anything(till: &Till, way: Way) {
    let seats = |names: &[String]| format!(r#"{{"seats":["{}"]}}"#, names.join("\",\""));
    let many = |count: usize| seats(&(0..count).map(|i| format!("B-{i}")).collect::<Vec<_>>());
    for (body, status, word) in [
        (many(11), 422, "unprocessable"),
        (many(5_000), 422, "unprocessable"),
        (many(50_000), 413, "too-large"),
        (seats(&["B".repeat(1_000)]), 422, "unprocessable"),
    ] {
        check(till, way, &[("POST holds", &body, status, word)]).await;
    }
    let ana = Asker::new(till, way).await;
    let listed = ana.ask("GET orders?limit=1000000000&offset=-1", &[], "");
    let listed = listed.await;
    assert_eq!(
        (listed.status, listed.text.as_str()),
        (200, r#"{"orders":[]}"#)
    );
}

fn order_of(hold: &str) -> String {
    format!(r#"{{"hold_id":"{hold}","customer":{{"email":"ana@example.com"}}}}"#)
}

/// What is somebody else's looks like what does not exist, and nobody names a price.
async fn nobody_gets_what_is_not_theirs(till: &Till, way: Way, theirs: &(String, String)) {
    let (hold, order) = theirs;
    let body = order_of(hold);
    let mail = body.replace("ana@", "ana@example.com\\r\\nBcc: all@");
    let put = |member: &str| body.replacen('{', &format!("{{{member},"), 1);
    let (price, paid) = (put(r#""total":1"#), put(r#""payment":{"amount":1}"#));
    for (line, body, status, word) in [
        ("POST orders".to_owned(), body.clone(), 404, "not-found"),
        (
            "POST orders".to_owned(),
            order_of(NOBODYS),
            404,
            "not-found",
        ),
        ("POST orders".to_owned(), order_of("1"), 400, "bad-id"),
        (
            "POST orders".to_owned(),
            order_of("' or 1=1 --"),
            400,
            "bad-id",
        ),
        ("POST orders".to_owned(), mail, 422, "unprocessable"),
        ("POST orders".to_owned(), price, 422, "unprocessable"),
        ("POST orders".to_owned(), paid, 422, "unprocessable"),
    ] {
        check(till, way, &[(&line, &body, status, word)]).await;
    }
    nobody_reaches_what_is_not_theirs(till, way, hold, order).await;
}

async fn nobody_reaches_what_is_not_theirs(till: &Till, way: Way, hold: &str, order: &str) {
    for (line, body, status, word) in [
        (
            format!("DELETE holds/{hold}"),
            String::new(),
            404,
            "not-found",
        ),
        (
            format!("GET orders/{order}"),
            String::new(),
            404,
            "no-such-order",
        ),
        (
            format!("GET orders/{NOBODYS}"),
            String::new(),
            404,
            "no-such-order",
        ),
        ("GET orders/1".to_owned(), String::new(), 400, "bad-id"),
        (
            format!("POST orders/{order}/payment"),
            "{}".to_owned(),
            404,
            "no-such-order",
        ),
        (
            format!("POST orders/{NOBODYS}/payment"),
            "{}".to_owned(),
            404,
            "no-such-order",
        ),
        (
            "PUT orders".to_owned(),
            "{}".to_owned(),
            405,
            "no-such-method",
        ),
        (
            format!("DELETE orders/{order}"),
            String::new(),
            405,
            "no-such-method",
        ),
    ] {
        check(till, way, &[(&line, &body, status, word)]).await;
    }
}

/// `Idempotency-Key`: malformed, for another body, on another route.
async fn keys_belong_to_one_fan_and_one_request(ana: &Asker<'_>) {
    let long = "k".repeat(256);
    for bad in ["", "a b", &long] {
        let told = ana
            .ask("POST holds", &[("idempotency-key", bad)], ONE)
            .await;
        assert_eq!(
            (told.status, told.word().as_str()),
            (400, "bad-key"),
            "{bad:?}"
        );
    }
    let key = [("idempotency-key", "the-same-for-everybody")];
    let held = ana.ask("POST holds", &key, ONE).await;
    assert_eq!(
        held.status, 201,
        "another fan's key is another key: {held:?}"
    );
    let other = ana
        .ask("POST holds", &key, r#"{"section":"GA","quantity":1}"#)
        .await;
    assert_eq!((other.status, other.word().as_str()), (422, "key-reused"));
    let hold = held.json()["hold_id"].as_str().unwrap().to_owned();
    let body = format!(r#"{{"hold_id":"{hold}","customer":{{"email":"ana@example.com"}}}}"#);
    let placed = ana.ask("POST orders", &key, &body).await;
    assert_eq!(placed.status, 201, "the key on another route: {placed:?}");
}

async fn no_hostile_request_gets_anything_through_the_gate_or_past_it(till: Till) {
    let theirs = somebody_elses(&till).await;
    for way in [Way::Gate, Way::Listener] {
        let holds = HOLDS.map(|body| ("POST holds", body, 422, "unprocessable"));
        check(&till, way, &holds).await;
        no_list_gets_anything(&till, way).await;
        nobody_gets_what_is_not_theirs(&till, way, &theirs).await;
        let ana = Asker::new(&till, way).await;
        keys_belong_to_one_fan_and_one_request(&ana).await;
    }
    // Three holds, three orders, and not one seat beyond them.
    assert_eq!(till.count("select count(*) from orders").await, 3);
    let taken = "select count(*) from seats where state <> 'free'";
    assert_eq!(till.count(taken).await, 3);
}

async fn past_the_gateway_nobody_gets_in_without_a_fresh_assertion_of_their_own(till: Till) {
    let line = "POST holds";
    let good = signed(&till, FanId([7; 16]), line);
    let without = |name: &str| {
        let kept = good.iter().filter(|(header, _)| *header != name);
        kept.cloned().collect::<Vec<_>>()
    };
    let mut forged = good.clone();
    forged[0].1 = FanId([8; 16]).to_string();
    for (name, headers) in [
        ("nothing", vec![]),
        ("names only", without(HEADER)),
        ("no fan", without("x-catraca-fan")),
        ("no nonce", without("x-catraca-nonce")),
        ("no ticket", without("x-catraca-ticket-id")),
        ("another fan", forged),
        (
            "for another route",
            signed(&till, FanId([7; 16]), "POST orders"),
        ),
        (
            "for another method",
            signed(&till, FanId([7; 16]), "GET holds"),
        ),
    ] {
        let told = direct(&till, till.address, line, &with_json(&headers), ONE).await;
        let said = (told.status, told.word());
        assert_eq!(said, (401, "ticket-required".to_owned()), "{name}");
    }
    let first = direct(&till, till.address, line, &with_json(&good), ONE).await;
    assert_eq!(first.status, 201, "{first:?}");
    for body in [ONE, r#"{"section":"GA","quantity":9}"#] {
        let replayed = direct(&till, till.address, line, &with_json(&good), body).await;
        assert_eq!(replayed.status, 401, "an assertion counts once");
    }
    let old = signed(&till, FanId([9; 16]), line);
    till.door.clock.advance_ms(5_001);
    let stale = direct(&till, till.address, line, &with_json(&old), ONE).await;
    assert_eq!(stale.status, 401, "{stale:?}");

    // Through the gate, what a client asserts of itself is taken off.
    let gate = till.door.address;
    let forged = signed(&till, FanId([9; 16]), line);
    let told = direct(&till, gate, line, &with_json(&forged), ONE).await;
    assert_eq!(told.status, 401, "an assertion is no ticket");
    let ana = till.buyer().await;
    let mut headers = with_json(&forged);
    headers.push(("x-catraca-pass", &ana.pass));
    headers.push(("x-admission-ticket", &ana.ticket));
    let held = direct(&till, gate, line, &headers, ONE).await;
    assert_eq!(held.status, 201, "{held:?}");
    let nine = "select count(*) from holds where fan = '09090909090909090909090909090909'";
    assert_eq!(till.count(nine).await, 0, "the hold is the ticket's fan's");
    assert_eq!(till.count("select count(*) from holds").await, 2);
}
