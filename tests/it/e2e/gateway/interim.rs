//! What a shop says before its answer (1xx) reaches the client before the answer, without what is not the
//! shop's to say.

use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::e2e::gateway::door::{Door, PATIENCE, Plan};
use crate::e2e::gateway::script::{Script, Wire};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const HINT: &str = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n";
const GET: &str = "GET /static/x HTTP/1.1\r\nhost: a\r\n\r\n";
/// Bytes of interim answers that reach a client at most.
const INTERIM_MAX: usize = 16_384;
/// More than all buffers between two programs hold.
const LONG: usize = 20_000_000;

async fn before(shop: &Script) -> Door {
    let mut plan = Plan {
        upstream: Some(shop.address.clone()),
        ..Plan::default()
    };
    plan.settings.upstream_ms = 5_000;
    Door::planned(plan).await
}

async fn connect(door: &Door) -> Wire {
    Wire::new(TcpStream::connect(door.address).await.unwrap())
}

async fn head(client: &mut Wire) -> String {
    timeout(PATIENCE, client.head())
        .await
        .expect("in time")
        .expect("a head")
}

#[tokio::test]
async fn hints_come_before_the_answer_and_say_nothing_for_us() {
    let go = Arc::new(Notify::new());
    let gone = Arc::clone(&go);
    let shop = Script::play(move |_, mut wire| {
        let go = Arc::clone(&gone);
        async move {
            while wire.head().await.is_some() {
                wire.say(HINT).await;
                go.notified().await; // the first is read before there is anything else
                wire.say("HTTP/1.1 102 Processing\r\n\r\n").await;
                wire.say(
                    "HTTP/1.1 103 Early Hints\r\nlink: </b.css>\r\nconnection: x-hop\r\nx-hop: 1\r\n\
                     set-cookie: catraca-pass-gala=evil\r\nx-catraca-fan: 00\r\n\
                     catraca-admission: consumed\r\ncontent-length: 5\r\nkeep-alive: 5\r\n\r\n",
                )
                .await;
                wire.say("HTTP/1.1 100 Continue\r\n\r\n").await;
                wire.say(OK).await;
            }
        }
    })
    .await;
    let door = before(&shop).await;
    let mut client = connect(&door).await;
    for _ in 0..3 {
        client.say(GET).await;
        assert_eq!(head(&mut client).await, HINT.to_lowercase());
        go.notify_one();
        assert_eq!(head(&mut client).await, "http/1.1 102 processing\r\n\r\n");
        assert_eq!(
            head(&mut client).await,
            "http/1.1 103 early hints\r\nlink: </b.css>\r\n\r\n"
        );
        let answer = head(&mut client).await;
        assert!(answer.starts_with("http/1.1 200 ok"), "{answer}");
        assert!(
            timeout(PATIENCE, client.until("ok"))
                .await
                .unwrap()
                .is_some()
        );
    }
}

/// A shop that hints before each answer.
async fn hinting() -> Script {
    Script::play(|_, mut wire| async move {
        while wire.head().await.is_some() {
            wire.say(format!("{HINT}{HINT}{OK}")).await;
        }
    })
    .await
}

/// HTTP/1.0 has no interim answers, and by HTTP/2 we cannot send any.
#[tokio::test]
async fn who_cannot_read_hints_gets_the_answer_alone() {
    let door = before(&hinting().await).await;
    let old = door.raw(b"GET /static/x HTTP/1.0\r\nhost: a\r\n\r\n").await;
    assert!(old.starts_with("HTTP/1.0 200 OK"), "{old}");
    assert!(!old.contains("103") && old.ends_with("ok"), "{old}");
    let client = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http::<Full<Bytes>>();
    let uri = format!("http://{}/static/x", door.address).parse().unwrap();
    let answer = timeout(PATIENCE, client.get(uri)).await.unwrap().unwrap();
    assert_eq!(answer.status(), 200);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "ok");
}

/// What is written of a long answer, which its reader takes slowly, is not broken by the next one's hints.
#[tokio::test]
async fn hints_stand_between_answers_and_never_inside_one() {
    let shop = Script::play(|_, mut wire| async move {
        while let Some(asked) = wire.head().await {
            if asked.starts_with("get /static/long") {
                wire.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {LONG}\r\n\r\n"))
                    .await;
                wire.pour(LONG, PATIENCE).await;
            } else {
                wire.say(format!("{HINT}{OK}")).await;
            }
        }
    })
    .await;
    let door = before(&shop).await;
    let mut client = connect(&door).await;
    let long = "GET /static/long HTTP/1.1\r\nhost: a\r\n\r\n";
    client
        .say(format!("{GET}{long}{GET}{GET}{long}{GET}"))
        .await;
    for is_long in [false, true, false, false, true, false] {
        let mut answer = head(&mut client).await;
        if answer.starts_with("http/1.1 103") {
            assert!(!is_long);
            answer = head(&mut client).await;
        }
        assert!(answer.starts_with("http/1.1 200"), "{answer}");
        if is_long {
            assert_eq!(
                timeout(PATIENCE, client.exactly(LONG, b'x')).await.unwrap(),
                LONG
            );
        } else {
            let body = timeout(PATIENCE, client.until("ok")).await.unwrap();
            assert_eq!(body.as_deref(), Some("ok"));
        }
    }
}

/// A shop that never comes to the point is late like any other, and fills nothing.
#[tokio::test]
async fn hints_without_end_are_no_answer() {
    let shop = Script::play(|_, mut wire| async move {
        wire.head().await;
        while wire.try_say(HINT).await {}
    })
    .await;
    let mut plan = Plan {
        upstream: Some(shop.address.clone()),
        ..Plan::default()
    };
    plan.settings.upstream_ms = 500;
    let door = Door::planned(plan).await;
    let mut client = connect(&door).await;
    client.say(GET).await;
    let mut hints = 0;
    loop {
        let said = head(&mut client).await;
        if !said.starts_with("http/1.1 103") {
            assert!(said.starts_with("http/1.1 504"), "{said}");
            break;
        }
        hints += said.len();
    }
    assert!((1..=INTERIM_MAX).contains(&hints), "{hints}");
}
