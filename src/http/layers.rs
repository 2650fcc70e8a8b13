//! What a listener of strangers stands behind, piece by piece. Which pieces, and in which order, says
//! whoever uses them: `gateway/front.rs`.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use http_body_util::BodyExt;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};
use uuid::fmt::Hyphenated;

use crate::base::ids::RequestId;
use crate::http::extract;
use crate::http::patience::Patience;
use crate::http::problem::{Cause, Problem};
use crate::telemetry::metrics;

/// The header that names a request to the client and to upstreams.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest body that is read only to be refused.
const FORGOTTEN_BYTES_MAX: u64 = 1_048_576;
/// How long it is read.
const FORGOTTEN_MAX: Duration = Duration::from_secs(10);

/// The value with which an answer is signed; whoever forwards the request says the same.
pub fn signature(id: RequestId) -> HeaderValue {
    let mut text = [0; Hyphenated::LENGTH];
    let text = id.0.hyphenated().encode_lower(&mut text);
    HeaderValue::from_str(text).expect("an id is ASCII")
}

/// Logs the failure behind an answer. Refusals have no cause and are not logged.
pub fn log_failure(id: RequestId, method: &Method, response: &Response) {
    let Some(Cause(cause)) = response.extensions().get() else {
        return;
    };
    let (request_id, status) = (id.to_string(), response.status().as_u16());
    if status == 500 {
        tracing::error!(request.id = request_id, %method, status, error = format!("{cause:#}"),
            "a request failed");
    } else {
        tracing::warn!(request.id = request_id, %method, status, error = format!("{cause:#}"),
            "a request could not be served");
    }
}

/// Turns a panic into a 500: a bug costs one request, not the connections of many.
pub async fn panic_to_500(answer: impl Future<Output = Response>) -> Response {
    match AssertUnwindSafe(answer).catch_unwind().await {
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

/// One of the requests that may be answered at a time, unless all are.
pub fn permit(permits: &Semaphore) -> Option<SemaphorePermit<'_>> {
    permits.try_acquire().ok()
}

/// Refuses for want of a permit.
pub fn shed() -> Response {
    metrics::shed();
    Problem::unavailable("busy").into_response()
}

/// Gives up on an answer that has not begun in time; also what lets a drain end. What is granted while we
/// wait counts.
pub async fn in_time(patience: &Patience, answer: impl Future<Output = Response>) -> Response {
    let began = Instant::now();
    let mut answer = pin!(answer);
    loop {
        let max = patience.answer_max();
        match timeout_at(began + max, answer.as_mut()).await {
            Ok(response) => return response,
            Err(_) if max < patience.answer_max() => {}
            Err(_) => {
                return Problem::unavailable("busy")
                    .caused_by(anyhow::anyhow!("no answer within {max:?}"))
                    .into_response();
            }
        }
    }
}

/// Refuses a body that says it is longer than `max` bytes.
pub async fn body_max(State(max): State<u64>, request: Request, next: Next) -> Response {
    match longer_than(max, request.headers()) {
        Some(bytes) => too_long(request, bytes).await.into_response(),
        None => next.run(request).await,
    }
}

/// The bytes of a body that says it is longer than `max`.
pub fn longer_than(max: u64, headers: &HeaderMap) -> Option<u64> {
    let length = headers.get(http::header::CONTENT_LENGTH)?;
    let bytes = length.to_str().ok()?.parse().ok()?;
    (max < bytes).then_some(bytes)
}

/// 413 to a body of so many bytes. One that is not much longer than it may be is read and forgotten first:
/// who is refused in the middle of sending may see a broken connection instead of the answer.
pub async fn too_long(request: Request, bytes: u64) -> Problem {
    if bytes <= FORGOTTEN_BYTES_MAX && !request.headers().contains_key(http::header::EXPECT) {
        let mut body = request.into_body();
        let forget = async { while let Some(Ok(_)) = body.frame().await {} };
        // Whoever takes longer sees a broken connection.
        drop(tokio::time::timeout(FORGOTTEN_MAX, forget).await);
    }
    extract::too_large()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    #[tokio::test(start_paused = true)]
    async fn an_answer_has_the_time_that_is_granted_while_it_is_waited_for() {
        let second = Duration::from_secs(1);
        for (takes, granted, status) in [
            (5, None, 200),
            (20, None, 503),
            (20, Some(30), 200),
            (40, Some(30), 503),
        ] {
            let patience = Patience::new(10 * second, second);
            let answer = async {
                sleep(second).await;
                granted.inspect(|granted| patience.grant(*granted * second, second));
                sleep((takes - 1) * second).await;
                Response::default()
            };
            let began = Instant::now();
            let answered = in_time(&patience, answer).await;
            assert_eq!(answered.status(), status, "{takes} {granted:?}");
            let max = takes.min(granted.unwrap_or(10));
            assert_eq!(began.elapsed(), max * second, "{takes} {granted:?}");
        }
    }
}
