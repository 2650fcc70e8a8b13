//! The loop that takes back what is held and sold of cancelled shows.
//!
//! It keeps no list of what it has done: whoever still has seats of a cancelled show is what is left
//! to do. So a process that dies in the middle is followed by one that goes on, and a hold or order
//! that was being written while the show was cancelled is found a moment later.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::base::limits::CANCELLED_AT_ONCE;
use crate::orders::store::{Store, Swept};
use crate::show::Store as ShowStore;
use crate::telemetry::metrics;

/// How long a cancelled show may wait for its turn.
const EVERY: Duration = Duration::from_millis(500);

/// The loop.
#[derive(Debug)]
pub struct Cancel {
    /// What selling keeps.
    pub store: Arc<dyn Store>,
    /// Which shows are cancelled.
    pub shows: Arc<dyn ShowStore>,
    /// Told when there is money to give back.
    pub payable: Arc<Notify>,
    /// Told when events were written.
    pub written: Arc<Notify>,
}

impl Cancel {
    /// Takes back until it is told to stop; the current step completes.
    ///
    /// # Errors
    /// None: a step that fails is logged and repeated.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        while !stop.is_cancelled() {
            let pause = match self.step().await {
                Ok(swept) if swept == Swept::default() => EVERY,
                Ok(_) => Duration::ZERO,
                Err(error) => {
                    tracing::warn!("a cancelled show was not taken back: {error:#}");
                    EVERY
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        Ok(())
    }

    /// Takes back a bounded number of holds and orders of each cancelled show. Running it twice, also
    /// at the same time, is harmless: what was taken back has no seats.
    ///
    /// # Errors
    /// Where a store is away; of the other shows as much is taken back.
    pub async fn step(&self) -> anyhow::Result<Swept> {
        let (mut swept, mut failed) = (Swept::default(), None);
        for show in self.shows.list().await? {
            if show.cancelled_at.is_none() {
                continue;
            }
            match self.store.cancel_show(&show.id, CANCELLED_AT_ONCE).await {
                Ok(now) => {
                    swept.holds += now.holds;
                    swept.orders += now.orders;
                }
                Err(error) => {
                    failed = Some(anyhow::Error::from(error).context(show.id.to_string()));
                }
            }
        }
        metrics::cancelled("hold", swept.holds);
        metrics::cancelled("order", swept.orders);
        if swept != Swept::default() {
            self.payable.notify_one();
            self.written.notify_one();
        }
        failed.map_or(Ok(swept), Err)
    }
}
