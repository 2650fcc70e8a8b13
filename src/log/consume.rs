//! The loop that every consumer runs: deliveries of all partitions, in order, each effect once.
//!
//! ```text
//! poll ─► concerns us? ─► known to the inbox? ─► apply: effect + inbox + offset, one transaction
//!             └ no: pass      └ yes: pass            └ fails: try again after 0.5, 1, 2 s,
//!                                                             then a copy for others (Kafka),
//!                                                             then a dead letter + offset
//! ```
//!
//! Partitions take turns and never wait for each other: one whose head failed is left alone until
//! its time has come, and a step never sleeps. A crash between any two lines repeats a delivery;
//! the inbox makes that harmless for our own stores, the event id for everybody else's.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::base::limits::{DELIVERY_BATCH_MAX, PARTITIONS};
use crate::base::time::{Clock, Timestamp};
use crate::log::aside::{Aside, Went};
use crate::log::breaker::{Breaker, Verdict};
use crate::log::inbox::{Because, Inbox, Retry};
use crate::log::patience::{self, Failure, Next};
use crate::log::rounds::{self, LOOK_EVERY_MS, MEASURE_EVERY_MS, Rounds};
use crate::log::{ANOTHERS_ID, ApplyError, Consumer, Delivery, Handled, LogError, Subscriber};
use crate::telemetry::metrics;
use crate::telemetry::traces::{Side, Span};

/// What a step did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    /// Deliveries whose effect was committed.
    pub handled: u64,
    /// Deliveries that do not concern the group, or that it had handled before.
    pub passed: u64,
    /// Deliveries that failed and are tried again.
    pub failed: u64,
    /// Deliveries that were set aside.
    pub set_aside: u64,
    /// When to come back, in milliseconds; 0 = there is more to do now.
    pub pause_ms: u64,
}

/// A consumer at work: its place in each partition, and what it knows of its provider.
#[derive(Debug)]
pub struct Consuming<C> {
    consumer: C,
    log: Arc<dyn Subscriber>,
    inbox: Arc<dyn Inbox>,
    clock: Arc<dyn Clock>,
    breaker: Breaker,
    /// What is tried again, by partition.
    retries: [Option<Retry>; PARTITIONS as usize],
    /// What is on its way to the dead letters, by partition.
    asides: [Option<Aside>; PARTITIONS as usize],
    /// Whether what an earlier process was trying again has been read from the inbox.
    recalled: bool,
    /// The partition that is visited first. Moves on after a failure, so that no partition is the
    /// only one that ever tries a provider that was down.
    first: u16,
    measure_at: Timestamp,
    /// Asked for, it waits for the delivery in hand and takes no other.
    stop: CancellationToken,
}

/// How the visit of a partition ended.
#[derive(Debug, PartialEq, Eq)]
enum Visit {
    /// All that was there is done.
    Drained,
    /// There is more.
    More,
    /// Nothing to do before then.
    Waits(Timestamp),
}

impl<C: Consumer> Consuming<C> {
    /// A consumer that has not looked at the log yet.
    pub fn new(
        consumer: C,
        log: Arc<dyn Subscriber>,
        inbox: Arc<dyn Inbox>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            consumer,
            log,
            inbox,
            clock,
            breaker: Breaker::default(),
            retries: Default::default(),
            asides: Default::default(),
            recalled: false,
            first: 0,
            measure_at: Timestamp::default(),
            stop: CancellationToken::new(),
        }
    }

    /// Visits every partition once. Running it twice is harmless: what the first run committed, the
    /// second finds done.
    ///
    /// # Errors
    /// [`LogError`] where log or inbox could not be asked, be it for one partition; the next step goes on
    /// from what is committed, and behind that partition.
    pub async fn step(&mut self) -> Result<Step, LogError> {
        if !self.recalled {
            self.recall().await?;
        }
        let mut step = Step::default();
        let mut passed = Vec::new();
        let mut failed = None;
        let mut pause_ms = LOOK_EVERY_MS;
        let first = self.first;
        for turn in 0..PARTITIONS {
            let partition = (first + turn) % PARTITIONS;
            match self.visit(partition, &mut passed, &mut step).await {
                Ok(Visit::Drained) => {}
                Ok(Visit::More) => pause_ms = 0,
                Ok(Visit::Waits(until)) => {
                    pause_ms = pause_ms.min(until.ms_since(self.clock.now()));
                }
                Err(error) => {
                    self.first = (partition + 1) % PARTITIONS;
                    // One says nothing about the others; after two, log or store may well be away.
                    if failed.replace(error).is_some() {
                        break;
                    }
                }
            }
        }
        if !passed.is_empty() {
            self.inbox.pass(self.consumer.group(), &passed).await?;
        }
        let stuck = self
            .asides
            .iter()
            .flatten()
            .filter(|aside| aside.is_stuck());
        metrics::dead_letters_stuck(self.consumer.group(), stuck.count());
        self.measure().await?;
        failed.map_or(Ok(Step { pause_ms, ..step }), Err)
    }

    async fn measure(&mut self) -> Result<(), LogError> {
        let (group, now) = (self.consumer.group(), self.clock.now());
        if self.measure_at.is_to_come(now, MEASURE_EVERY_MS) {
            return Ok(());
        }
        self.measure_at = now.plus_ms(MEASURE_EVERY_MS); // also where it fails: who is away is not asked more
        let behind = rounds::measure(group, &*self.log, &*self.inbox).await?;
        metrics::lag(group, behind.records, behind.oldest_ms);
        Ok(())
    }

    /// Makes the group known, and takes up what an earlier process was trying again.
    async fn recall(&mut self) -> Result<(), LogError> {
        let group = self.consumer.group();
        self.inbox.register(group).await?;
        for retry in self.inbox.retries(group).await? {
            if let Some(slot) = self.retries.get_mut(usize::from(retry.partition)) {
                *slot = Some(retry);
            }
        }
        self.recalled = true;
        Ok(())
    }

    /// Handles what a partition has, up to the first failure.
    async fn visit(
        &mut self,
        partition: u16,
        passed: &mut Vec<(u16, u64)>,
        step: &mut Step,
    ) -> Result<Visit, LogError> {
        let now = self.clock.now();
        if let Some(retry) = self.slot(partition)
            && retry.since <= now // or the clock was put back
            && now < retry.next_at
        {
            return Ok(Visit::Waits(retry.next_at));
        }
        let group = self.consumer.group();
        let deliveries = self.log.poll(group, partition, DELIVERY_BATCH_MAX).await?;
        // What is no longer there was handled by whoever had the partition meanwhile.
        self.asides[usize::from(partition)].take_if(|aside| {
            let mut ids = deliveries.iter().map(|delivery| &delivery.event_id);
            ids.all(|id| *id != aside.event_id)
        });
        let full = deliveries.len() == DELIVERY_BATCH_MAX;
        let mut through = None;
        let mut ended = if full { Visit::More } else { Visit::Drained };
        for delivery in deliveries {
            if self.stop.is_cancelled() {
                break;
            }
            let concerns = self.consumer.concerns(&delivery);
            let known = match concerns {
                true => self.inbox.handled(group, &delivery.event_id).await?,
                false => None,
            };
            if !concerns || known.as_ref().is_some_and(|known| delivery.is(known)) {
                metrics::delivery(group, "passed");
                step.passed += 1;
                through = Some((partition, delivery.offset));
                continue;
            }
            match self.attempt((&delivery, known), step).await? {
                // Whatever was committed for this delivery covers those that were passed over.
                None => through = None,
                Some(until) => {
                    ended = Visit::Waits(until);
                    break;
                }
            }
        }
        passed.extend(through);
        Ok(ended)
    }

    /// Hands one delivery over, unless the group knows another event by its id. Answers until when its partition
    /// waits, if it was not settled.
    async fn attempt(
        &mut self,
        (delivery, known): (&Delivery, Option<Handled>),
        step: &mut Step,
    ) -> Result<Option<Timestamp>, LogError> {
        let aside = &mut self.asides[usize::from(delivery.partition)];
        if let Some(aside) = aside.take_if(|aside| aside.event_id == delivery.event_id) {
            return self.set_aside(delivery, aside, step).await;
        }
        if let Verdict::Open(until) = self.breaker.verdict(self.clock.now()) {
            return Ok(Some(until));
        }
        let (group, now) = (self.consumer.group(), self.clock.now());
        let mut span = Span::of_event(Side::Handles, group, delivery.trace.as_deref(), now);
        span.tell("event.id", &delivery.event_id);
        span.tell("event.type", &delivery.kind);
        let applied = match known {
            None => self.consumer.apply(delivery).await,
            Some(_) => Err(Failure::Permanent(ANOTHERS_ID.to_owned()).into()),
        };
        match &applied {
            Ok(()) => {}
            Err(ApplyError::Failed(failure)) => span.failed(failure),
            Err(ApplyError::Store(error)) => span.failed(error),
        }
        drop(span);
        match applied {
            Ok(()) => {
                metrics::delivery(self.consumer.group(), "handled");
                self.breaker.succeeded();
                *self.slot(delivery.partition) = None;
                step.handled += 1;
                Ok(None)
            }
            Err(ApplyError::Failed(failure)) => self.failed(delivery, &failure, step).await,
            Err(ApplyError::Store(error)) => Err(error),
        }
    }

    /// Sets a delivery that failed aside, or keeps that and when it is tried again.
    async fn failed(
        &mut self,
        delivery: &Delivery,
        failure: &Failure,
        step: &mut Step,
    ) -> Result<Option<Timestamp>, LogError> {
        let (group, now) = (self.consumer.group(), self.clock.now());
        let before = self
            .slot(delivery.partition)
            .take_if(|retry| retry.event_id == delivery.event_id);
        let (spent, since) = before.map_or((0, now), |retry| (retry.attempts, retry.since));
        let reason = failure.to_string();
        match patience::after(failure, spent, &mut self.breaker, now) {
            Next::SetAside(attempts) => {
                let because = Because { reason, attempts };
                let aside = Aside::new(delivery, because, since);
                self.set_aside(delivery, aside, step).await
            }
            Next::Again(attempts, next_at) => {
                let retry = Retry {
                    partition: delivery.partition,
                    offset: delivery.offset,
                    event_id: delivery.event_id.clone(),
                    attempts,
                    reason,
                    since,
                    next_at,
                };
                self.inbox.retry(group, &retry).await?;
                metrics::delivery(group, "failed");
                tracing::warn!(
                    event.id = retry.event_id,
                    group,
                    attempts,
                    reason = retry.reason,
                    "a delivery failed and is tried again"
                );
                *self.slot(delivery.partition) = Some(retry);
                self.first = (delivery.partition + 1) % PARTITIONS;
                step.failed += 1;
                Ok(Some(next_at))
            }
        }
    }

    /// Sets a delivery aside as soon as the log has its copy. Answers until when its partition waits for
    /// that.
    async fn set_aside(
        &mut self,
        delivery: &Delivery,
        mut aside: Aside,
        step: &mut Step,
    ) -> Result<Option<Timestamp>, LogError> {
        let (group, now) = (self.consumer.group(), self.clock.now());
        let went = aside.go_on(&self.log, group, delivery).await;
        let because = aside.because.clone();
        let (reason, attempts) = (&because.reason, because.attempts);
        match went {
            Went::UnderWay => {
                self.asides[usize::from(delivery.partition)] = Some(aside);
                Ok(Some(now.plus_ms(LOOK_EVERY_MS)))
            }
            Went::Failed(error, rest_ms) => {
                let error = anyhow::Error::from(error);
                tracing::warn!(
                    event.id = delivery.event_id,
                    group,
                    partition = delivery.partition,
                    "a partition waits, for a delivery cannot be set aside: {error:#}"
                );
                let retry = Retry {
                    partition: delivery.partition,
                    offset: delivery.offset,
                    event_id: delivery.event_id.clone(),
                    attempts,
                    reason: format!("{reason}; it cannot be set aside: {error:#}"),
                    since: aside.since,
                    next_at: now.plus_ms(rest_ms),
                };
                self.asides[usize::from(delivery.partition)] = Some(aside);
                self.inbox.retry(group, &retry).await?;
                metrics::delivery(group, "failed");
                step.failed += 1;
                let next_at = retry.next_at;
                *self.slot(delivery.partition) = Some(retry);
                Ok(Some(next_at))
            }
            Went::Taken => {
                self.inbox.set_aside(group, delivery, &because).await?;
                *self.slot(delivery.partition) = None;
                metrics::delivery(group, "set_aside");
                tracing::error!(
                    event.id = delivery.event_id,
                    group,
                    attempts,
                    reason,
                    "a delivery was set aside; see the dead letters"
                );
                step.set_aside += 1;
                Ok(None)
            }
        }
    }

    fn slot(&mut self, partition: u16) -> &mut Option<Retry> {
        &mut self.retries[usize::from(partition)]
    }

    /// Steps until asked to stop, and then ends after the delivery in hand. The timer alone is enough; a
    /// nudge makes it sooner.
    ///
    /// # Errors
    /// None at present: a failed step is logged and repeated.
    pub async fn run(mut self, nudge: Arc<Notify>, stop: CancellationToken) -> anyhow::Result<()> {
        self.stop = stop.clone();
        rounds::run(self, nudge, stop).await
    }
}

#[async_trait]
impl<C: Consumer> Rounds for Consuming<C> {
    fn group(&self) -> &'static str {
        self.consumer.group()
    }

    async fn round(&mut self) -> Result<u64, LogError> {
        Ok(self.step().await?.pause_ms)
    }
}
