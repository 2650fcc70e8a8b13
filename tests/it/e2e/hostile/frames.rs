//! HTTP/2 by hand (rows 32 to 34): requests that are none, and floods.

use std::collections::BTreeMap;

use crate::e2e::hostile::site::Site;
use crate::e2e::hostile::wire::Outcome::{Closed, GoAway, Reset, Status};
use crate::e2e::hostile::wire::{
    DATA, END_HEADERS, END_STREAM, HEADERS, Outcome, Wire, block, frame, honest, request,
};

/// `PROTOCOL_ERROR`.
const PROTOCOL: u32 = 1;

type Headers<'a> = Vec<(&'a str, &'a str)>;

/// An honest request, changed: a header of this name is replaced, or there is one more.
pub(crate) fn changed<'a>(name: &'a str, value: &'a str) -> Headers<'a> {
    let mut headers = honest("/open/x").to_vec();
    match headers.iter_mut().find(|(known, _)| *known == name) {
        Some(header) => header.1 = value,
        None => headers.push((name, value)),
    }
    headers
}

fn more<'a>(name: &'a str, value: &'a str) -> Headers<'a> {
    let mut headers = honest("/open/x").to_vec();
    headers.push((name, value));
    headers
}

fn without(name: &str) -> Headers<'static> {
    honest("/open/x")
        .into_iter()
        .filter(|(known, _)| *known != name)
        .collect()
}

/// Requests whose head is malformed, and what becomes of them.
fn malformed() -> Vec<(u8, Headers<'static>, &'static [Outcome])> {
    const REFUSED: &[Outcome] = &[Reset(PROTOCOL), GoAway(PROTOCOL), Status(400)];
    let mut rows: Vec<(u8, Headers<'static>, &'static [Outcome])> = Vec::new();
    for name in [":path", ":method", ":scheme"] {
        rows.push((33, without(name), REFUSED));
    }
    for (name, value) in [
        (":path", "/open/y"),
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "b"),
        (":status", "200"),
        (":foo", "x"),
    ] {
        rows.push((33, more(name, value), REFUSED));
    }
    let all = " | open/x | * | /open/ x | /open/x\r\nx: y | /open/\u{e9} | http://a/open/x | \
        /open/x HTTP/1.1\r\nhost: b";
    for path in all.split(" | ") {
        rows.push((33, changed(":path", path), REFUSED));
    }
    let all = "/open/../orders | //open/x | /open/%2e%2e/orders | /open/x?show=1&show=2 | \
        /open/..;/orders | /open\\x";
    for path in all.split(" | ") {
        rows.push((42, changed(":path", path), REFUSED));
    }
    for authority in "u@a | a b | a/b | a:99999 |  | a\r\nb | a,b".split(" | ") {
        rows.push((33, changed(":authority", authority), REFUSED));
    }
    for (name, value) in [
        ("host", "b"),
        ("X-Upper", "1"),
        ("connection", "close"),
        ("connection", "keep-alive"),
        ("keep-alive", "5"),
        ("proxy-connection", "x"),
        ("transfer-encoding", "chunked"),
        ("transfer-encoding", "identity"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
        ("te", "trailers, deflate"),
        ("x", "a\r\nb: c"),
        ("x", "a\nb"),
        ("x", "a\rb"),
        ("x", "a\0b"),
        ("x\r\ny", "1"),
        ("x y", "1"),
        ("", "1"),
        ("x:", "1"),
        ("content-length", "+0"),
        ("content-length", "x"),
        ("content-length", "-1"),
        ("content-length", "0x0"),
        ("content-length", "5"),
        ("content-length", "0, 0"),
        ("content-length", "18446744073709551616"),
    ] {
        rows.push((33, more(name, value), REFUSED));
    }
    for method in "get | G T |  | FOO | TRACE | GET\r\n".split(" | ") {
        const REFUSED: &[Outcome] = &[Reset(PROTOCOL), GoAway(PROTOCOL), Status(400), Status(405)];
        rows.push((38, changed(":method", method), REFUSED));
    }
    rows
}

pub(crate) async fn is_served(wire: &mut Wire, stream: u32) -> bool {
    wire.write(&request(stream, &honest("/.well-known/jwks.json")))
        .await
        && wire.outcome(stream).await == Status(200)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_over_http_2_have_one_reading_or_none() {
    let site = Site::open().await;
    let (mut wrong, mut counts) = (Vec::new(), BTreeMap::<u8, usize>::new());
    for (number, headers, outcomes) in malformed() {
        *counts.entry(number).or_default() += 1;
        let mut wire = Wire::open(&site).await;
        wire.write(&request(1, &headers)).await;
        let outcome = wire.outcome(1).await;
        // Streams are framed by themselves, so that others of the connection go on, unless it ended.
        let goes_on = matches!(outcome, Reset(_) | Status(_));
        let reached = site.shop.reached().len();
        if !outcomes.contains(&outcome) || reached != 0 || goes_on != is_served(&mut wire, 3).await
        {
            wrong.push(format!(
                "row {number}, {headers:?}: {outcome:?}, {reached} reached the shop"
            ));
        }
    }
    eprintln!("hostile HTTP/2 heads, by row of the catalogue {counts:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mut wire = Wire::open(&site).await;
    wire.write(&request(1, &honest("/open/x"))).await;
    assert_eq!(
        (wire.outcome(1).await, site.shop.reached().len()),
        (Status(200), 1)
    );
}

/// Row 33: a length that is not the body's. Row 34: CONNECT, with a protocol and without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_has_the_length_that_was_said() {
    let site = Site::open().await;
    let post = |length: &'static str| {
        let mut headers = changed(":method", "POST");
        headers.push(("content-length", length));
        frame(HEADERS, END_HEADERS, 1, &block(&headers))
    };
    let data = |flags, text: &str| frame(DATA, flags, 1, text.as_bytes());
    let smuggled = "GET /open/h HTTP/1.1\r\nhost: a\r\n\r\n";
    let connect = [(":method", "CONNECT"), (":authority", "a:80")];
    let extended = [
        connect.as_slice(),
        &[
            (":protocol", "websocket"),
            (":scheme", "http"),
            (":path", "/open/x"),
        ],
    ]
    .concat();
    for (what, frames) in [
        ("less", [post("9"), data(END_STREAM, "abc")].concat()),
        ("more", [post("3"), data(END_STREAM, "abcdefghi")].concat()),
        (
            "a request",
            [post("0"), data(END_STREAM, smuggled)].concat(),
        ),
        ("none", [post("3"), data(END_STREAM, "")].concat()),
        (
            "trailers early",
            [
                post("3"),
                frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[("x", "1")])),
            ]
            .concat(),
        ),
        (
            "after the end",
            [
                post("3"),
                data(END_STREAM, "abc"),
                data(END_STREAM, smuggled),
            ]
            .concat(),
        ),
        ("connect", request(1, &connect)),
        ("connect with a protocol", request(1, &extended)),
    ] {
        let mut wire = Wire::open(&site).await;
        wire.write(&frames).await;
        let outcome = wire.outcome(1).await;
        let reached = site.shop.reached();
        let refused = matches!(outcome, Reset(_) | GoAway(_) | Closed | Status(400..=499));
        assert!(refused || what == "after the end", "{what}: {outcome:?}");
        assert!(
            reached
                .iter()
                .all(|reached| what == "after the end" && reached.body == "abc"),
            "{what}: {reached:?}"
        );
    }
}
