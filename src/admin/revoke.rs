//! The end of one fan's turn before its time.

use axum::extract::State;
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::admin::Admin;
use crate::admin::access::{Operator, Role};
use crate::admin::shows::{change, no_such_show, show_id};
use crate::base::ids::FanId;
use crate::http::extract::{Path, Whole};
use crate::http::problem::Problem;
use crate::room::model::command::{AfterRevoke, Revoked};

/// Whose turn ends, and what becomes of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    fan: FanId,
    #[serde(default)]
    then: Then,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Then {
    #[default]
    Out,
    Returned,
}

impl Then {
    const fn word(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::Returned => "returned",
        }
    }

    const fn command(self) -> AfterRevoke {
        match self {
            Self::Out => AfterRevoke::Out,
            Self::Returned => AfterRevoke::Returned,
        }
    }
}

/// `POST /admin/v1/shows/{show}/revoke` with `{"fan": "…"}`: ends the fan's admission, or their place
/// in line; every gateway refuses the ticket within a second. With `"then": "returned"` an admission
/// ends and the fan is next in line again. Repeating it changes nothing, and `revoked` says `before`.
///
/// # Errors
/// 404 for an unknown show or fan, 422 for a body that names no fan, 403 for roles below operator, 503
/// where room or SQL is away.
pub async fn revoke(
    State(admin): State<Admin>,
    Path(show): Path<String>,
    Extension(operator): Extension<Operator>,
    Whole(body): Whole,
) -> Result<Json<Value>, Problem> {
    operator.must_be(Role::Operator)?;
    let id = show_id(&show)?;
    let asked: Asked = serde_json::from_slice(&body).map_err(|_| no_fan())?;
    admin.shows.get(&id).await?.ok_or_else(no_such_show)?;
    let Asked { fan, then } = asked;
    let act = json!({ "show": id, "fan": fan, "then": then.word() });
    // First, so that nothing happens that nobody is named for.
    let change = change(&admin, &operator, "revoke", act.to_string().as_bytes());
    admin.shows.audit(&change).await?;
    let revoked = admin.rooms.revoke(&id, vec![fan], then.command()).await?;
    let word = match revoked.first() {
        Some(Revoked::Now) => "now",
        Some(Revoked::Before) => "before",
        Some(Revoked::Unknown) | None => return Err(no_such_fan()),
    };
    Ok(Json(json!({ "show": id, "fan": fan, "revoked": word })))
}

fn no_fan() -> Problem {
    let title = "The body must name a fan, and may say then: out or returned.";
    Problem::unprocessable("unprocessable", title)
}

fn no_such_fan() -> Problem {
    Problem::not_found("no-such-fan", "The show's room does not know this fan.")
}
