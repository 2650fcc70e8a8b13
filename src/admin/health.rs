//! Whether the process lives and can serve, and its metrics.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::json;
use tokio::sync::watch;

use crate::admin::Admin;
use crate::http::problem::Problem;
use crate::room::StoreError;
use crate::telemetry::Exposition;
use crate::telemetry::phase::Phase;

/// What readiness and metrics are read from.
#[derive(Debug)]
pub struct Health {
    /// Where the process is in its life.
    pub phase: watch::Receiver<Phase>,
    /// The metrics of the process.
    pub exposition: Exposition,
}

/// `GET /livez`: 200 while the process runs.
pub async fn livez() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: 200 while the process can serve; else 503, naming what fails.
pub async fn readyz(State(admin): State<Admin>) -> Response {
    let phase = *admin.health.phase.borrow();
    let database = database(&admin).await;
    let room = match admin.rooms.ready().await {
        Ok(()) => "ok",
        Err(StoreError::Unavailable(away)) => away.outage.word(),
        Err(StoreError::Unfenced | StoreError::Overloaded | StoreError::Corrupt(_)) => "failing",
    };
    let status = if phase == Phase::Ready && database == "ok" && room == "ok" {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let body = json!({
        "process": phase.word(),
        "database": database,
        "room": room,
    });
    (status, axum::Json(body)).into_response()
}

/// How the database is: a disk that is full, or a server that only follows, can still be read.
async fn database(admin: &Admin) -> &'static str {
    if admin.shows.list().await.is_err() {
        return "failing";
    }
    match admin.shows.try_write().await {
        Ok(()) => "ok",
        Err(_) => "read-only",
    }
}

/// `GET /metrics`: the Prometheus text format.
pub async fn metrics(State(admin): State<Admin>) -> Response {
    let text = admin.health.exposition.render();
    (
        [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        text,
    )
        .into_response()
}

/// Every other path.
pub async fn not_found() -> Problem {
    Problem::not_found("not-found", "There is nothing here.")
}
