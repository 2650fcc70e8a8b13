//! Brief questions of HTTP/1: one head, no body, an answer that is all there at once.
//!
//! What everybody asks all the time is read and written here, without the buffers that hyper holds for
//! each connection. `strict.rs` has found where the request ends and that it is well-formed. Whatever is
//! unusual about one (another version, a connection that is to end or to be used otherwise) is none of
//! these, and hyper's.

use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

use axum::body::{Body, to_bytes};
use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, DATE, EXPECT, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, Method, Request, Response, Uri};
use memchr::{memchr, memchr2};

use crate::base::limits::HEADERS_MAX;
use crate::base::time::{Clock, SystemClock};

/// What an answer's head takes, but for its longest headers.
const HEAD_BYTES: usize = 512;

/// Method and path of a head, without looking at the rest of it.
pub(crate) fn question(head: &[u8]) -> Option<(&str, &str)> {
    let line = &head[..memchr(b'\r', head)?];
    let (method, rest) = line.split_at(memchr(b' ', line)?);
    let target = &rest[1..];
    let path = &target[..memchr2(b' ', b'?', target).unwrap_or(target.len())];
    Some((str::from_utf8(method).ok()?, str::from_utf8(path).ok()?))
}

/// The request with which these bytes begin, if nothing about it is unusual, and its length.
pub(crate) fn read(bytes: &Bytes) -> Option<(Request<Body>, usize)> {
    let mut fields = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut []);
    let read = head.parse_with_uninit_headers(bytes, &mut fields).ok()?;
    let httparse::Status::Complete(length) = read else {
        return None;
    };
    let mut headers = HeaderMap::with_capacity(head.headers.len());
    for field in head.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        let value = HeaderValue::from_maybe_shared(bytes.slice_ref(field.value)).ok()?;
        headers.append(name, value);
    }
    if head.version != Some(1) || is_unusual(&headers) {
        return None;
    }
    let mut request = Request::new(Body::empty());
    *request.method_mut() = Method::from_bytes(head.method?.as_bytes()).ok()?;
    *request.uri_mut() = Uri::from_maybe_shared(bytes.slice_ref(head.path?.as_bytes())).ok()?;
    *request.headers_mut() = headers;
    Some((request, length))
}

/// Whether a request has a body, or says something about its connection.
fn is_unusual(headers: &HeaderMap) -> bool {
    let is_other = |name: HeaderName, usual: &[u8]| {
        let mut values = headers.get_all(name).iter();
        values.any(|value| !value.as_bytes().eq_ignore_ascii_case(usual))
    };
    is_other(CONTENT_LENGTH, b"0")
        || is_other(CONNECTION, b"keep-alive")
        || [TRANSFER_ENCODING, EXPECT, UPGRADE]
            .iter()
            .any(|name| headers.contains_key(name))
}

/// A whole answer as it goes out. None where its body broke off.
pub(crate) async fn written(response: Response<Body>, dates: &Dates) -> Option<Vec<u8>> {
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.ok()?;
    let mut out = Vec::with_capacity(HEAD_BYTES + body.len());
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(parts.status.as_str().as_bytes());
    out.push(b' ');
    let reason = parts.status.canonical_reason().unwrap_or_default();
    out.extend_from_slice(reason.as_bytes());
    out.extend_from_slice(b"\r\n");
    let mut line = |name: &HeaderName, value: &[u8]| {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    };
    for (name, value) in &parts.headers {
        line(name, value.as_bytes());
    }
    if !parts.headers.contains_key(CONTENT_LENGTH) {
        line(&CONTENT_LENGTH, HeaderValue::from(body.len()).as_bytes());
    }
    if !parts.headers.contains_key(DATE) {
        dates.now(|date| line(&DATE, date));
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&body);
    Some(out)
}

/// The date as answers carry it, written once a second.
#[derive(Debug, Default)]
pub(crate) struct Dates(Mutex<(i64, String)>);

impl Dates {
    fn now(&self, tell: impl FnOnce(&[u8])) {
        let now = SystemClock.now();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.0 != now.unix_seconds() || last.1.is_empty() {
            *last = (now.unix_seconds(), now.http_date());
        }
        tell(last.1.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_usual_is_brief() {
        let head =
            |line: &str| Bytes::from(format!("POST /x?y=1 HTTP/1.1\r\nhost: a\r\n{line}\r\n"));
        let usual = head("x-a:  b \r\nx-a: c\r\nconnection: Keep-Alive\r\ncontent-length: 0\r\n");
        let two = [usual.clone(), head("")].concat().into();
        for bytes in [&usual, &two] {
            let (request, length) = read(bytes).unwrap();
            assert_eq!(
                (request.method(), request.uri()),
                (&Method::POST, &Uri::from_static("/x?y=1"))
            );
            let values: Vec<_> = request.headers().get_all("x-a").iter().collect();
            assert_eq!(values, ["b", "c"]);
            assert_eq!(length, usual.len());
        }
        for line in [
            "content-length: 1\r\n",
            "connection: close\r\n",
            "connection: keep-alive, x-a\r\n",
            "connection: keep-alive\r\nconnection: upgrade\r\n",
            "upgrade: h2c\r\n",
            "expect: 100-continue\r\n",
            "transfer-encoding: chunked\r\n",
        ] {
            assert!(read(&head(line)).is_none(), "{line}");
        }
        for head in [
            "GET /x HTTP/1.0\r\nhost: a\r\n\r\n",
            "GET /x HTTP/1.1\r\nhost:",
        ] {
            assert!(read(&Bytes::from(head)).is_none(), "{head}");
        }
    }

    #[test]
    fn a_question_is_method_and_path() {
        for (head, is) in [
            ("GET /a/b?c=/d HTTP/1.1\r\nx: 1", Some(("GET", "/a/b"))),
            ("POST /a HTTP/1.1\r\n", Some(("POST", "/a"))),
            ("GET /a HTTP/1.1", None),
            ("GET\r\n", None),
        ] {
            assert_eq!(question(head.as_bytes()), is, "{head}");
        }
    }

    #[tokio::test]
    async fn an_answer_has_a_length_and_a_date() {
        let mut response = Response::new(Body::from("{}"));
        *response.status_mut() = http::StatusCode::CREATED;
        let name = HeaderName::from_static("x-a");
        response
            .headers_mut()
            .append(&name, HeaderValue::from_static("1"));
        response
            .headers_mut()
            .append(&name, HeaderValue::from_static("2"));
        let dates = Dates::default();
        *dates.0.lock().unwrap() = (SystemClock.now().unix_seconds() + 1, "later".to_owned());
        let out = written(response, &dates).await.unwrap();
        let text = String::from_utf8(out).unwrap();
        let head = "HTTP/1.1 201 Created\r\nx-a: 1\r\nx-a: 2\r\ncontent-length: 2\r\ndate: ";
        let rest = text.strip_prefix(head).unwrap();
        let (date, body) = rest.split_once("\r\n\r\n").unwrap();
        assert_eq!((date.len(), &date[25..], body), (29, " GMT", "{}"));
    }
}
