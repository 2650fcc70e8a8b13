//! The operators' door: shows and their states, journeys, dead letters; its own listener.
//!
//! Every request carries a bearer token, which has a name and a role. Viewers read, operators change
//! what a sale day changes, admins create shows. Every change leaves an audit row in the transaction
//! that made it, under the token's name.

pub mod access;
pub mod audit;
pub mod cancel;
pub mod dead_letters;
pub mod draws;
pub mod health;
pub mod revoke;
pub mod shows;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::CONTENT_TYPE;
use tokio::sync::Notify;

use crate::admin::access::Access;
use crate::admin::health::Health;
use crate::base::limits::BODY_BYTES_MAX;
use crate::base::time::Clock;
use crate::http::layers::body_max;
use crate::http::problem::Problem;
use crate::room::Rooms;
use crate::show::Store;

/// What the admin API needs.
#[derive(Debug, Clone)]
pub struct Admin {
    /// Who may do what.
    pub access: Arc<Access>,
    /// Shows in SQL.
    pub shows: Arc<dyn Store>,
    /// The rooms, for what is live.
    pub rooms: Rooms,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Wakes whoever carries out what an operator decided.
    pub changed: Arc<Notify>,
    /// What `/readyz` asks.
    pub health: Arc<Health>,
}

/// The routes of the operators' listener. `others` are routes of other services that only operators
/// may use; what they change is audited here.
pub fn router(admin: Admin, others: Router) -> Router {
    let others = others.layer(middleware::from_fn_with_state(admin.clone(), audit::acts));
    let guarded = Router::new()
        .route("/admin/v1/shows", get(shows::list))
        .route(
            "/admin/v1/shows/{show}",
            get(shows::read).put(shows::put).patch(shows::patch),
        )
        .route("/admin/v1/shows/{show}/beacon", post(draws::beacon))
        .route("/admin/v1/shows/{show}/{verb}", post(shows::verb))
        .route("/admin/v1/shows/{show}/cancel", post(cancel::cancel))
        .route("/admin/v1/shows/{show}/revoke", post(revoke::revoke))
        .with_state(admin.clone())
        .merge(others)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX)) // of bodies that do not say how long they are
        .layer(middleware::from_fn_with_state(
            BODY_BYTES_MAX as u64,
            body_max,
        ))
        .layer(middleware::from_fn_with_state(
            admin.access.clone(),
            access::require_token,
        ));
    health::router(admin.health)
        .route("/openapi.json", get(openapi))
        .method_not_allowed_fallback(no_such_method)
        .merge(guarded)
}

/// Every other method.
async fn no_such_method() -> Problem {
    Problem::no_such_method()
}

/// `GET /openapi.json`: the document of all this, as `catraca openapi --admin` wrote it. It says nothing that
/// an operator alone may know.
async fn openapi() -> Response {
    let kind = [(CONTENT_TYPE, "application/json")];
    (kind, include_str!("../../docs/openapi-admin.json")).into_response()
}
