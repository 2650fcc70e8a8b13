//! What can never be sent, for operators: a list, another try, and going on without it.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;

use crate::base::time::Timestamp;
use crate::http::extract::Path;
use crate::http::problem::Problem;
use crate::relay::store::{Freed, Held, Quarantine, StoreError};

/// `GET /admin/v1/quarantine`, and `POST /admin/v1/quarantine/{seq}/release` and `/skip`.
pub fn router(quarantine: Arc<dyn Quarantine>) -> Router {
    Router::new()
        .route("/admin/v1/quarantine", get(list))
        .route("/admin/v1/quarantine/{seq}/release", post(release))
        .route("/admin/v1/quarantine/{seq}/skip", post(skip))
        .with_state(quarantine)
}

#[derive(Debug, Serialize)]
struct List {
    quarantine: Vec<Row>,
}

/// An event as operators read it. The payload stays in the store: it has people's addresses.
#[derive(Debug, Serialize)]
struct Row {
    seq: u64,
    event_id: String,
    r#type: String,
    aggregate: String,
    key: String,
    version: u64,
    reason: String,
    since: Timestamp,
}

async fn list(State(quarantine): State<Arc<dyn Quarantine>>) -> Result<Json<List>, Problem> {
    let held = quarantine.held().await?;
    Ok(Json(List {
        quarantine: held.into_iter().map(row).collect(),
    }))
}

#[derive(Debug, Serialize)]
struct Answer {
    /// Events that go now.
    released: u64,
}

async fn release(
    State(quarantine): State<Arc<dyn Quarantine>>,
    Path(seq): Path<u64>,
) -> Result<Json<Answer>, Problem> {
    answer(quarantine.release(seq).await?)
}

async fn skip(
    State(quarantine): State<Arc<dyn Quarantine>>,
    Path(seq): Path<u64>,
) -> Result<Json<Answer>, Problem> {
    answer(quarantine.skip(seq).await?)
}

fn answer(freed: Freed) -> Result<Json<Answer>, Problem> {
    match freed {
        Freed::Events(released) => Ok(Json(Answer { released })),
        Freed::Behind(first) => Err(Problem::conflict(
            "behind-another",
            "An earlier event of its key is in quarantine, and comes first.",
        )
        .with("first", first)),
        Freed::Unknown => Err(Problem::not_found(
            "not-in-quarantine",
            "There is no such event in quarantine.",
        )),
    }
}

fn row(held: Held) -> Row {
    let (aggregate, key) = held.key;
    Row {
        seq: held.seq,
        event_id: held.event_id,
        r#type: held.kind,
        aggregate,
        key,
        version: held.version,
        reason: held.reason,
        since: held.at,
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::unavailable("store-unavailable").caused_by(error)
    }
}
