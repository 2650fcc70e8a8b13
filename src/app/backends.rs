//! Which backend is behind which port: the database (see `database.rs`), the room in memory or in
//! Redis, files.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::analytics;
use crate::app::StartError;
use crate::app::data_dir::DataDir;
use crate::app::database::{Database, Stores, unusable};
use crate::base::ids::IdSource;
use crate::base::outage::Outage;
use crate::base::secret::Secret;
use crate::base::time::{Clock, SystemClock};
use crate::config::{self, Config, Writer};
use crate::driver::kafka::Kafka;
use crate::driver::kafka::producer::Producer;
use crate::driver::redis::Settings;
use crate::driver::smtp::Smtp;
use crate::journey;
use crate::limit::Joins;
use crate::limit::joins_in_memory::JoinsInMemory;
use crate::limit::joins_in_redis::{CountingClock, JoinsInRedis};
use crate::log;
use crate::notify;
use crate::notify::mail;
use crate::notify::via_mailbox::ViaMailbox;
use crate::notify::via_smtp::ViaSmtp;
use crate::orders;
use crate::orders::payment::Payments;
use crate::orders::payment::via_sandbox::ViaSandbox;
use crate::relay;
use crate::room;
use crate::room::in_memory::InMemory;
use crate::room::in_redis::InRedis;
use crate::room::in_redis::scripts::ScriptClock;
use crate::search;
use crate::seller::Source;
use crate::seller::in_file::InFile;
use crate::seller::via_http::ViaHttp;
use crate::show;
use crate::stock;
use crate::tally;
use crate::telemetry::Exposition;
use crate::thin;
use crate::thin::via_kafka::ViaKafka;
use crate::token::keyring::KeyRing;
use crate::token::ticket;

/// Every store and provider of a process, open. Tests put their own behind a port.
#[derive(Debug)]
pub struct Backends {
    /// The clock that the stores go by: that of the database's server, where processes share one.
    pub clock: Arc<dyn Clock>,
    /// The machine's.
    pub wall: Arc<dyn Clock>,
    /// Where identifiers come from.
    pub ids: Arc<IdSource>,
    /// What signs passes and tickets.
    pub keys: Arc<KeyRing>,
    /// The waiting rooms.
    pub rooms: Arc<dyn room::Store>,
    /// How often somebody may join.
    pub joins: Arc<dyn Joins>,
    /// Where the shop publishes its keys, where it has accounts here.
    pub seller: Option<Arc<dyn Source>>,
    /// Shows, checkpoints, ledger.
    pub shows: Arc<dyn show::Store>,
    /// Holds and orders.
    pub orders: Arc<dyn orders::store::Store>,
    /// The payment provider.
    pub payments: Arc<dyn Payments>,
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
    /// What takes messages to people.
    pub sender: Arc<dyn notify::Sender>,
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
    /// Where thin events go, if they go anywhere.
    pub thin: Option<Arc<dyn thin::store::Sink>>,
    /// The metrics of the process.
    pub exposition: Exposition,
    /// The database, to be closed at the end.
    pub database: Database,
}

/// What every role has, and all that a gateway has.
#[derive(Debug, Clone)]
pub struct Front {
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Where identifiers come from.
    pub ids: Arc<IdSource>,
    /// What signs passes and tickets.
    pub keys: Arc<KeyRing>,
    /// The waiting rooms.
    pub rooms: Arc<dyn room::Store>,
    /// How often somebody may join.
    pub joins: Arc<dyn Joins>,
    /// Where the shop publishes its keys, where it has accounts here.
    pub seller: Option<Arc<dyn Source>>,
    /// The metrics of the process.
    pub exposition: Exposition,
}

impl Front {
    /// Opens what the configuration names.
    ///
    /// # Errors
    /// [`StartError`] with one line for keys that cannot be used and a room that cannot be opened.
    pub async fn open(config: &Config, data_dir: &DataDir) -> Result<Self, StartError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let keys = Arc::new(open_keys(config, data_dir)?);
        let redis = redis_settings(&config.room)?;
        let (rooms, joins) = match &redis {
            None => (
                rooms_in_memory(data_dir, &clock).await?,
                joins_in_memory(config, &clock),
            ),
            Some(redis) => (rooms_in_redis(redis).await?, joins_in_redis(config, redis)?),
        };
        let seller = open_seller(config)?;
        let exposition = Exposition::install()
            .or_else(|_| Exposition::detached()) // another process-wide recorder: a test's
            .map_err(|error| StartError::unavailable(format!("metrics: {error}")))?;
        Ok(Self {
            clock,
            ids: Arc::new(IdSource::random()),
            keys,
            rooms,
            joins,
            seller,
            exposition,
        })
    }
}

impl Backends {
    /// Opens what the configuration names.
    ///
    /// # Errors
    /// [`StartError`] with one line for keys that cannot be used and files that cannot be opened.
    pub async fn open(config: &Config, data_dir: &DataDir) -> Result<Self, StartError> {
        let Front {
            clock: wall,
            ids,
            keys,
            rooms,
            joins,
            seller,
            exposition,
        } = Front::open(config, data_dir).await?;
        let database = Database::open(config).await?;
        let clock = database.clock(&wall);
        let sender = open_sender(config).await?;
        let payments = open_payments(config, data_dir)?;
        let kafka = open_kafka(config)?;
        let Stores {
            shows,
            orders,
            relay,
            sink,
            quarantine,
            log,
            inbox,
            sent,
            stock,
            search,
            analytics,
            journeys,
            tally,
        } = match &kafka {
            None => database.stores(&clock, &ids),
            Some(kafka) if config.log.writer == Writer::Cdc => {
                database.stores_with_cdc(&clock, &ids, kafka)
            }
            Some(kafka) => database.stores_with_kafka(&clock, &ids, kafka),
        };
        Ok(Self {
            rooms,
            joins,
            seller,
            shows,
            orders,
            payments,
            relay,
            sink,
            quarantine,
            log,
            inbox,
            sent,
            sender,
            stock,
            search,
            analytics,
            journeys,
            tally,
            thin: kafka.filter(|_| config.log.thin).map(open_thin),
            exposition,
            database,
            clock,
            wall,
            ids,
            keys,
        })
    }

    /// The part of it that a gateway has.
    pub fn front(&self) -> Front {
        Front {
            clock: Arc::clone(&self.wall),
            ids: Arc::clone(&self.ids),
            keys: Arc::clone(&self.keys),
            rooms: Arc::clone(&self.rooms),
            joins: Arc::clone(&self.joins),
            seller: self.seller.clone(),
            exposition: self.exposition.clone(),
        }
    }
}

/// The sandbox, which remembers by a file of the data folder.
fn open_payments(config: &Config, data_dir: &DataDir) -> Result<Arc<dyn Payments>, StartError> {
    let path = data_dir.file("sandbox.ndjson");
    let slow = Duration::from_millis(config.orders.sandbox_slow_ms);
    let sandbox = ViaSandbox::in_file(slow, &path);
    Ok(Arc::new(sandbox.map_err(|error| unusable(&path, error))?))
}

/// Whether Kafka is there, a role finds out when it needs it: orders go on without.
pub(super) fn open_kafka(config: &Config) -> Result<Option<Kafka>, StartError> {
    let kafka = config.log.kafka();
    kafka.map_err(|error| StartError::config(error.to_string()))
}

fn open_thin(kafka: Kafka) -> Arc<dyn thin::store::Sink> {
    Arc::new(ViaKafka::new(Producer::new(kafka.thin())))
}

async fn rooms_in_memory(
    data_dir: &DataDir,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn room::Store>, StartError> {
    let path = data_dir.file("room.db");
    let rooms = InMemory::open(&path, Arc::clone(clock)).await;
    Ok(Arc::new(rooms.map_err(|error| unusable(&path, error))?))
}

async fn rooms_in_redis(redis: &Settings) -> Result<Arc<dyn room::Store>, StartError> {
    let rooms = InRedis::open(redis, ScriptClock::Server)
        .map_err(|error| StartError::config(format!("room.url: {error}")))?;
    match rooms.look().await {
        Ok(()) => {}
        // Whoever waits for a person may as well say so at once; the rest may be over in a moment.
        Err(error) if error.outage().is_none_or(Outage::is_lasting) => {
            let line = format!("cannot use the server of room.url: {error}");
            return Err(StartError::unavailable(line));
        }
        Err(error) => {
            tracing::warn!("starting without rooms; they are asked for again: {error}");
        }
    }
    Ok(Arc::new(rooms))
}

async fn open_sender(config: &Config) -> Result<Arc<dyn notify::Sender>, StartError> {
    if let Some(provider) = provider(config)? {
        return Ok(Arc::new(provider));
    }
    let path = config.mailbox();
    let mailbox = ViaMailbox::open(&path, &config.notify.from).await;
    let mailbox = mailbox.map_err(|error| unusable(&path, error))?;
    Ok(Arc::new(mailbox))
}

/// The provider that `[notify]` names; none where messages go into a folder. Whether it is there, the
/// notifier finds out when it has something to send.
pub(super) fn provider(config: &Config) -> Result<Option<ViaSmtp>, StartError> {
    let config::Notify {
        url, ca_file, from, ..
    } = &config.notify;
    let from = mail::sender(from)
        .map_err(|error| StartError::config(format!("notify.from: {error:#}")))?;
    let ca = certificates("notify.ca_file", ca_file)?;
    if url.expose() == config::NOTIFY_IN_MAILBOX {
        return Ok(None);
    }
    let provider = Smtp::new(url, ca.as_deref(), from.email.domain())
        .map_err(|error| StartError::config(format!("notify.url: {error}")))?;
    Ok(Some(ViaSmtp::new(provider, from)))
}

/// A file, or an address.
pub(super) fn open_seller(config: &Config) -> Result<Option<Arc<dyn Source>>, StartError> {
    let seller = &config.gateway.seller;
    let at = seller.jwks.as_str();
    if at.is_empty() {
        return Ok(None);
    }
    if at.contains("://") {
        let ca = certificates("gateway.seller.ca_file", &seller.ca_file)?;
        let source = ViaHttp::open(at, ca.as_deref()).map_err(|error| {
            StartError::config(format!("gateway.seller.jwks ({at}): {error:#}"))
        })?;
        return Ok(Some(Arc::new(source)));
    }
    Ok(Some(Arc::new(InFile(at.into()))))
}

fn joins_in_memory(config: &Config, clock: &Arc<dyn Clock>) -> Arc<dyn Joins> {
    let strangers_max = config.gateway.limits.strangers_max;
    let joins = JoinsInMemory::new(config.gateway.ladder(), strangers_max);
    Arc::new(joins.tallying(Arc::clone(clock)))
}

fn joins_in_redis(config: &Config, redis: &Settings) -> Result<Arc<dyn Joins>, StartError> {
    let (ladder, limits) = (config.gateway.ladder(), &config.gateway.limits);
    let joins = JoinsInRedis::open(redis, ladder, limits.strangers_max, CountingClock::Server)
        .map_err(|error| StartError::config(format!("room.url: {error}")))?;
    Ok(Arc::new(joins))
}

/// Where rooms are, and joins are counted; none: in this process.
fn redis_settings(room: &config::Room) -> Result<Option<Settings>, StartError> {
    if room.url == config::ROOM_IN_MEMORY {
        return Ok(None);
    }
    Ok(Some(Settings {
        url: room.url.clone(),
        ca: certificates("room.ca_file", &room.ca_file)?,
        split_brain_ms: room.split_brain_ms,
    }))
}

/// The certificates to trust that a key names; none where it names none.
pub(super) fn certificates(key: &str, path: &Path) -> Result<Option<Vec<u8>>, StartError> {
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let read = std::fs::read(path);
    read.map(Some).map_err(|error| {
        let shown = path.display();
        StartError::config(format!("{key}: cannot read {shown}: {error}"))
    })
}

fn open_keys(config: &Config, data_dir: &DataDir) -> Result<KeyRing, StartError> {
    if config.keys.secret.expose().is_empty() {
        keys_of(config, &data_dir.secret("secret")?)
    } else {
        keys_of(config, &config.keys.secret)
    }
}

/// The keys that derive from this secret.
pub(super) fn keys_of(config: &Config, secret: &Secret) -> Result<KeyRing, StartError> {
    let ring = KeyRing::new(secret, &config.keys.active, &config.keys.accepted)
        .map_err(|error| StartError::config(error.to_string()))?;
    ticket::self_test(&ring).map_err(|error| StartError::config(error.to_string()))?;
    Ok(ring)
}

/// A name for this process among the holders of leases, nobody else's and not its own of an earlier
/// life.
pub(super) fn holder(ids: &IdSource, role: &str) -> String {
    format!(
        "{role}-{}-{:08x}",
        std::process::id(),
        ids.seed() & 0xffff_ffff
    )
}
