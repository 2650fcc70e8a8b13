//! Who is asking too often: the question that the door and the handlers ask.

use crate::http::problem::Problem;
use crate::limit::{Asking, Limiter, Verdict};
use crate::telemetry::metrics;

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
