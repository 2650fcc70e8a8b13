//! A provider that does as it is told, and time that passes as a test wants.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use catraca::base::ids::{EventId, OrderId};
use catraca::base::time::{Clock, ManualClock};
use catraca::event::Event;
use catraca::log::consume::{Consuming, Step};
use catraca::log::patience::Failure;
use catraca::notify::step::Notifier;
use catraca::notify::{Notice, Sender};

use crate::contract::desk::{Desk, T0, facts};
use crate::support::until;

/// A provider that does as it is told, and remembers when it took what.
#[derive(Debug)]
pub(crate) struct Provider {
    clock: Arc<ManualClock>,
    mood: Mutex<Mood>,
    pub(crate) tried: Mutex<Vec<(OrderId, u64)>>,
    taken: Mutex<BTreeMap<EventId, u64>>,
}

#[derive(Debug, Clone)]
pub(crate) enum Mood {
    Well,
    /// Everything fails so.
    Fails(Failure),
    /// What concerns this order fails so.
    FailsFor(OrderId, Failure),
    /// The next so many attempts fail so.
    FailsTimes(u32, Failure),
}

impl Provider {
    pub(crate) fn of(desk: &Desk, mood: Mood) -> Arc<Self> {
        Arc::new(Self {
            clock: Arc::clone(&desk.clock),
            mood: Mutex::new(mood),
            tried: Mutex::default(),
            taken: Mutex::default(),
        })
    }

    pub(crate) fn becomes(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    /// When it was asked about an order, in milliseconds since the beginning.
    pub(crate) fn tries(&self, order: OrderId) -> Vec<u64> {
        let tried = self.tried.lock().unwrap();
        tried
            .iter()
            .filter(|(of, _)| *of == order)
            .map(|(_, at)| *at)
            .collect()
    }

    pub(crate) fn taken(&self) -> Vec<u64> {
        self.taken.lock().unwrap().values().copied().collect()
    }
}

#[async_trait]
impl Sender for Provider {
    async fn send(&self, notice: &Notice) -> Result<String, Failure> {
        let at = self.clock.now().ms_since(T0);
        self.tried.lock().unwrap().push((notice.order_id, at));
        let mut mood = self.mood.lock().unwrap();
        match &mut *mood {
            Mood::FailsTimes(left, failure) if 0 < *left => {
                *left -= 1;
                return Err(failure.clone());
            }
            Mood::FailsFor(order, failure) if *order == notice.order_id => {
                return Err(failure.clone());
            }
            Mood::Fails(failure) => return Err(failure.clone()),
            Mood::Well | Mood::FailsFor(..) | Mood::FailsTimes(..) => {}
        }
        self.taken.lock().unwrap().insert(notice.event_id, at);
        Ok(format!("receipt-{}", notice.event_id))
    }
}

pub(crate) fn transient() -> Failure {
    Failure::Transient("mailbox busy".to_owned())
}

pub(crate) fn away() -> Failure {
    Failure::Away("connection refused".to_owned())
}

/// An order that is placed and confirmed: one message.
pub(crate) async fn confirm(desk: &Desk, partition: u16) -> OrderId {
    let order = desk.order_in(partition);
    desk.write(Event::OrderPlaced(facts(order)), 1).await;
    desk.write(Event::OrderConfirmed(facts(order)), 2).await;
    order
}

/// Steps as the loop would, on the manual clock, until so many milliseconds have passed.
pub(crate) async fn run(desk: &Desk, consuming: &mut Consuming<Notifier>, for_ms: u64) -> Step {
    let end = desk.clock.now().plus_ms(for_ms);
    let mut total = Step::default();
    loop {
        let step = consuming.step().await.unwrap();
        total.handled += step.handled;
        total.passed += step.passed;
        total.failed += step.failed;
        total.set_aside += step.set_aside;
        let next = desk.clock.now().plus_ms(step.pause_ms);
        if end < next {
            desk.clock.set(end);
            return total;
        }
        desk.clock.set(next);
    }
}

/// Steps until so much has been done, and time does not move: from Kafka deliveries come when they come. Answers all that was done.
pub(crate) async fn steps(
    consuming: &mut Consuming<Notifier>,
    is_done: impl Fn(&Step) -> bool,
) -> Step {
    let consuming = tokio::sync::Mutex::new((consuming, Step::default()));
    until("the steps have done it", async || {
        let mut guard = consuming.lock().await;
        let (consuming, total) = &mut *guard;
        let step = consuming.step().await.unwrap();
        total.handled += step.handled;
        total.failed += step.failed;
        total.set_aside += step.set_aside;
        is_done(total).then_some(*total)
    })
    .await
}
