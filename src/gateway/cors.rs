//! Other sites whose scripts may ask us: an exact list, by which browsers are told what to allow.
//!
//! Without a list nothing here does anything, and what an upstream says about other sites passes as it
//! is. With one, the gateway answers for the sites on it, on its own routes and on those of upstreams:
//! a browser asks first without credentials, and what it asks then could not pass any gate.

use std::collections::BTreeSet;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, CACHE_CONTROL, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use url::Url;

use crate::gateway::routes::METHODS;

/// How long a browser may remember what it was told: an hour, as a list changes with a restart.
const REMEMBER_S: &str = "3600";
/// Headers of answers that scripts may read.
const READABLE: &str = "retry-after, ratelimit, ratelimit-policy, x-request-id, catraca-room, etag, \
    x-admission-ticket";
/// What the answer to a preflight depends on, beside the site.
const ASKED_BY: &str = "access-control-request-method, access-control-request-headers";
/// Headers that a script may announce to send.
const ANNOUNCED_MAX: usize = 64;

/// The list.
#[derive(Debug)]
pub(crate) struct Origins(BTreeSet<String>);

impl Origins {
    /// The origins of `gateway.cors_origins`.
    ///
    /// # Errors
    /// A sentence that names the one that no browser would send.
    pub(crate) fn new(origins: &[String]) -> Result<Self, String> {
        let wrong = origins.iter().find(|origin| !is_origin(origin));
        match wrong {
            Some(wrong) => Err(format!(
                "cors_origins ({wrong}) must be scheme://host, as browsers write it: in lower case, \
                 with a port only where it is not the usual one, and no path"
            )),
            None => Ok(Self(origins.iter().cloned().collect())),
        }
    }

    /// The origin of a request, if it is on the list.
    pub(crate) fn listed<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        let mut named = headers.get_all(ORIGIN).iter();
        let (Some(origin), None) = (named.next(), named.next()) else {
            return None;
        };
        let is_listed = origin.to_str().is_ok_and(|text| self.0.contains(text));
        is_listed.then_some(origin)
    }

    /// Says in an answer whether the site that asked may read it; `site` is one that is listed.
    pub(crate) fn tell(&self, site: Option<HeaderValue>, headers: &mut HeaderMap) {
        if self.0.is_empty() {
            return;
        }
        headers.append(VARY, HeaderValue::from_static("origin"));
        if let Some(site) = site {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, site);
            let yes = HeaderValue::from_static("true");
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, yes);
            let readable = HeaderValue::from_static(READABLE);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, readable);
        }
    }

    /// The answer to a browser that asks for a site on the list whether it may ask. Whatever it is,
    /// the request itself has to pass everything that any request has to.
    pub(crate) fn preflight(&self, request: &Request) -> Option<Response> {
        let headers = request.headers();
        let method = headers.get(ACCESS_CONTROL_REQUEST_METHOD)?;
        if request.method() != Method::OPTIONS || self.listed(headers).is_none() {
            return None;
        }
        let mut answer = StatusCode::NO_CONTENT.into_response();
        let told = answer.headers_mut();
        if METHODS.iter().any(|known| method == known) {
            told.insert(ACCESS_CONTROL_ALLOW_METHODS, method.clone());
        }
        if let Some(names) = announced(headers) {
            told.insert(ACCESS_CONTROL_ALLOW_HEADERS, names);
        }
        for (name, value) in [
            (ACCESS_CONTROL_MAX_AGE, REMEMBER_S),
            (CACHE_CONTROL, "no-store"),
            (VARY, ASKED_BY),
        ] {
            told.insert(name, HeaderValue::from_static(value));
        }
        Some(answer)
    }
}

fn is_origin(text: &str) -> bool {
    let is_web = text.starts_with("https://") || text.starts_with("http://");
    let parsed = Url::parse(text).map(|url| url.origin().ascii_serialization());
    is_web && !text.contains('*') && parsed.is_ok_and(|parsed| parsed == text)
}

/// The headers that a script announces, if they are names of headers and not too many.
fn announced(headers: &HeaderMap) -> Option<HeaderValue> {
    let line = headers.get(ACCESS_CONTROL_REQUEST_HEADERS)?.to_str().ok()?;
    let names: Result<Vec<HeaderName>, _> =
        line.split(',').map(|name| name.trim().parse()).collect();
    let names = names.ok().filter(|names| names.len() <= ANNOUNCED_MAX)?;
    let line = names
        .iter()
        .map(HeaderName::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    HeaderValue::from_str(&line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_what_a_browser_sends() {
        for (text, is) in [
            ("https://shop.example.com", true),
            ("http://127.0.0.1:3000", true),
            ("http://[::1]:3000", true),
            ("https://shop.example.com:443", false),
            ("https://Shop.example.com", false),
            ("https://shop.example.com/", false),
            ("https://*.example.com", false),
            ("shop.example.com", false),
            ("*", false),
            ("null", false),
            ("file://", false),
        ] {
            assert_eq!(Origins::new(&[text.to_owned()]).is_ok(), is, "{text}");
        }
    }

    #[test]
    fn only_the_whole_origin_is_on_the_list() {
        let origins = Origins::new(&["https://a.example".to_owned()]).unwrap();
        for (sent, is) in [
            (&["https://a.example"][..], true),
            (&["http://a.example"], false),
            (&["https://a.example.evil"], false),
            (&["https://a.example:8443"], false),
            (&["null"], false),
            (&["https://a.example", "https://a.example"], false),
            (&[], false),
        ] {
            let mut headers = HeaderMap::new();
            for line in sent {
                headers.append(ORIGIN, line.parse().unwrap());
            }
            assert_eq!(origins.listed(&headers).is_some(), is, "{sent:?}");
        }
    }
}
