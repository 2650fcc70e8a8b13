//! The database of a process: SQLite or PostgreSQL, and the stores over it.

use std::path::Path;
use std::sync::Arc;

use crate::analytics;
use crate::app::StartError;
use crate::base::ids::IdSource;
use crate::base::time::Clock;
use crate::config::Config;
use crate::driver::kafka::Kafka;
use crate::driver::kafka::producer::Producer;
use crate::driver::postgres::Postgres;
use crate::driver::schema::{CATRACA, POSTGRES};
use crate::driver::sqlite::Sqlite;
use crate::journey;
use crate::log::in_kafka::InKafka;
use crate::log::{self, LogName};
use crate::notify;
use crate::orders;
use crate::relay;
use crate::relay::via_kafka::ViaKafka;
use crate::search;
use crate::show;
use crate::stock;
use crate::tally;

/// A database that is open.
#[derive(Debug, Clone)]
pub enum Database {
    /// A file of ours.
    Sqlite(Sqlite),
    /// A server, which may be away for now.
    Postgres(Postgres),
}

/// Every store that lies in the database.
#[derive(Debug, Clone)]
pub struct Stores {
    /// Shows, checkpoints, ledger.
    pub shows: Arc<dyn show::Store>,
    /// Holds and orders.
    pub orders: Arc<dyn orders::store::Store>,
    /// The outbox, as the relay sees it.
    pub relay: Arc<dyn relay::store::Store>,
    /// Where the relay sends events, unless the outbox is the log.
    pub sink: Option<Arc<dyn relay::store::Sink>>,
    /// What of it can never be sent.
    pub quarantine: Arc<dyn relay::store::Quarantine>,
    /// The event log.
    pub log: Arc<dyn log::Subscriber>,
    /// What consumer groups have done.
    pub inbox: Arc<dyn log::inbox::Inbox>,
    /// What was sent to people.
    pub sent: Arc<dyn notify::inbox::Inbox>,
    /// Seats, and what was last said of them.
    pub stock: Arc<dyn stock::store::Store>,
    /// What listings show.
    pub search: Arc<dyn search::store::Store>,
    /// What was sold, and who came.
    pub analytics: Arc<dyn analytics::store::Store>,
    /// What is known of an order's way.
    pub journeys: Arc<dyn journey::store::Store>,
    /// What was told of joins.
    pub tally: Arc<dyn tally::store::Store>,
}

/// Builds every store with the adapters of one backend.
macro_rules! stores {
    ($backend:ident::$adapter:ident, [$log_inbox:ident, $quarantine:ident]: $db:expr, $clock:expr, $ids:expr, $log:expr) => {
        Stores {
            shows: Arc::new(show::$backend::$adapter::new($db.clone())),
            orders: Arc::new(orders::$backend::$adapter::new(
                $db.clone(),
                $clock.clone(),
                $ids.clone(),
            )),
            relay: Arc::new(relay::$backend::$adapter::new(
                $db.clone(),
                $clock.clone(),
                $log.clone(),
            )),
            sink: None,
            quarantine: Arc::new(relay::$quarantine::$adapter::new(
                $db.clone(),
                $clock.clone(),
            )),
            log: Arc::new(log::$backend::$adapter::new($db.clone(), $clock.clone())),
            inbox: Arc::new(log::$log_inbox::$adapter::new(
                $db.clone(),
                $clock.clone(),
                $log.clone(),
            )),
            sent: Arc::new(notify::$backend::$adapter::new($db.clone(), $clock.clone())),
            stock: Arc::new(stock::$backend::$adapter::new($db.clone(), $clock.clone())),
            search: Arc::new(search::$backend::$adapter::new($db.clone(), $clock.clone())),
            analytics: Arc::new(analytics::$backend::$adapter::new(
                $db.clone(),
                $clock.clone(),
            )),
            journeys: Arc::new(journey::$backend::$adapter::new($db.clone())),
            tally: Arc::new(tally::$backend::$adapter::new($db.clone())),
        }
    };
}

impl Database {
    /// Opens what `database.url` names and brings its schema up to date. A server that is away is no
    /// reason not to start: the schema follows once it comes.
    ///
    /// # Errors
    /// [`StartError`] with one line for a file or a server that cannot be used.
    pub async fn open(config: &Config) -> Result<Self, StartError> {
        if config.database_is_postgres() {
            let url = config.database.url.as_str();
            let db = Postgres::open(url, POSTGRES).await.map_err(|error| {
                let error = anyhow::Error::from(error);
                StartError::unavailable(format!("cannot use the server of database.url: {error:#}"))
            })?;
            return Ok(Self::Postgres(db));
        }
        let path = config.database_path();
        let db = Sqlite::open(&path, CATRACA).await;
        Ok(Self::Sqlite(db.map_err(|error| unusable(&path, error))?))
    }

    /// The stores over it, with the outbox as the event log.
    pub fn stores(&self, clock: &Arc<dyn Clock>, ids: &Arc<IdSource>) -> Stores {
        self.stores_of(clock, ids, &LogName::sql())
    }

    /// The stores over it, with events in a topic of Kafka.
    pub fn stores_with_kafka(
        &self,
        clock: &Arc<dyn Clock>,
        ids: &Arc<IdSource>,
        kafka: &Kafka,
    ) -> Stores {
        self.reading_kafka(clock, ids, kafka, &LogName::topic(kafka.topic()))
    }

    /// The same, where Debezium sends events to the topic: the database refuses the relay among them.
    pub fn stores_with_cdc(
        &self,
        clock: &Arc<dyn Clock>,
        ids: &Arc<IdSource>,
        kafka: &Kafka,
    ) -> Stores {
        self.reading_kafka(clock, ids, kafka, &LogName::topic_by_cdc(kafka.topic()))
    }

    fn reading_kafka(
        &self,
        clock: &Arc<dyn Clock>,
        ids: &Arc<IdSource>,
        kafka: &Kafka,
        log: &LogName,
    ) -> Stores {
        let stores = self.stores_of(clock, ids, log);
        // A relay's log is the topic, whoever else sends there.
        let relay = self
            .stores_of(clock, ids, &LogName::topic(kafka.topic()))
            .relay;
        let inbox = Arc::clone(&stores.inbox);
        Stores {
            relay,
            sink: Some(Arc::new(ViaKafka::new(Producer::new(kafka.clone())))),
            log: Arc::new(InKafka::new(kafka.clone(), inbox, stores.log)),
            ..stores
        }
    }

    fn stores_of(&self, clock: &Arc<dyn Clock>, ids: &Arc<IdSource>, log: &LogName) -> Stores {
        match self {
            Self::Sqlite(db) => {
                stores!(in_sqlite::InSqlite, [inbox_in_sqlite, quarantine_in_sqlite]: db, clock, ids, log)
            }
            Self::Postgres(db) => {
                stores!(in_postgres::InPostgres, [inbox_in_postgres, quarantine_in_postgres]: db, clock, ids, log)
            }
        }
    }

    /// The clock that its stores go by: that of the server, where processes share one.
    pub fn clock(&self, own: &Arc<dyn Clock>) -> Arc<dyn Clock> {
        match self {
            Self::Sqlite(_) => Arc::clone(own),
            Self::Postgres(db) => db.clock(),
        }
    }

    /// Whether it is there, with our schema.
    ///
    /// # Errors
    /// [`StartError`] where its server is away.
    pub fn ready(&self) -> Result<(), StartError> {
        let ready = match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(db) => db.ready(),
        };
        ready.map_err(|error| StartError::unavailable(error.to_string()))
    }

    /// Waits for the units of work under way, then lets go of it.
    pub async fn close(&self) {
        match self {
            Self::Sqlite(db) => db.close().await,
            Self::Postgres(db) => db.close().await,
        }
    }
}

/// One line about a file.
pub(super) fn unusable(path: &Path, error: impl Into<anyhow::Error>) -> StartError {
    let error: anyhow::Error = error.into();
    StartError::unavailable(format!("cannot open {}: {error:#}", path.display()))
}
