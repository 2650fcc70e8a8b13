//! Which headers cross the door, in which direction.
//!
//! Stripping comes before adding, so that nobody can nominate ours away.

use http::header::{CONNECTION, CONTENT_LENGTH, COOKIE, FORWARDED, HOST, SET_COOKIE, TE, TRAILER};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::gateway::credentials::{cookies, is_our_cookie};
use crate::http::fields;

/// Headers by which a client could speak in a proxy's voice, or ask for another path or method than
/// the one that was checked.
const ONLY_PROXIES_SAY: [&str; 14] = [
    "x-original-url",
    "x-original-uri",
    "x-original-method",
    "x-rewrite-url",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "true-client-ip",
    "x-accel-redirect",
    "x-admission-ticket",
    "client-ip",
];

/// What the hop before us can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hops {
    /// Nothing in particular.
    Plain,
    /// Trailers too: it said `TE: trailers`.
    TrailersToo,
}

/// What the client may not say to the upstream goes; the rest stays as it came.
pub(crate) fn strip_request(headers: &mut HeaderMap) -> Hops {
    let reads_trailers = headers.get_all(TE).iter().any(|line| {
        let line = line.to_str().unwrap_or_default();
        line.split(',')
            .any(|word| word.trim().eq_ignore_ascii_case("trailers"))
    });
    strip_hops(headers);
    headers.remove(HOST);
    headers.remove(FORWARDED);
    remove_where(headers, is_not_the_clients);
    strip_cookies(headers);
    if reads_trailers {
        Hops::TrailersToo
    } else {
        Hops::Plain
    }
}

/// What no client says to an upstream, in a header or a trailer.
fn is_not_the_clients(name: &str) -> bool {
    name.starts_with("x-catraca-")
        || name.starts_with("x-forwarded-")
        || name.starts_with("catraca-")
        || ONLY_PROXIES_SAY.contains(&name)
        || name.contains('_') // CGI-like readers take `x_catraca_fan` for `x-catraca-fan`
}

/// Trailers that may pass, in either direction.
pub(crate) fn sift_trailers(trailers: &mut HeaderMap) {
    strip_hops(trailers);
    remove_where(trailers, |name| !may_trail(name));
}

fn may_trail(name: &str) -> bool {
    fields::may_trail(name) && !is_not_the_clients(name)
}

/// What an upstream may not say to the client goes.
pub(crate) fn strip_response(headers: &mut HeaderMap) {
    strip_hops(headers);
    remove_where(headers, |name| {
        name.starts_with("x-catraca-") || name.starts_with("catraca-") || name == "clear-site-data" // would take our cookies with it
    });
    let theirs: Vec<HeaderValue> = headers
        .get_all(SET_COOKIE)
        .iter()
        .filter(|line| sets_their_cookie(line))
        .cloned()
        .collect();
    headers.remove(SET_COOKIE);
    for line in theirs {
        headers.append(SET_COOKIE, line);
    }
}

/// Whether a line sets a cookie of theirs: one with a name, and not with one of ours. Of a cookie without
/// a name a browser sends the value alone, so that `=catraca-pass-gala=x` would come back as ours.
fn sets_their_cookie(line: &HeaderValue) -> bool {
    let pair = line.as_bytes().split(|b| *b == b';').next();
    let pair = String::from_utf8_lossy(pair.unwrap_or_default());
    let name = pair.split_once('=').map_or("", |(name, _)| name.trim());
    !name.is_empty() && !is_our_cookie(name)
}

fn strip_hops(headers: &mut HeaderMap) {
    let nominated: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name| *name != CONTENT_LENGTH) // how long a body is belongs to the message
        .collect();
    for name in nominated {
        headers.remove(name);
    }
    remove_where(headers, fields::is_of_one_hop);
    announce_trailers(headers);
}

/// `Trailer` keeps the names of those that may pass: the next hop writes no others.
fn announce_trailers(headers: &mut HeaderMap) {
    if !headers.contains_key(TRAILER) {
        return;
    }
    let lines = headers.get_all(TRAILER).iter();
    let names = lines.flat_map(|line| line.to_str().unwrap_or_default().split(','));
    let names = names.filter_map(|name| name.trim().parse::<HeaderName>().ok());
    let names: Vec<_> = names.filter(|name| may_trail(name.as_str())).collect();
    let line = names
        .iter()
        .map(HeaderName::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    headers.remove(TRAILER);
    if !names.is_empty() {
        let line = HeaderValue::from_str(&line).expect("names of headers are ASCII");
        headers.insert(TRAILER, line);
    }
}

fn strip_cookies(headers: &mut HeaderMap) {
    let theirs: Vec<&str> = cookies(headers)
        .filter(|cookie| {
            let name = cookie.split('=').next().unwrap_or_default();
            !cookie.is_empty() && !is_our_cookie(name)
        })
        .collect();
    let line = theirs.join("; ");
    headers.remove(COOKIE);
    if let Ok(line) = HeaderValue::from_str(&line)
        && !line.is_empty()
    {
        headers.insert(COOKIE, line);
    }
}

fn remove_where(headers: &mut HeaderMap, goes: impl Fn(&str) -> bool) {
    let going: Vec<HeaderName> = headers
        .keys()
        .filter(|name| goes(name.as_str()))
        .cloned()
        .collect();
    for name in going {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(text: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(": ").unwrap();
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        headers
    }

    /// The lines, sorted: a map does not keep their order.
    fn lines(headers: &HeaderMap) -> Vec<String> {
        let line = |(name, value): (&HeaderName, &HeaderValue)| {
            format!("{name}: {}", value.to_str().unwrap())
        };
        let mut lines: Vec<String> = headers.iter().map(line).collect();
        lines.sort();
        lines
    }

    #[test]
    fn a_client_cannot_speak_for_us() {
        let mut hostile = headers(
            "host: shop
            connection: close, X-Nominated, Authorization, Content-Length
            x-nominated: 1
            authorization: Basic x
            content-length: 5
            upgrade: h2c
            http2-settings: AAA
            te: gzip, Trailers
            trailer: Digest, Host, x-catraca-fan, if-match
            transfer-encoding: chunked
            proxy-authorization: x
            proxy-connection: x
            proxy: http://evil
            keep-alive: 5
            expect: 100-continue
            forwarded: for=1.2.3.4
            x-forwarded-for: 1.2.3.4
            x-forwarded-prefix: /x
            x-real-ip: 1.2.3.4
            x-original-url: /orders
            x-rewrite-url: /orders
            x-http-method-override: DELETE
            x-catraca-fan: 00
            x-catraca-assertion: v1
            x_catraca_fan: 00
            x-catraca-pass: c1
            x-admission-ticket: t
            catraca-admission: consumed
            cookie: catraca-pass-gala=1; theme=dark
            cookie: __Host-catraca-ticket-gala=2; lang=pt
            accept: text/html",
        );
        assert_eq!(strip_request(&mut hostile), Hops::TrailersToo);
        assert_eq!(
            lines(&hostile),
            [
                "accept: text/html",
                "content-length: 5",
                "cookie: theme=dark; lang=pt",
                "trailer: digest"
            ]
        );
        let mut ours_only = headers("cookie: catraca-pass-gala=1");
        assert_eq!(strip_request(&mut ours_only), Hops::Plain);
        assert!(ours_only.is_empty());
    }

    #[test]
    fn trailers_say_nothing_that_had_to_be_known_before() {
        let mut trailers = headers(
            "digest: x
            grpc-status: 0
            server-timing: total
            content-length: 5
            host: evil
            authorization: x
            cookie: a=1
            set-cookie: a=1
            transfer-encoding: chunked
            connection: digest2
            digest2: x
            if-match: x
            x-catraca-fan: 00
            x_catraca_fan: 00
            x-admission-ticket: t
            x-forwarded-for: 1.2.3.4
            catraca-admission: consumed
            access-control-allow-origin: *
            trailer: x
            keep-alive: 5",
        );
        sift_trailers(&mut trailers);
        assert_eq!(
            lines(&trailers),
            ["digest: x", "grpc-status: 0", "server-timing: total"]
        );
    }

    #[test]
    fn an_upstream_cannot_set_our_cookies() {
        let mut answer = headers(
            "connection: x-inner
            x-inner: 1
            keep-alive: 5
            set-cookie: cart=1; Path=/
            set-cookie: catraca-pass-gala=evil
            set-cookie:  __HOST-catraca-ticket-gala=evil; Secure
            set-cookie: =catraca-pass-gala=evil; Path=/
            set-cookie: 	 = catraca-pass-gala=evil
            set-cookie: ;catraca-pass-gala=evil
            set-cookie: catraca-pass-gala
            clear-site-data: \"cookies\"
            catraca-admission: consumed
            catraca-room: off
            x-catraca-fan: 1
            etag: x",
        );
        strip_response(&mut answer);
        assert_eq!(lines(&answer), ["etag: x", "set-cookie: cart=1; Path=/"]);
    }
}
