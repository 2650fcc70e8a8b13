//! The relay's loop: hold partitions, read what is unsent, plan, send, mark.
//!
//! Partitions go each at its own pace: one whose events are under way to a log that is not the outbox is
//! left alone until they have arrived or failed (`under_way.rs`), while the others go on. No transaction is
//! open meanwhile, and leases are renewed.
//!
//! A crash before the marks loses nothing: the rows are still unsent. A crash after them repeats nothing:
//! the rows have their marks. Where the outbox is the log there is nothing in between: marks and floor are
//! one transaction. Where it is Kafka, a crash between its acknowledgement and the marks sends the same
//! events again, with the same ids.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::base::limits::{CLEAN_BATCH_MAX, RELAY_BATCH_MAX, RELAY_EVERY_MS, RELAY_LEASE_TTL_MS};
use crate::base::time::{Clock, Timestamp};
use crate::relay::plan::{Batch, Lease, Unsent, plan};
use crate::relay::store::{Published, Sink, Store, StoreError};
use crate::relay::under_way::{Arrived, UnderWay};
use crate::telemetry::metrics;
use crate::telemetry::traces::{Side, Span};

/// How often leases are taken and renewed.
const RENEW_EVERY_MS: u64 = RELAY_LEASE_TTL_MS / 3;
/// How often old rows are looked for, and floors raised that nothing else raises. Rows above them stay.
const TIDY_EVERY_MS: u64 = 5_000;
/// How far the floor of an idle partition may lag behind meanwhile before it is worth a write.
const FLOOR_LAG_MAX: u64 = 1_000;
/// How long the relay rests after a step that failed, and after it has begun what the log did not take.
const AFTER_FAILURE_MS: u64 = 500;
/// How long the first to arrive waits for others: what arrives together is marked in one transaction.
const OTHERS_MAX: Duration = Duration::from_millis(50);
/// How long what is under way at a stop is waited for.
const STOP_MAX: Duration = Duration::from_secs(1);

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
    /// Whether a partition has more than one step takes, or is still under way.
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
    under_way: UnderWay,
    renew_at: Timestamp,
    tidy_at: Timestamp,
    /// How long to rest after the last failure of the log.
    rest_ms: u64,
    /// Says that there may be something to send.
    nudge: Arc<Notify>,
    stop: CancellationToken,
}

impl Relay {
    /// A relay that holds nothing yet. `sink` is where events go, unless the outbox is the log. `holder`
    /// must be nobody else's, not even this process' in an earlier life.
    pub fn new(
        store: Arc<dyn Store>,
        sink: Option<Arc<dyn Sink>>,
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
            under_way: UnderWay::to(sink),
            renew_at: Timestamp::default(),
            tidy_at: Timestamp::default(),
            rest_ms: 0,
            nudge: Arc::default(),
            stop: CancellationToken::new(),
        }
    }

    /// Sends up to `RELAY_BATCH_MAX` rows of each partition it holds and marks what has arrived. Where that
    /// takes time, it ends when something has arrived. Running it twice is harmless: a row with a mark is not
    /// sent again.
    ///
    /// # Errors
    /// [`StoreError`]; the next step goes on from what is committed.
    pub async fn step(&mut self) -> Result<Step, StoreError> {
        let mut step = Step::default();
        let mut is_over = false;
        while !is_over {
            self.hold().await?;
            let tidies = !self.tidy_at.is_to_come(self.clock.now(), TIDY_EVERY_MS);
            step.waiting = self.begin(tidies).await?;
            is_over = self.wait().await;
            self.mark(&mut step).await?;
            if tidies {
                step.cleaned += self.clean_up().await?;
                self.tidy_at = self.clock.now().plus_ms(TIDY_EVERY_MS);
            }
        }
        step.more |= !self.under_way.is_empty();
        self.measure(&step);
        Ok(step)
    }

    /// Begins what partitions have to send of which nothing is under way. How many of their rows wait.
    async fn begin(&mut self, tidies: bool) -> Result<u64, StoreError> {
        let since = self.clock.now();
        let mut waiting = 0;
        for lease in &self.leases {
            if self.under_way.has(lease.partition) {
                continue;
            }
            let page = self.store.unsent(lease.partition, RELAY_BATCH_MAX).await?;
            let full = page.rows.len() == RELAY_BATCH_MAX;
            let (floor, is_low) = (page.floor, page.floor < page.given_out);
            let plan = plan(*lease, page);
            waiting += plan.waiting;
            let idle = plan.batch.send.is_empty() && plan.batch.quarantine.is_empty();
            // A floor may need a mark, of whomever, to rise: in idle times this batch makes one.
            let raises = floor + FLOOR_LAG_MAX <= plan.batch.floor || tidies && is_low;
            if !idle || raises {
                self.under_way.begin(plan.batch, since, !idle && full);
            }
        }
        Ok(waiting)
    }

    /// Waits until something has arrived, and no longer than others may have something to send meanwhile.
    /// Whether the step is over.
    async fn wait(&mut self) -> bool {
        if self.under_way.is_empty() {
            return true;
        }
        tokio::select! {
            biased;
            () = self.under_way.one() => {
                self.under_way.all(OTHERS_MAX).await;
                true
            }
            () = self.stop.cancelled() => true,
            () = self.nudge.notified() => false,
            () = sleep(Duration::from_millis(RELAY_EVERY_MS)) => false,
        }
    }

    /// Marks what has arrived. Where that fails nobody knows whether it is marked: the next look tells.
    async fn mark(&mut self, step: &mut Step) -> Result<(), StoreError> {
        let (marks, rest): (Vec<Batch>, Vec<_>) = self
            .under_way
            .take()
            .into_iter()
            .map(|Arrived { sent, since, more }| (sent.marks, (since, more, sent.failure)))
            .unzip();
        if marks.is_empty() {
            return Ok(());
        }
        let answers = self.store.publish(&marks).await?;
        let mut failures = Vec::new();
        for ((batch, answer), (since, more, failure)) in marks.iter().zip(answers).zip(rest) {
            step.more |= more;
            failures.extend(failure.map(|failure| (batch.lease.partition, since, failure)));
            match answer {
                Published::Done { sent, quarantined } => {
                    step.sent += count(sent);
                    // None where all of it goes again.
                    batch
                        .send
                        .iter()
                        .take(sent)
                        .for_each(|row| trace(row, since));
                    step.quarantined += count(quarantined.len());
                    quarantined.iter().for_each(report);
                }
                Published::Fenced => {
                    step.fenced += 1;
                    // It may have been renewed meanwhile, or be held again under another token.
                    let lost = (batch.lease.partition, batch.lease.token);
                    let is_lost = |lease: &Lease| (lease.partition, lease.token) == lost;
                    self.leases.retain(|lease| !is_lost(lease));
                }
            }
        }
        let has_some = |batch: &Batch| !(batch.send.is_empty() && batch.quarantine.is_empty());
        if marks.iter().any(has_some) {
            // The rest is unsent as before, and the next batch of its partition begins with it.
            for (partition, _, failure) in failures {
                tracing::warn!(
                    partition,
                    "the log did not take all of a batch: {failure:#}"
                );
            }
            return Ok(());
        }
        let Some((_, since, failure)) = failures.pop() else {
            return Ok(());
        };
        self.rest_ms = AFTER_FAILURE_MS.saturating_sub(self.clock.now().ms_since(since));
        Err(StoreError::Log(failure))
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
        let ttl_ms = RELAY_LEASE_TTL_MS + self.under_way.takes_ms();
        self.leases = self.store.lease(&self.holder, ttl_ms).await?;
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

    /// Marks what arrives soon, and gives up what it holds, so that another relay need not wait for the
    /// leases to run out. What is under way then is sent again by whoever has its partition next, as after
    /// a crash.
    ///
    /// # Errors
    /// [`StoreError`]; the leases then run out by themselves.
    pub async fn resign(&mut self) -> Result<(), StoreError> {
        self.under_way.all(STOP_MAX).await;
        let mut step = Step::default();
        match self.mark(&mut step).await {
            Ok(()) => self.measure(&step),
            Err(error) => drop(self.rests_ms(error)),
        }
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
        (self.nudge, self.stop) = (nudge, stop);
        while !self.stop.is_cancelled() {
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
                Err(error) => self.rests_ms(error),
            };
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {}
                () = self.nudge.notified() => {}
                () = sleep(Duration::from_millis(pause_ms)) => {}
            }
        }
        Ok(self.resign().await?)
    }

    /// Says that a step failed, and how long to rest.
    fn rests_ms(&self, error: StoreError) -> u64 {
        let rest_ms = match error {
            StoreError::Log(_) => self.rest_ms,
            StoreError::Unavailable(_) | StoreError::Elsewhere(_) => AFTER_FAILURE_MS,
        };
        let error = anyhow::Error::from(error);
        tracing::warn!("a relay step failed: {error:#}");
        rest_ms
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
