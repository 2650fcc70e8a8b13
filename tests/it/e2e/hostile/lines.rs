//! What is tried on the line (rows 84, 85, 87, 91, 92 and 97): farms, answers that are none, questions
//! without end, doors that are closed.

use serde_json::{Value, json};

use crate::e2e::hostile::crowds::{ask, body};
use crate::e2e::hostile::site::After::{AsRefused, Closed, Open};
use crate::e2e::hostile::site::{Row, Site, with};
use crate::support::client::Client;
use crate::support::sale::settings;
use crate::support::until;

const JOIN: &str = "POST /v1/shows/gala/join";
/// Few may join at once, and a site of addresses hardly more.
const FEW: &str = "limits.join = { per_s = 1, burst = 3 }\n\
    limits.join_56 = { per_s = 1, burst = 4 }\nlimits.join_48 = { per_s = 1, burst = 6 }";
/// Joins that a farm tries.
const TRIES: usize = 60;

/// What joins from these addresses are answered: how many have a number, and the rest.
async fn joins(site: &Site, from: impl Fn(usize) -> String) -> (usize, Vec<String>) {
    let request = |n| with(JOIN, &format!("x-forwarded-for: {}\r\n", from(n)));
    let requests: Vec<String> = (0..TRIES).map(request).collect();
    let (mut made, mut refused) = (0, Vec::new());
    for (status, answer) in ask(site, &requests).await {
        match status {
            201 => made += 1,
            429 => refused.push(answer),
            other => panic!("{other}: {answer}"),
        }
    }
    (made, refused)
}

/// Rows 84 and 85: one address, and a whole site of addresses, that join again and again without a cookie.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_farm_gets_few_numbers() {
    let site = Site::with(FEW, &[]).await;
    let one = joins(&site, |_| "203.0.113.7".to_owned()).await;
    let many = joins(&site, |n| format!("2001:db8:7:{n:x}00::1")).await;
    // A second that passes meanwhile brings one more.
    for ((made, refused), burst) in [(one, 3), (many, 6)] {
        assert!((burst..burst + 20).contains(&made), "{made} numbers");
        assert_eq!(made + refused.len(), TRIES);
        for answer in &refused {
            assert!(answer.contains("\r\nretry-after: "), "{answer}");
            let word = "urn:catraca:problem:challenge-required";
            assert_eq!(body(answer)["type"], word, "{answer}");
        }
    }
    // Others join meanwhile.
    let honest = with(JOIN, "x-forwarded-for: 203.0.113.8\r\n");
    assert_eq!(ask(&site, &[honest]).await[0].0, 201);
}

async fn issued(site: &Site) -> u64 {
    let client = Client::of(format!("http://{}", site.server.gateway));
    let line = "GET /v1/shows/gala/board";
    let (_, board) = client.ask(line, &[], &Value::Null).await;
    board["issued"].as_u64().unwrap()
}

/// Row 87: answers to challenges that are none cost nothing and give no number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn made_up_answers_give_no_number() {
    let site = Site::open().await;
    let proof = |proof: &str| with(JOIN, &format!("x-catraca-proof: {proof}\r\n"));
    let mut rows: Vec<Row> = [
        "x".to_owned(),
        "A".repeat(4_000),
        "eyJ9".to_owned(),
        "bnVsbA==".to_owned(),
        "W10=".to_owned(),
        "eyJjaGFsbGVuZ2UiOnt9LCJzb2x1dGlvbiI6e319".to_owned(),
        "eyJjaGFsbGVuZ2UiOnsicGFyYW1ldGVycyI6e30sInNpZ25hdHVyZSI6IiJ9LCJzb2x1dGlvbiI6eyJjb3VudGVyIjotMX19"
            .to_owned(),
        "%00%0a".to_owned(),
    ]
    .iter()
    .map(|text| Row::new(87, proof(text), 403, Open))
    .collect();
    rows.push(Row::new(87, proof(&"A".repeat(70_000)), 431, Closed));
    let twice = with(JOIN, "x-catraca-proof: x\r\nx-catraca-proof: y\r\n");
    rows.push(Row::either(87, twice, [400, 403], AsRefused));
    let before = issued(&site).await;
    site.judge(site.server.gateway, "answers", &rows).await;
    assert_eq!(issued(&site).await, before, "nobody has joined");
}

/// Rows 92 and 97: who asks without end is told to wait; who leaves has left, and begins anew behind all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_without_end_and_places_given_up() {
    let site = Site::open().await;
    let joined = ask(&site, &[with(JOIN, "")]).await;
    let joined = body(&joined[0].1);
    let (pass, number) = (joined["pass"].as_str().unwrap(), &joined["number"]);
    let mine = format!("x-catraca-pass: {pass}\r\n");
    let poll = with("GET /v1/shows/gala/status", &mine);
    let polled = ask(&site, &vec![poll; 100]).await;
    let served = polled.iter().filter(|(status, _)| *status == 200).count();
    assert!((20..60).contains(&served), "{served} of 100");
    for (status, answer) in polled.iter().filter(|(status, _)| *status != 200) {
        assert_eq!(*status, 429, "{answer}");
        assert!(answer.contains("\r\nretry-after: "), "{answer}");
    }
    // Nobody's place is given up by somebody else.
    let leave = |headers: &str| with("DELETE /v1/shows/gala/place", headers);
    let bent = format!("x-catraca-pass: {pass}A\r\n");
    for headers in ["", &bent, "x-catraca-pass: x\r\n"] {
        assert_eq!(ask(&site, &[leave(headers)]).await[0].0, 401, "{headers}");
    }
    until("the fan may ask again", || async {
        let left = ask(&site, &[leave(&mine)]).await;
        (left[0].0 == 204).then_some(())
    })
    .await;
    let again = until("the fan may join again", || async {
        let again = ask(&site, &[with(JOIN, &mine)]).await;
        (again[0].0 != 429).then(|| again[0].clone())
    })
    .await;
    assert_eq!(again.0, 201, "{again:?}");
    assert!(number.as_u64() < body(&again.1)["number"].as_u64());
}

/// Row 91: a show that does not take anybody yet, or any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_too_early_or_too_late_gets_no_number() {
    let site = Site::open().await;
    let admin = Client::of(format!("http://{}", site.server.admin));
    let token = format!("Bearer {}", site.token());
    let operator = [("authorization", token.as_str())];
    let later = json!({ "early_at": "2099-01-01T00:00:00Z", "opens_at": "2099-01-02T00:00:00Z" });
    for (line, document) in [
        ("PUT /admin/v1/shows/soon", settings(&later)),
        ("PUT /admin/v1/shows/over", settings(&json!({}))),
        ("POST /admin/v1/shows/over/close", Value::Null),
    ] {
        let (status, told) = admin.ask(line, &operator, &document).await;
        assert!(status.is_success(), "{line}: {told}");
    }
    let fans = Client::of(format!("http://{}", site.server.gateway));
    until("both are known", || async {
        for (show, state) in [("soon", "scheduled"), ("over", "closed")] {
            let line = format!("GET /v1/shows/{show}/board");
            let (_, board) = fans.ask(&line, &[], &Value::Null).await;
            if board["state"] != state {
                return None;
            }
        }
        Some(())
    })
    .await;
    let rows = ["soon", "over"].map(|show| {
        let join = with(&format!("POST /v1/shows/{show}/join"), "");
        Row::new(91, join, 409, Open)
    });
    site.judge(site.server.gateway, "doors", &rows).await;
}
