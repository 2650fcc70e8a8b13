//! What a target means (rows 41 to 54): every one is refused, led nowhere or guarded; none is open.

use crate::e2e::hostile::site::After::{Closed, Open, Passed};
use crate::e2e::hostile::site::{Row, Site, get};

/// Targets with more than one reading.
const TWO_READINGS: [(u8, &str); 17] = [
    (
        42,
        "//orders /./orders /open/../orders /orders/. /orders/.. /orders//1 // /open//x /open/./x /open/x/.",
    ),
    (
        43,
        "/orders;a=b /;/orders /open/..;/orders /open/..;foo=bar/orders /orders;/1 /orders/1;x /open/x;.css",
    ),
    (
        44,
        "/%6frders /%6Frders /orders%2f1 /orders%2F..%2Fx /open%2f..%2forders /%2e%2e/orders /.%2e/orders /%2e/orders",
    ),
    (
        44,
        "/open/%2e%2e/orders /open/.%2e/orders /open/%2E%2E%2Forders /%6F%72%64%65%72%73 /orders/%31 /%2Forders",
    ),
    (
        45,
        "/%256frders /%25%36%66rders /%c0%afrders /%u002forders /open/%252e%252e/orders /open%252f..%252forders /%25",
    ),
    (
        45,
        "/%e0%80%afrders /open/%c0%ae%c0%ae/orders /%25%32%66orders /open/%u002e%u002e/orders /%2 /% /%zz /open/%",
    ),
    (
        46,
        "/orders%00 /orders%0a /orders%20 /orders%09 /orders. /%20orders /orders%0d%0ax:y /orders%7f /open/x%00.css",
    ),
    (
        46,
        "/orders/1%00 /orders/1%20 /orders/1. /orders%0D /open/x%08 /orders%1f /open/%0a/orders",
    ),
    (
        47,
        "/\\orders /open\\..\\orders /orders%5c1 /orders%5C..%5Cx /open/..\\orders /open/%5c..%5corders \\orders",
    ),
    (
        48,
        "/open/../../orders /open/%2e%2e%2forders /open/x/../../orders /../orders /.. /open/..%2forders /open/..%5corders",
    ),
    (
        49,
        "/%EF%BC%8Forders /open%EF%BC%8Forders /a%E2%88%95b /%EF%BB%BForders /%E2%80%8Eorders /orders%E2%80%8B /%E2%81%84orders",
    ),
    (
        49,
        "/open/%EF%BC%8E%EF%BC%8E/orders /%C2%80orders /%ff /%C3 /%C3%28 /%ED%A0%80 /%F4%90%80%80 /%F8%88%80%80%80 /open/%E2%80%AEx",
    ),
    (
        51,
        "/orders?show=other /orders?show=1&show=2 /open/x?show=a&SHOW=b /open/x?show[]=a&show=b /open/x?%73how=a&show=b /open/x?show=a&show[]=b",
    ),
    (
        51,
        "/open/x?show=a&show%20=b /open/x?show=a&+show=b /open/x?a=<b> /open/x?a=\" /open/x?a=\\ /open/x?a=| /open/x?a=^ /open/x?a={b}",
    ),
    (
        54,
        "/health/../orders /livez/../orders /metrics/../orders /w/../orders /.well-known/../orders /w/assets/../../orders",
    ),
    (
        54,
        "/w/gala/../../orders /w/assets/..%2f..%2forders /v1/shows/gala/board/../orders /v1/shows/gala/..;/orders /w/assets/%2e%2e/x",
    ),
    (
        43,
        "/orders#x /open/x#y /open/x|y /open/x\"y /open/{x} /open/x^y /open/x`y /open/<x> /open/a%40b /open/%7e",
    ),
];

/// Targets with one reading that leads nowhere, or to the gate.
const ONE_READING: [(u8, u16, &str); 5] = [
    (
        41,
        404,
        "/ORDERS /Orders /orderS /OPEN/x /Open/x /V1/shows/gala/board /v1/Shows/gala/orders",
    ),
    (
        43,
        401,
        "/orders? /orders?x /orders/1?a=b /orders/1? /orders?show=gala",
    ),
    (44, 401, "/orders/%C3%A9 /orders/a%20b /orders/S%C3%A3o"),
    (
        50,
        404,
        "/orders.json /orders.css /orders.js /index.php /.env /.git/config /admin /admin/v1/shows /metrics /livez /readyz /console",
    ),
    (
        50,
        401,
        "/orders/x.js /orders/x.css /orders/1.json /orders/logo.png",
    ),
];

/// Rows 41 to 51, 53 and 54: the tables above.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn targets_have_one_reading_or_none() {
    let site = Site::open().await;
    let mut rows = Vec::new();
    for (number, targets) in TWO_READINGS {
        rows.extend(
            targets
                .split(' ')
                .map(|target| Row::new(number, get(target), 400, Closed)),
        );
    }
    for (number, status, targets) in ONE_READING {
        rows.extend(
            targets
                .split(' ')
                .map(|target| Row::new(number, get(target), status, Open)),
        );
    }
    let all = "/\u{ff0f}orders | /caf\u{e9} | /open/\u{202e}x | \
        /open/\u{fe52}\u{fe52}/orders | /open/\u{1f600}";
    for raw in all.split(" | ") {
        rows.push(Row::new(49, get(raw), 400, Closed));
    }
    for (segments, status, after) in [
        (60, 200, Passed),
        (64, 400, Closed),
        (500, 400, Closed),
        (4_000, 400, Closed),
    ] {
        rows.push(Row::new(
            53,
            get(&format!("/open{}", "/a".repeat(segments))),
            status,
            after,
        ));
    }
    // A slash at the end is another segment, which no route of ours has.
    rows.push(Row::new(43, get("/orders/"), 401, Open));
    site.judge(site.server.gateway, "targets", &rows).await;
}
