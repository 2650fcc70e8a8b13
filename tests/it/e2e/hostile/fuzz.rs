//! What the parsers of what strangers send make of anything: they never panic, what they accept is
//! spelled in one way, and what is signed cannot be spelled anew. Inputs are changed from good ones by a
//! seed, which a failure prints.

use std::net::IpAddr;

use catraca::base::ids::{Edition, FanId, Generation, IdSource, Number, ShowId, TicketId};
use catraca::base::secret::Secret;
use catraca::base::time::Timestamp;
use catraca::gateway::credentials::{cookies, is_our_cookie};
use catraca::gateway::target::{is_host, segments, show_in_query};
use catraca::http::extract::client_addr;
use catraca::show::settings::Settings;
use catraca::token::assertion::{self, Asserted};
use catraca::token::keyring::KeyRing;
use catraca::token::pass::Pass;
use catraca::token::receipt::Receipt;
use catraca::token::ticket::Ticket;
use http::{HeaderMap, HeaderValue};
use serde_json::json;

use crate::e2e::hostile::mutator::fuzz;
use crate::support::sale::settings;

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn keys() -> KeyRing {
    KeyRing::new(
        &Secret::new("a secret for parsers, of some length"),
        "k1",
        &[],
    )
    .unwrap()
}

fn show() -> ShowId {
    "gala".parse().unwrap()
}

/// Decodes every percent-encoded byte once.
fn decoded(text: &str) -> Vec<u8> {
    percent_encoding(text.as_bytes())
}

fn percent_encoding(bytes: &[u8]) -> Vec<u8> {
    match bytes {
        [b'%', high, low, rest @ ..] => {
            let pair = [*high, *low];
            let byte = u8::from_str_radix(std::str::from_utf8(&pair).unwrap(), 16).unwrap();
            [vec![byte], percent_encoding(rest)].concat()
        }
        [byte, rest @ ..] => [vec![*byte], percent_encoding(rest)].concat(),
        [] => Vec::new(),
    }
}

#[test]
fn a_path_that_is_accepted_has_one_reading() {
    let seeds = texts(&[
        "/",
        "/orders",
        "/orders/",
        "/v1/shows/gala/orders/1",
        "/a%20b/%C3%A9",
        "/a.b/~c/x:y@z",
        "/%E2%82%AC",
    ]);
    fuzz("path", &seeds, |input| {
        let Ok(text) = std::str::from_utf8(input) else {
            return false;
        };
        let Ok(found) = segments(text) else {
            return false;
        };
        assert_eq!(format!("/{}", found.join("/")), text, "nothing is repaired");
        let once = String::from_utf8(decoded(text)).expect("UTF-8");
        assert_eq!(
            once.split(['/', '\\']).count(),
            found.len() + 1,
            "decoding adds no segment"
        );
        assert!(
            !once.contains(['%', ';', '\0', '\r', '\n']),
            "nothing to decode again"
        );
        for segment in &found {
            assert!(!matches!(*segment, "." | "..") && !segment.ends_with('.'));
        }
        assert!(
            text.parse::<http::Uri>()
                .is_ok_and(|uri| uri.path() == text)
        );
        true
    });
}

#[test]
fn a_query_that_is_accepted_names_one_show() {
    let seeds = texts(&[
        "",
        "a=b",
        "show=gala",
        "a=b&show=gala&c=%20",
        "a[]=1&a[]=2",
        "q=%2F%3F",
    ]);
    fuzz("query", &seeds, |input| {
        let Ok(text) = std::str::from_utf8(input) else {
            return false;
        };
        let Ok(named) = show_in_query(text) else {
            return false;
        };
        let pairs = url::form_urlencoded::parse(text.as_bytes());
        let shows: Vec<String> = pairs
            .filter(|(key, _)| key.eq_ignore_ascii_case("show"))
            .map(|(_, value)| value.into_owned())
            .collect();
        assert!(shows.len() <= 1 && (shows.is_empty() || shows.first() == named.as_ref()));
        true
    });
}

#[test]
fn a_host_that_is_accepted_is_one_authority() {
    let seeds = texts(&[
        "a",
        "shop.example.com",
        "127.0.0.1:8080",
        "[::1]:80",
        "[2001:db8::1]",
        "a-b.c:65535",
    ]);
    fuzz("host", &seeds, |input| {
        let Ok(text) = std::str::from_utf8(input) else {
            return false;
        };
        if !is_host(text) {
            return false;
        }
        let authority: http::uri::Authority = text.parse().expect("an authority");
        assert!(authority.as_str() == text && !text.contains(['@', '/', '\\', '?', '#', ' ']));
        true
    });
}

#[test]
fn a_pass_is_what_was_signed() {
    let keys = keys();
    let pass = |number, eta| Pass {
        show: show(),
        fan: IdSource::seeded(number).fan(),
        number: Number(number),
        edition: Edition(1),
        generation: Generation(1),
        issued_at: Timestamp::from_unix_ms(1_800_000_000_000),
        eta,
        commitment: None,
    };
    let seeds: Vec<String> = (1..5)
        .map(|n| pass(n, Some((1, 2))).sign(&keys))
        .chain([pass(9, None).sign(&keys)])
        .collect();
    fuzz("pass", &seeds, |input| {
        let Ok(text) = std::str::from_utf8(input) else {
            return false;
        };
        let _claimed = Pass::claimed(text);
        let Ok(pass) = Pass::verify(text, &keys) else {
            return false;
        };
        assert_eq!(pass.sign(&keys), text, "one spelling");
        true
    });
}

#[test]
fn a_ticket_is_what_was_signed() {
    let keys = keys();
    let ticket = |n: u8| Ticket {
        show: show(),
        fan: FanId([n; 16]),
        id: TicketId([n; 16]),
        edition: Edition(1),
        generation: Generation(1),
        issued_at: Timestamp::from_unix_seconds(1_800_000_000),
        expires_at: Timestamp::from_unix_seconds(1_800_000_300),
    };
    let seeds: Vec<String> = (1..4).map(|n| ticket(n).mint(&keys)).collect();
    fuzz("ticket", &seeds, |input| {
        let Ok(text) = std::str::from_utf8(input) else {
            return false;
        };
        let Ok(ticket) = Ticket::verify(text, &show(), &keys) else {
            return false;
        };
        assert_eq!(ticket.mint(&keys), text, "one spelling");
        true
    });
}

#[test]
fn a_receipt_is_what_was_signed() {
    let keys = keys();
    let jwks = keys.jwks();
    let pass = Pass {
        show: show(),
        fan: FanId([7; 16]),
        number: Number(7),
        edition: Edition(1),
        generation: Generation(1),
        issued_at: Timestamp::from_unix_ms(1_800_000_000_000),
        eta: Some((1, 2)),
        commitment: None,
    };
    let seeds = vec![Receipt::of(&pass).sign(&keys)];
    fuzz("receipt", &seeds, |input| {
        let Ok(text) = std::str::from_utf8(input) else {
            return false;
        };
        let _claimed = Receipt::claimed(text);
        let Ok(receipt) = Receipt::verify(text, &jwks) else {
            return false;
        };
        assert_eq!(receipt.sign(&keys), text, "one spelling");
        true
    });
}

#[test]
fn an_assertion_is_what_was_signed() {
    let (secret, now) = (
        Secret::new("shared"),
        Timestamp::from_unix_ms(1_800_000_000_000),
    );
    let (show, nonce) = (show(), IdSource::seeded(1).request(now));
    let asserted = Asserted {
        fan: FanId([7; 16]),
        show: &show,
        ticket_id: Some(TicketId([7; 16])),
        nonce,
        method: "POST",
        path: "/orders",
    };
    let seeds = vec![
        assertion::sign(&asserted, &secret, now),
        assertion::sign(&asserted, &secret, now.plus_ms(1)),
    ];
    fuzz("assertion", &seeds, |input| {
        let Ok(text) = std::str::from_utf8(input) else {
            return false;
        };
        let is_good = assertion::verify(text, &asserted, &secret, now).is_ok();
        assert!(
            !is_good || seeds.iter().any(|seed| seed == text),
            "one spelling"
        );
        is_good
    });
}

#[test]
fn cookies_are_read_as_they_are_written() {
    let seeds = texts(&[
        "a=1",
        "a=1; b=2",
        "catraca-pass-gala=c1.k1.x.y; theme=dark",
        "__Host-catraca-ticket-gala=x;y=z",
        "a",
    ]);
    fuzz("cookie", &seeds, |input| {
        let Ok(line) = HeaderValue::from_bytes(input) else {
            return false;
        };
        let mut headers = HeaderMap::new();
        headers.append("cookie", line);
        let read: Vec<String> = cookies(&headers).map(str::to_owned).collect();
        assert!(
            read.iter()
                .all(|cookie| !cookie.contains(';') && cookie.trim() == cookie)
        );
        let mut again = HeaderMap::new();
        if let Ok(line) = HeaderValue::from_bytes(read.join("; ").as_bytes()) {
            again.append("cookie", line);
            let again: Vec<&str> = cookies(&again).collect();
            assert!(
                again == read || read.iter().all(String::is_empty),
                "the same again: {again:?}"
            );
        }
        for cookie in &read {
            let name = cookie.split('=').next().unwrap_or_default();
            assert_eq!(
                is_our_cookie(name),
                is_our_cookie(&name.to_uppercase()) || is_our_cookie(&name.to_lowercase())
            );
        }
        !read.is_empty()
    });
}

#[test]
fn a_client_is_the_peer_or_somebody_who_was_named() {
    let seeds = texts(&[
        "1.2.3.4",
        "6.6.6.6, 1.2.3.4, 10.0.0.7",
        "::ffff:1.2.3.4",
        "[2001:db8::1]:80",
        "1.2.3.4:55",
        "10.0.0.1,10.0.0.2",
    ]);
    let (ours, stranger): (IpAddr, IpAddr) =
        ("10.9.9.9".parse().unwrap(), "9.9.9.9".parse().unwrap());
    let trusted = ["10.0.0.0/8".parse().unwrap()];
    fuzz("X-Forwarded-For", &seeds, |input| {
        let Ok(line) = HeaderValue::from_bytes(input) else {
            return false;
        };
        let mut headers = HeaderMap::new();
        headers.append("x-forwarded-for", line);
        assert_eq!(
            client_addr(stranger, &headers, &trusted).0,
            stranger,
            "who is not trusted speaks for nobody"
        );
        let client = client_addr(ours, &headers, &trusted).0;
        assert_eq!(client, client.to_canonical());
        if client == ours {
            return false;
        }
        let text = String::from_utf8_lossy(input).into_owned();
        let named = text.split(',').filter_map(|hop| {
            let hop = hop.trim();
            let alone = hop.parse::<IpAddr>().ok();
            alone.or_else(|| hop.parse::<std::net::SocketAddr>().ok().map(|at| at.ip()))
        });
        assert!(
            named
                .map(|address| address.to_canonical())
                .any(|address| address == client)
        );
        true
    });
}

#[test]
fn settings_of_a_show_survive_being_written_down() {
    let numbered = json!({ "capacity": 10, "draw": true, "message": { "en": "x" }, "shop_url": "https://shop.example" });
    let seeds = vec![
        settings(&json!({})).to_string(),
        settings(&numbered).to_string(),
        "{\"name\":\"x\",\"rate\":1}".to_owned(),
    ];
    fuzz("settings", &seeds, |input| {
        let Ok(settings) = serde_json::from_slice::<Settings>(input) else {
            return false;
        };
        let text = serde_json::to_string(&settings).unwrap();
        let again: Settings = serde_json::from_str(&text).expect("what was written is read");
        assert_eq!(again, settings);
        settings.check().is_ok()
    });
}
