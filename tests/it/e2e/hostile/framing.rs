//! Where a request ends (rows 1 to 20 and 36): lengths, chunks, line ends, versions.

use crate::e2e::hostile::site::After::{Closed, Open, Passed, PassedLast};
use crate::e2e::hostile::site::{Row, Site, get, with};

const POST: &str = "POST /open/x";

fn refused(number: u8, headers: &str, body: &str) -> Row {
    Row::new(number, with(POST, headers) + body, 400, Closed)
}

/// Rows 1 and 2: a length beside chunks. Nothing is repaired, so the one answer is 400.
fn both_framings() -> Vec<Row> {
    let mut rows = Vec::new();
    let all = "Transfer-Encoding: chunked | transfer-encoding: chunked | \
        TRANSFER-ENCODING: CHUNKED | Transfer-Encoding:chunked";
    for chunked in all.split(" | ") {
        for length in "0 | 4 | 5 | 43".split(" | ") {
            let length = format!("content-length: {length}");
            for (number, first, second) in [(1, &*length, chunked), (2, chunked, &*length)] {
                let headers = format!("{first}\r\n{second}\r\n");
                rows.push(refused(number, &headers, "1\r\na\r\n0\r\n\r\n"));
            }
        }
    }
    rows
}

/// Rows 3 to 6: lengths that two readers would read differently.
fn lengths() -> Vec<Row> {
    let two = |first: &str, second: &str| {
        format!("content-length: {first}\r\nContent-Length: {second}\r\n")
    };
    let mut rows = Vec::new();
    for (first, second) in [("1", "2"), ("0", "5"), ("5", "0"), ("5", "6"), ("05", "5")] {
        rows.push(refused(3, &two(first, second), "abcde"));
    }
    for length in ["0", "5"] {
        rows.push(refused(4, &two(length, length), "abcde"));
    }
    let all = "5, 5 | 5,5 | 5;5 | 5, | ,5 | +5 |  5 | 5  | 0x5 | -1 | -0 | 5.0 |  | 05 | 5_0 | \
        1e1 | NaN | \t5 | 5\t | 5\u{b} | \u{665} | 5a | a5 | 18446744073709551616 | \
        18446744073709551615 | 9223372036854775808 | 99999999999999999999999999 | '5' | \
        \"5\" | 5 5 | 0 5 | true";
    for length in all.split(" | ") {
        let number = if length.contains(',') || length.contains(';') {
            4
        } else {
            5
        };
        rows.push(refused(
            number,
            &format!("content-length: {length}\r\n"),
            "abcde",
        ));
    }
    let all = "transfer-encoding : chunked | transfer-encoding\t: chunked |  transfer-encoding: chunked | \
        \ttransfer-encoding: chunked | content-length : 5 | content-length\t: 5 |  content-length: 5 | \
        content-length\u{b}: 5 | content length: 5 | x-any : 1 | (x): 1 | x\u{e9}: 1 | \
        : 1 | no colon";
    for header in all.split(" | ") {
        rows.push(refused(6, &format!("{header}\r\n"), "abcde"));
    }
    rows
}

/// Rows 7 and 8: codings.
fn codings() -> Vec<Row> {
    let mut rows = Vec::new();
    let all = "xchunked | chunkedx | chunked, identity | identity, chunked | identity | \
        chunked\u{b} | \u{b}chunked | \"chunked\" | 'chunked' | chunked, chunked | \
        gzip, chunked | chunked, gzip | gzip | deflate |  | chunked;q=1 | chunked , | \
        , chunked | ,chunked | chu nked | \tchunked | chunked\t | chunked  |  chunked | \
        chunked\0 | c\u{212a}unked | trailers | chunked/1";
    for coding in all.split(" | ") {
        rows.push(refused(
            7,
            &format!("transfer-encoding: {coding}\r\n"),
            "0\r\n\r\n",
        ));
    }
    for (first, second) in [
        ("chunked", "chunked"),
        ("chunked", "identity"),
        ("identity", "chunked"),
        ("x", "chunked"),
    ] {
        let headers = format!("transfer-encoding: {first}\r\ntransfer-encoding: {second}\r\n");
        rows.push(refused(7, &headers, "0\r\n\r\n"));
    }
    for length in ["", "content-length: 5\r\n"] {
        let request = format!(
            "POST /open/x HTTP/1.0\r\nhost: a\r\n{length}transfer-encoding: chunked\r\n\r\n0\r\n\r\n"
        );
        rows.push(Row::new(8, request, 400, Closed));
    }
    rows
}

/// Rows 9 to 11: chunks. Their request has been begun at the shop; it never becomes whole there.
fn chunks() -> Vec<Row> {
    let chunked = |number, body: &str| refused(number, "transfer-encoding: chunked\r\n", body);
    let mut rows = Vec::new();
    let all = "0x5 | 5  |  5 | +5 | -5 | -1 | 5\t | 5\u{b} | f0000000000000005 | \
        ffffffffffffffff | 5, | 5,5 | g |  | 5_ | \u{665} | 0x | 5h | '5' | 5.0 | 5; | \
        0000000000000005";
    for size in all.split(" | ") {
        rows.push(chunked(9, &format!("{size}\r\nabcde\r\n0\r\n\r\n")));
    }
    let long = format!("5;{}\r\nabcde\r\n0\r\n\r\n", "a".repeat(65_536));
    for body in [
        "5;a=b\r\nabcde\r\n0\r\n\r\n",
        "5;a\r\nabcde\r\n0\r\n\r\n",
        "5 ;a\r\nabcde\r\n0\r\n\r\n",
        "5;a\nb\r\nabcde\r\n0\r\n\r\n",
        "5;a\rb\r\nabcde\r\n0\r\n\r\n",
        "5\nabcde\r\n0\r\n\r\n",
        "5\rabcde\r\n0\r\n\r\n",
        "5\r\nabcde\n0\r\n\r\n",
        "5\r\nabcde\r0\r\n\r\n",
        "5\r\nabcdef\r\n0\r\n\r\n",
        "5\r\nabcde0\r\n\r\n",
        "5\r\nabcde\r\n0\n\n",
        "5\r\nabcde\r\n0\r\n\n",
        "5\r\nabcde\r\n0\r\n",
        "0;a=b\r\n\r\n",
        &long,
    ] {
        rows.push(chunked(10, body));
    }
    let all = "content-length: 5 | Transfer-Encoding: chunked | host: b | HOST: b | \
        trailer: x | content-encoding: gzip | x : 1 |  x: 1 | x | x: \0 | x: 1\rb";
    for trailer in all.split(" | ") {
        rows.push(chunked(11, &format!("1\r\na\r\n0\r\n{trailer}\r\n\r\n")));
    }
    let all = "x-checksum: 1 | authorization: Basic x | x-admission-ticket: x | \
        x-catraca-fan: x";
    for trailer in all.split(" | ") {
        let request = with(POST, "transfer-encoding: chunked\r\n")
            + &format!("1\r\na\r\n0\r\n{trailer}\r\n\r\n");
        rows.push(Row::new(11, request, 200, Passed));
    }
    rows
}

/// Row 12: line ends and characters that no line has.
fn lines() -> Vec<Row> {
    let mut rows = Vec::new();
    let all = "GET /open/x HTTP/1.1\nhost: a\n\n | GET /open/x HTTP/1.1\r\nhost: a\n\r\n | \
        GET /open/x HTTP/1.1\r\nhost: a\r\n\n | GET /open/x HTTP/1.1\nhost: a\r\n\r\n | \
        GET /open/x HTTP/1.1\r\nhost: a\r\n\r\r\n\r\n | \
        \r\nGET /open/x HTTP/1.1\r\nhost: a\r\n\r\n | \
        \nGET /open/x HTTP/1.1\r\nhost: a\r\n\r\n |  GET /open/x HTTP/1.1\r\nhost: a\r\n\r\n | \
        GET  /open/x HTTP/1.1\r\nhost: a\r\n\r\n | \
        GET /open/x  HTTP/1.1\r\nhost: a\r\n\r\n | \
        GET\t/open/x HTTP/1.1\r\nhost: a\r\n\r\n | \
        GET /open/x\tHTTP/1.1\r\nhost: a\r\n\r\n | \
        GET /open/x HTTP/1.1 \r\nhost: a\r\n\r\n | \
        GET /open/x HTTP/1.1\r\r\nhost: a\r\n\r\n | \
        GET /open/x y HTTP/1.1\r\nhost: a\r\n\r\n | \
        GET /open/x\0 HTTP/1.1\r\nhost: a\r\n\r\n | \
        GET /open/x\u{7f} HTTP/1.1\r\nhost: a\r\n\r\n | \
        GET /open/x\u{b}HTTP/1.1\r\nhost: a\r\n\r\n | \
        GET /open/\u{e9} HTTP/1.1\r\nhost: a\r\n\r\n";
    for request in all.split(" | ") {
        rows.push(Row::new(12, request, 400, Closed));
    }
    let all = "a\rb | a\r | a\0b | \u{1} | \u{7f} | \u{1b}[0m | a\u{8} | a\r\n b | a\r\n\tb | \
        a\nb: c | a\rb: c";
    for value in all.split(" | ") {
        rows.push(refused(12, &format!("x: {value}\r\n"), ""));
    }
    for name in "x\0 | x\u{1} | x\ry | x y | x( | x@y | x\u{7f} | \"x\" | x,y | {x}".split(" | ") {
        rows.push(refused(12, &format!("{name}: 1\r\n"), ""));
    }
    rows
}

/// Rows 15 to 17, 36, 38 and 40: first lines.
fn first_lines() -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, line, status, after) in [
        (15, "CONNECT a:80 HTTP/1.1", 405, Closed),
        (15, "CONNECT /open/x HTTP/1.1", 405, Closed),
        (16, "OPTIONS * HTTP/1.1", 400, Closed),
        (16, "GET * HTTP/1.1", 400, Closed),
        (17, "GET /open/x", 400, Closed),
        (17, "GET /open/x HTTP/1.2", 505, Closed),
        (17, "GET /open/x HTTP/0.9", 505, Closed),
        (17, "GET /open/x HTTP/2.0", 505, Closed),
        (17, "GET /open/x HTTP/3", 505, Closed),
        (17, "GET /open/x HTTP/1.10", 505, Closed),
        (17, "GET /open/x HTTP/01.1", 505, Closed),
        (17, "GET /open/x HTTP/1,1", 505, Closed),
        (17, "GET /open/x http/1.1", 400, Closed),
        (17, "GET /open/x HTTPS/1.1", 400, Closed),
        (17, "GET /open/x ICY/1.1", 400, Closed),
        (17, "PRI * HTTP/2.0", 505, Closed),
        (36, "PROXY TCP4 1.2.3.4 5.6.7.8 1 2", 400, Closed),
        (36, "PROXY UNKNOWN", 400, Closed),
        (38, "FOO /open/x HTTP/1.1", 405, Closed),
        (38, "M-SEARCH /open/x HTTP/1.1", 405, Closed),
        (38, "post /open/x HTTP/1.1", 405, Closed),
        (38, "Get /open/x HTTP/1.1", 405, Closed),
        (38, "PROPFIND /open/x HTTP/1.1", 405, Closed),
        (38, "G\u{ff25}T /open/x HTTP/1.1", 400, Closed),
        (38, "GET,POST /open/x HTTP/1.1", 400, Closed),
        (38, "HEAD /orders/1 HTTP/1.1", 401, Open),
        (38, "DELETE /orders/1 HTTP/1.1", 401, Open),
        (38, "PUT /orders/1 HTTP/1.1", 401, Open),
        (38, "PATCH /orders/1 HTTP/1.1", 405, Open),
        (38, "OPTIONS /orders/1 HTTP/1.1", 405, Open),
        (40, "TRACE /open/x HTTP/1.1", 405, Closed),
        (40, "TRACK /open/x HTTP/1.1", 405, Closed),
        (40, "DEBUG /open/x HTTP/1.1", 405, Closed),
    ] {
        rows.push(Row::new(
            number,
            format!("{line}\r\nhost: a\r\n\r\n"),
            status,
            after,
        ));
    }
    rows.push(Row::new(
        17,
        "GET /open/x HTTP/1.0\r\nhost: a\r\nconnection: keep-alive\r\n\r\n",
        200,
        Passed,
    ));
    rows.push(Row::new(
        36,
        b"\r\n\r\n\0\r\nQUIT\n!\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01\0\x50\0\x50".as_slice(),
        400,
        Closed,
    ));
    rows
}

/// Rows 18 to 20: bodies of refused requests.
fn bodies_of_the_refused() -> Vec<Row> {
    let inner = get("/open/inner");
    let mut rows = Vec::new();
    for guarded in ["/orders", "/orders/1", "/v1/shows/gala/orders"] {
        let sized = with(
            &format!("POST {guarded}"),
            &format!("content-length: {}\r\n", inner.len()),
        );
        rows.push(Row::new(18, format!("{sized}{inner}"), 401, Open));
        let chunked = with(&format!("POST {guarded}"), "transfer-encoding: chunked\r\n");
        let body = format!("{:x}\r\n{inner}\r\n0\r\n\r\n", inner.len());
        rows.push(Row::new(18, format!("{chunked}{body}"), 401, Open));
    }
    let expects = |what: &str| format!("expect: {what}\r\ncontent-length: 1\r\n");
    for what in "x | 200-ok | 100-continue, x | 100-continue;q=1 | ".split(" | ") {
        rows.push(Row::new(19, with(POST, &expects(what)) + "a", 417, Closed));
    }
    let twice = "expect: 100-continue\r\n".to_owned() + &expects("100-continue");
    rows.push(Row::new(19, with(POST, &twice) + "a", 400, Closed));
    rows.push(Row::new(
        19,
        with(POST, &expects("100-continue")) + "a",
        200,
        PassedLast,
    ));
    rows.push(Row::new(
        19,
        with("POST /orders/1", &expects("100-continue")),
        401,
        Closed,
    ));
    let large = "x".repeat(10 << 20);
    let sized = format!("content-length: {}\r\n", large.len());
    rows.push(Row::new(
        20,
        with("POST /orders", &sized) + &large,
        413,
        Closed,
    ));
    let chunked = with("POST /orders", "transfer-encoding: chunked\r\n");
    rows.push(Row::new(
        20,
        format!("{chunked}{:x}\r\n{large}\r\n0\r\n\r\n", large.len()),
        401,
        Closed,
    ));
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn framing_has_one_reading_or_none() {
    let site = Site::open().await;
    let rows = [
        both_framings(),
        lengths(),
        codings(),
        chunks(),
        lines(),
        first_lines(),
        bodies_of_the_refused(),
    ];
    let mut rows = rows.concat();
    rows.push(Row::new(
        1,
        with(POST, "content-length: 1\r\n") + "a",
        200,
        Passed,
    ));
    rows.push(Row::new(
        2,
        with(POST, "transfer-encoding: chunked\r\n") + "1\r\na\r\n0\r\n\r\n",
        200,
        Passed,
    ));
    site.judge(site.server.gateway, "framing", &rows).await;
}
