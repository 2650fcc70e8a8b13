//! A request that changes something, from its idempotency key to its answer.
//!
//! It goes on where whoever asked has hung up: a key that was begun is ended, so that a repeat finds the answer or
//! may proceed, and need not wait until the mark of a request that nobody works at lapses.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::HeaderValue;

use crate::base::time::Timestamp;
use crate::http::problem::Problem;
use crate::orders::api::{ADMISSION, in_progress, outcome, refused, respond};
use crate::orders::idempotency::{Answer, Begun, Claimed, Key};
use crate::orders::rules::Refusal;
use crate::orders::rules::hold::PlaceHold;
use crate::orders::rules::order::{Pay, PlaceOrder, Placed};
use crate::orders::store::Told;
use crate::orders::{Orders, answer};
use crate::telemetry::metrics;

/// Before each further attempt to release a key.
const RELEASE_PAUSES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];
/// How a request with an idempotency key starts.
enum Start {
    /// It has no key, or may proceed with it.
    Proceed(Option<Claimed>),
    /// It was answered before.
    Answered(Result<Response, Problem>),
}

impl Orders {
    /// Goes on to its end also when whoever asked has hung up.
    pub(super) async fn to_its_end<F>(
        &self,
        work: impl FnOnce(Self) -> F,
    ) -> Result<Response, Problem>
    where
        F: Future<Output = Result<Response, Problem>> + Send + 'static,
    {
        match self.under_way.spawn(work(self.clone())).await {
            Ok(answered) => answered,
            Err(error) => resume_unwind(error.into_panic()),
        }
    }

    pub(super) async fn hold(
        &self,
        key: Option<Key>,
        request: PlaceHold,
    ) -> Result<Response, Problem> {
        let claimed = match self.begin(key).await? {
            Start::Proceed(claimed) => claimed,
            Start::Answered(answered) => return answered,
        };
        let told = self.store.hold(&request, claimed.as_ref()).await;
        metrics::hold(outcome(&told));
        let carts = match &told {
            Ok(Err(Refusal::TooManyHolds(carts))) => Some(carts.clone()),
            Ok(_) | Err(_) => None,
        };
        match (self.end(claimed, told).await, carts) {
            (Ok(hold), _) => Ok(respond(&answer::held(&hold))),
            // Who asks again because the first answer was lost still has time to order what they hold.
            (Err(problem), Some(carts)) => Ok(told_until(problem, carts.until)),
            (Err(problem), None) => Err(problem),
        }
    }

    pub(super) async fn place(
        &self,
        key: Option<Key>,
        request: PlaceOrder,
    ) -> Result<Response, Problem> {
        let claimed = match self.begin(key).await? {
            Start::Proceed(claimed) => claimed,
            Start::Answered(answered) => return answered,
        };
        let told = self.store.place(&request, claimed.as_ref()).await;
        metrics::order(outcome(&told));
        let placed = self.end(claimed, told).await?;
        match placed {
            Placed::First(_) => self.payable.notify_one(),
            Placed::Again(_) => {}
        }
        Ok(respond(&answer::placed(&placed)))
    }

    pub(super) async fn pay(&self, key: Option<Key>, request: Pay) -> Result<Response, Problem> {
        let claimed = match self.begin(key).await? {
            Start::Proceed(claimed) => claimed,
            Start::Answered(answered) => return answered,
        };
        let told = self.store.pay(&request, claimed.as_ref()).await;
        let order = self.end(claimed, told).await?;
        self.payable.notify_one();
        Ok(respond(&answer::paying(&order)))
    }

    async fn begin(&self, key: Option<Key>) -> Result<Start, Problem> {
        let Some(key) = key else {
            return Ok(Start::Proceed(None));
        };
        match self.store.begin(&key).await? {
            Begun::Proceed(claimed) => Ok(Start::Proceed(Some(claimed))),
            Begun::Replay(kept) => Ok(Start::Answered(Ok(replay(&kept)))),
            Begun::InProgress => Err(in_progress()),
            Begun::KeyReused => Err(Problem::unprocessable(
                "key-reused",
                "This Idempotency-Key was used for something else.",
            )),
        }
    }

    /// Ends a request: a failure takes the mark of its key back, so that a repeat may succeed.
    pub(super) async fn end<T>(
        &self,
        claimed: Option<Claimed>,
        told: Told<T>,
    ) -> Result<T, Problem> {
        let told = match (told, claimed) {
            (Ok(told), _) => told,
            (Err(error), None) => return Err(error.into()),
            (Err(error), Some(claimed)) => {
                self.release(claimed).await;
                return Err(error.into());
            }
        };
        let done = told.map_err(refused)?;
        self.written.notify_one();
        Ok(done)
    }

    /// Takes the mark of a key back: now, or a little later where what failed the request fails this, too. A mark
    /// that stays lapses by itself.
    async fn release(&self, claimed: Claimed) {
        if self.store.release_key(&claimed).await.is_ok() {
            return;
        }
        let store = Arc::clone(&self.store);
        self.under_way.spawn(async move {
            for pause in RELEASE_PAUSES {
                tokio::time::sleep(pause).await;
                if store.release_key(&claimed).await.is_ok() {
                    return;
                }
            }
        });
    }
}

fn told_until(problem: Problem, until: Timestamp) -> Response {
    let mut response = problem.into_response();
    if let Ok(admission) = HeaderValue::from_str(&answer::until(until)) {
        response.headers_mut().insert(ADMISSION, admission);
    }
    response
}

fn replay(kept: &Answer) -> Response {
    let mut response = match answer::kept_refusal(kept) {
        Some(refusal) => refused(refusal).into_response(),
        None => respond(kept),
    };
    let replayed = HeaderValue::from_static("true");
    response
        .headers_mut()
        .insert("idempotent-replayed", replayed);
    response
}
