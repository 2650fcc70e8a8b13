//! What headers say (rows 13, 14, 21 to 29, 39 and 52): hosts, hops, upgrades, sizes, impostors.

use crate::e2e::hostile::site::After::{Closed, Open, Passed};
use crate::e2e::hostile::site::{Buyer, Row, Site, get, with};

/// Rows 13 and 14: the one host.
fn hosts() -> Vec<Row> {
    let hostless = |line: &str, hosts: &str| format!("{line} HTTP/1.1\r\n{hosts}\r\n");
    let mut rows = vec![Row::new(13, hostless("GET /open/x", ""), 400, Closed)];
    for host in [
        "",
        "u@a",
        "a/b",
        "a b",
        "a:99999",
        "a:-1",
        "a:",
        "a:80:80",
        "a?b",
        "a#b",
        "a\\b",
        "[::1",
        "::1",
        "a,b",
        "[x]",
        "http://a",
        "a\u{e9}",
        "%61",
        "a_b",
        "a;b",
        "*",
        "<a>",
        "..\\a",
        &"a".repeat(300),
    ] {
        let request = hostless("GET /open/x", &format!("host: {host}\r\n"));
        rows.push(Row::new(13, request, 400, Closed));
    }
    let all = "host: a\r\nhost: b\r\n | host: a\r\nhost: a\r\n | host: a\r\nHost: a\r\n | \
        host: a\r\nhost:\r\n";
    for hosts in all.split(" | ") {
        rows.push(Row::new(13, hostless("GET /open/x", hosts), 400, Closed));
    }
    let all = "http://evil/open/x | http://evil/orders | https://evil/open/x | \
        http://a@evil/open/x | http://a:81/open/x | ftp://a/open/x | http:///open/x | \
        http://a/open/../orders | http://a//open/x | //a/open/x | a:80 | http:/open/x | \
        javascript:x | file:///etc/passwd | http://a\\@evil/open/x | http://[::1/open/x";
    for target in all.split(" | ") {
        rows.push(Row::new(
            14,
            with(&format!("GET {target}"), ""),
            400,
            Closed,
        ));
    }
    rows.push(Row::new(14, get("http://a/open/x"), 200, Passed));
    rows.push(Row::new(14, get("http://a/orders/1"), 401, Open));
    rows
}

/// Rows 22 to 24: to speak otherwise. Upgrades do not pass; the request is answered as it is, and
/// the connection ends, for what follows may be meant otherwise. It has reached the shop as a plain
/// request.
fn upgrades() -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, headers) in [
        (22, "connection: upgrade\r\nupgrade: websocket\r\n"),
        (
            23,
            "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
        ),
        (23, "upgrade: h2c\r\n"),
        (
            24,
            "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 99\r\n",
        ),
        (
            24,
            "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\norigin: https://evil\r\n",
        ),
        (22, "connection: upgrade\r\nupgrade: TLS/1.0, HTTP/1.1\r\n"),
    ] {
        rows.push(Row::new(
            number,
            with("GET /orders/1", headers),
            401,
            Closed,
        ));
    }
    rows
}

/// Rows 27 and 29: too much of it.
fn sizes() -> Vec<Row> {
    let mut rows = Vec::new();
    for count in [65, 101, 1_000] {
        rows.push(Row::new(
            27,
            with("GET /open/x", &"x: 1\r\n".repeat(count)),
            431,
            Closed,
        ));
    }
    for bytes in [65_536, 131_072] {
        rows.push(Row::new(
            27,
            with("GET /open/x", &format!("x: {}\r\n", "a".repeat(bytes))),
            431,
            Closed,
        ));
    }
    let wide = format!("x: {}\r\n", "a".repeat(10_000)).repeat(52);
    rows.push(Row::new(27, with("GET /open/x", &wide), 431, Closed));
    let name = format!("{}: 1\r\n", "n".repeat(66_000));
    rows.push(Row::new(27, with("GET /open/x", &name), 431, Closed));
    for bytes in [8_193, 60_000, 70_000] {
        rows.push(Row::new(
            27,
            get(&format!("/open/{}", "a".repeat(bytes))),
            414,
            Closed,
        ));
        rows.push(Row::new(
            53,
            get(&format!("/open/x?{}", "a".repeat(bytes))),
            414,
            Closed,
        ));
    }
    let long = "x".repeat(1_048_577);
    let sized = format!("content-length: {}\r\n", long.len());
    rows.push(Row::new(
        29,
        with("POST /open/x", &sized) + &long,
        413,
        Closed,
    ));
    rows.push(Row::new(
        29,
        with("POST /open/x", "content-length: 999999999999\r\n"),
        413,
        Closed,
    ));
    let chunked = with("POST /open/x", "transfer-encoding: chunked\r\n");
    rows.push(Row::new(
        29,
        format!("{chunked}{:x}\r\n{long}\r\n0\r\n\r\n", long.len()),
        413,
        Closed,
    ));
    rows
}

/// Rows 26, 28, 39, 52 and 21: headers by which a client would speak for a proxy, or for us.
const IMPOSTORS: [(u8, &str); 44] = [
    (26, "proxy-authorization: Basic x"),
    (26, "proxy-connection: keep-alive"),
    (26, "keep-alive: timeout=5"),
    (26, "proxy: http://evil"),
    (26, "connection: keep-alive, te"),
    (26, "te: gzip"),
    (28, "x_catraca_fan: 00"),
    (28, "X_CATRACA_ASSERTION: 00"),
    (28, "x_forwarded_for: 1.2.3.4"),
    (28, "content_length: 9"),
    (28, "transfer_encoding: chunked"),
    (28, "x-catraca_fan: 00"),
    (39, "x-http-method-override: DELETE"),
    (39, "x-http-method: DELETE"),
    (39, "x-method-override: DELETE"),
    (39, "X-HTTP-Method-Override: POST"),
    (52, "x-original-url: /orders"),
    (52, "x-rewrite-url: /orders"),
    (52, "x-original-uri: /orders"),
    (52, "x-original-method: POST"),
    (52, "x-forwarded-prefix: /orders"),
    (52, "x-forwarded-path: /orders"),
    (52, "x-forwarded-uri: /orders"),
    (52, "x-forwarded-port: 1"),
    (52, "x-forwarded-server: evil"),
    (52, "x-forwarded-scheme: https"),
    (52, "x-forwarded-user: admin"),
    (52, "forwarded: for=1.2.3.4;host=evil"),
    (52, "x-accel-redirect: /orders"),
    (52, "x-real-ip: 1.2.3.4"),
    (52, "x-client-ip: 1.2.3.4"),
    (52, "true-client-ip: 1.2.3.4"),
    (52, "client-ip: 1.2.3.4"),
    (52, "x-cluster-client-ip: 1.2.3.4"),
    (22, "x-catraca-fan: 00000000000000000000000000000000"),
    (22, "x-catraca-show: gala"),
    (22, "x-catraca-ticket-id: 00"),
    (22, "x-catraca-nonce: 00"),
    (22, "x-catraca-assertion: v1 1 x"),
    (22, "X-Catraca-Anything: 1"),
    (22, "catraca-admission: consumed"),
    (22, "catraca-stock: 0"),
    (21, "cookie: catraca-ticket-gala=x; catraca-pass-other=y"),
    (21, "cookie: __Host-catraca-pass-gala=x"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_have_one_reading_or_none() {
    let site = Site::open().await;
    let rows = [hosts(), upgrades(), sizes()].concat();
    site.judge(site.server.gateway, "headers", &rows).await;
}

/// Row 26: what a client says of its own hop ends there. That it reads trailers we say anew, on ours.
#[tokio::test]
async fn only_trailers_are_asked_for_anew() {
    let site = Site::open().await;
    let line = "te: gzip, trailers\r\nconnection: close, te\r\n";
    let answer = site.send(with("GET /open/x", line).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let reached = site.shop.reached();
    assert_eq!(reached.len(), 1);
    let said = |name: &str| -> Vec<&[u8]> {
        let lines = reached[0].headers.get_all(name);
        lines.iter().map(|line| line.as_bytes()).collect()
    };
    assert_eq!(
        (said("te"), said("connection")),
        (vec![&b"trailers"[..]], vec![&b"te"[..]])
    );
}

#[tokio::test]
async fn nobody_speaks_for_a_proxy_or_for_us() {
    let site = Site::open().await;
    for (number, line) in IMPOSTORS {
        let request = with("GET /open/x", &format!("{line}\r\nconnection: close\r\n"));
        let answer = site.send(request.as_bytes()).await;
        assert!(
            answer.starts_with("HTTP/1.1 200"),
            "row {number}, {line}: {answer}"
        );
        let reached = site.shop.reached();
        assert_eq!(reached.len(), 1, "row {number}, {line}");
        let (name, value) = line.split_once(": ").unwrap();
        let ours = [
            "host",
            "x-mark",
            "via",
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-forwarded-host",
            "x-request-id",
        ];
        for (reached, said) in &reached[0].headers {
            assert!(
                ours.contains(&reached.as_str()),
                "row {number}, {line}: {reached}"
            );
            let repeats = 2 < value.len() && said.as_bytes().ends_with(value.as_bytes());
            assert!(!repeats, "row {number}, {line}: {reached}");
            assert!(
                !reached.as_str().eq_ignore_ascii_case(name),
                "row {number}, {line}: {reached}"
            );
        }
    }
    eprintln!("hostile impostors: {} requests", IMPOSTORS.len());
}

/// Row 21: what we add cannot be nominated away, and what is ours does not pass.
#[tokio::test]
async fn nobody_nominates_away_what_we_add() {
    let site = Site::open().await;
    let Buyer { pass, ticket } = site.buyer().await;
    let all = "close, x-catraca-fan | close, X-Catraca-Assertion | \
        close, x-catraca-nonce, x-catraca-show | close, authorization | close, cookie | \
        close, x-forwarded-for | close, host | close, content-length | \
        close, x-admission-ticket | close, x-catraca-pass | close, x-request-id, , ,";
    for nominated in all.split(" | ") {
        let headers = format!(
            "x-catraca-pass: {pass}\r\nx-admission-ticket: {ticket}\r\nconnection: {nominated}\r\ncontent-length: 1\r\n"
        );
        let answer = site
            .send((with("POST /orders/1", &headers) + "a").as_bytes())
            .await;
        // Whoever takes their own credentials away has none, or is let in: both are one reading.
        let reached = site.shop.reached();
        assert!(answer.starts_with("HTTP/1.1 200"), "{nominated}: {answer}");
        let headers = &reached[0].headers;
        let all = "x-catraca-fan | x-catraca-show | x-catraca-ticket-id | x-catraca-nonce | \
            x-catraca-assertion";
        for added in all.split(" | ") {
            assert_eq!(
                headers.get_all(added).iter().count(),
                1,
                "{nominated}: {added}"
            );
        }
        assert!(
            headers.contains_key("x-forwarded-for") && headers.contains_key("host"),
            "{nominated}"
        );
        assert!(
            !headers.contains_key("x-admission-ticket") && !headers.contains_key("x-catraca-pass")
        );
        assert_eq!(reached[0].body, "a", "{nominated}");
    }
}
