//! Dead letters, for operators: a list, and another try by the group that could not handle them.
//!
//! A replay is handled as any delivery is, by the group's own consumer and within its own transaction, so that
//! doing it twice does it once. A crash between that and the note that it was done is found by the next.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use crate::base::time::Timestamp;
use crate::http::extract::{Path, Query};
use crate::http::problem::Problem;
use crate::log::inbox::{DeadLetter, Inbox};
use crate::log::{ANOTHERS_ID, ApplyError, Consumer, LogError};

/// What was set aside, and those who may try it again.
#[derive(Debug, Clone)]
pub struct DeadLetters {
    inbox: Arc<dyn Inbox>,
    consumers: Arc<[Arc<dyn Consumer>]>,
}

/// What became of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replayed {
    /// It was handled now.
    Now,
    /// It had been handled before, and nothing was done.
    Before,
    /// A later version of the key has been handled, so that this one would be old news. Nothing was
    /// done; the version.
    Outdated(u64),
    /// It failed again; it stays set aside.
    Failed(String),
    /// There is no such dead letter, or nobody here who handles it.
    Unknown,
}

impl DeadLetters {
    /// Those of an inbox. Of each group one consumer, which need not be the one that runs.
    pub fn new(inbox: Arc<dyn Inbox>, consumers: Vec<Arc<dyn Consumer>>) -> Self {
        let consumers = consumers.into();
        Self { inbox, consumers }
    }

    /// Tries a delivery again that was set aside. Repeating it does nothing twice.
    ///
    /// # Errors
    /// [`LogError`] where the store could not be asked.
    pub async fn replay(&self, id: u64) -> Result<Replayed, LogError> {
        let Some(letter) = self.inbox.dead_letter(id).await? else {
            return Ok(Replayed::Unknown);
        };
        let (group, delivery) = (&letter.group, &letter.delivery);
        let mut consumers = self.consumers.iter();
        let Some(consumer) = consumers.find(|consumer| consumer.group() == group) else {
            return Ok(Replayed::Unknown);
        };
        let handled = self.inbox.handled(group, &delivery.event_id).await?;
        if handled.as_ref().is_some_and(|known| !delivery.is(known)) {
            return Ok(Replayed::Failed(ANOTHERS_ID.to_owned()));
        }
        if handled.is_some() || letter.replayed_at.is_some() {
            self.inbox.replayed(id).await?;
            return Ok(Replayed::Before);
        }
        match self.inbox.newest(group, &delivery.key).await? {
            Some(newest) if delivery.version < newest => return Ok(Replayed::Outdated(newest)),
            Some(_) | None => {}
        }
        match consumer.apply(delivery).await {
            Ok(()) => {
                self.inbox.replayed(id).await?;
                Ok(Replayed::Now)
            }
            Err(ApplyError::Failed(failure)) => Ok(Replayed::Failed(failure.to_string())),
            Err(ApplyError::Store(error)) => Err(error),
        }
    }
}

/// `GET /admin/v1/dead-letters?after=ID` and `POST /admin/v1/dead-letters/{id}/replay`.
pub fn router(letters: DeadLetters) -> Router {
    Router::new()
        .route("/admin/v1/dead-letters", get(list))
        .route("/admin/v1/dead-letters/{id}/replay", post(replay))
        .with_state(letters)
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

async fn list(
    State(letters): State<DeadLetters>,
    Query(page): Query<Page>,
) -> Result<Json<List>, Problem> {
    let letters = letters.inbox.dead_letters(page.after).await?;
    Ok(Json(List {
        dead_letters: letters.into_iter().map(letter).collect(),
    }))
}

#[derive(Debug, Serialize)]
struct Answer {
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    newer_version: Option<u64>,
}

async fn replay(
    State(letters): State<DeadLetters>,
    Path(id): Path<u64>,
) -> Result<Json<Answer>, Problem> {
    let plain = |outcome| Answer {
        outcome,
        reason: None,
        newer_version: None,
    };
    match letters.replay(id).await? {
        Replayed::Now => Ok(Json(plain("replayed"))),
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
