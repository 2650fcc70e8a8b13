//! What is said where a connection ends for what was sent on it.

use http::StatusCode;

use crate::http::framing::Refusal;
use crate::http::problem::Problem;

/// What a refused connection hears, in full.
pub(super) fn answer(refusal: Refusal) -> Vec<u8> {
    let problem = match refusal {
        Refusal::Malformed => {
            Problem::bad_request("bad-request", "The request is not well-formed.")
        }
        Refusal::Framing => {
            Problem::bad_request("bad-request", "Where the body ends is not clear.")
        }
        Refusal::Headers => Problem::new(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "bad-request",
            "There are too many headers, or too long ones.",
        ),
        Refusal::Target => Problem::new(
            StatusCode::URI_TOO_LONG,
            "bad-path",
            "The address is too long.",
        ),
        Refusal::Version => Problem::new(
            StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            "bad-request",
            "This version of HTTP is not spoken here.",
        ),
    };
    problem.last_words()
}
