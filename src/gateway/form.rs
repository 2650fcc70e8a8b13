//! The few fields that a form of our own pages sends.

use axum::body::Body;
use axum::extract::FromRequest;
use http::Request;
use url::form_urlencoded;

use crate::base::limits::FORM_BYTES_MAX;
use crate::http::extract::{media_type, unread};
use crate::http::problem::Problem;

/// What browsers call a form.
const FORM: &str = "application/x-www-form-urlencoded";

/// The fields of a form, as browsers send them. What is no form has none: our forms need no field.
#[derive(Debug)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    /// A field that is there once and not empty.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.0.iter().filter(|(field, _)| field == name);
        match (values.next(), values.next()) {
            (Some((_, value)), None) if !value.is_empty() => Some(value),
            (Some(_) | None, _) => None,
        }
    }
}

impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = Problem;

    async fn from_request(request: Request<Body>, _state: &S) -> Result<Self, Problem> {
        let kind = media_type(request.headers())?;
        if kind.is_none_or(|kind| !kind.eq_ignore_ascii_case(FORM)) {
            return Ok(Self(Vec::new()));
        }
        let bytes = axum::body::to_bytes(request.into_body(), FORM_BYTES_MAX)
            .await
            .map_err(|error| unread(&error))?;
        Ok(Self(form_urlencoded::parse(&bytes).into_owned().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use http::header::CONTENT_TYPE;

    #[tokio::test]
    async fn a_form_is_read_and_nothing_else() {
        let long = format!("wait={}", "a".repeat(FORM_BYTES_MAX));
        for (kind, body, status, wait) in [
            (FORM, "wait=a.b&x=y", None, Some("a.b")),
            (FORM, "wait=a%2Eb", None, Some("a.b")),
            (FORM, "wait=", None, None),
            (FORM, "wait=a&wait=b", None, None),
            (FORM, "&&=%zz", None, None),
            ("text/plain", "wait=a", None, None),
            (FORM, long.as_str(), Some(413), None),
        ] {
            let request = Request::post("/").header(CONTENT_TYPE, kind);
            let request = request.body(Body::from(body.to_owned())).unwrap();
            let form = Form::from_request(request, &()).await;
            let refused = form.as_ref().err().map(|problem| problem.status().as_u16());
            assert_eq!(refused, status, "{body:.40}");
            let field = form
                .ok()
                .and_then(|form| form.field("wait").map(str::to_owned));
            assert_eq!(field.as_deref(), wait, "{body:.40}");
        }
    }
}
