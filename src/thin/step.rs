//! The thinner's loop: of each partition the next deliveries, sent at once, and passed when they are there.
//!
//! What goes at once has no key twice, so no failure in between can turn two versions of a key around. A crash
//! between sending and passing sends the same again, with the same event ids; of each version the first
//! copy counts, as in the topic of the events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::base::limits::{DELIVERY_BATCH_MAX, PARTITIONS};
use crate::base::time::{Clock, Timestamp};
use crate::log::inbox::Inbox;
use crate::log::rounds::{self, LOOK_EVERY_MS, MEASURE_EVERY_MS, Rounds};
use crate::log::{Delivery, LogError, Subscriber};
use crate::telemetry::metrics;
use crate::thin::GROUP;
use crate::thin::store::Sink;

/// Sends every event again without its facts.
#[derive(Debug)]
pub struct Thinner {
    log: Arc<dyn Subscriber>,
    inbox: Arc<dyn Inbox>,
    sink: Arc<dyn Sink>,
    clock: Arc<dyn Clock>,
    /// When the group is measured next; at the beginning it makes itself known.
    measure_at: Timestamp,
}

impl Thinner {
    /// A thinner that has not looked yet.
    pub fn new(
        log: Arc<dyn Subscriber>,
        inbox: Arc<dyn Inbox>,
        sink: Arc<dyn Sink>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            log,
            inbox,
            sink,
            clock,
            measure_at: Timestamp::default(),
        }
    }

    /// Sends some of each partition, and answers how many deliveries the group is further. Running it
    /// twice is harmless: what the first run passed, the second does not see.
    ///
    /// # Errors
    /// [`LogError`]; what was not passed goes again.
    pub async fn step(&mut self) -> Result<u64, LogError> {
        self.measure().await?;
        let mut wave = Vec::new();
        for partition in 0..PARTITIONS {
            let deliveries = self.log.poll(GROUP, partition, DELIVERY_BATCH_MAX).await?;
            wave.extend(no_key_twice(deliveries));
        }
        if wave.is_empty() {
            return Ok(0);
        }
        let events: Vec<&Delivery> = wave.iter().filter(|delivery| is_event(delivery)).collect();
        let answers = match events.is_empty() {
            true => Vec::new(),
            false => self.sink.send(&events).await?,
        };
        let (mut answers, mut failure) = (answers.into_iter(), None);
        let (mut through, mut stopped) = (BTreeMap::new(), BTreeSet::new());
        let mut sent = 0;
        for delivery in &wave {
            if is_event(delivery)
                && let Some(Err(error)) = answers.next()
            {
                stopped.insert(delivery.partition);
                failure = Some(error);
            }
            if !stopped.contains(&delivery.partition) {
                through.insert(delivery.partition, delivery.offset);
                sent += 1;
            }
        }
        let through: Vec<_> = through.into_iter().collect();
        self.inbox.pass(GROUP, &through).await?;
        metrics::deliveries(GROUP, "passed", sent);
        failure.map_or(Ok(sent), Err)
    }

    async fn measure(&mut self) -> Result<(), LogError> {
        let now = self.clock.now();
        if self.measure_at.is_to_come(now, MEASURE_EVERY_MS) {
            return Ok(());
        }
        let behind = rounds::measure(GROUP, &*self.log, &*self.inbox).await?;
        metrics::lag(GROUP, behind.records, behind.oldest_ms);
        self.measure_at = now.plus_ms(MEASURE_EVERY_MS);
        Ok(())
    }

    /// Steps until asked to stop. The timer alone is enough; a nudge makes it sooner.
    ///
    /// # Errors
    /// None at present: a failed step is logged and repeated.
    pub async fn run(self, nudge: Arc<Notify>, stop: CancellationToken) -> anyhow::Result<()> {
        rounds::run(self, nudge, stop).await
    }
}

#[async_trait]
impl Rounds for Thinner {
    fn group(&self) -> &'static str {
        GROUP
    }

    async fn round(&mut self) -> Result<u64, LogError> {
        let pause_ms = |sent: u64| if sent == 0 { LOOK_EVERY_MS } else { 0 };
        self.step().await.map(pause_ms)
    }
}

/// A record of the topic that is no event of ours has no key.
fn is_event(delivery: &Delivery) -> bool {
    !delivery.key.is_empty()
}

/// The deliveries of a partition up to the first whose key has come before.
fn no_key_twice(deliveries: Vec<Delivery>) -> impl Iterator<Item = Delivery> {
    let mut keys = BTreeSet::new();
    deliveries
        .into_iter()
        .take_while(move |delivery| !is_event(delivery) || keys.insert(delivery.key.clone()))
}
