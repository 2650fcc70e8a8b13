//! Two hundred writers, of whom each commits a while after its rows have their `seq`, and some never do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use catraca::base::ids::{IdSource, OrderId};
use catraca::base::time::{Clock, SystemClock};
use catraca::event::{Envelope, Event};
use catraca::log::outbox_in_postgres;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;

use crate::contract::desk::facts;
use crate::support::postgres;

/// Events of an order whose writers get in each other's way.
const CONTENDED: u64 = 5;
/// One transaction of so many is rolled back first.
const ROLLED_BACK: u32 = 20;

/// What was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) key: String,
    pub(crate) version: u64,
    /// When its commit began, in milliseconds since the Unix epoch.
    pub(crate) at_ms: i64,
}

/// By event id: what was committed, and what was not.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) committed: BTreeMap<String, Committed>,
    pub(crate) rolled_back: BTreeSet<String>,
}

impl Written {
    pub(crate) fn add(&mut self, more: Self) {
        self.committed.extend(more.committed);
        self.rolled_back.extend(more.rolled_back);
    }
}

/// A connection that writes.
#[derive(Debug)]
pub(crate) struct Writer {
    connection: PgConnection,
    ids: IdSource,
}

/// Where versions of a key come from, as those of an order come from its row.
const KEYS: &str =
    "create table drill (key text primary key, version bigint not null) with (fillfactor = 50)";

/// Makes ready a database to write into.
pub(crate) async fn prepare(url: &str) {
    let mut connection = postgres::connect(url).await;
    postgres::execute(&mut connection, KEYS).await;
}

impl Writer {
    pub(crate) async fn open(url: &str) -> Self {
        Self {
            connection: postgres::connect(url).await,
            ids: IdSource::random(),
        }
    }

    pub(crate) fn order(&self) -> OrderId {
        self.ids.order(SystemClock.now())
    }

    /// Writes so many events of an order in one transaction, which lasts while `pausing` does and is
    /// rolled back where that says so.
    pub(crate) async fn write(
        &mut self,
        order: OrderId,
        events: u64,
        pausing: impl Future<Output = bool>,
    ) -> Written {
        let mut tx = self.connection.begin().await.unwrap();
        let last: i64 = sqlx::query_scalar(
            "insert into drill as d (key, version) values ($1, $2)
             on conflict (key) do update set version = d.version + $2 returning version",
        )
        .bind(order.to_string())
        .bind(events.cast_signed())
        .fetch_one(&mut *tx)
        .await
        .unwrap();
        let mut envelopes = Vec::new();
        for version in last.cast_unsigned() - events + 1..=last.cast_unsigned() {
            let envelope = envelope(&self.ids, order, version);
            outbox_in_postgres::append(&mut tx, &envelope)
                .await
                .unwrap();
            envelopes.push(envelope);
        }
        let mut written = Written::default();
        if pausing.await {
            tx.rollback().await.unwrap();
            let ids = envelopes.iter().map(|envelope| envelope.id.to_string());
            written.rolled_back.extend(ids);
            return written;
        }
        let at_ms = SystemClock.now().as_millis();
        tx.commit().await.unwrap();
        for envelope in envelopes {
            let committed = Committed {
                key: order.to_string(),
                version: envelope.version,
                at_ms,
            };
            written.committed.insert(envelope.id.to_string(), committed);
        }
        written
    }
}

fn envelope(ids: &IdSource, order: OrderId, version: u64) -> Envelope {
    let event = match version {
        1 => Event::OrderPlaced(facts(order)),
        2 => Event::OrderConfirmed(facts(order)),
        _ => Event::OrderRefunded(facts(order)),
    };
    let now = SystemClock.now();
    Envelope {
        id: ids.event(now),
        version,
        at: now,
        trace: None,
        event,
    }
}

/// How the crowd writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) writers: u64,
    /// Orders of two events at least; a tenth as many have five, each in a transaction of its own.
    pub(crate) orders: u64,
    /// The longest that a transaction lasts after its rows have their `seq`, and the longest that its
    /// writer then rests.
    pub(crate) pause_ms_max: u64,
    pub(crate) rest_ms_max: u64,
}

/// What the crowd has in common.
#[derive(Debug)]
struct Crowd {
    size: Size,
    /// The orders that several write.
    contended: Vec<OrderId>,
    next: AtomicU64,
    is_over: Arc<AtomicBool>,
}

impl Crowd {
    fn all(&self) -> u64 {
        self.size.orders + self.contended.len() as u64 * CONTENDED
    }

    /// Which order the next transaction is of, where it is one of those.
    fn contended(&self, n: u64) -> Option<OrderId> {
        let every = self.all() / (self.contended.len() as u64 * CONTENDED);
        let nth = n / every;
        let is_due = n.is_multiple_of(every) && n < self.all();
        // Those of one order follow each other closely, so that they meet.
        let order = usize::try_from(nth / CONTENDED).unwrap();
        is_due.then(|| self.contended.get(order).copied()).flatten()
    }

    async fn write(&self, url: &str, seed: u64) -> Written {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut writer = Writer::open(url).await;
        let mut written = Written::default();
        loop {
            let n = self.next.fetch_add(1, Ordering::SeqCst);
            if self.all() <= n && self.is_over.load(Ordering::SeqCst) {
                return written;
            }
            let (order, events) = match self.contended(n) {
                Some(order) => (order, 1),
                None => (writer.order(), 2),
            };
            let mut rolls_back = random.random_range(0..ROLLED_BACK) == 0;
            loop {
                let pause = Duration::from_millis(random.random_range(0..=self.size.pause_ms_max));
                let pausing = async {
                    tokio::time::sleep(pause).await;
                    rolls_back
                };
                written.add(writer.write(order, events, pausing).await);
                if !rolls_back {
                    break;
                }
                rolls_back = false;
            }
            let rest = random.random_range(0..=self.size.rest_ms_max);
            tokio::time::sleep(Duration::from_millis(rest)).await;
        }
    }
}

/// Writes until it is over, and until there are as many orders as there should be.
pub(crate) async fn crowd(url: String, size: Size, is_over: Arc<AtomicBool>) -> Written {
    let ids = IdSource::random();
    let contended = (0..(size.orders / 10).max(1)).map(|_| ids.order(SystemClock.now()));
    let crowd = Arc::new(Crowd {
        size,
        contended: contended.collect(),
        next: AtomicU64::new(0),
        is_over,
    });
    let mut writing = JoinSet::new();
    for seed in 0..size.writers {
        let (crowd, url) = (Arc::clone(&crowd), url.clone());
        writing.spawn(async move { crowd.write(&url, seed).await });
    }
    let mut written = Written::default();
    while let Some(of_writer) = writing.join_next().await {
        written.add(of_writer.unwrap());
    }
    written
}
