//! What is harmless once and is sent many times: orders, guesses, joins, questions (rows 69, 78, 83 and
//! 88).

use std::collections::BTreeSet;
use std::net::SocketAddr;

use catraca::base::ids::{FanId, TicketId};
use catraca::base::secret::Secret;
use catraca::token::challenge::solve;
use catraca::token::keyring::KeyRing;
use catraca::token::ticket::Ticket;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::e2e::gateway::fleet::Fleet;
use crate::e2e::hostile::api::json as request_json;
use crate::e2e::hostile::floods::resident_bytes;
use crate::e2e::hostile::site::{NEXT, PATIENCE, SHOW, Site, answers, with};
use crate::support::client::Client;
use crate::support::sale;
use crate::support::visitor::Visitor;

const JOIN: &str = "POST /v1/shows/gala/join";
/// Ids that are tried.
const GUESSES: usize = 1_000;
/// Fans who only ask for challenges.
const ASKERS: usize = 100;
/// How often each of them asks.
const QUESTIONS: usize = 40;
/// What a flood of questions may cost for good.
const KEPT_BYTES: u64 = 16 << 20;

/// Sends requests on one connection, an honest one last, and returns all answers: the connection stays.
pub(super) async fn ask(site: &Site, requests: &[String]) -> Vec<(u16, String)> {
    let all = requests.concat() + NEXT;
    let mut answered = answers(&site.send(all.as_bytes()).await, b"");
    let (last, _) = answered.pop().expect("an answer");
    assert!(
        matches!(last, 200 | 429),
        "the connection ends before: {last}"
    );
    assert_eq!(answered.len(), requests.len(), "an answer for each");
    answered
}

pub(super) fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

/// Rows 68 and 69: one ticket is one order, at whichever gateway, and however many ask at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_ticket_is_one_order_at_any_gateway() {
    const TRIES: usize = 50;
    let changes = json!({
        "claim_ms": 60_000, "ticket_ttl_ms": 120_000, "hold_ms": 60_000, "holds_per_ticket": 10,
    });
    let Some(fleet) = Fleet::open(None, &changes).await else {
        return;
    };
    let mut gateways = Vec::new();
    for _ in 0..3 {
        gateways.push(fleet.gateway(&[]).await);
    }
    let fan = Visitor::join_by(Client::of(&gateways[0].1)).await;
    let fan = fan.inside().await;
    let mut holds = Vec::new();
    for _ in 0..10 {
        holds.push(fan.hold().await);
    }
    let credentials = format!(
        "x-catraca-pass: {}\r\nx-admission-ticket: {}\r\n",
        fan.pass, fan.ticket
    );
    let orders = (0..TRIES).map(|n| {
        let customer = json!({ "email": "ana@example.com", "locale": "pt-BR" });
        // Once it was paid for, the ticket is used up, and whoever comes then is told 401.
        let payment = json!({ "token": "slow" });
        let order = json!({
            "hold_id": holds[n % holds.len()], "customer": customer, "payment": payment,
        });
        let line = format!("POST /v1/shows/{}/orders", sale::SHOW);
        let request = request_json(&line, &credentials, &order.to_string()) + NEXT;
        let at = gateways[n % gateways.len()].1.trim_start_matches("http://");
        exchange(at.parse().unwrap(), request)
    });
    let (mut made, mut repeated, mut refused) = (Vec::new(), Vec::new(), 0);
    for text in join_all(orders).await {
        let answered = answers(&text, b"");
        assert_eq!(
            (answered.len(), answered[1].0),
            (2, 200),
            "the connection stays: {text}"
        );
        match answered[0].0 {
            201 => made.push(body(&answered[0].1)["order_id"].to_string()),
            200 => repeated.push(body(&answered[0].1)["order_id"].to_string()),
            status => {
                assert_eq!(status, 409, "{text}");
                refused += 1;
            }
        }
    }
    assert_eq!(made.len(), 1, "{made:?}");
    assert!(
        repeated.iter().all(|order| *order == made[0]),
        "{repeated:?}"
    );
    assert!(repeated.len() < TRIES / holds.len(), "only of its own hold");
    eprintln!("hostile orders: row 69, {TRIES} requests, {refused} refused");
}

async fn exchange(at: SocketAddr, request: String) -> String {
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer));
    read.await.expect("the connection ends").unwrap();
    answer
}

/// Row 78: ids of tickets are guessed; that is a matter of 128 bits and a signature, and soon of a limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tickets_are_not_guessed() {
    let site = Site::with("limits.anything = { per_s = 10, burst = 200 }", &[]).await;
    let buyer = site.buyer().await;
    let good = Ticket::verify(&buyer.ticket, &SHOW.parse().unwrap(), &site.keys()).unwrap();
    let guessing =
        KeyRing::new(&Secret::new("another secret, as long as a root"), "k1", &[]).unwrap();
    let guesses: Vec<String> = (0..GUESSES as u128)
        .map(|n| {
            // An id nearby, under a signature that is none; every other one for another fan.
            let id = TicketId((u128::from_be_bytes(good.id.0) ^ (n + 1)).to_be_bytes());
            let fan = if n % 2 == 0 {
                good.fan
            } else {
                FanId(n.to_be_bytes())
            };
            let ticket = Ticket {
                id,
                fan,
                ..good.clone()
            }
            .mint(&guessing);
            let headers = format!(
                "x-catraca-pass: {}\r\nx-admission-ticket: {ticket}\r\n",
                buyer.pass
            );
            with("GET /orders/1", &headers)
        })
        .collect();
    let answered = ask(&site, &guesses).await;
    let refused = answered.iter().filter(|(status, _)| *status == 401).count();
    let limited = answered.iter().filter(|(status, _)| *status == 429).count();
    assert_eq!(refused + limited, GUESSES);
    assert!(
        200 <= refused && 0 < limited,
        "{refused} refused, {limited} limited"
    );
    assert!(site.shop.reached().is_empty());
    eprintln!("hostile guesses: row 78, {refused} refused, {limited} limited");
}

/// Row 83: whoever joins a hundred times at once, by a key or with a pass, has one number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_joins_at_once_are_one() {
    let site = Site::open().await;
    let join = |headers: &str| [with(JOIN, &format!("content-length: 0\r\n{headers}"))];
    let by_key = join("idempotency-key: abcdefghijklmnopqrstuvwxyz\r\n");
    let joined = join_all((0..100).map(|_| ask(&site, &by_key))).await;
    let mut fans = BTreeSet::new();
    let mut pass = String::new();
    for (status, answer) in joined.into_iter().flatten() {
        assert!(matches!(status, 200 | 201), "{answer}");
        let body = body(&answer);
        fans.insert((body["fan"].to_string(), body["number"].as_u64()));
        pass = body["pass"].as_str().unwrap().to_owned();
    }
    assert_eq!(fans.len(), 1, "{fans:?}");

    let with_pass = join(&format!("x-catraca-pass: {pass}\r\n"));
    let again = join_all((0..100).map(|_| ask(&site, &with_pass))).await;
    let mut passed = 0;
    for (status, answer) in again.into_iter().flatten() {
        assert!(matches!(status, 200 | 429), "{answer}"); // nobody needs to ask so often
        if status == 200 {
            let body = body(&answer);
            assert!(fans.contains(&(body["fan"].to_string(), body["number"].as_u64())));
            passed += 1;
        }
    }
    assert!(0 < passed);
    let next = ask(&site, &join("")).await.remove(0);
    assert_eq!(
        (next.0, &body(&next.1)["number"]),
        (201, &2.into()),
        "no number is lost"
    );
    assert!(site.shop.reached().is_empty());
}

/// Row 88: who asks for challenges and answers none leaves nothing behind, and gets no number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_questions_leaves_nothing_behind() {
    let site = Site::with("challenge.always = true", &[]).await;
    let questions = vec![with(JOIN, "content-length: 0\r\n"); QUESTIONS];
    let mut last = Value::Null;
    let mut flood = async || {
        for answered in join_all((0..ASKERS).map(|_| ask(&site, &questions))).await {
            for (status, answer) in answered {
                assert_eq!(status, 429, "{answer}");
                let asked = body(&answer)["challenge"].take();
                assert!(asked.is_object(), "{answer}");
                last = asked;
            }
        }
    };
    flood().await;
    let before = resident_bytes(site.server.id());
    for _ in 0..4 {
        flood().await;
    }
    let after = resident_bytes(site.server.id());
    assert!(after <= before + KEPT_BYTES, "{before} bytes, then {after}");
    let proof = format!(
        "content-length: 0\r\nx-catraca-proof: {}\r\n",
        solve(&last).unwrap()
    );
    let joined = ask(&site, &[with(JOIN, &proof)]).await.remove(0);
    assert_eq!(
        (joined.0, &body(&joined.1)["number"]),
        (201, &1.into()),
        "{}",
        joined.1
    );
    assert!(site.shop.reached().is_empty());
    eprintln!(
        "hostile questions: row 88, {} requests",
        5 * ASKERS * QUESTIONS
    );
}
