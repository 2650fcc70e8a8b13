//! A database of its own for one test, with a clock that stands still, and events to put into it.

use std::path::PathBuf;
use std::sync::Arc;

use catraca::admin::dead_letters::DeadLetters;
use catraca::analytics::step::Teller;
use catraca::app::database::{Database, Stores};
use catraca::base::ids::{EventId, FanId, IdSource, OrderId};
use catraca::base::limits::{ACK_DEADLINE_MS, RELAY_LEASE_TTL_MS};
use catraca::base::time::{Clock, ManualClock, Timestamp};
use catraca::driver::kafka::Kafka;
use catraca::event::money::Money;
use catraca::event::{Customer, Envelope, Event, Order, ShowFacts};
use catraca::log::consume::Consuming;
use catraca::log::inbox::Inbox;
use catraca::log::{Consumer, Delivery, Subscriber};
use catraca::notify::Sender;
use catraca::notify::step::Notifier;
use catraca::notify::via_mailbox::ViaMailbox;
use catraca::relay::plan::Batch;
use catraca::relay::step::{Relay, Settings};
use catraca::relay::store::Published;
use catraca::search::step::Lister;
use tempfile::TempDir;

use crate::support::database::{self, End};
use crate::support::{kafka, until};

pub(crate) const T0: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);

/// What a test of the log works with.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) folder: TempDir,
    pub(crate) db: Database,
    pub(crate) stores: Stores,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) ids: IdSource,
    /// Where events go, unless the outbox is the log.
    pub(crate) kafka: Option<Kafka>,
}

impl Desk {
    pub(crate) async fn open(db: Database, folder: TempDir) -> Self {
        Self::with(db, folder, None)
    }

    /// One whose events go to this topic.
    pub(crate) fn with_kafka(db: Database, folder: TempDir, kafka: Kafka) -> Self {
        Self::with(db, folder, Some(kafka))
    }

    fn with(db: Database, folder: TempDir, kafka: Option<Kafka>) -> Self {
        let clock = Arc::new(ManualClock::at(T0));
        let time: Arc<dyn Clock> = clock.clone();
        let ids = Arc::new(IdSource::seeded(8));
        let stores = match &kafka {
            None => db.stores(&time, &ids),
            Some(kafka) => db.stores_with_kafka(&time, &ids, kafka),
        };
        Self {
            stores,
            db,
            folder,
            clock,
            ids: IdSource::seeded(7),
            kafka,
        }
    }

    /// As after the end of a process: whoever was one of a group no longer is.
    pub(crate) fn restart(&mut self) {
        let ids = Arc::new(IdSource::seeded(8));
        self.stores = match &self.kafka {
            None => self.db.stores(&self.time(), &ids),
            Some(kafka) => self.db.stores_with_kafka(&self.time(), &ids, kafka),
        };
    }

    /// Another one on the same backend.
    pub(crate) async fn another(&self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = match &self.db {
            Database::Sqlite(_) => database::in_sqlite(folder.path()).await,
            Database::Postgres(_) => database::in_postgres().await.unwrap(),
        };
        match &self.kafka {
            None => Self::open(db, folder).await,
            Some(_) => Self::with_kafka(db, folder, kafka::topic().await.unwrap()),
        }
    }

    /// So much time goes by that every lease has run out.
    pub(crate) fn let_leases_lapse(&self) {
        let waits = self.kafka.as_ref().map_or(0, |_| ACK_DEADLINE_MS);
        self.clock.advance_ms(RELAY_LEASE_TTL_MS + waits);
    }

    /// How many deliveries a partition has in all.
    async fn deliveries(&self, partition: u16) -> usize {
        let Some(kafka) = &self.kafka else {
            let marks = format!("select count(*) from outbox_log where partition = {partition}");
            return usize::try_from(self.count(&marks).await).unwrap();
        };
        crate::support::kafka::ends(kafka)[usize::from(partition)]
    }

    /// The deliveries of a partition from where the group stands, once there are so many.
    pub(crate) async fn poll(&self, group: &str, partition: u16, count: usize) -> Vec<Delivery> {
        let log = self.log();
        let asked = until("there are deliveries", async || {
            let found = log.poll(group, partition, usize::MAX).await.unwrap();
            (count <= found.len()).then_some(found)
        });
        asked.await
    }

    /// All deliveries of a partition, for a group that stands at its beginning.
    pub(crate) async fn poll_all(&self, group: &str, partition: u16) -> Vec<Delivery> {
        let count = self.deliveries(partition).await;
        let found = self.poll(group, partition, count).await;
        assert_eq!(found.len(), count, "partition {partition}");
        found
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
        let (store, sink) = (self.stores.relay.clone(), self.stores.sink.clone());
        let settings = Settings::default();
        Relay::new(store, sink, self.time(), holder.to_owned(), settings)
    }

    /// Sends a batch and marks it, as a relay does.
    pub(crate) async fn publish(&self, batch: &Batch) -> Published {
        let batch = batch.clone();
        let marks = match &self.stores.sink {
            None => batch,
            Some(sink) => sink.send(batch).await.marks,
        };
        let answers = self.stores.relay.publish(&[marks]).await;
        answers.unwrap().remove(0)
    }

    /// Puts everything that is in the outbox into the log.
    pub(crate) async fn relay_all(&self) {
        let mut relay = self.relay("desk");
        let mut is_done = false;
        while !is_done {
            let step = relay.step().await.unwrap();
            is_done = step.sent == 0 && !step.more;
        }
        relay.resign().await.unwrap();
    }

    pub(crate) fn log(&self) -> Arc<dyn Subscriber> {
        self.stores.log.clone()
    }

    pub(crate) fn inbox(&self) -> Arc<dyn Inbox> {
        self.stores.inbox.clone()
    }

    pub(crate) fn notifier(&self, sender: Arc<dyn Sender>) -> Notifier {
        Notifier::new(self.stores.sent.clone(), sender)
    }

    /// What was set aside, and who tries it again where that is the notifier, a listing or a count.
    pub(crate) fn dead_letters(&self, sender: Arc<dyn Sender>) -> DeadLetters {
        let consumers: Vec<Arc<dyn Consumer>> = vec![
            Arc::new(self.notifier(sender)),
            Arc::new(Lister::new(self.stores.search.clone())),
            Arc::new(Teller::new(self.stores.analytics.clone())),
        ];
        DeadLetters::new(self.inbox(), consumers)
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

    pub(crate) async fn bend_outbox(&self, sql: &str) {
        database::bend_outbox(&self.db, sql).await;
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
