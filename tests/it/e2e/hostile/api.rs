//! What our own routes are asked (rows 79 to 118): shows, passes, pages, JSON.

use serde_json::json;

use crate::e2e::hostile::site::After::{Closed, Open};
use crate::e2e::hostile::site::{Buyer, Row, Site, answers, get, with};

/// A request with a JSON body.
pub(crate) fn json(line: &str, headers: &str, body: &str) -> String {
    let length = format!(
        "content-type: application/json\r\ncontent-length: {}\r\n",
        body.len()
    );
    with(line, &(length + headers)) + body
}

/// Rows 89 and 95: joining, asking and leaving.
fn line() -> Vec<Row> {
    let mut rows = Vec::new();
    let all = "a}{b | * | gala:queue | gala%0a | gala%20 | {gala} | gala%00 | -gala | Gala | \
        g_a | %C3%A9 | gala%2fx";
    for show in all.split(" | ") {
        for line in [
            format!("POST /v1/shows/{show}/join"),
            format!("GET /v1/shows/{show}/board"),
            format!("GET /w/{show}"),
        ] {
            rows.push(Row::new(89, with(&line, ""), 400, Closed));
        }
    }
    for show in ["unknown", &"a".repeat(63)] {
        rows.push(Row::new(
            89,
            with(&format!("POST /v1/shows/{show}/join"), ""),
            404,
            Open,
        ));
    }
    rows.push(Row::new(
        89,
        with(&format!("POST /v1/shows/{}/join", "a".repeat(64)), ""),
        400,
        Closed,
    ));
    let all = "GET /v1/shows/gala/join | PUT /v1/shows/gala/join | GET /w/gala/join | \
        POST /v1/shows/gala/status | POST /w/gala";
    for line in all.split(" | ") {
        rows.push(Row::new(95, with(line, ""), 405, Open));
    }
    let all = "null | https://evil | http://a.evil | http://evil/a | http://a:81 | a |  | \
        http://A.evil | file://";
    for origin in all.split(" | ") {
        let all = "POST /v1/shows/gala/join | POST /w/gala/join | \
            DELETE /v1/shows/gala/place | POST /w/gala/leave";
        for line in all.split(" | ") {
            rows.push(Row::new(
                95,
                with(line, &format!("origin: {origin}\r\n")),
                403,
                Closed,
            ));
        }
    }
    rows
}

/// Rows 79, 80 and 116: forged passes, none, and keys that are none.
fn passes(buyer: &Buyer) -> Vec<Row> {
    let mut rows = Vec::new();
    let pass = &buyer.pass;
    let half = &pass[..pass.len() / 2];
    for forged in [
        half.to_owned(),
        format!("{pass}A"),
        format!("A{pass}"),
        pass.replace("c1.", "c2."),
        pass.replace("c1.", "c9."),
        "x".repeat(3_000),
        "..".to_owned(),
        "\"\"".to_owned(),
    ] {
        for line in [
            "GET /v1/shows/gala/status",
            "DELETE /v1/shows/gala/place",
            "GET /v1/shows/gala/receipt",
        ] {
            rows.push(Row::new(
                79,
                with(line, &format!("x-catraca-pass: {forged}\r\n")),
                401,
                Open,
            ));
        }
    }
    let all = "GET /v1/shows/gala/status | DELETE /v1/shows/gala/place | \
        GET /v1/shows/gala/receipt | GET /v1/shows/gala/ticket";
    for line in all.split(" | ") {
        rows.push(Row::new(80, with(line, ""), 401, Open));
    }
    for key in [
        "short",
        "has a space in it, and a comma",
        &"k".repeat(65),
        "abcdefghijklmnopqrstu\u{e9}",
        "../../../../etc/passwd0",
        "",
    ] {
        rows.push(Row::new(
            116,
            with(
                "POST /v1/shows/gala/join",
                &format!("idempotency-key: {key}\r\n"),
            ),
            400,
            Closed,
        ));
    }
    rows
}

/// Rows 93, 94 and 96: pages and caches. What is asked of a page beside its name changes nothing.
fn pages() -> Vec<Row> {
    let mut rows = Vec::new();
    let all = "//evil | https:evil | javascript:alert(1) | data:text/html,x | \
        http://good@evil | https://good.evil | %0d%0aSet-Cookie:%20x=1 | /%09/evil";
    for back in all.split(" | ") {
        for name in "return | redirect | url | next".split(" | ") {
            rows.push(Row::new(
                93,
                get(&format!("/w/gala?{name}={back}")),
                200,
                Open,
            ));
        }
    }
    let all = "x-forwarded-host: evil\r\n | x-forwarded-proto: gopher\r\n | \
        x-original-url: /admin\r\n | origin: https://good.evil\r\n | origin: null\r\n | \
        referer: http://evil/<script>\r\n | user-agent: <script>alert(1)</script>\r\n | \
        accept-language: ../../etc/passwd\r\n | accept-language: \"><script>\r\n | \
        if-none-match: *x\r\n";
    for headers in all.split(" | ") {
        rows.push(Row::new(96, with("GET /w/gala", headers), 200, Open));
        rows.push(Row::new(
            94,
            with("GET /v1/shows/gala/board", headers),
            200,
            Open,
        ));
    }
    rows
}

/// Bodies that are not the JSON of any route of ours.
pub(crate) const NO_JSON: [&str; 16] = [
    "",
    "{",
    "}",
    "[]",
    "null",
    "1",
    "\"x\"",
    "{} {}",
    "{}x",
    "{\"a\":1e400}",
    "{\"section\":NaN}",
    "\u{feff}{}",
    "{\"section\":\"\\ud800\",\"quantity\":1}",
    "{'section':'x'}",
    "{\"section\":\"Floor\",\"section\":\"Floor\",\"quantity\":1}",
    "\0",
];

/// Rows 90, 100, 113, 115 and 118: what a buyer asks of our own shop. These reach it: it refuses them,
/// and knows nothing of how they came.
fn buying(buyer: &Buyer) -> Vec<Row> {
    let credentials = buyer.headers();
    let hold = |number, body: &str, status| {
        let key = format!("{credentials}idempotency-key: abcdefghijklmnopqrstuvwxyz\r\n");
        Row::new(
            number,
            json("POST /v1/shows/gala/holds", &key, body),
            status,
            Open,
        )
    };
    let mut rows = Vec::new();
    for body in NO_JSON {
        rows.push(Row::either(
            100,
            hold(100, body, 400).bytes,
            [400, 422],
            Open,
        ));
    }
    rows.push(hold(100, &("[".repeat(1_000) + &"]".repeat(1_000)), 422));
    for (number, body, status) in [
        (113, json!({ "section": "Floor", "quantity": 0 }), 422),
        (113, json!({ "section": "Floor", "quantity": -1 }), 422),
        (113, json!({ "section": "Floor", "quantity": 1.5 }), 422),
        (113, json!({ "section": "Floor", "quantity": "2" }), 422),
        (113, json!({ "section": "Floor", "quantity": 11 }), 422),
        (
            113,
            json!({ "section": "Floor", "quantity": 2_147_483_648_u64 }),
            422,
        ),
        (
            115,
            json!({ "section": "Floor", "quantity": 1, "price": 0 }),
            422,
        ),
        (
            115,
            json!({ "section": "Floor", "quantity": 1, "total": { "amount": 0.0, "currency": "BRL" } }),
            422,
        ),
        (118, json!({ "section": "Nowhere", "quantity": 1 }), 422),
        (
            118,
            json!({ "section": "Floor'; DROP TABLE holds; --", "quantity": 1 }),
            422,
        ),
        (118, json!({ "seats": ["Stand-\u{665}"] }), 422),
        (118, json!({ "seats": ["Stand-1", "Stand-1"] }), 422),
        (118, json!({ "seats": ["Stand-0"] }), 422),
        (118, json!({ "seats": [] }), 422),
        (118, json!({ "seats": ["x".repeat(10_000)] }), 422),
    ] {
        rows.push(hold(number, &body.to_string(), status));
    }
    let all = "text/plain | application/x-www-form-urlencoded | application/json, text/plain | \
        text/json | ";
    for kind in all.split(" | ") {
        let headers = format!(
            "{credentials}idempotency-key: abcdefghijklmnopqrstuvwxyz\r\ncontent-type: {kind}\r\ncontent-length: 2\r\n"
        );
        rows.push(Row::new(
            100,
            with("POST /v1/shows/gala/holds", &headers) + "{}",
            400,
            Open,
        ));
    }
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_own_routes_take_only_what_they_know() {
    let site = Site::open().await;
    let buyer = site.buyer().await;
    let rows = [line(), passes(&buyer), pages()].concat();
    site.judge(site.server.gateway, "own routes", &rows).await;
    // Each with a buyer of its own kind: a ticket may ask only so often.
    for rows in buying(&buyer).chunks(8) {
        let fresh = site.buyer().await;
        let rows: Vec<Row> = rows
            .iter()
            .map(|row| {
                let text = String::from_utf8(row.bytes.clone()).unwrap();
                let text = text.replace(&buyer.headers(), &fresh.headers());
                row.with_bytes(text)
            })
            .collect();
        site.judge(site.server.gateway, "buying", &rows).await;
    }
    // Nothing of a request is in a page that caches keep.
    let page = |headers: &str| {
        let request = with("GET /w/gala", &format!("connection: close\r\n{headers}"));
        let site = &site;
        async move {
            answers(&site.send(request.as_bytes()).await, b"")[0]
                .1
                .split("\r\n\r\n")
                .nth(1)
                .unwrap()
                .to_owned()
        }
    };
    let plain = page("").await;
    for headers in [
        "x-forwarded-host: evil\r\n",
        "cookie: catraca-pass-gala=x\r\n",
        "referer: http://evil\r\n",
    ] {
        assert_eq!(page(headers).await, plain, "{headers}");
    }
}

/// Row 86: an address counts as the hop wrote that we trust.
#[tokio::test]
async fn only_the_hop_of_a_trusted_proxy_counts() {
    let site = Site::open().await;
    for (said, counts) in [
        ("1.2.3.4", "1.2.3.4"),
        ("6.6.6.6, 1.2.3.4", "1.2.3.4"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("1.2.3.4:55", "1.2.3.4"),
        ("[2001:db8::1]:80", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        (", ,", "127.8."),
        ("", "127.8."),
        ("\"1.2.3.4\"", "127.8."),
        ("fe80::1%eth0", "127.8."),
        ("unknown", "127.8."),
        ("1.2.3.4, _hidden", "127.8."),
        ("1.2.3.4,127.0.0.1", "1.2.3.4"),
        ("01.2.3.4", "127.8."),
        ("1.2.3", "127.8."),
        ("0x1.2.3.4", "127.8."),
    ] {
        let request = with(
            "GET /open/x",
            &format!("x-forwarded-for: {said}\r\nconnection: close\r\n"),
        );
        let answer = site.send(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{said}: {answer}");
        let reached = site.shop.reached().remove(0);
        let told: Vec<_> = reached.headers.get_all("x-forwarded-for").iter().collect();
        assert_eq!(told.len(), 1, "{said}");
        assert!(
            told[0].to_str().unwrap().starts_with(counts),
            "{said}: {told:?}"
        );
    }
}
