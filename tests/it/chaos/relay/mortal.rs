//! A relay in a process of its own that stands still where it is told to, to be killed or frozen there.
//!
//! What ships has no such switch. So the drill starts this test binary once more and tells it, by a
//! variable, to be a relay: the loop as it ships, on the stores as they are, with a look-out beside
//! their methods. Its clock can be put ahead, so that nobody waits until a lease has run out.

use std::collections::BTreeMap;
use std::env;
use std::io::BufRead;
use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use catraca::app::database::Database;
use catraca::base::time::{Clock, SystemClock, Timestamp};
use catraca::driver::kafka::Kafka;
use catraca::driver::kafka::producer::Producer;
use catraca::log::LogName;
use catraca::relay::in_postgres::InPostgres;
use catraca::relay::plan::{Batch, Lease, Page};
use catraca::relay::step::{Relay, Settings};
use catraca::relay::store::{Cleaned, Published, Sent, Sink, Store, StoreError};
use catraca::relay::via_kafka::ViaKafka;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::support::database;

/// The test that is the program.
pub(crate) const PROGRAM: &str = "chaos::relay::mortal::a_relay";
/// The variable with its orders.
pub(crate) const ORDERS: &str = "CATRACA_DRILL_MORTAL";
/// What it says before the name of the place where it stands still, and since when something is under way
/// that has no mark, in milliseconds since the Unix epoch.
pub(crate) const AT: &str = "at ";
/// What it says when its marks were refused.
pub(crate) const FENCED: &str = "fenced";
/// How long a batch is given to be on its way to a broker that does not answer.
const ON_ITS_WAY: Duration = Duration::from_millis(300);

/// What it is told at its start, as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) database: String,
    pub(crate) kafka: String,
    pub(crate) topic: String,
    /// How far its clock is ahead.
    pub(crate) ahead_ms: i64,
    /// Whether rows go as soon as every group is past them.
    pub(crate) drops_rows: bool,
}

/// What it is told while it runs, a line of JSON each.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Word {
    /// Stand still at the next such place; nowhere: go on.
    At(Option<Place>),
    /// The clock is so far ahead now.
    Ahead(i64),
}

/// Between which of its acts a relay dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Place {
    /// It has taken or renewed leases.
    LeaseTaken,
    /// It has read rows to send.
    RowsRead,
    /// It is about to send them.
    Sending,
    /// They are on their way, and nothing is acknowledged.
    Sent,
    /// Kafka has acknowledged them.
    Acked,
    /// They are marked.
    MarkWritten,
    /// Rows that everybody is past were removed.
    RowsDropped,
}

/// What a relay was told.
#[derive(Debug)]
struct Told {
    place: watch::Sender<Option<Place>>,
    ahead_ms: AtomicI64,
    /// By partition, since when a batch is under way, by the machine's clock.
    under_way: Mutex<BTreeMap<u16, i64>>,
}

impl Told {
    fn is_to_stop_at(&self, place: Place) -> bool {
        *self.place.borrow() == Some(place)
    }

    /// Stands still here as long as it is told to.
    async fn pass(&self, place: Place) {
        let mut told = self.place.subscribe();
        if *told.borrow() == Some(place) {
            let now_ms = SystemClock.now().as_millis();
            let oldest_ms = self.under_way.lock().unwrap().values().min().copied();
            eprintln!("\n{AT}{place:?} {}", oldest_ms.unwrap_or(now_ms));
            drop(told.wait_for(|told| *told != Some(place)).await);
        }
    }

    fn hear(&self, word: Word) {
        match word {
            Word::At(place) => drop(self.place.send_replace(place)),
            Word::Ahead(ms) => self.ahead_ms.store(ms, Ordering::SeqCst),
        }
    }
}

impl Clock for Told {
    fn now(&self) -> Timestamp {
        let ahead_ms = self.ahead_ms.load(Ordering::SeqCst);
        Timestamp::from_unix_ms(SystemClock.now().as_millis() + ahead_ms)
    }
}

/// The outbox: what it has done is done, and nobody has heard of it.
#[derive(Debug)]
struct Outbox {
    store: InPostgres,
    told: Arc<Told>,
}

fn has_rows(batches: &[Batch]) -> bool {
    batches.iter().any(|batch| !batch.send.is_empty())
}

#[async_trait]
impl Store for Outbox {
    async fn lease(&self, holder: &str, ttl_ms: u64) -> Result<Vec<Lease>, StoreError> {
        let leases = self.store.lease(holder, ttl_ms).await?;
        if !leases.is_empty() {
            self.told.pass(Place::LeaseTaken).await;
        }
        Ok(leases)
    }

    async fn resign(&self, holder: &str) -> Result<(), StoreError> {
        self.store.resign(holder).await
    }

    async fn unsent(&self, partition: u16, max: usize) -> Result<Page, StoreError> {
        let page = self.store.unsent(partition, max).await?;
        if !page.rows.is_empty() {
            self.told.pass(Place::RowsRead).await;
        }
        Ok(page)
    }

    async fn publish(&self, batches: &[Batch]) -> Result<Vec<Published>, StoreError> {
        let has_rows = has_rows(batches);
        if has_rows {
            self.told.pass(Place::Acked).await;
        }
        let answers = self.store.publish(batches).await?;
        for batch in batches {
            let mut under_way = self.told.under_way.lock().unwrap();
            under_way.remove(&batch.lease.partition);
        }
        if answers.contains(&Published::Fenced) {
            eprintln!("\n{FENCED}");
        }
        if has_rows {
            self.told.pass(Place::MarkWritten).await;
        }
        Ok(answers)
    }

    async fn clean_up(&self, before: Timestamp, max: usize) -> Result<Cleaned, StoreError> {
        let cleaned = self.store.clean_up(before, max).await?;
        if 0 < cleaned.rows {
            self.told.pass(Place::RowsDropped).await;
        }
        Ok(cleaned)
    }
}

/// The way to Kafka, which takes what is sent and says nothing.
#[derive(Debug)]
struct Way {
    sink: ViaKafka,
    told: Arc<Told>,
}

#[async_trait]
impl Sink for Way {
    async fn send(&self, batch: Batch) -> Sent {
        let now_ms = SystemClock.now().as_millis();
        let partition = batch.lease.partition;
        self.told
            .under_way
            .lock()
            .unwrap()
            .insert(partition, now_ms);
        self.told.pass(Place::Sending).await;
        let mut sending = pin!(self.sink.send(batch));
        if self.told.is_to_stop_at(Place::Sent) {
            tokio::select! {
                sent = &mut sending => return sent,
                () = tokio::time::sleep(ON_ITS_WAY) => self.told.pass(Place::Sent).await,
            }
        }
        sending.await
    }
}

/// The name of a process among the holders of leases.
pub(crate) fn holder(process: u32) -> String {
    format!("drill-{process}")
}

async fn run(orders: Orders, told: Arc<Told>, stop: CancellationToken) {
    let Database::Postgres(db) = database::at(&orders.database).await else {
        panic!("the drill is on PostgreSQL");
    };
    let clock: Arc<dyn Clock> = told.clone();
    let kafka = Kafka::new(&orders.kafka, &orders.topic).unwrap();
    let outbox = Outbox {
        store: InPostgres::new(db, clock.clone(), LogName::topic(kafka.topic())),
        told: told.clone(),
    };
    let way = Way {
        sink: ViaKafka::new(Producer::new(kafka)),
        told,
    };
    let settings = Settings {
        keep_ms: orders.drops_rows.then_some(0),
    };
    let holder = holder(std::process::id());
    let sink: Arc<dyn Sink> = Arc::new(way);
    let relay = Relay::new(Arc::new(outbox), Some(sink), clock, holder, settings);
    let nudge = Arc::new(Notify::new());
    relay.run(nudge, Vec::new(), stop).await.unwrap();
}

/// With orders the program; without, the test that it hears where to stand still.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay() {
    let told = Arc::new(Told {
        place: watch::Sender::new(None),
        ahead_ms: AtomicI64::new(0),
        under_way: Mutex::default(),
    });
    let Ok(orders) = env::var(ORDERS) else {
        told.pass(Place::Acked).await;
        told.hear(Word::At(Some(Place::Acked)));
        told.pass(Place::Sent).await;
        assert!(told.is_to_stop_at(Place::Acked));
        return;
    };
    let orders: Orders = serde_json::from_str(&orders).unwrap();
    told.hear(Word::Ahead(orders.ahead_ms));
    let stop = CancellationToken::new();
    let (hearing, stopping) = (told.clone(), stop.clone());
    // Whoever started this process holds the other end, also by its death.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            hearing.hear(serde_json::from_str(&line).unwrap());
        }
        hearing.hear(Word::At(None));
        stopping.cancel();
    });
    run(orders, told, stop).await;
}
