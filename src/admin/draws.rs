//! Draws as operators see them, and the one act there is: to enter the beacon's value.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use crate::admin::Admin;
use crate::admin::access::{Operator, Role};
use crate::admin::shows::{answer, change, no_such_show, parse, refused, show_id};
use crate::http::extract::{Path, Whole};
use crate::http::problem::Problem;
use crate::show::draw::{Draw, Entered, check_line};

/// `POST /admin/v1/shows/{show}/beacon`: the value that the show's beacon has published, exactly as
/// fans can look it up. Once; the same again changes nothing.
///
/// # Errors
/// 404 for an unknown show, 409 where the draw waits for no beacon, has not been frozen or has
/// another value, 422 for a value that nobody could compare.
pub async fn beacon(
    State(admin): State<Admin>,
    Path(show): Path<String>,
    Extension(operator): Extension<Operator>,
    Whole(body): Whole,
) -> Result<Response, Problem> {
    operator.must_be(Role::Operator)?;
    let id = show_id(&show)?;
    let document = parse(&body)?;
    let value = document.get("value").map_or("", |value| value.get());
    let value: String = serde_json::from_str(value).unwrap_or_default();
    check_line("value", &value).map_err(refused)?;
    let change = change(&admin, &operator, "beacon", &body);
    let entered = admin.shows.enter_beacon(&id, &change, &value).await?;
    match entered.ok_or_else(no_such_show)? {
        Entered::Now | Entered::Before => {}
        Entered::NoBeacon => {
            let title = "The show has no draw that waits for a beacon.";
            return Err(Problem::conflict("no-beacon", title));
        }
        Entered::TooEarly => {
            let title = "The draw has not begun: a number that is known before could be chosen.";
            return Err(Problem::conflict("draw-not-frozen", title));
        }
        Entered::Other => {
            let title = "Another value was entered before, and it stays.";
            return Err(Problem::conflict("beacon-entered", title));
        }
    }
    admin.changed.notify_one();
    let show = admin.shows.get(&id).await?.ok_or_else(no_such_show)?;
    Ok(answer(&admin, StatusCode::OK, &show).await)
}

/// A draw without its secret, which becomes public with the seed.
pub(super) fn describe(draw: &Draw) -> Value {
    let secret = match draw.seed {
        Some(_) => draw.sealed.secret.to_string(),
        None => "***".to_owned(),
    };
    json!({
        "commitment": draw.sealed.commitment,
        "secret": secret,
        "size": draw.size,
        "beacon_value": draw.beacon_value,
        "seed": draw.seed,
    })
}
