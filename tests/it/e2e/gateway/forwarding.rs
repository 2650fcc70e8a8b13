//! What crosses the door, in both directions.

use std::time::Duration;

use catraca::base::ids::RequestId;
use catraca::base::secret::Secret;
use catraca::base::time::Clock;
use catraca::token::assertion::{self, Asserted};
use tokio::net::TcpListener;

use crate::e2e::gateway::door::{Door, Plan, show};
use crate::model::world::at;

const ORDERS: &str = "/v1/shows/gala/orders";

#[tokio::test]
async fn a_request_arrives_whole_and_asserted() {
    let door = Door::open().await;
    let (ana, ticket) = door.admitted().await;
    let target = format!("{ORDERS}?seat=a%20b");
    let cookie = format!(
        "catraca-pass-gala={}; cart=7; catraca-ticket-gala={ticket}",
        ana.pass
    );
    let headers = [
        ("cookie", cookie.as_str()),
        ("authorization", "Basic theirs"),
        (
            "traceparent",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ),
        ("x-forwarded-for", "6.6.6.6, 1.2.3.4"),
        ("x-catraca-fan", "00000000000000000000000000000000"),
        ("x-request-id", "mine"),
        ("x-original-url", "/admin"),
        ("connection", "x-secret"),
        ("x-secret", "1"),
    ];
    let answer = door
        .ask("POST", &target, &headers, r#"{"hold_id":1}"#)
        .await;
    assert_eq!(
        (answer.status, answer.text.as_str()),
        (200, r#"{"hold_id":1}"#)
    );
    let reached = door.shop.reached().remove(0);
    assert_eq!(
        (reached.method.as_str(), reached.uri.to_string()),
        ("POST", target.clone())
    );
    assert_eq!(reached.body, r#"{"hold_id":1}"#);
    let header = |name: &str| {
        let value = reached
            .headers
            .get(name)
            .map(|value| value.to_str().unwrap());
        value.unwrap_or_default().to_owned()
    };
    assert_eq!(
        (header("cookie"), header("authorization")),
        ("cart=7".into(), "Basic theirs".into())
    );
    assert_eq!(
        (header("x-forwarded-for"), header("x-forwarded-proto")),
        ("1.2.3.4".into(), "http".into())
    );
    assert_eq!(header("x-forwarded-host"), door.address.to_string());
    assert_eq!(header("x-request-id"), answer.header("x-request-id"));
    assert!(header("traceparent").starts_with("00-0af7"));
    for gone in [
        "x-original-url",
        "x-secret",
        "x-catraca-pass",
        "x-admission-ticket",
    ] {
        assert_eq!(header(gone), "", "{gone}");
    }
}

#[tokio::test]
async fn an_upstream_can_tell_that_it_was_us() {
    let door = Door::open().await;
    let (ana, ticket) = door.admitted().await;
    let target = format!("{ORDERS}?seat=7");
    let headers = [
        ("x-catraca-pass", ana.pass.as_str()),
        ("x-admission-ticket", &ticket),
    ];
    assert_eq!(door.ask("POST", &target, &headers, "").await.status, 200);
    let reached = door.shop.reached().remove(0);
    let header = |name: &str| reached.headers[name].to_str().unwrap();
    let nonce: RequestId = header("x-catraca-nonce").parse().unwrap();
    let asserted = Asserted {
        fan: ana.fan,
        show: &show(),
        ticket_id: Some(header("x-catraca-ticket-id").parse().unwrap()),
        nonce,
        method: "POST",
        path: &target,
    };
    let (proof, secret) = (header("x-catraca-assertion"), Secret::new("shared"));
    assert_eq!(
        assertion::verify(proof, &asserted, &secret, door.clock.now()),
        Ok(())
    );
    assert_eq!(header("x-catraca-fan"), ana.fan.to_string());
}

#[tokio::test]
async fn an_upstream_speaks_to_us_and_not_for_us() {
    let door = Door::open().await;
    let (ana, ticket) = door.admitted().await;
    let headers = [
        ("x-catraca-pass", ana.pass.as_str()),
        ("x-admission-ticket", &ticket),
    ];
    door.shop.says(&[
        ("set-cookie", "catraca-pass-gala=evil"),
        ("set-cookie", "cart=1"),
        ("catraca-room", "off"),
        ("catraca-admission", "until=1800000500000"),
        ("catraca-stock", "42"),
        ("x-catraca-fan", "x"),
        ("keep-alive", "timeout=5"),
        ("etag", "e"),
    ]);
    let answer = door.ask("POST", ORDERS, &headers, "{}").await;
    assert_eq!(
        (answer.header("set-cookie"), answer.header("etag")),
        ("cart=1", "e")
    );
    for gone in [
        "catraca-room",
        "catraca-admission",
        "catraca-stock",
        "x-catraca-fan",
        "keep-alive",
    ] {
        assert_eq!(answer.header(gone), "", "{gone}");
    }
    assert_eq!(answer.header("cache-control"), "no-store");
    let until = door.status(&ana.pass).await.json()["ticket_expires_at"].clone();
    let until: catraca::base::time::Timestamp = until.as_str().unwrap().parse().unwrap();
    assert!(until.ms_since(at(1_800_000_499_000)) <= 2_000, "{until}");
    let board = door.rooms.board(&show()).await.unwrap();
    assert_eq!(board.stock.map(|stock| stock.free), Some(42));

    door.shop.says(&[("catraca-admission", "consumed")]);
    assert_eq!(door.ask("POST", ORDERS, &headers, "{}").await.status, 200);
    assert_eq!(door.status(&ana.pass).await.json()["reason"], "used");
    assert_eq!(door.ask("POST", ORDERS, &headers, "{}").await.status, 401);
}

#[tokio::test]
async fn an_upstream_that_is_not_trusted_is_not_heard() {
    let door = Door::open().await;
    let (ana, ticket) = door.admitted().await;
    let headers = [
        ("x-catraca-pass", ana.pass.as_str()),
        ("x-admission-ticket", &ticket),
    ];
    door.shop
        .says(&[("catraca-admission", "consumed"), ("catraca-stock", "0")]);
    for _ in 0..2 {
        assert_eq!(door.get("/shop/seats", &headers).await.status, 200);
    }
    assert_eq!(door.rooms.board(&show()).await.unwrap().stock, None);
}

#[tokio::test]
async fn an_upstream_that_is_away_is_a_503_and_one_that_hangs_a_504() {
    let door = Door::open().await;
    door.shop.thinks(Duration::from_secs(60));
    let late = door.get("/static/x", &[]).await;
    assert_eq!(
        (late.status, late.word().as_str()),
        (504, "upstream-timeout")
    );

    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = free.local_addr().unwrap().to_string();
    drop(free);
    let plan = Plan {
        upstream: Some(nobody),
        ..Plan::default()
    };
    let door = Door::planned(plan).await;
    let away = door.get("/static/x", &[]).await;
    assert_eq!(
        (away.status, away.word().as_str()),
        (503, "upstream-unavailable")
    );
    assert_eq!(away.header("retry-after"), "1");
}

#[tokio::test]
async fn bodies_have_a_limit() {
    let mut plan = Plan::default();
    plan.settings.forward_body_bytes_max = 100;
    let door = Door::planned(plan).await;
    let fits = door.ask("POST", "/static/x", &[], &"x".repeat(100)).await;
    assert_eq!((fits.status, fits.text.len()), (200, 100));
    let long = door.ask("POST", "/static/x", &[], &"x".repeat(101)).await;
    assert_eq!((long.status, long.word().as_str()), (413, "too-large"));
    let chunk = "x".repeat(101);
    let chunked = format!(
        "POST /static/x HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
         transfer-encoding: chunked\r\n\r\n65\r\n{chunk}\r\n0\r\n\r\n"
    );
    let answer = door.raw(chunked.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}
