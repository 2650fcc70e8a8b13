//! Who is asking too often: the question that the door and the handlers ask.
//!
//! What a limit has left is told as draft-ietf-httpapi-ratelimit-headers-10 writes it. Refusals tell
//! it, and joins; other answers do not, because nobody who polls as told comes near a limit.

use http::{HeaderName, HeaderValue};

use crate::gateway::Gateway;
use crate::http::problem::Problem;
use crate::limit::{Asking, Limit, Limiter, Verdict};
use crate::telemetry::metrics;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LEFT: HeaderName = HeaderName::from_static("ratelimit");

/// Counts one request.
///
/// # Errors
/// 429 with the seconds after which the next one would pass.
pub(crate) fn within(limits: &dyn Limiter, asking: Asking) -> Result<(), Problem> {
    match limits.ask(asking) {
        Verdict::Pass => Ok(()),
        Verdict::TooMany { retry_after_s } => {
            metrics::limited(asking.word());
            let told = told(
                (asking.word(), limits.limit(asking)),
                0,
                Some(retry_after_s),
            );
            Err(Problem::too_many("too-many-requests", retry_after_s).with_headers(told))
        }
    }
}

/// What is left of a prefix's joins, and after how many seconds there is more.
pub(crate) fn told_of_joins(
    gateway: &Gateway,
    left: u64,
    more_after_s: Option<u64>,
) -> [(HeaderName, HeaderValue); 2] {
    told(("join", gateway.settings.limits.join), left, more_after_s)
}

fn told(
    (word, limit): (&'static str, Limit),
    left: u64,
    more_after_s: Option<u64>,
) -> [(HeaderName, HeaderValue); 2] {
    let value = |text: String| {
        HeaderValue::try_from(text).expect("our own words and numbers are visible ASCII")
    };
    let (quota, window_s) = (limit.burst, limit.window_s());
    let after = more_after_s.map_or(String::new(), |s| format!(";t={s}"));
    [
        (POLICY, value(format!("\"{word}\";q={quota};w={window_s}"))),
        (LEFT, value(format!("\"{word}\";r={left}{after}"))),
    ]
}
