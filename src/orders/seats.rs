//! What everybody may see of the seats: counted at most once a second a show, however many ask.
//!
//! Who asks while a count is under way waits for that one, and hears what comes of it, also where it fails:
//! nobody waits for more than two. Shows that do not exist are not remembered, so what is kept is bounded by
//! the operators.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::Mutex as Turn;
use tokio::time::Instant;

use crate::base::ids::ShowId;
use crate::base::time::Timestamp;
use crate::event::SectionStock;
use crate::orders::store::{Availability, Store, StoreError};

/// How long a count is told again.
const FRESH: Duration = Duration::from_secs(1);

/// An answer and when it was made.
#[derive(Debug, Clone)]
struct Counted {
    body: Bytes,
    at: Instant,
}

/// What came of the last count of a show.
#[derive(Debug, Default)]
struct Last {
    counted: Option<Counted>,
    /// When it failed, and why.
    failed: Option<(Instant, String)>,
}

/// The last count of every show that was asked for.
#[derive(Debug, Default)]
pub(super) struct Seats(Mutex<BTreeMap<ShowId, Arc<Turn<Last>>>>);

#[derive(Serialize)]
struct Body<'a> {
    show: &'a ShowId,
    sections: &'a [SectionStock],
    free: u64,
    as_of: Timestamp,
}

impl Seats {
    /// The seats of a show by section, JSON; `None`: no such show.
    pub(super) async fn of(
        &self,
        store: &dyn Store,
        show: &ShowId,
    ) -> Result<Option<Bytes>, StoreError> {
        let Some(turn) = self.known(show) else {
            return Ok(self.count(store, show).await?.map(|counted| counted.body));
        };
        let asked = Instant::now();
        let mut last = turn.lock().await;
        let fresh = |last: &&Counted| last.at.elapsed() < FRESH;
        if let Some(counted) = last.counted.as_ref().filter(fresh) {
            return Ok(Some(counted.body.clone()));
        }
        if let Some((at, why)) = &last.failed
            && asked <= *at
        {
            return Err(StoreError::Unavailable(anyhow::anyhow!("{why}")));
        }
        match self.count(store, show).await {
            Ok(counted) => {
                let body = counted.as_ref().map(|counted| counted.body.clone());
                *last = Last {
                    counted,
                    failed: None,
                };
                Ok(body)
            }
            Err(error) => {
                last.failed = Some((Instant::now(), error.to_string()));
                Err(error)
            }
        }
    }

    async fn count(&self, store: &dyn Store, show: &ShowId) -> Result<Option<Counted>, StoreError> {
        let at = Instant::now();
        let Some(availability) = store.availability(show).await? else {
            self.lock().remove(show);
            return Ok(None);
        };
        let body = body(show, &availability);
        self.lock().entry(show.clone()).or_default();
        Ok(Some(Counted { body, at }))
    }

    fn known(&self, show: &ShowId) -> Option<Arc<Turn<Last>>> {
        self.lock().get(show).map(Arc::clone)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<ShowId, Arc<Turn<Last>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn body(show: &ShowId, availability: &Availability) -> Bytes {
    let body = Body {
        show,
        sections: &availability.sections,
        free: availability.sections.iter().map(|s| s.free).sum(),
        as_of: availability.as_of,
    };
    let body = serde_json::to_vec(&body).expect("plain structs with text keys always serialize");
    body.into()
}
