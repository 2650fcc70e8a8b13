//! Bytes that no honest client sends: refused, and nothing reaches the upstream.

use std::time::Duration;

use catraca::http::server::ServerSettings;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::e2e::gateway::door::{Door, PATIENCE, Plan};

/// A request with this first line.
fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").into_bytes()
}

#[tokio::test]
async fn targets_with_two_readings_are_refused() {
    let door = Door::open().await;
    let long = format!("/static/{}", "a".repeat(8_192));
    let rows = "//static/x /static//x /static/../x /static/./x /static/x/.. /static/%2e%2e/x \
        /static/%2fx /static/%5cx /static/%00 /static/%0a /static/%20 /static/x. /static/a;b \
        /static/..;/x /static/%6frders /static/%256frders /static/%c0%af /static/%EF%BC%8F \
        /static/a\\b /static/a|b /static/x?show=a&show=b /static/x?show=a&SHOW=a * \
        http://evil/static/x /v1/shows/%67ala/board //v1/shows/gala/board";
    let raw = ["/static/caf\u{e9}", long.as_str()];
    for target in rows.split_whitespace().chain(raw) {
        let answer = door.raw(&get(target)).await;
        let refused = answer.starts_with("HTTP/1.1 400") || answer.starts_with("HTTP/1.1 414");
        assert!(refused, "{target:.40}: {answer}");
    }
    assert!(door.shop.reached().is_empty());
    let fine = door.raw(&get("/static/S%C3%A3o%20Paulo?q=%2F")).await;
    assert!(fine.starts_with("HTTP/1.1 200"), "{fine}");
    let reached = door.shop.reached().remove(0);
    assert_eq!(reached.uri.to_string(), "/static/S%C3%A3o%20Paulo?q=%2F");
}

#[tokio::test]
async fn framing_with_two_readings_is_refused() {
    let door = Door::open().await;
    let one_host = "POST /static/x HTTP/1.1\r\nhost: a\r\nconnection: close\r\n";
    for (why, request, statuses) in [
        (
            "two lengths",
            format!("{one_host}content-length: 1\r\ncontent-length: 2\r\n\r\nab"),
            "400",
        ),
        (
            "signed length",
            format!("{one_host}content-length: +1\r\n\r\na"),
            "400",
        ),
        (
            "unknown coding",
            format!("{one_host}transfer-encoding: xchunked\r\n\r\n"),
            "400 501",
        ),
        (
            "chunk size",
            format!("{one_host}transfer-encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n"),
            "400",
        ),
        (
            "space before colon",
            format!("{one_host}x : 1\r\n\r\n"),
            "400",
        ),
        ("folded", format!("{one_host}x: 1\r\n 2\r\n\r\n"), "400"),
        (
            "headers",
            format!("{one_host}{}\r\n", "x: 1\r\n".repeat(100)),
            "431",
        ),
        (
            "header bytes",
            format!("{one_host}x: {}\r\n\r\n", "x".repeat(70_000)),
            "431",
        ),
    ] {
        refuses(&door, why, &request, statuses).await;
    }
    assert!(door.shop.reached().is_empty());
}

#[tokio::test]
async fn hosts_and_methods_with_two_readings_are_refused() {
    let door = Door::open().await;
    let one_host = "POST /static/x HTTP/1.1\r\nhost: a\r\nconnection: close\r\n";
    for (why, request, statuses) in [
        (
            "no host",
            "GET /static/x HTTP/1.1\r\nconnection: close\r\n\r\n".into(),
            "400",
        ),
        ("two hosts", format!("{one_host}host: a\r\n\r\n"), "400"),
        (
            "two hosts, and we are to close",
            "GET /static/x HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n".into(),
            "400",
        ),
        (
            "strange host",
            "GET /static/x HTTP/1.1\r\nhost: u@a\r\nconnection: close\r\n\r\n".into(),
            "400",
        ),
        (
            "version",
            "GET /static/x HTTP/9.9\r\nhost: a\r\n\r\n".into(),
            "400 505",
        ),
        (
            "connect",
            "CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\nconnection: close\r\n\r\n".into(),
            "405 400",
        ),
        (
            "trace",
            "TRACE /static/x HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".into(),
            "405",
        ),
        (
            "method",
            "FOO /static/x HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".into(),
            "405",
        ),
        (
            "expectation",
            format!("{one_host}expect: x\r\ncontent-length: 0\r\n\r\n"),
            "417",
        ),
    ] {
        refuses(&door, why, &request, statuses).await;
    }
    assert!(door.shop.reached().is_empty());
}

/// The answer has one of these statuses.
async fn refuses(door: &Door, why: &str, request: &str, statuses: &str) {
    let answer = door.raw(request.as_bytes()).await;
    let status = answer.split(' ').nth(1).unwrap_or("closed");
    assert!(statuses.contains(status), "{why}: {answer}");
}

#[tokio::test]
async fn a_length_beside_chunks_never_reaches_the_upstream() {
    let door = Door::open().await;
    let both = "POST /static/x HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 5\r\n\
        transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
    door.raw(both.as_bytes()).await;
    for reached in door.shop.reached() {
        let framed = ["content-length", "transfer-encoding"];
        let framings = framed.map(|name| reached.headers.get_all(name).iter().count());
        assert_eq!(framings.iter().sum::<usize>(), 1, "{reached:?}");
        assert_eq!(reached.body, "a");
    }
}

#[tokio::test]
async fn a_refused_body_is_not_the_next_request() {
    let door = Door::open().await;
    let inner = "GET /static/x HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let outer = format!(
        "POST /v1/shows/gala/orders HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{inner}{}",
        inner.len(),
        String::from_utf8(get("/w/gala")).unwrap()
    );
    let answer = door.raw(outer.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    assert!(door.shop.reached().is_empty());
}

fn impatient() -> Plan {
    Plan {
        server: ServerSettings {
            head_max: Duration::from_millis(200),
            body_silence_max: Duration::from_millis(200),
            ..ServerSettings::default()
        },
        ..Plan::default()
    }
}

#[tokio::test]
async fn slow_heads_and_bodies_are_given_up() {
    let door = Door::planned(impatient()).await;
    for slow in ["", "P", "PRI * HT", "GET /static/x HTTP/1.1\r\nhost:"] {
        assert_eq!(door.raw(slow.as_bytes()).await, "", "{slow}");
    }
    let body =
        "POST /static/x HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 9\r\n\r\nx";
    let answer = door.raw(body.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");

    // A second request on a connection has the same time for its head, however long it was idle.
    let mut stream = TcpStream::connect(door.address).await.unwrap();
    stream
        .write_all(b"GET /static/x HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    tokio::time::sleep(Duration::from_millis(400)).await;
    stream.write_all(b"GET /st").await.unwrap();
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    closed.unwrap().unwrap();
}

#[tokio::test]
async fn one_address_cannot_take_every_connection() {
    let mut plan = Plan::default();
    plan.server.connections_per_client_max = 2;
    let door = Door::planned(plan).await;
    let held = [
        TcpStream::connect(door.address).await.unwrap(),
        TcpStream::connect(door.address).await.unwrap(),
    ];
    // The third is closed without a word; on a slow machine the first two may not be counted yet.
    let mut third = TcpStream::connect(door.address).await.unwrap();
    let read = tokio::time::timeout(PATIENCE, third.read(&mut [0; 1]))
        .await
        .unwrap();
    assert!(matches!(read, Ok(0) | Err(_)));
    drop(held);
    while door.raw(&get("/static/x")).await.is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn http_2_in_the_clear_is_spoken_too() {
    let door = Door::open().await;
    let client = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http::<Full<Bytes>>();
    let ask = async |method: &str, path: &str, host: Option<&str>| {
        let uri = format!("http://{}{path}", door.address);
        let mut request = http::Request::builder().method(method).uri(uri);
        if let Some(host) = host {
            request = request.header("host", host);
        }
        let request = request.body(Full::from("{}")).unwrap();
        let answered = tokio::time::timeout(PATIENCE, client.request(request)).await;
        answered
            .unwrap()
            .map(|answer| answer.status().as_u16())
            .ok()
    };
    assert_eq!(ask("POST", "/v1/shows/gala/join", None).await, Some(201));
    assert_eq!(ask("POST", "/static/x", None).await, Some(200));
    let reached = door.shop.reached().remove(0);
    assert_eq!(
        (reached.uri.path(), &reached.body[..]),
        ("/static/x", &b"{}"[..])
    );
    assert_eq!(ask("POST", "/static/%2e%2e/x", None).await, Some(400));
    assert_eq!(ask("POST", "/static/x", Some("elsewhere")).await, Some(400));
    assert_eq!(ask("TRACE", "/static/x", None).await, Some(405));
    assert_eq!(ask("POST", "/v1/shows/gala/orders", None).await, Some(401));
    assert!(door.shop.reached().is_empty());
}

#[tokio::test]
async fn a_drain_finishes_what_was_begun() {
    let door = Door::open().await;
    door.shop.thinks(Duration::from_millis(150));
    let request = get("/static/x");
    let (answer, ()) = tokio::join!(door.raw(&request), async {
        while door.shop.reached().is_empty() {
            tokio::task::yield_now().await;
        }
        door.stop.cancel();
    });
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let address = door.address;
    let ended = tokio::time::timeout(PATIENCE, door.server).await;
    ended.unwrap().unwrap().unwrap();
    assert!(
        TcpStream::connect(address).await.is_err(),
        "nobody listens any more"
    );
}

#[tokio::test]
async fn a_drain_answers_what_was_on_its_way() {
    let door = Door::open().await;
    let mut stream = TcpStream::connect(door.address).await.unwrap();
    let keep = b"GET /v1/shows/gala/board HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(keep).await.unwrap();
    let mut first = [0; 15];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    door.stop.cancel();
    while TcpStream::connect(door.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    // The client cannot know yet.
    stream.write_all(keep).await.unwrap();
    let mut rest = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    read.unwrap().unwrap();
    let rest = String::from_utf8(rest).unwrap();
    let (_, last) = rest.split_once("HTTP/1.1 200 OK").expect("an answer");
    assert!(last.contains("connection: close"), "{last}");
    let ended = tokio::time::timeout(PATIENCE, door.server).await;
    ended.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_drain_has_a_deadline() {
    let mut plan = Plan::default();
    plan.server.drain_max = Duration::from_millis(100);
    plan.settings.upstream_ms = 60_000;
    let door = Door::planned(plan).await;
    door.shop.thinks(Duration::from_secs(60));
    let mut stream = TcpStream::connect(door.address).await.unwrap();
    stream.write_all(&get("/static/x")).await.unwrap();
    while door.shop.reached().is_empty() {
        tokio::task::yield_now().await;
    }
    door.stop.cancel();
    tokio::time::timeout(PATIENCE, door.server)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}
