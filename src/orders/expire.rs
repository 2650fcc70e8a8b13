//! The loop that ends what nobody finished: holds, unpaid orders, remembered answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::base::limits::EXPIRED_AT_ONCE;
use crate::orders::store::{Store, StoreError};
use crate::telemetry::metrics;

/// The loop.
#[derive(Debug)]
pub struct Expire {
    /// What selling keeps.
    pub store: Arc<dyn Store>,
    /// The pause between steps: how long seats may stay held beyond their time.
    pub every: Duration,
    /// Told when events were written.
    pub written: Arc<Notify>,
}

/// What a step ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    /// Holds whose time was over.
    pub holds: u32,
    /// Orders that were not paid in time.
    pub orders: u32,
    /// Answers that had been kept for their idempotency keys long enough.
    pub keys: u32,
}

impl Step {
    /// Whether there may be more to end right now.
    const fn is_full(self) -> bool {
        EXPIRED_AT_ONCE <= self.holds || EXPIRED_AT_ONCE <= self.orders
    }
}

impl Expire {
    /// Ends what is over until it is told to stop; the current step completes.
    ///
    /// # Errors
    /// None: a step that fails is logged and repeated.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        while !stop.is_cancelled() {
            let pause = match self.step().await {
                Ok(step) if step.is_full() => Duration::ZERO,
                Ok(_) => self.every,
                Err(error) => {
                    let error = anyhow::Error::from(error);
                    tracing::warn!("holds were not expired: {error:#}");
                    self.every
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = sleep(pause) => {}
            }
        }
        Ok(())
    }

    /// Ends a bounded number of each. Running it twice is harmless: what has ended is not found.
    ///
    /// # Errors
    /// The store's; what was ended before stays ended.
    pub async fn step(&self) -> Result<Step, StoreError> {
        let step = Step {
            holds: self.store.expire_holds(EXPIRED_AT_ONCE).await?,
            orders: self.store.expire_orders(EXPIRED_AT_ONCE).await?,
            keys: self.store.forget_keys(EXPIRED_AT_ONCE).await?,
        };
        metrics::expired("hold", step.holds);
        metrics::expired("order", step.orders);
        if 0 < step.holds + step.orders {
            self.written.notify_one();
        }
        Ok(step)
    }
}
