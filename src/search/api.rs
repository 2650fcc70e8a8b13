//! `GET /admin/v1/shows/{show}/availability`: a show as it is listed.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

use crate::base::ids::ShowId;
use crate::base::time::Timestamp;
use crate::event::SectionStock;
use crate::http::extract::Path;
use crate::http::problem::Problem;
use crate::search::store::Store;

/// The route, for the operators' listener.
pub fn router(listings: Arc<dyn Store>) -> Router {
    Router::new()
        .route("/admin/v1/shows/{show}/availability", get(availability))
        .with_state(listings)
}

/// Members as in `GET /v1/shows/{show}/seats`, and what a copy of it needs.
#[derive(Debug, Serialize)]
struct Answer {
    show: ShowId,
    version: u64,
    sections: Vec<SectionStock>,
    free: u64,
    as_of: Timestamp,
    sold_out_at: Option<Timestamp>,
}

async fn availability(
    State(listings): State<Arc<dyn Store>>,
    Path(show): Path<String>,
) -> Result<Json<Answer>, Problem> {
    let show: ShowId = show
        .parse()
        .map_err(|_| Problem::bad_request("bad-id", "An identifier is malformed."))?;
    let Some(listing) = listings.listing(&show).await? else {
        return Err(Problem::not_found(
            "not-listed",
            "No event has told of the seats of this show yet.",
        ));
    };
    Ok(Json(Answer {
        show,
        version: listing.version,
        free: listing.sections.iter().map(|section| section.free).sum(),
        sections: listing.sections,
        as_of: listing.as_of,
        sold_out_at: listing.sold_out_at,
    }))
}
