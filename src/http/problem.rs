//! What we say when we say no: RFC 9457 problem documents.
//!
//! A problem has a word (`type`), a status, a sentence for the reader and, where waiting helps, a
//! `Retry-After`. It never repeats input and never shows a cause; the cause stays with the response
//! as an extension, for the one layer that logs failures.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Map, Value, json};

/// What a problem is written in.
const MEDIA_TYPE: &str = "application/problem+json";

/// A refusal or a failure as the client sees it.
#[derive(Debug, Clone)]
pub struct Problem {
    status: StatusCode,
    word: &'static str,
    title: &'static str,
    retry_after_s: Option<u64>,
    members: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
    cause: Option<Cause>,
}

/// Says that a connection of HTTP/1 is to end with this answer. A response extension. Where one thing is
/// ambiguous, so may be what follows it; and what is left of a body that is too long is not read.
#[derive(Debug, Clone, Copy)]
pub struct Last;

/// Why a problem arose. Travels as a response extension and is logged once; clients never see it.
#[derive(Debug, Clone)]
pub struct Cause(pub Arc<anyhow::Error>);

impl Problem {
    /// A problem: its status, its word (`sold-out`) and one sentence that a person understands.
    pub fn new(status: StatusCode, word: &'static str, title: &'static str) -> Self {
        Self {
            status,
            word,
            title,
            retry_after_s: None,
            members: Map::new(),
            headers: Vec::new(),
            cause: None,
        }
    }

    /// 400: the request is not well-formed.
    pub fn bad_request(word: &'static str, title: &'static str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, word, title)
    }

    /// 401, the same to everybody who may not pass the gate.
    pub fn no_ticket() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "ticket-required",
            "This needs a live ticket.",
        )
    }

    /// 404.
    pub fn not_found(word: &'static str, title: &'static str) -> Self {
        Self::new(StatusCode::NOT_FOUND, word, title)
    }

    /// 405.
    pub fn no_such_method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "no-such-method",
            "That cannot be done here.",
        )
    }

    /// 409: well-formed, but not in this state.
    pub fn conflict(word: &'static str, title: &'static str) -> Self {
        Self::new(StatusCode::CONFLICT, word, title)
    }

    /// 422: well-formed, but it cannot be meant.
    pub fn unprocessable(word: &'static str, title: &'static str) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, word, title)
    }

    /// 429: too often; ask again after so many seconds.
    pub fn too_many(word: &'static str, retry_after_s: u64) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, word, "Too many requests.")
            .retry_after(retry_after_s)
    }

    /// 500: we are wrong.
    pub fn internal(word: &'static str) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            word,
            "Something went wrong on our side.",
        )
    }

    /// 503: something we need is away; ask again in a second.
    pub fn unavailable(word: &'static str) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            word,
            "Please try again in a moment.",
        )
        .retry_after(1)
    }

    /// Asks the client to wait so many seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// Adds a member that the client can act on, such as `opens_in_ms`.
    #[must_use]
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.members.insert(member.to_owned(), value.into());
        self
    }

    /// Adds headers to the answer.
    #[must_use]
    pub fn with_headers(
        mut self,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
    ) -> Self {
        self.headers.extend(headers);
        self
    }

    /// Attaches the failure behind the problem, for the log.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<anyhow::Error>) -> Self {
        self.cause = Some(Cause(Arc::new(cause.into())));
        self
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The last part of `type`.
    pub fn word(&self) -> &'static str {
        self.word
    }

    /// Seconds that the client is asked to wait.
    pub fn retry_after_s(&self) -> Option<u64> {
        self.retry_after_s
    }

    /// The problem as the bytes of a whole answer, after which an HTTP/1 connection ends.
    pub(crate) fn last_words(self) -> Vec<u8> {
        let status = self.status;
        let body = self.body();
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: {MEDIA_TYPE}\r\ncache-control: no-store\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }

    fn body(&self) -> String {
        let mut body = json!({
            "type": format!("urn:catraca:problem:{}", self.word),
            "title": self.title,
            "status": self.status.as_u16(),
        });
        for (member, value) in &self.members {
            body[member] = value.clone();
        }
        body.to_string()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.body()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        headers.extend(self.headers);
        if [StatusCode::BAD_REQUEST, StatusCode::PAYLOAD_TOO_LARGE].contains(&self.status) {
            response.extensions_mut().insert(Last);
        }
        if let Some(cause) = self.cause {
            response.extensions_mut().insert(cause);
        }
        response
    }
}
