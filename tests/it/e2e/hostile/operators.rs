//! The doors behind the fans' (rows 101 to 122): operators', and that of our own shop.

use std::net::SocketAddr;

use crate::e2e::hostile::api::{NO_JSON, json};
use crate::e2e::hostile::site::After::{AsRefused, Closed, Open, Passed};
use crate::e2e::hostile::site::{Buyer, Row, Site, get, with};

/// Row 101: who is no operator.
fn no_operator(buyer: &Buyer, token: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for headers in [
        String::new(),
        "authorization: Bearer x\r\n".to_owned(),
        format!("authorization: Bearer {}\r\n", buyer.pass),
        format!("authorization: Bearer {}\r\n", buyer.ticket),
        format!("authorization: Basic {token}\r\n"),
        format!("authorization: {token}\r\n"),
        format!("authorization: bearer{token}\r\n"),
        format!("authorization: Bearer {token}x\r\n"),
        format!("authorization: Bearer {}\r\n", token.to_uppercase()),
        format!("cookie: token={token}\r\n"),
        format!("x-catraca-pass: {}\r\n", buyer.pass),
    ] {
        for line in ["GET /admin/v1/shows", "POST /admin/v1/shows/gala/close"] {
            rows.push(Row::new(101, with(line, &headers), 401, Open));
        }
    }
    let in_query = get(&format!("/admin/v1/shows?token={token}"));
    rows.push(Row::new(101, in_query, 401, Open));
    rows
}

/// Rows 89, 100, 102, 110, 121 and 122: what an operator asks by mistake.
fn mistakes(bearer: &str) -> Vec<Row> {
    let put = |show: &str, body: &str| json(&format!("PUT /admin/v1/shows/{show}"), bearer, body);
    let mut rows = Vec::new();
    for body in NO_JSON {
        rows.push(Row::either(100, put("other", body), [400, 422], AsRefused));
    }
    for rate in "-1 1e12 1.5 \"500\" null 1000000000000 {} [1] true".split(' ') {
        let body = format!("{{\"name\":\"x\",\"rate\":{rate}}}");
        rows.push(Row::new(102, put("other", &body), 422, Open));
    }
    for name in "\"\" | \"a\\nb\" | \"\\u0000\" | \"\\u001b[31m\"".split(" | ") {
        let body = format!("{{\"name\":{name},\"rate\":1}}");
        rows.push(Row::new(110, put("other", &body), 422, Open));
    }
    for show in "a}{b Gala %00 a%2Fb -a a.b".split(' ') {
        let body = "{\"name\":\"x\",\"rate\":1}";
        rows.push(Row::new(89, put(show, body), 400, Closed));
    }
    for (number, line, status) in [
        (122, "GET /admin/v1/dead-letters?limit=1000000000", 200),
        (121, "GET /admin/v1/orders/../../etc/journey", 404),
    ] {
        rows.push(Row::new(number, with(line, bearer), status, Open));
    }
    for framing in [
        "content-length: 0\r\ntransfer-encoding: chunked\r\n",
        "x : 1\r\n",
    ] {
        rows.push(Row::new(1, with("GET /livez", framing), 400, Closed));
    }
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operators_door_takes_only_what_it_knows() {
    let site = Site::open().await;
    let (buyer, token) = (site.buyer().await, site.token());
    let bearer = format!("authorization: Bearer {token}\r\n");
    let rows = [no_operator(&buyer, &token), mistakes(&bearer)].concat();
    site.judge(site.server.admin, "operators", &rows).await;
    // Row 108: by the fans' door nobody gets there.
    let mut tricks = Vec::new();
    for target in "/admin/v1/shows /livez /readyz /metrics /console".split(' ') {
        let port = format!("host: {}", site.server.admin);
        for request in [
            get(target),
            get(target).replace("host: a", "host: admin"),
            get(target).replace("host: a", &port),
            with(&format!("GET {target}"), &bearer),
        ] {
            tricks.push(Row::new(108, request, 404, Open));
        }
    }
    site.judge(site.server.gateway, "operators by the fans' door", &tricks)
        .await;
}

/// Rows 111 and 112: our shop believes the gateway and nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_shop_is_not_reached_past_the_gate() {
    let site = Site::open().await;
    let buyer = site.buyer().await;
    let door: SocketAddr = site.server.orders;
    let body = "{\"section\":\"Floor\",\"quantity\":1}";
    let names = "x-catraca-fan: 00000000000000000000000000000000\r\nx-catraca-show: gala\r\n\
        x-catraca-ticket-id: 00000000000000000000000000000000\r\n\
        x-catraca-nonce: 01a22a74-ed65-7fa3-bebd-be8b26147e81\r\n";
    let mut rows = Vec::new();
    for headers in [
        String::new(),
        buyer.headers(),
        names.to_owned(),
        format!("{names}x-catraca-assertion: x\r\n"),
        format!("{names}x-catraca-assertion: v1.0.AAAA\r\n"),
        format!("{names}x-catraca-assertion: v1.99999999999999.AAAA\r\n"),
        format!("{names}x-catraca-assertion: v1.-1.\r\n"),
        format!("{names}x-catraca-assertion: v2.1.A\r\n"),
        format!("{names}{names}x-catraca-assertion: v1.1.A\r\n"),
    ] {
        let key = format!("{headers}idempotency-key: abcdefghijklmnopqrstuvwxyz\r\n");
        for line in ["POST /v1/shows/gala/holds", "POST /v1/shows/gala/orders"] {
            rows.push(Row::new(111, json(line, &key, body), 401, Open));
        }
        rows.push(Row::new(
            121,
            with("GET /v1/shows/gala/orders", &headers),
            401,
            Open,
        ));
    }
    site.judge(door, "past the gate", &rows).await;

    let row = Row::new(70, with("GET /orders/1", &buyer.headers()), 200, Passed);
    site.judge(site.server.gateway, "by the gate", &[row]).await;
}
