//! The relay's loop: hold partitions, read what is unsent, plan, publish.
//!
//! A crash before the publish loses nothing: the rows are still unsent. A crash after it repeats
//! nothing: the rows have their marks. Where the outbox is the log there is nothing in between: marks
//! and floor are one transaction. Where the log is Kafka, a crash between its acknowledgement and the
//! marks sends the same events again, with the same ids.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::base::limits::{CLEAN_BATCH_MAX, RELAY_BATCH_MAX, RELAY_EVERY_MS, RELAY_LEASE_TTL_MS};
use crate::base::time::{Clock, Timestamp};
use crate::relay::plan::{Lease, Unsent, plan};
use crate::relay::store::{Published, Store, StoreError};
use crate::telemetry::metrics;
use crate::telemetry::traces::{Side, Span};

/// How often leases are taken and renewed.
const RENEW_EVERY_MS: u64 = RELAY_LEASE_TTL_MS / 3;
/// How often old rows are looked for, and floors raised that nothing else raises. Rows above them stay.
const TIDY_EVERY_MS: u64 = 5_000;
/// How far the floor of an idle partition may lag behind meanwhile before it is worth a write.
const FLOOR_LAG_MAX: u64 = 1_000;
/// How long the relay rests after a step that failed.
const AFTER_FAILURE_MS: u64 = 500;

/// How a relay behaves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// How long rows stay in the outbox and the log after every group has read them, in
    /// milliseconds. `None` keeps them for ever, so that `check` and `journey` can tell the whole
    /// story of a sale: right for a demo, too much for a shop that sells every day.
    pub keep_ms: Option<u64>,
}

/// What a step did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    /// Rows that are now in the log.
    pub sent: u64,
    /// Rows that can never be sent.
    pub quarantined: u64,
    /// Rows that wait for an earlier version of their key.
    pub waiting: u64,
    /// Partitions that turned out to be another relay's.
    pub fenced: u64,
    /// Rows that were removed because everybody is past them.
    pub cleaned: u64,
    /// Whether a partition has more than one step takes.
    pub more: bool,
}

/// One relay.
#[derive(Debug)]
pub struct Relay {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    settings: Settings,
    /// Unique to this relay.
    holder: String,
    leases: Vec<Lease>,
    renew_at: Timestamp,
    tidy_at: Timestamp,
}

impl Relay {
    /// A relay that holds nothing yet. `holder` must be nobody else's, not even this process' in an
    /// earlier life.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        holder: String,
        settings: Settings,
    ) -> Self {
        Self {
            store,
            clock,
            settings,
            holder,
            leases: Vec::new(),
            renew_at: Timestamp::default(),
            tidy_at: Timestamp::default(),
        }
    }

    /// Sends up to `RELAY_BATCH_MAX` rows of each partition it holds. Running it twice is harmless:
    /// a row with a mark is not sent again.
    ///
    /// # Errors
    /// [`StoreError`]; the next step goes on from what is committed.
    pub async fn step(&mut self) -> Result<Step, StoreError> {
        self.hold().await?;
        let mut step = Step::default();
        let mut batches = Vec::new();
        let tidies = !self.tidy_at.is_to_come(self.clock.now(), TIDY_EVERY_MS);
        for lease in &self.leases {
            let page = self.store.unsent(lease.partition, RELAY_BATCH_MAX).await?;
            let full = page.rows.len() == RELAY_BATCH_MAX;
            let (floor, is_low) = (page.floor, page.floor < page.given_out);
            let plan = plan(*lease, page);
            step.waiting += plan.waiting;
            let idle = plan.batch.send.is_empty() && plan.batch.quarantine.is_empty();
            step.more |= !idle && full;
            // A floor may need a mark, of whomever, to rise: in idle times this batch makes one.
            let raises = floor + FLOOR_LAG_MAX <= plan.batch.floor || tidies && is_low;
            if !idle || raises {
                batches.push(plan.batch);
            }
        }
        if !batches.is_empty() {
            let since = self.clock.now();
            let answers = self.store.publish(&batches).await?;
            for (batch, answer) in batches.iter().zip(answers) {
                match answer {
                    Published::Done { sent, quarantined } => {
                        step.sent += count(sent);
                        // Of a part it is not said which rows it is.
                        if sent == batch.send.len() {
                            batch.send.iter().for_each(|row| trace(row, since));
                        }
                        step.quarantined += count(quarantined.len());
                        quarantined.iter().for_each(report);
                    }
                    Published::Fenced => {
                        step.fenced += 1;
                        self.leases.retain(|lease| *lease != batch.lease);
                    }
                }
            }
        }
        if tidies {
            step.cleaned = self.clean_up().await?;
            self.tidy_at = self.clock.now().plus_ms(TIDY_EVERY_MS);
        }
        self.measure(&step);
        Ok(step)
    }

    /// Takes and renews leases when a third of their time is over. Whoever holds nothing asks as
    /// often: a lease that ran out is taken over within a third of its time.
    async fn hold(&mut self) -> Result<(), StoreError> {
        let now = self.clock.now();
        // A lease that ran out is gone, also where the clock jumped and renewing is not yet due.
        let lapsed = self.leases.iter().any(|lease| lease.until <= now);
        if self.renew_at.is_to_come(now, RENEW_EVERY_MS) && !lapsed {
            return Ok(());
        }
        self.leases = self.store.lease(&self.holder, RELAY_LEASE_TTL_MS).await?;
        self.renew_at = now.plus_ms(RENEW_EVERY_MS);
        Ok(())
    }

    async fn clean_up(&mut self) -> Result<u64, StoreError> {
        let now = self.clock.now();
        let Some(keep_ms) = self.settings.keep_ms else {
            return Ok(0);
        };
        if self.leases.is_empty() {
            return Ok(0);
        }
        let cleaned = self
            .store
            .clean_up(now.minus_ms(keep_ms), CLEAN_BATCH_MAX)
            .await?;
        metrics::outbox_cleaned(cleaned.rows);
        metrics::outbox_held_back(cleaned.held_back);
        Ok(cleaned.rows)
    }

    fn measure(&self, step: &Step) {
        metrics::relayed("sent", step.sent);
        metrics::relayed("quarantined", step.quarantined);
        metrics::relay_waiting(step.waiting);
        metrics::relay_leases(self.leases.len());
        metrics::relay_fenced(step.fenced);
    }

    /// Gives up what it holds, so that another relay need not wait for the leases to run out.
    ///
    /// # Errors
    /// [`StoreError`]; the leases then run out by themselves.
    pub async fn resign(&mut self) -> Result<(), StoreError> {
        self.leases.clear();
        self.store.resign(&self.holder).await
    }

    /// Steps until asked to stop, and nudges `readers` when something is new in the log. The timer
    /// alone is enough; a nudge makes it sooner.
    ///
    /// # Errors
    /// Where the leases cannot be given up at the end, and where the outbox is not this relay's to send. Any
    /// other failed step is logged and repeated.
    pub async fn run(
        mut self,
        nudge: Arc<Notify>,
        readers: Vec<Arc<Notify>>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        while !stop.is_cancelled() {
            let pause_ms = match self.step().await {
                Ok(step) => {
                    if 0 < step.sent {
                        readers.iter().for_each(|reader| reader.notify_one());
                    }
                    if step.more { 0 } else { RELAY_EVERY_MS }
                }
                // Waiting would not help: the outbox is another's, who sends all of it.
                Err(StoreError::Elsewhere(elsewhere)) => {
                    self.resign().await?;
                    return Err(elsewhere.into());
                }
                Err(error) => {
                    let error = anyhow::Error::from(error);
                    tracing::warn!("a relay step failed: {error:#}");
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
        Ok(self.resign().await?)
    }
}

/// A row's way from the outbox into the log.
fn trace(row: &Unsent, since: Timestamp) {
    let mut span = Span::of_event(Side::Sends, "relay", row.trace.as_deref(), since);
    span.tell("event.id", &row.id);
    span.tell("event.type", &row.kind);
}

fn report((seq, reason): &(u64, String)) {
    tracing::error!(
        outbox.seq = seq,
        reason,
        "an event cannot be sent; its key waits in quarantine"
    );
}

fn count(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}
