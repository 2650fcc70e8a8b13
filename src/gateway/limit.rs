//! Who is asking too often: the layer for everybody, and the question that handlers ask.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::gateway::GatewayState;
use crate::http::extract::ClientAddr;
use crate::http::problem::Problem;
use crate::limit::{Asking, Limiter, Prefix, Verdict};
use crate::telemetry::metrics;

/// Counts every request of a client's prefix.
pub(crate) async fn per_client(
    State(gateway): State<GatewayState>,
    client: ClientAddr,
    request: Request,
    next: Next,
) -> Response {
    let asking = Asking::Anything(Prefix::of(client.0));
    match within(&*gateway.limits, asking).await {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Counts one request.
///
/// # Errors
/// 429 with the seconds after which the next one would pass.
pub(crate) async fn within(limits: &dyn Limiter, asking: Asking) -> Result<(), Problem> {
    match limits.ask(asking).await {
        Verdict::Pass => Ok(()),
        Verdict::TooMany { retry_after_s } => {
            metrics::limited(match asking {
                Asking::Anything(_) => "anything",
                Asking::Join(_) => "join",
                Asking::Fan(_) => "fan",
                Asking::Gated(_) => "gated",
            });
            Err(Problem::too_many("too-many-requests", retry_after_s))
        }
    }
}
