//! The loop that makes sections and seats what the operators decided.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::ids::ShowId;
use crate::orders::store::Store;
use crate::show::Store as ShowStore;

/// How long an operator's change may take to reach the seats.
const EVERY: Duration = Duration::from_millis(500);

/// How often seats are looked at again that could not be withdrawn.
const AGAIN_EVERY: Duration = Duration::from_secs(5);

/// The loop.
#[derive(Debug)]
pub struct Reconcile {
    orders: Arc<dyn Store>,
    shows: Arc<dyn ShowStore>,
    /// The version of each show that the seats were made for; when to look again, where somebody has
    /// seats that the operator took away: they go once they are free.
    done: BTreeMap<ShowId, (u64, Option<Instant>)>,
}

impl Reconcile {
    /// A loop over these stores.
    pub fn new(orders: Arc<dyn Store>, shows: Arc<dyn ShowStore>) -> Self {
        Self {
            orders,
            shows,
            done: BTreeMap::new(),
        }
    }

    /// Reconciles until it is told to stop.
    ///
    /// # Errors
    /// None: a step that fails is logged and repeated.
    pub async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        while !stop.is_cancelled() {
            if let Err(error) = self.step().await {
                tracing::warn!("cannot reconcile seats: {error:#}");
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = tokio::time::sleep(EVERY) => {}
            }
        }
        Ok(())
    }

    /// Looks at every show once. Running it twice is harmless: seats that are as decided stay.
    ///
    /// # Errors
    /// Where a store is away, or somebody decided otherwise meanwhile; the other shows are reconciled.
    pub async fn step(&mut self) -> anyhow::Result<()> {
        let mut failed = Ok(());
        for show in self.shows.list().await? {
            let now = Instant::now();
            if let Some((version, again_at)) = self.done.get(&show.id)
                && *version == show.version
                && again_at.is_none_or(|at| now < at)
            {
                continue;
            }
            let sections = &show.settings.sections;
            let reconciled = self.orders.reconcile(&show.id, show.version, sections);
            let changed = match reconciled.await {
                Ok(changed) => changed,
                Err(error) => {
                    failed = Err(anyhow::Error::from(error).context(show.id.to_string()));
                    continue;
                }
            };
            tracing::info!(show.id = %show.id, ?changed, "seats are as decided");
            // Of a cancelled show seats come back all the while, and somebody waits for the last one.
            let pause = match show.cancelled_at {
                None => AGAIN_EVERY,
                Some(_) => Duration::ZERO,
            };
            let again_at = (0 < changed.kept).then(|| now + pause);
            self.done.insert(show.id, (show.version, again_at));
        }
        failed
    }
}
