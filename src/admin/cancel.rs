//! The end of a show before its time: an act that nothing undoes.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;

use crate::admin::Admin;
use crate::admin::access::{Operator, Role};
use crate::admin::shows::{answer, change, no_such_show, parse, show_id};
use crate::http::extract::{Path, Whole};
use crate::http::problem::Problem;

/// `POST /admin/v1/shows/{show}/cancel` with `{"show": "…"}`, the show's id once more: closes the
/// room for good and stops the selling; what was sold is then taken back and paid back by itself.
/// Repeating it changes nothing.
///
/// # Errors
/// 422 where the id is not repeated, 404 for an unknown show, 403 for roles below admin.
pub async fn cancel(
    State(admin): State<Admin>,
    Path(show): Path<String>,
    Extension(operator): Extension<Operator>,
    Whole(body): Whole,
) -> Result<Response, Problem> {
    operator.must_be(Role::Admin)?;
    let id = show_id(&show)?;
    let repeated = parse(&body)?.remove("show");
    if repeated.is_none_or(|again| again.get() != format!("\"{id}\"")) {
        let title = "To cancel a show, repeat its id as the member \"show\".";
        return Err(Problem::unprocessable("unprocessable", title));
    }
    let change = change(&admin, &operator, "cancel", &body);
    let cancelled = admin.shows.cancel(&id, &change).await?;
    let show = cancelled.ok_or_else(no_such_show)?;
    admin.changed.notify_one();
    tracing::warn!(show.id = %id, operator = operator.name, "the show is cancelled");
    Ok(answer(&admin, StatusCode::OK, &show).await)
}
