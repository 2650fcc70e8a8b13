//! Every text that a buyer may send, and what no buyer would mean by it: the answer is a problem that
//! says so, the same on every database, and never that the shop is broken.

use http::Method;

use crate::contract::gate::{Ask, Told, ask, post};
use crate::contract::shop::Shop;
use crate::contract::shop_home::{Home, on_every_database};

on_every_database!(no_text_breaks_the_shop, what_is_in_no_field_breaks_nothing,);

/// Where a text stands in a request, at `~`. None of ours can stand there.
const NAMES: [(&str, &str); 6] = [
    ("holds", r#"{"section":"~","quantity":1}"#),
    ("holds", r#"{"section":"B~","quantity":1}"#),
    ("holds", r#"{"seats":["~"]}"#),
    ("holds", r#"{"seats":["B-1~"]}"#),
    ("holds", r#"{"section":"B","quantity":1,"~":1}"#),
    (
        "orders",
        r#"{"hold_id":"~","customer":{"email":"ana@example.com"}}"#,
    ),
];

/// Where some of ours can stand: `%s@example.com` is an address. `#` is a live hold.
const FREE: [(&str, &str); 3] = [
    (
        "orders",
        r##"{"hold_id":"#","customer":{"email":"~ana@example.com"}}"##,
    ),
    (
        "orders",
        r##"{"hold_id":"#","customer":{"email":"ana@example.com~","locale":"~"}}"##,
    ),
    (
        "orders",
        r##"{"hold_id":"#","customer":{"email":"ana@example.com"},"payment":{"token":"~"}}"##,
    ),
];

/// As they stand in JSON: NUL, as an escape and as a byte, other controls, halves of surrogates, digits
/// and letters that look like others, marks that turn lines round, SQL, formats, and far too much.
fn texts() -> Vec<String> {
    let plain = [
        r"\u0000",
        "\0",
        r"\u0000\u0000B",
        r"\u0001",
        r"\u007f",
        r"\r\n",
        r"\ud800",
        r"\udc00\ud800",
        r"\ud83d",
        "１",
        "Ｂ",
        "\u{202e}",
        "\u{feff}",
        "\u{2028}",
        "' or '1'='1",
        "'; drop table seats; --",
        "$1",
        "%s",
        "%00",
        r"\\u0000",
        r"\\x00",
    ];
    let long = ["B".repeat(300), "é".repeat(10_000)];
    plain
        .iter()
        .map(|text| (*text).to_owned())
        .chain(long)
        .collect()
}

fn is_told_no(told: &Told, what: &str) {
    let what: String = what.chars().take(150).collect();
    let status = told.status.as_u16();
    assert!(
        matches!(status, 400 | 404 | 422),
        "{status} {what}: {}",
        told.text
    );
    assert!(!told.word().is_empty(), "{what}: {}", told.text);
}

async fn no_text_breaks_the_shop(home: Home) {
    let shop = Shop::open(&home, &[("B", 10, true)]).await;
    let hold = shop.hold(1, 1).await.unwrap().id.to_string();
    for text in texts() {
        for (path, form) in NAMES {
            let body = form.replace('~', &text);
            let told = shop.send(post(2, path, &body)).await;
            is_told_no(&told, &body);
        }
    }
    for text in texts() {
        for (path, form) in FREE {
            let body = form.replace('~', &text).replace('#', &hold);
            let told = shop.send(post(1, path, &body)).await;
            if !matches!(told.status.as_u16(), 200 | 201) {
                is_told_no(&told, &body);
            }
        }
    }
    assert_eq!(shop.stock().await, (9, 1, 0));
    shop.audit(10).await;
}

/// Texts beside the body: in paths, keys and traces.
async fn what_is_in_no_field_breaks_nothing(home: Home) {
    let shop = Shop::open(&home, &[("B", 10, true)]).await;
    let one = r#"{"section":"B","quantity":1}"#;
    for text in ["é", "\u{1F3AB}", "a\tb", "", &"k".repeat(256)] {
        let asked = post(1, "holds", one).header("idempotency-key", text);
        let told = shop.send(asked).await;
        assert_eq!(
            (told.status.as_u16(), told.word()),
            (400, "bad-key"),
            "{text:?}"
        );
    }
    for id in ["%00", "%ED%A0%80", "%FF", "..", "1%27", &"9".repeat(500)] {
        for (method, path) in [
            (Method::GET, format!("orders/{id}")),
            (Method::DELETE, format!("holds/{id}")),
            (Method::POST, format!("orders/{id}/payment")),
        ] {
            let told = shop.send(ask(1, method, &path, "{}")).await;
            is_told_no(&told, &path);
        }
    }
    for trace in ["é", "00-", "\u{1F3AB}", &"0".repeat(300), "x' or '1'='1"] {
        let asked = post(1, "holds", one).without("traceparent");
        let asked: Ask = asked.header("traceparent", trace);
        let told = shop.send(asked).await;
        assert!(
            matches!(told.status.as_u16(), 201 | 409),
            "{trace:?}: {}",
            told.text
        );
    }
    assert_eq!(shop.stock().await, (9, 1, 0));
}
