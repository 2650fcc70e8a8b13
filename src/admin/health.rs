//! Whether the process lives and can serve, and its metrics.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::json;
use tokio::sync::watch;

use crate::http::problem::Problem;
use crate::room::Rooms;
use crate::show::Store;
use crate::telemetry::Exposition;
use crate::telemetry::phase::Phase;

/// What readiness and metrics are read from.
#[derive(Debug)]
pub struct Health {
    /// Where the process is in its life.
    pub phase: watch::Receiver<Phase>,
    /// The metrics of the process.
    pub exposition: Exposition,
    /// The rooms, which every role needs.
    pub rooms: Rooms,
    /// Shows in SQL; none for a gateway, which does not need them.
    pub shows: Option<Arc<dyn Store>>,
}

/// What every process answers on its operators' listener, whatever its role.
pub fn router(health: Arc<Health>) -> Router {
    Router::new()
        .route("/livez", get(livez)) // the process runs
        .route("/readyz", get(readyz)) // it can serve; names what it lacks
        .route("/metrics", get(metrics)) // Prometheus text
        .with_state(health)
        .fallback(not_found)
}

/// `GET /livez`: 200 while the process runs.
async fn livez() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: 200 while the process can serve; else 503, naming what fails.
async fn readyz(State(health): State<Arc<Health>>) -> Response {
    let word = |ok: bool| if ok { "ok" } else { "failing" };
    let phase = *health.phase.borrow();
    let room = health.rooms.shows().await.is_ok();
    let mut body = json!({ "process": phase.word(), "room": word(room) });
    let mut is_ready = phase == Phase::Ready && room;
    if let Some(shows) = &health.shows {
        let database = shows.list().await.is_ok();
        body["database"] = json!(word(database));
        is_ready &= database;
    }
    let status = if is_ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, axum::Json(body)).into_response()
}

/// `GET /metrics`: the Prometheus text format.
async fn metrics(State(health): State<Arc<Health>>) -> Response {
    let text = health.exposition.render();
    (
        [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        text,
    )
        .into_response()
}

/// Every other path.
async fn not_found() -> Problem {
    Problem::not_found("not-found", "There is nothing here.")
}
