//! The doors behind the fans' (rows 101 to 122): operators', and that of our own shop.

use std::net::SocketAddr;

use catraca::base::ids::{FanId, IdSource, RequestId, ShowId};
use catraca::base::secret::Secret;
use catraca::base::time::{Clock, SystemClock, Timestamp};
use catraca::token::assertion::{self, Asserted};
use catraca::token::ticket::Ticket;

use crate::e2e::hostile::api::{NO_JSON, json};
use crate::e2e::hostile::site::After::{AsRefused, Closed, Open, Passed};
use crate::e2e::hostile::site::{Buyer, MARK, Row, Site, get, with};

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
    // What is wrong is said without what was sent.
    for wrong in [
        "\"MARK\":1",
        "\"rate\":\"MARK\"",
        "\"message\":{\"MARK\":\"x\"}",
        "\"opens_at\":\"MARK\"",
        "\"shop_url\":\"MARK\"",
        "\"draw\":\"MARK, expected MARK\"",
        "\"sections\":[{\"name\":\"MARK\",\"seats\":1,\"price\":{\"amount\":1,\"currency\":\"BRL\"}}]",
        "\"sections\":[{\"name\":\"B\",\"seats\":1,\"price\":{\"amount\":1,\"currency\":\"MARK\"}}]",
    ] {
        let rate = if wrong.starts_with("\"rate") {
            ""
        } else {
            "\"rate\":1,"
        };
        let body = format!("{{\"name\":\"x\",{rate}{wrong}}}").replace("MARK", MARK);
        rows.push(Row::new(110, put("other", &body), 422, Open));
    }
    for show in "a}{b Gala %00 a%2Fb -a a.b".split(' ') {
        let body = "{\"name\":\"x\",\"rate\":1}";
        rows.push(Row::new(89, put(show, body), 400, Closed));
    }
    let echo = |path: &str| format!("GET {path}?after={MARK}");
    for (number, line, status) in [
        (122, "GET /admin/v1/dead-letters?limit=1000000000", 200),
        (122, "GET /admin/v1/dead-letters?after=-1", 400),
        (122, &echo("/admin/v1/dead-letters"), 400),
        (122, &echo("/admin/v1/shows/gala/sales"), 400),
        (121, "GET /admin/v1/orders/../../etc/journey", 404),
        (102, "DELETE /admin/v1/shows/gala", 405),
        (102, "PUT /livez", 405),
    ] {
        let then = if status == 400 { Closed } else { Open };
        rows.push(Row::new(number, with(line, bearer), status, then));
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

/// Row 109: what a page of another site can make a browser send to the operators' door, and a page of it
/// can be framed by.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_other_site_acts_for_an_operator() {
    let site = Site::open().await;
    let token = site.token();
    let form = "content-type: application/x-www-form-urlencoded\r\ncontent-length: 1\r\n";
    let cookie = format!("cookie: token={token}; catraca-admin={token}; session={token}\r\n");
    let mut rows = Vec::new();
    for origin in ["https://evil", "null", "http://a"] {
        let from = format!("origin: {origin}\r\nsec-fetch-site: cross-site\r\n{cookie}");
        for verb in ["close", "pause", "off"] {
            let line = format!("POST /admin/v1/shows/gala/{verb}");
            rows.push(Row::new(
                109,
                with(&line, &(from.clone() + form)) + "x",
                401,
                Open,
            ));
            let asks = format!(
                "{from}access-control-request-method: POST\r\naccess-control-request-headers: authorization\r\n"
            );
            let line = format!("OPTIONS /admin/v1/shows/gala/{verb}");
            rows.push(Row::new(109, with(&line, &asks), 401, Open));
        }
        rows.push(Row::new(109, with("GET /admin/v1/shows", &from), 401, Open));
    }
    site.judge(site.server.admin, "other sites", &rows).await;
    // A browser reads the answer to what it asks first: nothing in it lets a script of another site go on.
    for row in &rows {
        let request = String::from_utf8_lossy(&row.bytes).replacen(
            "host: a\r\n",
            "host: a\r\nconnection: close\r\n",
            1,
        );
        let answer = site.send_to(site.server.admin, request.as_bytes()).await;
        assert!(
            !answer.to_lowercase().contains("access-control-"),
            "{answer}"
        );
    }
    site.is_open().await; // nobody closed, paused or switched off
    for page in ["/w/gala", "/w/gala/place"] {
        let asked = with(&format!("GET {page}"), "connection: close\r\n");
        let answer = site.send(asked.as_bytes()).await.to_lowercase();
        let policy = answer
            .lines()
            .find(|line| line.starts_with("content-security-policy:"));
        assert!(
            policy.is_some_and(|policy| policy.contains("frame-ancestors 'none'")),
            "{answer}"
        );
    }
}

/// What the gateway would say to our shop of a request.
struct Identity {
    fan: FanId,
    ticket: Ticket,
    secret: Secret,
    nonce: RequestId,
    at: Timestamp,
}

impl Identity {
    /// As headers, for this method and path.
    fn headers(&self, method: &str, path: &str) -> String {
        let show: ShowId = "gala".parse().unwrap();
        let asserted = Asserted {
            fan: self.ticket.fan,
            show: &show,
            ticket_id: Some(self.ticket.id),
            nonce: self.nonce,
            method,
            path,
        };
        let proof = assertion::sign(&asserted, &self.secret, self.at);
        format!(
            "x-catraca-fan: {}\r\nx-catraca-show: gala\r\nx-catraca-ticket-id: {}\r\n\
             x-catraca-nonce: {}\r\n{}: {proof}\r\n",
            self.fan,
            self.ticket.id,
            self.nonce,
            assertion::HEADER
        )
    }
}

/// Row 112: an identity that was asserted once says nothing of another request, nor of the same again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_identity_is_for_one_request() {
    const ORDERS: &str = "/v1/shows/gala/orders";
    const HOLDS: &str = "/v1/shows/gala/holds";
    let site = Site::open().await;
    let (ids, now) = (IdSource::random(), || SystemClock.now());
    let buyer = site.buyer().await;
    let ticket = Ticket::verify(&buyer.ticket, &"gala".parse().unwrap(), &site.keys()).unwrap();
    let identity = || Identity {
        fan: ticket.fan,
        ticket: ticket.clone(),
        secret: site.keys().upstream_secret("orders"),
        nonce: ids.request(now()),
        at: now(),
    };
    let looks = |headers: &str| with(&format!("GET {ORDERS}"), headers);
    let holds = |headers: &str, quantity: u32| {
        let body = format!("{{\"section\":\"Floor\",\"quantity\":{quantity}}}");
        json(&format!("POST {HOLDS}"), headers, &body)
    };
    let (seen, held) = (identity(), identity());
    let (seen, held) = (seen.headers("GET", ORDERS), held.headers("POST", HOLDS));
    let refused = |request: String| Row::new(112, request, 401, Open);
    let with_identity = |change: &dyn Fn(&mut Identity)| {
        let mut changed = identity();
        change(&mut changed);
        refused(looks(&changed.headers("GET", ORDERS)))
    };
    let rows = [
        Row::new(112, looks(&seen), 200, Open),
        refused(looks(&seen)), // again
        refused(holds(&seen, 1)),
        Row::new(112, holds(&held, 1), 201, Open),
        refused(holds(&held, 1)),
        refused(holds(&held, 2)), // with another body
        refused(looks(&identity().headers("POST", ORDERS))),
        refused(looks(&identity().headers("GET", HOLDS))),
        refused(looks(&identity().headers("GET", &format!("{ORDERS}?x=1")))),
        with_identity(&|it| it.fan = FanId([7; 16])),
        with_identity(&|it| it.secret = Secret::new("the secret of another upstream, or a guess")),
        with_identity(&|it| it.secret = site.keys().upstream_secret("shop")),
        with_identity(&|it| it.at = now().minus_ms(6_000)),
        with_identity(&|it| it.at = now().plus_ms(6_000)),
    ];
    site.judge(site.server.orders, "identities", &rows).await;
}
