//! The doormat: requests that can be read in one way only come in.
//!
//! Whatever is ambiguous is refused here, before any route is looked for, so that our own routes
//! and those of upstreams are guarded alike. `http/strict.rs` has refused by now what is broken below
//! that: framing, and heads that are not what the grammar says.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::{EXPECT, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, Method, StatusCode, Uri, Version};

use crate::base::ids::RequestId;
use crate::base::limits::TARGET_BYTES_MAX;
use crate::gateway::routes::METHODS;
use crate::gateway::{Gateway, target};
use crate::http::extract::{ClientAddr, single};
use crate::http::patience::Patience;
use crate::http::problem::{Last, Problem};
use crate::http::service::{Arrival, Transport};

static FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Who asks, and how they reached us: what forwarding a request takes beside it. An extension of every request
/// that came in.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) id: RequestId,
    pub(crate) entry: Entry,
    pub(crate) client: ClientAddr,
    /// Which a route may lengthen.
    pub(crate) patience: Patience,
}

/// How a request reached us.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The host that was asked, with port, as it was written or as a trusted proxy says.
    pub(crate) host: String,
    /// What was spoken with us, or what a trusted proxy says.
    pub(crate) proto: &'static str,
}

impl Entry {
    /// The host without its port, lower-case.
    pub(crate) fn host_name(&self) -> String {
        let end = match self.host.rfind(':') {
            Some(colon) if !self.host[colon..].contains(']') => colon,
            Some(_) | None => self.host.len(),
        };
        let name = &self.host[..end];
        // A name with the dot of the root is the same name.
        name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
    }
}

/// How a well-formed request reached us.
///
/// # Errors
/// What is wrong with one that can be read in two ways.
pub(crate) fn strictly(
    gateway: &Gateway,
    request: &Request,
    arrival: &Arrival,
) -> Result<Entry, Problem> {
    let (uri, headers) = (request.uri(), request.headers());
    check_method(request.method())?;
    if TARGET_BYTES_MAX
        < uri
            .path_and_query()
            .map_or(0, |target| target.as_str().len())
    {
        return Err(Problem::new(
            StatusCode::URI_TOO_LONG,
            "bad-path",
            "The address is too long.",
        ));
    }
    target::check_path(uri.path()).map_err(|_| bad_path())?;
    target::show_in_query(uri.query().unwrap_or_default()).map_err(|_| bad_path())?;
    if single(headers, &EXPECT)?.is_some_and(|what| !what.eq_ignore_ascii_case("100-continue")) {
        return Err(Problem::new(
            StatusCode::EXPECTATION_FAILED,
            "bad-request",
            "That cannot be expected.",
        ));
    }
    let entry = reached(gateway, request, arrival)?;
    if gateway.origins.listed(headers).is_none() {
        check_origin(request.method(), headers, &entry.host)?;
    }
    Ok(entry)
}

/// The host and the protocol by which a request reached us, whatever else may be wrong with it.
///
/// # Errors
/// It names no host, or more than one.
pub(crate) fn reached(
    gateway: &Gateway,
    request: &Request,
    arrival: &Arrival,
) -> Result<Entry, Problem> {
    let headers = request.headers();
    let mut host = host(request.uri(), headers, request.version())?;
    let mut proto = match arrival.transport {
        Transport::Tls => "https",
        Transport::Clear => "http",
    };
    if gateway.trusts(arrival.peer.ip()) {
        if single(headers, &FORWARDED_PROTO)? == Some("https") {
            proto = "https";
        }
        let named = single(headers, &FORWARDED_HOST)?;
        if let Some(named) = named.filter(|named| target::is_host(named)) {
            host = named.to_owned();
        }
    }
    Ok(Entry { host, proto })
}

/// The answer to a request that did not come in, and after which a connection of HTTP/1 ends: where one
/// thing is ambiguous, so may be what follows it.
pub(crate) fn refused(problem: Problem) -> Response {
    let mut response = problem.into_response();
    response.extensions_mut().insert(Last);
    response
}

fn check_method(method: &Method) -> Result<(), Problem> {
    if METHODS.contains(&method.as_str()) {
        Ok(())
    } else {
        Err(Problem::no_such_method())
    }
}

/// 400: the target breaks the grammar.
pub(crate) fn bad_path() -> Problem {
    Problem::bad_request("bad-path", "The address is not well-formed.")
}

/// The one host that the request names: `Host`, the authority of the target, or both alike.
fn host(uri: &Uri, headers: &HeaderMap, version: Version) -> Result<String, Problem> {
    let bad = || Problem::bad_request("bad-request", "The host is not well-formed.");
    let header = single(headers, &HOST).map_err(|_| bad())?;
    let authority = uri.authority().map(http::uri::Authority::as_str);
    if uri
        .scheme_str()
        .is_some_and(|scheme| !matches!(scheme, "http" | "https"))
    {
        return Err(bad());
    }
    let host = match (header, authority) {
        (Some(header), Some(authority)) if !header.eq_ignore_ascii_case(authority) => {
            return Err(bad());
        }
        (Some(host), _) => host,
        // Only HTTP/2 may name its host in the target alone.
        (None, Some(authority)) if version == Version::HTTP_2 => authority,
        (None, _) => return Err(bad()),
    };
    if target::is_host(host) {
        Ok(host.to_owned())
    } else {
        Err(bad())
    }
}

/// A page of another site may not act in a fan's name. Cookies are `SameSite=Lax`; this also holds
/// for sites next door and for browsers that think otherwise. Programs send no Origin.
fn check_origin(method: &Method, headers: &HeaderMap, host: &str) -> Result<(), Problem> {
    if method.is_safe() {
        return Ok(());
    }
    let Some(origin) = single(headers, &ORIGIN)? else {
        return Ok(());
    };
    let own = origin.split_once("://").map(|(_, rest)| rest);
    if own.is_some_and(|own| own.eq_ignore_ascii_case(host)) {
        Ok(())
    } else {
        Err(Problem::new(
            StatusCode::FORBIDDEN,
            "other-origin",
            "Another site may not do that.",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(rows: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in rows {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn there_is_one_host() {
        for (target, hosts, version, is) in [
            (
                "/x",
                &[("host", "a.b:80")][..],
                Version::HTTP_11,
                Some("a.b:80"),
            ),
            (
                "http://a.b/x",
                &[("host", "A.b")],
                Version::HTTP_11,
                Some("A.b"),
            ),
            ("http://evil/x", &[("host", "a.b")], Version::HTTP_11, None),
            ("http://a.b/x", &[], Version::HTTP_11, None),
            ("ftp://a.b/x", &[("host", "a.b")], Version::HTTP_11, None),
            ("http://a.b/x", &[], Version::HTTP_2, Some("a.b")),
            ("/x", &[], Version::HTTP_11, None),
            (
                "/x",
                &[("host", "a"), ("host", "a")],
                Version::HTTP_11,
                None,
            ),
            ("/x", &[("host", "u@a")], Version::HTTP_11, None),
            ("/x", &[("host", "a:99999")], Version::HTTP_11, None),
        ] {
            let found = host(&target.parse().unwrap(), &headers(hosts), version).ok();
            assert_eq!(found.as_deref(), is, "{target} {hosts:?}");
        }
    }

    #[test]
    fn other_sites_may_look_but_not_act() {
        for (method, origin, passes) in [
            (Method::POST, None, true),
            (Method::POST, Some("https://a.b"), true),
            (Method::POST, Some("https://a.b.evil"), false),
            (Method::POST, Some("null"), false),
            (Method::DELETE, Some("http://evil"), false),
            (Method::GET, Some("http://evil"), true),
        ] {
            let rows: Vec<_> = origin
                .map(|origin| ("origin", origin))
                .into_iter()
                .collect();
            let checked = check_origin(&method, &headers(&rows), "a.b");
            assert_eq!(checked.is_ok(), passes, "{method} {origin:?}");
        }
    }

    #[test]
    fn a_host_name_has_no_port() {
        for (host, name) in [
            ("A.b:80", "a.b"),
            ("a.b.", "a.b"),
            ("a.b.:80", "a.b"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
        ] {
            let host = host.to_owned();
            assert_eq!(
                Entry {
                    host,
                    proto: "http"
                }
                .host_name(),
                name
            );
        }
    }
}
