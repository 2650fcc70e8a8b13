//! A delivery on its way to the dead letters: the log takes its copy first, then the inbox its row.
//!
//! A log may be slow to take the copy, or not take it at all. The partition waits for that, and nobody
//! else: what is under way is looked after by later steps, and what failed is begun again after a rest.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::base::limits::{DELIVERY_RETRIES_MS, SET_ASIDE_WAIT_MS};
use crate::base::time::Timestamp;
use crate::log::inbox::Because;
use crate::log::{Delivery, LogError, Subscriber};

type Sending = Pin<Box<dyn Future<Output = Result<(), LogError>> + Send>>;

/// A delivery that is to be set aside.
pub(super) struct Aside {
    /// The event.
    pub(super) event_id: String,
    /// Why it is.
    pub(super) because: Because,
    /// When its first attempt failed.
    pub(super) since: Timestamp,
    sending: Option<Sending>,
    failures: usize,
}

/// How far it has come.
#[derive(Debug)]
pub(super) enum Went {
    /// The log has its copy.
    Taken,
    /// Nobody knows yet.
    UnderWay,
    /// The log did not take it; not again for so many milliseconds.
    Failed(LogError, u64),
}

impl fmt::Debug for Aside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aside")
            .field("event_id", &self.event_id)
            .field("because", &self.because)
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}

impl Aside {
    /// One that nobody has been told of.
    pub(super) fn new(delivery: &Delivery, because: Because, since: Timestamp) -> Self {
        Self {
            event_id: delivery.event_id.clone(),
            because,
            since,
            sending: None,
            failures: 0,
        }
    }

    /// Whether the log has refused it, so that its partition stands still for that.
    pub(super) fn is_stuck(&self) -> bool {
        0 < self.failures
    }

    /// Begins, or looks whether it is done; a moment's waiting spares most a second look.
    pub(super) async fn go_on(
        &mut self,
        log: &Arc<dyn Subscriber>,
        group: &'static str,
        delivery: &Delivery,
    ) -> Went {
        let sending = self.sending.get_or_insert_with(|| {
            let (log, delivery) = (Arc::clone(log), delivery.clone());
            let because = self.because.clone();
            Box::pin(async move { log.set_aside(group, &delivery, &because).await })
        });
        let Ok(done) = timeout(Duration::from_millis(SET_ASIDE_WAIT_MS), sending).await else {
            return Went::UnderWay;
        };
        self.sending = None;
        let Err(error) = done else {
            return Went::Taken;
        };
        let last = DELIVERY_RETRIES_MS.len() - 1;
        let rest_ms = DELIVERY_RETRIES_MS[self.failures.min(last)];
        self.failures += 1;
        Went::Failed(error, rest_ms)
    }
}
