//! What everybody asks all the time: how they stand, and for a number.
//!
//! The router leads these two to the same functions, by way of a dozen boxes; here is the straight way.

use std::sync::Arc;

use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse, Response};

use crate::gateway::{GatewayState, visit};
use crate::http::extract::{ClientAddr, Headers, IdempotencyKey, ShowPath};

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Brief {
    Status,
    Join,
}

impl Brief {
    /// What this asks, if it is brief, and the text of its show.
    pub(crate) fn of<'a>(method: &str, path: &'a str) -> Option<(Self, &'a str)> {
        let (show, what) = path.strip_prefix("/v1/shows/")?.split_once('/')?;
        match (method, what) {
            ("GET", "status") => Some((Self::Status, show)),
            ("POST", "join") => Some((Self::Join, show)),
            (_, _) => None,
        }
    }
}

/// The answer to a request that the door let in, if it is brief. Its headers go into it.
pub(crate) async fn answer(
    gateway: &GatewayState,
    client: ClientAddr,
    request: &mut Request,
) -> Option<Response> {
    let (brief, show) = Brief::of(request.method().as_str(), request.uri().path())?;
    let show = match ShowPath::of(show) {
        Ok(show) => show,
        Err(problem) => return Some(problem.into_response()),
    };
    let gateway = State(Arc::clone(gateway));
    let headers = std::mem::take(request.headers_mut());
    let answered = match brief {
        Brief::Status => {
            let query = Query::try_from_uri(request.uri());
            visit::status(gateway, show, query, Headers(headers)).await
        }
        Brief::Join => match IdempotencyKey::of(&headers) {
            Ok(key) => Box::pin(visit::join(gateway, show, client, key, Headers(headers))).await,
            Err(problem) => Err(problem),
        },
    };
    Some(answered.into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_questions_are_brief() {
        for (method, path, is) in [
            (
                "GET",
                "/v1/shows/gala/status",
                Some((Brief::Status, "gala")),
            ),
            ("POST", "/v1/shows/gala/join", Some((Brief::Join, "gala"))),
            ("HEAD", "/v1/shows/gala/status", None),
            ("POST", "/v1/shows/gala/status", None),
            ("GET", "/v1/shows/gala/status/", None),
            ("GET", "/v1/shows/gala", None),
            ("GET", "/w/gala/status", None),
        ] {
            assert_eq!(Brief::of(method, path), is, "{method} {path}");
        }
    }
}
