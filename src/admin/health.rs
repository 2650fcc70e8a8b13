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
use crate::log::Subscriber;
use crate::room::{Rooms, StoreError};
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
    /// The event log, where the process has one. Orders go on without it, so readiness only tells how it is.
    pub log: Option<Arc<dyn Subscriber>>,
}

/// What every process answers on its operators' listener, whatever its role.
pub fn router(health: Arc<Health>) -> Router {
    Router::new()
        .route("/livez", get(livez)) // the process runs
        .route("/readyz", get(readyz)) // it can serve; names what it lacks
        .route("/metrics", get(metrics)) // Prometheus text
        .with_state(health)
        .method_not_allowed_fallback(async || Problem::no_such_method())
        .fallback(not_found)
}

/// `GET /livez`: 200 while the process runs.
async fn livez() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: 200 while the process can serve; else 503, naming what fails.
async fn readyz(State(health): State<Arc<Health>>) -> Response {
    let phase = *health.phase.borrow();
    let room = match health.rooms.ready().await {
        Ok(()) => "ok",
        Err(StoreError::Unavailable(away)) => away.outage.word(),
        Err(StoreError::Unfenced | StoreError::Overloaded | StoreError::Corrupt(_)) => "failing",
    };
    let mut body = json!({ "process": phase.word(), "room": room });
    let mut is_ready = phase == Phase::Ready && room == "ok";
    if let Some(shows) = &health.shows {
        let database = database(shows.as_ref()).await;
        body["database"] = json!(database);
        is_ready &= database == "ok";
    }
    if let Some(log) = health.log.as_ref().and_then(|log| log.state()) {
        body["log"] = json!(log);
    }
    let status = if is_ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, axum::Json(body)).into_response()
}

/// How the database is: a disk that is full, or a server that only follows, can still be read.
async fn database(shows: &dyn Store) -> &'static str {
    if shows.list().await.is_err() {
        return "failing";
    }
    match shows.try_write().await {
        Ok(()) => "ok",
        Err(_) => "read-only",
    }
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
