//! What hostile buyers send to the shop: through the gateway with a live ticket, and past it, straight
//! to the shop's listener, with an assertion that is signed as the gateway would. Both say the same.

use std::net::SocketAddr;

use catraca::base::ids::{FanId, IdSource, TicketId};
use catraca::base::secret::Secret;
use catraca::base::time::Clock;
use catraca::token::assertion::{Asserted, HEADER, sign};

use crate::e2e::gateway::door::{Answer, show};
use crate::e2e::gateway::till::{Buyer, Till};

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

async fn no_row_gets_anything(till: &Till, way: Way, (hold, order): &(String, String)) {
    let seats = |names: &[String]| format!(r#"{{"seats":["{}"]}}"#, names.join("\",\""));
    let many = |count: usize| seats(&(0..count).map(|i| format!("B-{i}")).collect::<Vec<_>>());
    let (eleven, thousands, endless) = (many(11), many(5_000), many(50_000));
    let long = seats(&["B".repeat(1_000)]);
    let for_hold =
        |hold: &str| format!(r#"{{"hold_id":"{hold}","customer":{{"email":"ana@example.com"}}}}"#);
    let (theirs, nobodys) = (
        for_hold(hold),
        for_hold("01958c5e-7a00-7000-8000-000000000002"),
    );
    let (malformed, sql) = (for_hold("1"), for_hold("' or 1=1 --"));
    let price = theirs.replace(
        r#"{"hold_id""#,
        r#"{"total":{"amount":1,"currency":"BRL"},"hold_id""#,
    );
    let paid = theirs.replace(r#"{"hold_id""#, r#"{"payment":{"amount":1},"hold_id""#);
    let mail = theirs.replace("ana@", "ana@example.com\\r\\nBcc: all@");
    let (see, pay) = (
        format!("GET orders/{order}"),
        format!("POST orders/{order}/payment"),
    );
    let release = format!("DELETE holds/{hold}");
    check(
        till,
        way,
        &[
            // Quantities.
            (
                "POST holds",
                r#"{"section":"B","quantity":0}"#,
                422,
                "unprocessable",
            ),
            (
                "POST holds",
                r#"{"section":"B","quantity":-1}"#,
                422,
                "unprocessable",
            ),
            (
                "POST holds",
                r#"{"section":"B","quantity":2147483648}"#,
                422,
                "unprocessable",
            ),
            (
                "POST holds",
                r#"{"section":"B","quantity":1e99}"#,
                422,
                "unprocessable",
            ),
            (
                "POST holds",
                r#"{"section":"B","quantity":1.5}"#,
                422,
                "unprocessable",
            ),
            (
                "POST holds",
                r#"{"section":"B","quantity":"2"}"#,
                422,
                "unprocessable",
            ),
            (
                "POST holds",
                r#"{"section":"B","quantity":null}"#,
                422,
                "unprocessable",
            ),
            (
                "POST holds",
                r#"{"section":"B","quantity":11}"#,
                422,
                "unprocessable",
            ),
            // Prices are not the buyer's to name.
            (
                "POST holds",
                r#"{"section":"B","quantity":1,"price":1}"#,
                422,
                "unprocessable",
            ),
            (
                "POST holds",
                r#"{"section":"B","quantity":1,"total":1}"#,
                422,
                "unprocessable",
            ),
            (
                "POST holds",
                r#"{"section":"B","quantity":1,"currency":"USD"}"#,
                422,
                "unprocessable",
            ),
            ("POST orders", &price, 422, "unprocessable"),
            ("POST orders", &paid, 422, "unprocessable"),
            // Seats of another show, no seats at all, and too many.
            (
                "POST holds",
                r#"{"section":"Z","quantity":1}"#,
                422,
                "unprocessable",
            ),
            ("POST holds", r#"{"seats":["Z-1"]}"#, 422, "unprocessable"),
            (
                "POST holds",
                r#"{"seats":["B-1' or '1'='1"]}"#,
                422,
                "unprocessable",
            ),
            ("POST holds", r#"{"seats":["B-１"]}"#, 422, "unprocessable"),
            (
                "POST holds",
                r#"{"seats":["B-1","B-1"]}"#,
                422,
                "unprocessable",
            ),
            (
                "POST holds",
                r#"{"section":"B'; drop table seats; --","quantity":1}"#,
                422,
                "unprocessable",
            ),
            ("POST holds", &long, 422, "unprocessable"),
            ("POST holds", &eleven, 422, "unprocessable"),
            ("POST holds", &thousands, 422, "unprocessable"),
            ("POST holds", &endless, 413, "too-large"),
            // What is somebody else's looks like what does not exist.
            ("POST orders", &theirs, 404, "not-found"),
            ("POST orders", &nobodys, 404, "not-found"),
            ("POST orders", &malformed, 400, "bad-id"),
            ("POST orders", &sql, 400, "bad-id"),
            ("POST orders", &mail, 422, "unprocessable"),
            (&release, "", 404, "not-found"),
            (&see, "", 404, "no-such-order"),
            (
                "GET orders/01958c5e-7a00-7000-8000-000000000002",
                "",
                404,
                "no-such-order",
            ),
            ("GET orders/1", "", 400, "bad-id"),
            (&pay, "{}", 404, "no-such-order"),
            (
                "POST orders/01958c5e-7a00-7000-8000-000000000002/payment",
                "{}",
                404,
                "no-such-order",
            ),
            ("PUT orders", "{}", 405, "no-such-method"),
            (
                "DELETE orders/01958c5e-7a00-7000-8000-000000000002",
                "",
                405,
                "no-such-method",
            ),
        ],
    )
    .await;
    let ana = Asker::new(till, way).await;
    let listed = ana
        .ask("GET orders?limit=1000000000&offset=-1", &[], "")
        .await;
    assert_eq!(
        (listed.status, listed.text.as_str()),
        (200, r#"{"orders":[]}"#)
    );
    keys_belong_to_one_fan_and_one_request(&ana).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_hostile_request_gets_anything_through_the_gate_or_past_it() {
    let till = Till::open().await;
    let theirs = somebody_elses(&till).await;
    for way in [Way::Gate, Way::Listener] {
        no_row_gets_anything(&till, way, &theirs).await;
    }
    // Three holds, three orders, and not one seat beyond them.
    assert_eq!(till.count("select count(*) from orders").await, 3);
    let taken = "select count(*) from seats where state <> 'free'";
    assert_eq!(till.count(taken).await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn past_the_gateway_nobody_gets_in_without_a_fresh_assertion_of_their_own() {
    let till = Till::open().await;
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
