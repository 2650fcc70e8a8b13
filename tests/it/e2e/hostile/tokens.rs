//! What may pass the gate (rows 55 to 82): whatever is wrong with a ticket, the answer is the same.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;

use crate::e2e::hostile::forged::{Parts, claims, headers, spellings, well_signed};
use crate::e2e::hostile::site::After::{Closed, Open, Passed};
use crate::e2e::hostile::site::{Row, Site, answers, with};

/// The part of an answer that does not name the request.
fn anonymous(answer: &str) -> String {
    let is_its_own =
        |line: &&str| !line.starts_with("x-request-id: ") && !line.starts_with("date: ");
    answer
        .lines()
        .filter(is_its_own)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Rows 55 to 67, 70, 73 to 76: what is no ticket, or is not the fan's, or stands where no ticket belongs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_wrong_with_a_ticket_the_answer_is_the_same() {
    let site = Site::open().await;
    let (buyer, other) = (site.buyer().await, site.buyer().await);
    let keys = site.keys();
    let jwks = serde_json::to_value(keys.jwks()).unwrap();
    let public_key = BASE64
        .decode(jwks["keys"][0]["x"].as_str().unwrap())
        .unwrap();
    let parts = Parts::of(&buyer.ticket);
    let forged = [
        headers(&parts, &public_key),
        claims(&parts),
        spellings(&buyer.ticket, &parts),
        well_signed(&keys, &buyer),
    ];
    let pass = &buyer.pass;
    let mut rows = Vec::new();
    for (number, ticket) in forged.concat() {
        let headers = format!("x-catraca-pass: {pass}\r\nx-admission-ticket: {ticket}\r\n");
        rows.push(Row::new(number, with("GET /orders/1", &headers), 401, Open));
        if number != 67 && ticket.len() < 50_000 {
            let cookie =
                format!("x-catraca-pass: {pass}\r\ncookie: catraca-ticket-gala={ticket}\r\n");
            rows.push(Row::new(number, with("GET /orders/1", &cookie), 401, Open));
        }
    }
    let ticket = &buyer.ticket;
    for headers in [
        format!("x-admission-ticket: {ticket}\r\n"),
        format!(
            "x-admission-ticket: {ticket}\r\nx-catraca-pass: {}\r\n",
            other.pass
        ),
        format!("x-admission-ticket: {ticket}\r\nx-catraca-pass: x\r\n"),
        format!("x-admission-ticket: {ticket}\r\nx-catraca-pass: {pass}A\r\n"),
        format!("x-admission-ticket: {ticket}\r\nauthorization: Bearer {pass}\r\n"),
        format!("x-admission-ticket: {pass}\r\nx-catraca-pass: {pass}\r\n"),
        format!("authorization: Bearer {ticket}\r\nx-catraca-pass: {pass}\r\n"),
        format!("cookie: __Host-catraca-ticket-gala={ticket}\r\nx-catraca-pass: {pass}\r\n"),
        format!("cookie: Catraca-Ticket-Gala={ticket}\r\nx-catraca-pass: {pass}\r\n"),
    ] {
        rows.push(Row::new(70, with("GET /orders/1", &headers), 401, Open));
    }
    for target in [
        format!("/orders/1?ticket={ticket}"),
        format!("/orders/1?x-admission-ticket={ticket}&p={pass}"),
    ] {
        rows.push(Row::new(
            76,
            with(
                &format!("GET {target}"),
                &format!("x-catraca-pass: {pass}\r\n"),
            ),
            401,
            Open,
        ));
    }
    site.judge(site.server.gateway, "tickets", &rows).await;

    let mut refusals = BTreeSet::new();
    for row in rows.iter().step_by(7) {
        let close = String::from_utf8(row.bytes.clone()).unwrap().replacen(
            "\r\n",
            "\r\nconnection: close\r\n",
            1,
        );
        let text = site.send(close.as_bytes()).await;
        refusals.insert(anonymous(&answers(&text, b"")[0].1));
    }
    assert_eq!(refusals.len(), 1, "{refusals:#?}");
}

/// Rows 77 and 82: more than one credential; and the honest ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_have_one_reading_or_none() {
    let site = Site::open().await;
    let (one, two) = (site.buyer().await, site.buyer().await);
    let (pass, ticket, both) = (&one.pass, &one.ticket, one.headers());
    let of_show = |what: &str, text: &str| format!("catraca-{what}-gala={text}");
    let (my_ticket, my_pass) = (of_show("ticket", ticket), of_show("pass", pass));
    let (other_ticket, other_pass) = (of_show("ticket", &two.ticket), of_show("pass", &two.pass));
    let long = "x".repeat(8_192);
    let mut rows = Vec::new();
    for (number, headers) in [
        (77, format!("{both}cookie: {other_ticket}\r\n")),
        (77, format!("{both}cookie: {other_pass}\r\n")),
        (28, format!("{both}x-admission-ticket: {ticket}\r\n")),
        (28, format!("{both}X-Catraca-Pass: {pass}\r\n")),
        (28, format!("{both}x-admission-ticket:\r\n")),
        (
            28,
            format!("x-catraca-pass: {pass}\r\nx-admission-ticket: {ticket}\u{e9}\r\n"),
        ),
        (82, format!("cookie: {my_ticket}; {my_ticket}\r\n")),
        (
            82,
            format!("cookie: {my_ticket}\r\ncookie: {other_ticket}\r\n"),
        ),
        (
            82,
            format!("cookie: {my_ticket}; {my_pass}; catraca-pass-gala=x\r\n"),
        ),
    ] {
        rows.push(Row::new(
            number,
            with("GET /orders/1", &headers),
            400,
            Closed,
        ));
    }
    for (number, headers, status, after) in [
        (
            82,
            format!("cookie: x={long}; catraca-ticket-gala=x\r\n"),
            401,
            Open,
        ),
        (
            82,
            format!("{both}cookie: {my_ticket}; {my_pass}\r\n"),
            200,
            Passed,
        ),
        (
            82,
            format!("cookie: a=b; {my_ticket};{my_pass}\r\n"),
            200,
            Passed,
        ),
        (70, both, 200, Passed),
    ] {
        rows.push(Row::new(
            number,
            with("GET /orders/1", &headers),
            status,
            after,
        ));
    }
    site.judge(site.server.gateway, "credentials", &rows).await;
}
