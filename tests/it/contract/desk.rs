//! A database of its own for one test, with a clock that stands still, and events to put into it.

use std::path::PathBuf;
use std::sync::Arc;

use catraca::app::database::{Database, Stores};
use catraca::base::ids::{EventId, FanId, IdSource, OrderId};
use catraca::base::time::{Clock, ManualClock, Timestamp};
use catraca::event::money::Money;
use catraca::event::{Customer, Envelope, Event, Order, ShowFacts};
use catraca::log::Subscriber;
use catraca::log::consume::Consuming;
use catraca::log::inbox::Inbox;
use catraca::notify::Sender;
use catraca::notify::step::Notifier;
use catraca::notify::via_mailbox::ViaMailbox;
use catraca::relay::step::{Relay, Settings};
use tempfile::TempDir;

use crate::support::database::{self, End};

pub(crate) const T0: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);

/// What a test of the log works with.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) folder: TempDir,
    pub(crate) db: Database,
    pub(crate) stores: Stores,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) ids: IdSource,
}

impl Desk {
    pub(crate) async fn open(db: Database, folder: TempDir) -> Self {
        let clock = Arc::new(ManualClock::at(T0));
        let time: Arc<dyn Clock> = clock.clone();
        Self {
            stores: db.stores(&time, &Arc::new(IdSource::seeded(8))),
            db,
            folder,
            clock,
            ids: IdSource::seeded(7),
        }
    }

    /// Another one on the same backend.
    pub(crate) async fn another(&self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = match &self.db {
            Database::Sqlite(_) => database::in_sqlite(folder.path()).await,
            Database::Postgres(_) => database::in_postgres().await.unwrap(),
        };
        Self::open(db, folder).await
    }

    pub(crate) fn time(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    pub(crate) fn order(&self) -> OrderId {
        self.ids.order(T0)
    }

    /// An order whose key falls into this partition.
    pub(crate) fn order_in(&self, partition: u16) -> OrderId {
        loop {
            let order = self.order();
            if catraca::event::partition::of_key(&order.to_string()) == partition {
                return order;
            }
        }
    }

    pub(crate) fn envelope(&self, event: Event, version: u64) -> Envelope {
        Envelope {
            id: self.ids.event(self.clock.now()),
            version,
            at: self.clock.now(),
            trace: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
            event,
        }
    }

    /// Writes an event as an order's transaction does.
    pub(crate) async fn write(&self, event: Event, version: u64) -> EventId {
        let envelope = self.envelope(event, version);
        database::append(&self.db, std::slice::from_ref(&envelope), End::Commit).await;
        envelope.id
    }

    pub(crate) fn relay(&self, holder: &str) -> Relay {
        let store = self.stores.relay.clone();
        Relay::new(store, self.time(), holder.to_owned(), Settings::default())
    }

    /// Puts everything that is in the outbox into the log.
    pub(crate) async fn relay_all(&self) {
        let mut relay = self.relay("desk");
        while relay.step().await.unwrap().sent != 0 {}
        relay.resign().await.unwrap();
    }

    pub(crate) fn log(&self) -> Arc<dyn Subscriber> {
        self.stores.log.clone()
    }

    pub(crate) fn inbox(&self) -> Arc<dyn Inbox> {
        self.stores.inbox.clone()
    }

    pub(crate) fn notifier(&self, sender: Arc<dyn Sender>) -> Notifier {
        Notifier::new(self.inbox(), self.stores.sent.clone(), sender)
    }

    /// A notifier at work, as a new process would have it.
    pub(crate) fn notifying(&self, sender: Arc<dyn Sender>) -> Consuming<Notifier> {
        let notifier = self.notifier(sender);
        Consuming::new(notifier, self.log(), self.inbox(), self.time())
    }

    pub(crate) async fn mailbox(&self) -> Arc<ViaMailbox> {
        let from = "Catraca <tickets@catraca.example>";
        Arc::new(ViaMailbox::open(&self.mail_folder(), from).await.unwrap())
    }

    pub(crate) fn mail_folder(&self) -> PathBuf {
        self.folder.path().join("mailbox")
    }

    /// The names of the files in the mailbox, in order.
    pub(crate) fn mails(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.mail_folder()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub(crate) async fn count(&self, sql: &str) -> i64 {
        database::count(&self.db, sql).await
    }

    pub(crate) async fn run(&self, sql: &str) {
        database::run(&self.db, sql).await;
    }
}

/// The facts of an order.
pub(crate) fn facts(order_id: OrderId) -> Order {
    Order {
        order_id,
        customer: Customer {
            id: FanId([7; 16]).to_string(),
            email: "ana@example.com".to_owned(),
            locale: "pt-BR".to_owned(),
        },
        event: ShowFacts {
            id: "stadium-show".parse().unwrap(),
            name: "Stadium Show".to_owned(),
            starts_at: Some("2027-05-01T21:00:00-03:00".to_owned()),
        },
        seats: vec!["B-12".to_owned(), "B-13".to_owned()],
        total: Money {
            minor: 78_000,
            currency: "BRL".parse().unwrap(),
        },
        reason: None,
    }
}
