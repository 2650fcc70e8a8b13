//! Layers that every listener of ours stands behind.
//!
//! Each is an async function for `axum::middleware::from_fn…`; which ones, and in which order, says
//! the router that uses them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::{HeaderName, HeaderValue};
use http_body_util::BodyExt;
use ipnet::IpNet;
use tokio::sync::Semaphore;

use crate::base::ids::{IdSource, RequestId};
use crate::base::time::Clock;
use crate::http::extract;
use crate::http::problem::{Cause, Problem};
use crate::http::server::Peer;
use crate::telemetry::metrics;

/// The header that names a request to the client and to upstreams.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest body that is read only to be refused.
const FORGOTTEN_BYTES_MAX: u64 = 1_048_576;
/// How long it is read.
const FORGOTTEN_MAX: Duration = Duration::from_secs(10);

/// Where request ids come from.
#[derive(Debug, Clone)]
pub struct RequestIds {
    /// Chance.
    pub ids: Arc<IdSource>,
    /// Wall time, so that ids sort.
    pub clock: Arc<dyn Clock>,
}

/// Names the request: one id, ours, whatever the client sent; the answer carries it.
pub async fn request_id(
    State(source): State<RequestIds>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = source.ids.request(source.clock.now());
    let value = HeaderValue::from_str(&id.to_string()).expect("an id is ASCII");
    request.extensions_mut().insert(id);
    request.headers_mut().insert(REQUEST_ID, value.clone());
    let mut response = next.run(request).await;
    response.headers_mut().insert(REQUEST_ID, value);
    response
}

/// Logs the failure behind an answer, once, for all handlers below. Refusals have no cause and are
/// not logged.
pub async fn failures_logged_once(request: Request, next: Next) -> Response {
    let id = request.extensions().get::<RequestId>().copied();
    let method = request.method().clone();
    let response = next.run(request).await;
    if let Some(Cause(cause)) = response.extensions().get() {
        let request_id = id.map(|id| id.to_string()).unwrap_or_default();
        let status = response.status().as_u16();
        if status == 500 {
            tracing::error!(request.id = request_id, %method, status, error = format!("{cause:#}"),
                "a request failed");
        } else {
            tracing::warn!(request.id = request_id, %method, status, error = format!("{cause:#}"),
                "a request could not be served");
        }
    }
    response
}

/// Turns a panic into a 500: a bug costs one request, not the connections of many.
pub async fn panic_to_500(request: Request, next: Next) -> Response {
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(panic) => {
            let text = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no message".to_owned());
            Problem::internal("internal")
                .caused_by(anyhow::anyhow!("panic: {text}"))
                .into_response()
        }
    }
}

/// Refuses at once while as many requests are being answered as there are permits.
pub async fn shed(State(permits): State<Arc<Semaphore>>, request: Request, next: Next) -> Response {
    let Ok(_permit) = permits.try_acquire() else {
        metrics::shed();
        return Problem::unavailable("busy").into_response();
    };
    next.run(request).await
}

/// Gives up on an answer that has not begun in time; also what lets a drain end.
pub async fn timeout(State(max): State<Duration>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(max, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::unavailable("busy")
            .caused_by(anyhow::anyhow!("no answer within {max:?}"))
            .into_response(),
    }
}

/// Refuses a body that says it is longer than `max` bytes.
pub async fn body_max(State(max): State<u64>, request: Request, next: Next) -> Response {
    match fitting(request, max).await {
        Ok(request) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// The request, if its body does not say that it is longer than `max` bytes. One that is not much
/// longer is read and forgotten first: who is refused in the middle of sending may see a broken
/// connection instead of the answer.
///
/// # Errors
/// 413.
pub async fn fitting(request: Request, max: u64) -> Result<Request, Problem> {
    let length = request.headers().get(http::header::CONTENT_LENGTH);
    let bytes = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let Some(bytes) = bytes.filter(|bytes| max < *bytes) else {
        return Ok(request);
    };
    if bytes <= FORGOTTEN_BYTES_MAX && !request.headers().contains_key(http::header::EXPECT) {
        let mut body = request.into_body();
        let forget = async { while let Some(Ok(_)) = body.frame().await {} };
        // Whoever takes longer sees a broken connection.
        drop(tokio::time::timeout(FORGOTTEN_MAX, forget).await);
    }
    Err(extract::too_large())
}

/// Finds out who is asking, once, for limits and for the upstream.
pub async fn client_addr(
    State(trusted): State<Arc<[IpNet]>>,
    mut request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Peer>();
    let peer = peer.map_or(std::net::Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0.ip());
    let client = extract::client_addr(peer, request.headers(), &trusted);
    request.extensions_mut().insert(client);
    next.run(request).await
}
