//! What the loops of all groups have in common: their rhythm, and that a group says that it runs and how far it is
//! behind.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::base::limits::GROUP_RUNS_MS;
use crate::log::inbox::Inbox;
use crate::log::{LogError, Subscriber};

/// How often a group looks when nothing is due earlier.
pub const LOOK_EVERY_MS: u64 = 100;
/// How often it says that it runs, and measures how far it is behind.
pub const MEASURE_EVERY_MS: u64 = 5_000;
const _: () = assert!(3 * MEASURE_EVERY_MS <= GROUP_RUNS_MS);
/// How long it rests after a step that failed.
const AFTER_FAILURE_MS: u64 = 500;

/// What a group does again and again.
#[async_trait]
pub trait Rounds: Send {
    /// Its name.
    fn group(&self) -> &'static str;

    /// Makes a step, and answers when to come back, in milliseconds; 0 = there is more to do now.
    ///
    /// # Errors
    /// [`LogError`]; the next step goes on from what is committed.
    async fn round(&mut self) -> Result<u64, LogError>;
}

/// Goes on until asked to stop. The timer alone is enough; a nudge makes it sooner.
///
/// # Errors
/// None at present: a failed step is logged and repeated.
pub async fn run(
    mut rounds: impl Rounds,
    nudge: Arc<Notify>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    while !stop.is_cancelled() {
        let pause_ms = match rounds.round().await {
            Ok(pause_ms) => pause_ms,
            Err(error) => {
                let error = anyhow::Error::from(error);
                tracing::warn!(group = rounds.group(), "a step failed: {error:#}");
                AFTER_FAILURE_MS
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = nudge.notified() => {}
            () = sleep(Duration::from_millis(pause_ms)) => {}
        }
    }
    Ok(())
}

/// How far a group is behind, over all partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// Deliveries that it has not handled.
    pub records: u64,
    /// The age of the oldest of them, in milliseconds; 0 = there is none.
    pub oldest_ms: u64,
}

/// Says that a group runs, and tells how far it is behind.
///
/// # Errors
/// [`LogError`]; whoever calls does so again.
pub async fn measure(
    group: &'static str,
    log: &dyn Subscriber,
    inbox: &dyn Inbox,
) -> Result<Behind, LogError> {
    inbox.register(group).await?;
    let lag = log.lag(group).await?;
    Ok(Behind {
        records: lag.iter().map(|lag| lag.records).sum(),
        oldest_ms: lag
            .iter()
            .map(|lag| lag.oldest_ms)
            .max()
            .unwrap_or_default(),
    })
}
