//! The audit of acts that other services carry out behind the operators' door.

use axum::Extension;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::Method;

use crate::admin::Admin;
use crate::admin::access::Operator;
use crate::admin::shows::change;
use crate::http::problem::Problem;

/// Layer: an audit row before anything but a read is carried out, so that nothing happens that
/// nobody is named for.
///
/// # Errors
/// 503 where the row cannot be written; then nothing is carried out.
pub async fn acts(
    State(admin): State<Admin>,
    Extension(operator): Extension<Operator>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if request.method() != Method::GET {
        let act = format!("{} {}", request.method(), request.uri().path());
        admin
            .shows
            .audit(&change(&admin, &operator, &act, b"{}"))
            .await?;
    }
    Ok(next.run(request).await)
}
