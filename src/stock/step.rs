//! The stock loop: which shows to count now, what to say, whom to tell.
//!
//! Deliveries of holds and orders mark shows as changed and are committed with the count that
//! followed them. Every show is also counted when the loop begins and every few seconds: the room
//! then hears that what it knows is still true, and a change that no event told is found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::base::ids::{IdSource, ShowId};
use crate::base::limits::{PARTITIONS, STOCK_EVERY_MS, STOCK_REPEAT_MS};
use crate::base::time::{Clock, Timestamp};
use crate::event::{Envelope, Event, codec};
use crate::log::inbox::Inbox;
use crate::log::rounds;
use crate::log::{Delivery, LogError, Subscriber};
use crate::room::model::command;
use crate::room::{self, Rooms};
use crate::stock::count::{GROUP, Sale, compare};
use crate::stock::store::{Saved, Statement, Store, StoreError};
use crate::telemetry::metrics;

/// Deliveries of one partition in one step: they are read for their show only.
const READ_MAX: usize = 1_000;

/// What a stock step needs.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The seats.
    pub store: Arc<dyn Store>,
    /// The event log.
    pub log: Arc<dyn Subscriber>,
    /// What the group has done.
    pub inbox: Arc<dyn Inbox>,
    /// The rooms to tell.
    pub rooms: Rooms,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Names for events.
    pub ids: Arc<IdSource>,
}

/// Counts seats and says so.
#[derive(Debug)]
pub struct Counter {
    parts: Parts,
    registered: bool,
    /// When every show is counted next, whether anything happened or not.
    repeat_at: Timestamp,
    /// What each room was last told and has not confirmed.
    untold: BTreeMap<ShowId, command::Stock>,
}

/// What a step did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    /// Shows that were counted.
    pub counted: u64,
    /// Shows whose stock had changed.
    pub changed: u64,
    /// Rooms that could not be told yet.
    pub untold: u64,
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The seats could not be counted.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log could not be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl Counter {
    /// A counter that has not counted yet.
    pub fn new(parts: Parts) -> Self {
        Self {
            parts,
            registered: false,
            repeat_at: Timestamp::default(),
            untold: BTreeMap::new(),
        }
    }

    /// Counts the shows that changed, and every show when that is due. Running it twice is harmless:
    /// the second count finds nothing new.
    ///
    /// # Errors
    /// [`StepError`]; the next step reads the same deliveries again.
    pub async fn step(&mut self) -> Result<Step, StepError> {
        if !self.registered {
            self.parts.inbox.register(GROUP).await?;
            self.registered = true;
        }
        let now = self.parts.clock.now();
        let (mut shows, through) = self.read().await?;
        let repeats = self.repeat_at <= now;
        if repeats {
            shows.extend(self.parts.store.shows().await?);
        }
        let mut statements = Vec::new();
        for show in shows {
            statements.push(self.count(show).await?);
        }
        let mut step = Step {
            counted: count(statements.len()),
            ..Step::default()
        };
        let mut saved = Vec::new();
        if !statements.is_empty() || !through.is_empty() {
            saved = self.parts.store.save(GROUP, &statements, &through).await?;
        }
        if repeats {
            self.repeat_at = now.plus_ms(STOCK_REPEAT_MS);
            let behind = rounds::measure(GROUP, &*self.parts.log, &*self.parts.inbox).await?;
            metrics::lag(GROUP, behind.records, behind.oldest_ms);
        }
        for (said, saved) in statements.into_iter().zip(saved) {
            match saved {
                Saved::Now => {
                    step.changed += u64::from(!said.events.is_empty());
                    metrics::stock(said.show.as_str(), said.stock.free, said.stock.sold);
                    match said.sale {
                        Sale::On => drop(self.untold.insert(said.show.clone(), told(&said))),
                        // Its room is closed, and must not look sold out on its way there.
                        Sale::Cancelled => drop(self.untold.remove(&said.show)),
                    }
                }
                // Whoever counted has told.
                Saved::Overtaken => {}
            }
        }
        self.tell().await;
        step.untold = count(self.untold.len());
        Ok(step)
    }

    /// The shows that deliveries are about, and how far the deliveries go.
    async fn read(&self) -> Result<(BTreeSet<ShowId>, Vec<(u16, u64)>), LogError> {
        let mut shows = BTreeSet::new();
        let mut through = Vec::new();
        for partition in 0..PARTITIONS {
            let deliveries = self.parts.log.poll(GROUP, partition, READ_MAX).await?;
            through.extend(deliveries.last().map(|last| (partition, last.offset)));
            shows.extend(deliveries.iter().filter_map(show_of));
        }
        Ok((shows, through))
    }

    async fn count(&self, show: ShowId) -> Result<Statement, StoreError> {
        // The time before the count: what was sold meanwhile is for the next one.
        let as_of = self.parts.clock.now();
        let seats = self.parts.store.count(&show).await?;
        let before = seats.before.as_ref();
        let counted = compare(&show, before, &seats.sections, seats.sale, as_of);
        let events = counted.events.into_iter().map(|(version, event)| Envelope {
            id: self.parts.ids.event(as_of),
            version,
            at: as_of,
            trace: None,
            event,
        });
        Ok(Statement {
            show,
            against: seats.before.map_or(0, |before| before.version),
            stock: counted.stock,
            sale: seats.sale,
            as_of,
            events: events.collect(),
        })
    }

    /// Tells the rooms. One that cannot be told now is told with the next step; a later statement
    /// takes the place of an earlier one.
    async fn tell(&mut self) {
        for (show, stock) in std::mem::take(&mut self.untold) {
            let Err(error) = self.parts.rooms.stock(&show, stock).await else {
                continue;
            };
            match error {
                // There is no room yet, or it is busy: that is nobody's failure.
                room::StoreError::Unfenced | room::StoreError::Overloaded => {}
                room::StoreError::Unavailable(_) | room::StoreError::Corrupt(_) => {
                    let error = anyhow::Error::from(error);
                    tracing::warn!(show.id = %show, "a room was not told its stock: {error:#}");
                }
            }
            self.untold.insert(show, stock);
        }
    }

    /// Steps until asked to stop, at most four times a second, and nudges the relay when there is
    /// something to send.
    ///
    /// # Errors
    /// None at present: a failed step is logged and repeated.
    pub async fn run(
        mut self,
        nudge: Arc<Notify>,
        relay: Arc<Notify>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        while !stop.is_cancelled() {
            match self.step().await {
                Ok(step) if 0 < step.changed => relay.notify_one(),
                Ok(_) => {}
                Err(error) => {
                    let error = anyhow::Error::from(error);
                    tracing::warn!("a stock step failed: {error:#}");
                }
            }
            // First the pause, which a nudge does not shorten: it is what bounds the counting.
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = sleep(Duration::from_millis(STOCK_EVERY_MS)) => {}
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = nudge.notified() => {}
                () = sleep(Duration::from_millis(STOCK_EVERY_MS)) => {}
            }
        }
        Ok(())
    }
}

/// The show whose seats an event is about. What cannot be read is passed over: the next repeat
/// counts every show anyway.
fn show_of(delivery: &Delivery) -> Option<ShowId> {
    match codec::from_json(&delivery.payload, delivery.version, None)
        .ok()?
        .event
    {
        Event::HoldPlaced(hold) => Some(hold.show_id),
        Event::HoldExpired(hold) => Some(hold.show_id),
        Event::OrderPlaced(order)
        | Event::OrderConfirmed(order)
        | Event::OrderDeclined(order)
        | Event::OrderCancelled(order)
        | Event::OrderRefunded(order) => Some(order.event.id),
        // Our own are what a count said, no reason to count; and nobody has a seat by joining.
        Event::StockChanged(_) | Event::ShowSoldOut(_) | Event::JoinsCounted(_) => None,
    }
}

fn told(said: &Statement) -> command::Stock {
    command::Stock {
        version: said.stock.version,
        free: said.stock.free,
        held: said.stock.held,
        sold: said.stock.sold,
        as_of: said.as_of,
    }
}

fn count(many: usize) -> u64 {
    u64::try_from(many).unwrap_or(u64::MAX)
}
