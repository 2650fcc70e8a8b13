//! The consumer groups: one loop each, and who tries again what was set aside.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::admin::dead_letters::DeadLetters;
use crate::analytics::step::Teller;
use crate::app::roles::Roles;
use crate::log::Consumer;
use crate::log::consume::Consuming;
use crate::notify::step::Notifier;
use crate::search::step::Lister;
use crate::stock;
use crate::stock::step::Counter;
use crate::stock::turns::Turns;
use crate::supervisor::Supervisor;
use crate::thin::step::Thinner;

impl Roles<'_> {
    /// The consumer that writes to people.
    pub(super) fn notify(&self, supervisor: &mut Supervisor, nudge: Arc<Notify>) {
        let notifying = Consuming::new(
            self.notifier(),
            Arc::clone(&self.backends.log),
            Arc::clone(&self.backends.inbox),
            Arc::clone(&self.backends.clock),
        );
        let stop = supervisor.loop_stop();
        supervisor.background("notify", notifying.run(nudge, stop));
    }

    /// The consumers that tell the room who has bought, and what is left.
    pub(super) fn count(
        &self,
        supervisor: &mut Supervisor,
        [to_rooms, to_stock]: [Arc<Notify>; 2],
        written: Arc<Notify>,
    ) {
        let (backends, stop) = (self.backends, supervisor.loop_stop());
        let telling = Consuming::new(
            self.turns(),
            Arc::clone(&backends.log),
            Arc::clone(&backends.inbox),
            Arc::clone(&backends.clock),
        );
        supervisor.background("admissions", telling.run(to_rooms, stop.clone()));

        let counter = Counter::new(stock::step::Parts {
            store: Arc::clone(&backends.stock),
            log: Arc::clone(&backends.log),
            inbox: Arc::clone(&backends.inbox),
            rooms: self.rooms.clone(),
            clock: Arc::clone(&backends.clock),
            ids: Arc::clone(&backends.ids),
        });
        supervisor.background("stock", counter.run(to_stock, written, stop));
    }

    /// The consumer that lists what is left.
    pub(super) fn list(&self, supervisor: &mut Supervisor, nudge: Arc<Notify>) {
        let listing = Consuming::new(
            Lister::new(Arc::clone(&self.backends.search)),
            Arc::clone(&self.backends.log),
            Arc::clone(&self.backends.inbox),
            Arc::clone(&self.backends.clock),
        );
        let stop = supervisor.loop_stop();
        supervisor.background("search", listing.run(nudge, stop));
    }

    /// The consumer that counts what is sold.
    pub(super) fn analyse(&self, supervisor: &mut Supervisor, nudge: Arc<Notify>) {
        let telling = Consuming::new(
            Teller::new(Arc::clone(&self.backends.analytics)),
            Arc::clone(&self.backends.log),
            Arc::clone(&self.backends.inbox),
            Arc::clone(&self.backends.clock),
        );
        let stop = supervisor.loop_stop();
        supervisor.background("analytics", telling.run(nudge, stop));
    }

    /// The consumer that sends events again without their facts, where that is wanted.
    pub(super) fn thin(&self, supervisor: &mut Supervisor, nudge: Arc<Notify>) {
        let Some(sink) = &self.backends.thin else {
            return;
        };
        let thinner = Thinner::new(
            Arc::clone(&self.backends.log),
            Arc::clone(&self.backends.inbox),
            Arc::clone(sink),
            Arc::clone(&self.backends.clock),
        );
        let stop = supervisor.loop_stop();
        supervisor.background("thin", thinner.run(nudge, stop));
    }

    /// What was set aside, and of each group that sets anything aside who tries it again.
    pub(super) fn dead_letters(&self) -> DeadLetters {
        let consumers: Vec<Arc<dyn Consumer>> = vec![
            Arc::new(self.notifier()),
            Arc::new(self.turns()),
            Arc::new(Lister::new(Arc::clone(&self.backends.search))),
            Arc::new(Teller::new(Arc::clone(&self.backends.analytics))),
        ];
        DeadLetters::new(Arc::clone(&self.backends.inbox), consumers)
    }

    fn turns(&self) -> Turns {
        Turns::new(
            self.rooms.clone(),
            Arc::clone(&self.backends.inbox),
            Arc::clone(&self.backends.clock),
        )
    }

    fn notifier(&self) -> Notifier {
        Notifier::new(
            Arc::clone(&self.backends.sent),
            Arc::clone(&self.backends.sender),
        )
    }
}
