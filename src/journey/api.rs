//! `GET /admin/v1/orders/{order}/journey`: where an order stopped, as facts and as text.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

use crate::base::ids::{HoldId, OrderId};
use crate::http::extract::Path;
use crate::http::problem::Problem;
use crate::journey::Journeys;
use crate::journey::fold::Journey;
use crate::journey::store::StoreError;
use crate::journey::text::text;

/// The route, for the operators' listener.
pub fn router(journeys: Journeys) -> Router {
    Router::new()
        .route("/admin/v1/orders/{order}/journey", get(journey))
        .with_state(journeys)
}

#[derive(Debug, Serialize)]
struct Answer {
    #[serde(flatten)]
    journey: Journey,
    /// The same for a person.
    text: String,
}

async fn journey(
    State(journeys): State<Journeys>,
    Path(order): Path<String>,
) -> Result<Response, Problem> {
    // An order that has not come yet is asked for by its hold.
    let (Ok(order), Ok(hold)) = (order.parse::<OrderId>(), order.parse::<HoldId>()) else {
        return Err(Problem::bad_request("bad-id", "This is no order id."));
    };
    let found = match journeys.of(order).await? {
        Some(journey) => Some(journey),
        None => journeys.of_hold(hold).await?,
    };
    let Some(journey) = found else {
        return Err(Problem::not_found(
            "no-such-order",
            "There is no such order.",
        ));
    };
    let text = text(&journey);
    Ok(Json(Answer { journey, text }).into_response())
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Unavailable(_) => Self::unavailable("store-unavailable"),
        }
        .caused_by(error)
    }
}
