//! Dead letters, for operators: a list, and another try.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use crate::base::time::Timestamp;
use crate::http::extract::{Path, Query};
use crate::http::problem::Problem;
use crate::log::LogError;
use crate::log::inbox::{DeadLetter, Inbox};
use crate::notify::step::{Notifier, Replayed};

#[derive(Debug, Clone)]
struct Desk {
    inbox: Arc<dyn Inbox>,
    notifier: Arc<Notifier>,
}

/// `GET /admin/v1/dead-letters?after=ID` and `POST /admin/v1/dead-letters/{id}/replay`.
pub fn router(inbox: Arc<dyn Inbox>, notifier: Notifier) -> Router {
    Router::new()
        .route("/admin/v1/dead-letters", get(list))
        .route("/admin/v1/dead-letters/{id}/replay", post(replay))
        .with_state(Desk {
            inbox,
            notifier: Arc::new(notifier),
        })
}

#[derive(Debug, Deserialize)]
struct Page {
    #[serde(default)]
    after: u64,
}

#[derive(Debug, Serialize)]
struct List {
    dead_letters: Vec<Letter>,
}

/// A dead letter as operators read it. The payload stays in the store: it has people's addresses.
#[derive(Debug, Serialize)]
struct Letter {
    id: u64,
    consumer: String,
    partition: u16,
    offset: u64,
    event_id: String,
    key: String,
    version: u64,
    r#type: String,
    reason: String,
    attempts: u32,
    at: Timestamp,
    replayed_at: Option<Timestamp>,
}

async fn list(State(desk): State<Desk>, Query(page): Query<Page>) -> Result<Json<List>, Problem> {
    let letters = desk.inbox.dead_letters(page.after).await?;
    Ok(Json(List {
        dead_letters: letters.into_iter().map(letter).collect(),
    }))
}

#[derive(Debug, Serialize)]
struct Answer {
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    newer_version: Option<u64>,
}

async fn replay(State(desk): State<Desk>, Path(id): Path<u64>) -> Result<Json<Answer>, Problem> {
    let plain = |outcome| Answer {
        outcome,
        receipt: None,
        reason: None,
        newer_version: None,
    };
    match desk.notifier.replay(id).await? {
        Replayed::Now(receipt) => Ok(Json(Answer {
            receipt: Some(receipt),
            ..plain("replayed")
        })),
        Replayed::Before => Ok(Json(plain("handled-before"))),
        Replayed::Outdated(version) => Ok(Json(Answer {
            newer_version: Some(version),
            ..plain("outdated")
        })),
        Replayed::Failed(reason) => Ok(Json(Answer {
            reason: Some(reason),
            ..plain("failed")
        })),
        Replayed::Unknown => Err(Problem::not_found(
            "no-such-dead-letter",
            "There is no such dead letter.",
        )),
    }
}

fn letter(letter: DeadLetter) -> Letter {
    let (delivery, because) = (letter.delivery, letter.because);
    Letter {
        id: letter.id,
        consumer: letter.group,
        partition: delivery.partition,
        offset: delivery.offset,
        event_id: delivery.event_id,
        key: delivery.key,
        version: delivery.version,
        r#type: delivery.kind,
        reason: because.reason,
        attempts: because.attempts,
        at: letter.at,
        replayed_at: letter.replayed_at,
    }
}

impl From<LogError> for Problem {
    fn from(error: LogError) -> Self {
        Self::unavailable("store-unavailable").caused_by(error)
    }
}
