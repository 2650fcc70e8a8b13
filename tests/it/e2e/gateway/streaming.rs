//! Bodies, trailers and what stands between the messages of HTTP: passed on as they come, held back
//! nowhere.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};

use crate::e2e::gateway::door::{Door, PATIENCE, Plan};
use crate::e2e::gateway::script::{Script, Wire};

/// Far more than all buffers between two programs hold.
const LONG: usize = 100_000_000;
/// What sockets and we may hold of it: most of it is the kernel's, four buffers of some megabytes.
const HELD_MAX: usize = 40_000_000;
/// Nobody has taken anything for so long: everything in between is full.
const STALL: Duration = Duration::from_millis(500);

async fn door(upstream: &Script) -> Door {
    let mut plan = Plan {
        upstream: Some(upstream.address.clone()),
        ..Plan::default()
    };
    plan.settings.forward_body_bytes_max = 2 * LONG as u64;
    plan.settings.upstream_ms = 20_000;
    Door::planned(plan).await
}

async fn connect(door: &Door) -> Wire {
    Wire::new(TcpStream::connect(door.address).await.unwrap())
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("in time")
}

/// A body as long as its route takes is in memory at no time.
#[tokio::test]
async fn a_long_request_waits_for_its_reader() {
    let go = Arc::new(Notify::new());
    let gone = Arc::clone(&go);
    let shop = Script::play(move |_, mut wire| {
        let go = Arc::clone(&gone);
        async move {
            wire.head().await.unwrap();
            go.notified().await;
            let counted = wire.count(LONG).await.to_string();
            let length = counted.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            wire.say(head + &counted).await;
        }
    })
    .await;
    let door = door(&shop).await;
    let mut client = connect(&door).await;
    let head = format!("POST /static/x HTTP/1.1\r\nhost: a\r\ncontent-length: {LONG}\r\n\r\n");
    client.say(head).await;
    let held = in_time(client.pour(LONG, STALL)).await;
    assert!(held < HELD_MAX, "{held} bytes went in and none came out");
    go.notify_one();
    let rest = in_time(client.pour(LONG - held, PATIENCE)).await;
    assert_eq!(held + rest, LONG);
    let answer = in_time(client.head()).await.unwrap();
    assert!(answer.starts_with("http/1.1 200"), "{answer}");
    let counted = in_time(client.until(&LONG.to_string())).await;
    assert!(counted.is_some(), "all of it arrived");
}

#[tokio::test]
async fn a_long_answer_waits_for_its_reader() {
    let (told, mut tell) = mpsc::unbounded_channel();
    let shop = Script::play(move |_, mut wire| {
        let told = told.clone();
        async move {
            wire.head().await.unwrap();
            wire.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {LONG}\r\n\r\n"))
                .await;
            let held = wire.pour(LONG, STALL).await;
            told.send(held).unwrap();
            wire.pour(LONG - held, PATIENCE).await;
        }
    })
    .await;
    let door = door(&shop).await;
    let mut client = connect(&door).await;
    client
        .say("GET /static/x HTTP/1.1\r\nhost: a\r\n\r\n")
        .await;
    let held = in_time(tell.recv()).await.unwrap();
    assert!(held < HELD_MAX, "{held} bytes went in and none came out");
    in_time(client.head()).await.unwrap();
    assert_eq!(in_time(client.count(LONG)).await, LONG);
}

/// Each event is read before the next one is written, and so is each piece of a request.
#[tokio::test]
async fn what_comes_piece_by_piece_is_passed_on_piece_by_piece() {
    let shop = Script::play(|_, wire| answers_each_piece(wire)).await;
    exchange_pieces(&door(&shop).await).await;
}

/// A shop that tells of each piece before the next one comes.
pub(super) async fn answers_each_piece(mut wire: Wire) {
    wire.head().await.unwrap();
    wire.say("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
        .await;
    wire.say("transfer-encoding: chunked\r\n\r\n").await;
    for number in 0..5 {
        let piece = wire.until("\r\n.").await.map(|_| number);
        let event = format!("data: {}\n\n", piece.unwrap());
        wire.say(format!("{:x}\r\n{event}\r\n", event.len())).await;
    }
    wire.say("0\r\n\r\n").await;
}

/// What it is asked.
pub(super) async fn exchange_pieces(door: &Door) {
    let mut client = connect(door).await;
    client
        .say("POST /static/x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
        .await;
    let head = in_time(client.head()).await.unwrap();
    assert!(head.contains("text/event-stream"), "{head}");
    for number in 0..5 {
        client.say("1\r\n.\r\n").await;
        let event = in_time(client.until(&format!("data: {number}\n\n"))).await;
        assert!(event.is_some());
    }
    client.say("0\r\n\r\n").await;
    assert!(in_time(client.until("0\r\n\r\n")).await.is_some());
}

/// What was checked before a body cannot be said anew after it.
#[tokio::test]
async fn trailers_of_a_request_pass_unless_they_would_be_heard_as_headers() {
    let (told, mut tell) = mpsc::unbounded_channel();
    let shop = Script::play(move |_, mut wire| {
        let told = told.clone();
        async move {
            let head = wire.head().await.unwrap();
            let body = wire.head().await.unwrap(); // a chunked body with trailers ends as a head does
            told.send((head, body)).unwrap();
            wire.say("HTTP/1.1 204 No Content\r\n\r\n").await;
        }
    })
    .await;
    let door = door(&shop).await;
    let mut client = connect(&door).await;
    client
        .say(
            "POST /static/x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\
             trailer: digest, x-catraca-fan, authorization\r\n\r\n\
             1\r\na\r\n0\r\ndigest: d\r\nx-catraca-fan: 00\r\nauthorization: b\r\n\
             undeclared: u\r\n\r\n",
        )
        .await;
    let (head, body) = in_time(tell.recv()).await.unwrap();
    assert!(head.contains("trailer: digest\r\n"), "{head}");
    assert_eq!(body, "1\r\na\r\n0\r\ndigest: d\r\n\r\n");
    assert!(
        in_time(client.head())
            .await
            .unwrap()
            .starts_with("http/1.1 204")
    );
}

/// A shop that ends every answer with trailers.
async fn trailing() -> Script {
    Script::play(|_, mut wire| async move {
        while let Some(head) = wire.head().await {
            assert_eq!(
                head.contains("te: trailers"),
                head.contains("connection: te"),
                "{head}"
            );
            wire.say(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\
                 trailer: server-timing, set-cookie\r\n\r\n1\r\na\r\n0\r\n\
                 server-timing: total\r\nset-cookie: catraca-pass-gala=evil\r\n\r\n",
            )
            .await;
        }
    })
    .await
}

#[tokio::test]
async fn trailers_of_an_answer_pass_to_who_reads_them() {
    let shop = trailing().await;
    let door = door(&shop).await;
    for (te, trailers) in [("te: trailers\r\n", "server-timing: total\r\n"), ("", "")] {
        let mut client = connect(&door).await;
        client
            .say(format!("GET /static/x HTTP/1.1\r\nhost: a\r\n{te}\r\n"))
            .await;
        in_time(client.head()).await.unwrap();
        let body = in_time(client.head()).await.unwrap();
        assert_eq!(body, format!("1\r\na\r\n0\r\n{trailers}\r\n"), "{te}");
    }
    let client = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http::<Full<Bytes>>();
    let uri = format!("http://{}/static/x", door.address).parse().unwrap();
    let answer = in_time(client.get(uri)).await.unwrap();
    let body = in_time(answer.into_body().collect()).await.unwrap();
    let trailers = body.trailers().unwrap();
    assert_eq!(
        (trailers.len(), &trailers["server-timing"]),
        (1, &"total".parse().unwrap())
    );
}

/// We promise to take a body only once there is somebody to take it.
#[tokio::test]
async fn a_client_that_asks_whether_to_send_is_told_by_us() {
    let (told, mut tell) = mpsc::unbounded_channel();
    let shop = Script::play(move |_, mut wire| {
        let told = told.clone();
        async move {
            told.send(wire.head().await.unwrap()).unwrap();
            wire.until("body").await.unwrap();
            // The first is for the next hop, which is us; the second for whoever asked.
            wire.say("HTTP/1.1 100 Continue\r\n\r\n").await;
            wire.say("HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n")
                .await;
            wire.say("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .await;
        }
    })
    .await;
    let door = door(&shop).await;
    let mut client = connect(&door).await;
    let expecting = "host: a\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n";
    client
        .say(format!("POST /static/x HTTP/1.1\r\n{expecting}"))
        .await;
    assert_eq!(
        in_time(client.head()).await.unwrap(),
        "http/1.1 100 continue\r\n\r\n"
    );
    client.say("body").await;
    assert_eq!(
        in_time(client.head()).await.unwrap(),
        "http/1.1 103 early hints\r\nlink: </a.css>\r\n\r\n"
    );
    let answer = in_time(client.head()).await.unwrap();
    assert!(answer.starts_with("http/1.1 200"), "{answer}");
    assert!(!in_time(tell.recv()).await.unwrap().contains("expect"));

    let mut refused = connect(&door).await;
    refused
        .say(format!(
            "POST /v1/shows/gala/orders HTTP/1.1\r\n{expecting}"
        ))
        .await;
    let answer = in_time(refused.head()).await.unwrap();
    assert!(answer.starts_with("http/1.1 401"), "{answer}");
}

/// Nobody is switched to a protocol that nobody checks.
#[tokio::test]
async fn upgrades_do_not_pass() {
    let (told, mut tell) = mpsc::unbounded_channel();
    let shop = Script::play(move |_, mut wire| {
        let told = told.clone();
        async move {
            while let Some(head) = wire.head().await {
                let is_first = head.starts_with("post /static/first");
                told.send(head).unwrap();
                if is_first {
                    wire.say("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                        .await;
                } else {
                    let switch = "connection: upgrade\r\nupgrade: websocket\r\n\r\n";
                    wire.say(format!("HTTP/1.1 101 Switching Protocols\r\n{switch}"))
                        .await;
                }
            }
        }
    })
    .await;
    let door = door(&shop).await;
    for (path, status, protocol) in [
        ("first", "200", "websocket"),
        ("second", "502", "h2c\r\nhttp2-settings: aaa"),
    ] {
        let mut client = connect(&door).await;
        let upgrade = format!("connection: upgrade, http2-settings\r\nupgrade: {protocol}\r\n\r\n");
        client
            .say(format!(
                "POST /static/{path} HTTP/1.1\r\nhost: a\r\n{upgrade}"
            ))
            .await;
        let answer = in_time(client.head()).await.unwrap();
        assert!(
            answer.starts_with(&format!("http/1.1 {status}")),
            "{answer}"
        );
        let head = in_time(tell.recv()).await.unwrap();
        for gone in ["upgrade", "connection", "http2-settings"] {
            assert!(!head.contains(gone), "{head}");
        }
    }
}
