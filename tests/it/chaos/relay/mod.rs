//! Three relays between PostgreSQL and Kafka that die between any two of their acts, and freeze past their
//! lease, and a broker that dies, while two hundred write: nothing is lost, no key is turned around, and
//! an event stands twice only where it was under way when somebody died, froze or had no broker.
//! `./dev drill relay` is the long form.

mod audit;
mod backlog;
mod crew;
mod held;
mod mortal;
mod writers;

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use catraca::base::limits::PARTITIONS;
use catraca::base::time::{Clock, SystemClock};
use catraca::driver::kafka::Kafka;
use catraca::event::partition;
use sqlx::PgConnection;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::chaos::relay::audit::Unsure;
use crate::chaos::relay::crew::Crew;
use crate::chaos::relay::mortal::{Orders, Place};
use crate::chaos::relay::writers::{Size, Writer, Written};
use crate::support::kafka::{self, Broker};
use crate::support::postgres::{self, Server as Postgres};
use crate::support::until;

/// How many orders at least, where `./dev drill relay` says so.
const ORDERS: &str = "CATRACA_DRILL_RELAY";
/// Between two looks at the database.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long before its broker dies somebody may have sent what it then does not mark.
const STEP_MS: i64 = 1_000;
/// How long a backlog may take to go after a broker is back.
const BACKLOG_MAX: Duration = Duration::from_secs(60);
/// Where relays die, but for the removal of rows, which has its own time.
const PLACES: [Place; 5] = [
    Place::LeaseTaken,
    Place::RowsRead,
    Place::Sent,
    Place::Acked,
    Place::MarkWritten,
];

/// How much of it.
#[derive(Debug, Clone, Copy)]
struct Extent {
    crowd: Size,
    /// Deaths at each place.
    rounds: usize,
    /// Relays that are frozen.
    frozen: usize,
    /// How long the broker is away.
    away: Duration,
    /// Whether a lease runs out by the machine's clock where a relay is frozen.
    in_real_time: bool,
}

impl Extent {
    fn told() -> Self {
        match env::var(ORDERS) {
            Ok(orders) => Self {
                crowd: Size {
                    writers: 200,
                    orders: orders.parse().unwrap(),
                    pause_ms_max: 500,
                    rest_ms_max: 2_000,
                },
                rounds: 200,
                frozen: 4,
                away: Duration::from_secs(60),
                in_real_time: true,
            },
            Err(_) => Self {
                crowd: Size {
                    writers: 40,
                    orders: 300,
                    pause_ms_max: 100,
                    rest_ms_max: 200,
                },
                rounds: 1,
                frozen: 1,
                away: Duration::from_secs(1),
                in_real_time: false,
            },
        }
    }
}

/// The servers, and what happens to them.
struct Drill {
    extent: Extent,
    postgres: Postgres,
    url: String,
    broker: Broker,
    kafka: Kafka,
    crew: Crew,
    looking: PgConnection,
    unsure: Vec<Unsure>,
}

impl Drill {
    async fn open() -> Option<Self> {
        let (postgres, broker) = (Postgres::start(&[])?, Broker::start()?);
        let url = postgres.database().await;
        writers::prepare(&url).await;
        let kafka = topic(&broker).await;
        let orders = Orders {
            database: url.clone(),
            kafka: broker.url(),
            topic: kafka.topic().to_owned(),
            ahead_ms: 0,
            drops_rows: true,
        };
        Some(Self {
            extent: Extent::told(),
            looking: postgres::connect(&url).await,
            crew: Crew::start(orders, crew::SIZE),
            postgres,
            url,
            broker,
            kafka,
            unsure: Vec::new(),
        })
    }

    async fn count(&mut self, sql: &'static str) -> i64 {
        let found = sqlx::query_scalar(sql).fetch_one(&mut self.looking).await;
        found.unwrap()
    }

    /// Every group is past all that is marked by now, so that rows may go.
    async fn read_all(&mut self) {
        sqlx::query(
            r#"insert into log_groups (consumer, partition, "offset", updated_at_ms)
               select 'reader', partition, max("offset") + 1, 0 from outbox_log group by partition
               on conflict (consumer, partition) do update set "offset" = excluded."offset""#,
        )
        .execute(&mut self.looking)
        .await
        .unwrap();
    }

    /// Who has partitions.
    async fn holders(&mut self) -> Vec<String> {
        let holders = "select distinct holder from outbox_partitions where holder is not null";
        let found = sqlx::query_scalar(holders);
        found.fetch_all(&mut self.looking).await.unwrap()
    }

    /// Waits until somebody who lives marks what is written.
    async fn is_sending(&mut self) {
        let last = "select coalesce(max(logged_at_ms), 0) from outbox_log";
        let (end, before) = (Instant::now() + BACKLOG_MAX, self.count(last).await);
        while self.count(last).await <= before {
            assert!(Instant::now() < end, "nobody sends");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// One relay dies at this place, and another takes over.
    async fn dies_at(&mut self, place: Place) {
        let (dead, since_ms) = match place {
            Place::Sent => {
                let (dying, _) = self.crew.stops_at(Place::Sending).await;
                self.broker.pause();
                self.crew.goes_on_to(dying, place).await
            }
            Place::RowsDropped => {
                self.read_all().await;
                self.crew.advance_ms(5_000); // they look for old rows as often
                self.crew.stops_at(place).await
            }
            _ => self.crew.stops_at(place).await,
        };
        self.crew.kill(dead);
        if place == Place::Sent {
            self.broker.resume();
        }
        self.crew.go_on();
        self.crew.let_leases_lapse();
        self.crew.add();
        self.is_sending().await;
        // Wherever it stood, events of other partitions may have been on their way.
        self.was_unsure(since_ms);
    }

    /// One is frozen between Kafka's word and its marks, past its lease, and wakes.
    async fn freezes(&mut self) {
        let (frozen, since_ms) = self.crew.stops_at(Place::Acked).await;
        self.crew.signal(frozen, "STOP");
        self.crew.go_on();
        if !self.extent.in_real_time {
            self.crew.let_leases_lapse();
        }
        let holder = self.crew.holder(frozen);
        let end = Instant::now() + BACKLOG_MAX;
        while self.holders().await.contains(&holder) {
            assert!(Instant::now() < end, "nobody takes over");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.is_sending().await;
        self.crew.signal(frozen, "CONT");
        self.crew.is_fenced(frozen).await;
        self.was_unsure(since_ms);
    }

    fn was_unsure(&mut self, from_ms: i64) {
        let to_ms = SystemClock.now().as_millis();
        self.unsure.push(Unsure { from_ms, to_ms });
    }

    /// The broker dies and comes back; how long the backlog took from then.
    async fn broker_dies(&mut self) -> Duration {
        let from_ms = SystemClock.now().as_millis() - STEP_MS;
        self.broker.die();
        tokio::time::sleep(self.extent.away).await;
        let backlog = self.count("select coalesce(max(seq), 0) from outbox").await;
        let back = Instant::now();
        assert!(self.broker.begin(), "the broker starts again");
        let unmarked = "select count(*) from outbox o where o.seq <= $1
            and not exists (select 1 from outbox_log l where l.seq = o.seq)";
        while 0 < sqlx::query_scalar::<_, i64>(unmarked)
            .bind(backlog)
            .fetch_one(&mut self.looking)
            .await
            .unwrap()
        {
            assert!(back.elapsed() < BACKLOG_MAX, "the backlog does not go");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.was_unsure(from_ms);
        back.elapsed()
    }

    /// Waits until everything is marked, and holds the topic against what was written.
    async fn ends(mut self, written: &Written) -> audit::Found {
        let unmarked = "select count(*) from outbox o
            where not exists (select 1 from outbox_log l where l.seq = o.seq)";
        let end = Instant::now() + BACKLOG_MAX;
        while 0 < self.count(unmarked).await {
            assert!(Instant::now() < end, "not everything is marked");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        assert_eq!(
            self.count("select count(*) from outbox_quarantine").await,
            0
        );
        drop(self.crew);
        let records = {
            let (client, kafka) = (self.broker.client(), self.kafka.clone());
            tokio::task::spawn_blocking(move || kafka::records_by(client, &kafka))
        };
        let found = audit::hold(&records.await.unwrap(), written, &self.unsure);
        drop(self.postgres);
        found
    }
}

async fn topic(broker: &Broker) -> Kafka {
    let kafka = Kafka::new(&broker.url(), kafka::TOPIC).unwrap();
    until("the broker makes topics", async || {
        kafka.apply_topic().await.ok()
    })
    .await;
    kafka
}

/// Transactions that have their `seq` before all others and commit after many: in each partition one, and
/// its event is the only one of its key.
struct Late {
    is_over: watch::Sender<bool>,
    writing: JoinSet<Written>,
}

impl Late {
    async fn begin(url: &str) -> Self {
        let mut late = Self {
            is_over: watch::Sender::new(false),
            writing: JoinSet::new(),
        };
        for number in 0..PARTITIONS {
            let mut writer = Writer::open(url).await;
            let order = std::iter::repeat_with(|| writer.order())
                .find(|order| partition::of_key(&order.to_string()) == number)
                .unwrap();
            let mut is_over = late.is_over.subscribe();
            late.writing.spawn(async move {
                let pausing = async {
                    drop(is_over.wait_for(|is_over| *is_over).await);
                    false
                };
                writer.write(order, 1, pausing).await
            });
        }
        late
    }

    async fn commit(self) -> Written {
        self.is_over.send_replace(true);
        let mut written = Written::default();
        for of_writer in self.writing.join_all().await {
            written.add(of_writer);
        }
        written
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_dies_nothing_is_lost_and_no_key_is_turned_around() {
    let Some(mut drill) = Drill::open().await else {
        return;
    };
    let (extent, began) = (drill.extent, Instant::now());
    let late = Late::begin(&drill.url).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let crowd = writers::crowd(drill.url.clone(), extent.crowd, Arc::clone(&is_over));
    let crowd = tokio::spawn(crowd);
    drill.is_sending().await;
    for place in PLACES {
        for _ in 0..extent.rounds {
            drill.dies_at(place).await;
        }
    }
    // While a transaction is older than they are, no rows go.
    let late = late.commit().await;
    for _ in 0..extent.rounds {
        drill.dies_at(Place::RowsDropped).await;
    }
    for _ in 0..extent.frozen {
        drill.freezes().await;
    }
    let backlog = drill.broker_dies().await;
    is_over.store(true, Ordering::SeqCst);
    let mut written = crowd.await.unwrap();
    written.add(late);
    let left = drill.count("select count(*) from outbox").await;
    let dropped = written.committed.len() - usize::try_from(left).unwrap();
    assert!(0 < dropped, "rows were dropped");
    let found = drill.ends(&written).await;
    assert!(extent.crowd.orders <= found.orders as u64);
    eprintln!(
        "relay: {} orders, {} events of {} writers in {:.0} s, {} rolled back, {PARTITIONS} committed late; \
         {} relays killed at each of {} places, {} frozen past their lease; broker dead for {:.0} s, \
         backlog gone {:.1} s after its start began: 0 orders failed, 0 events lost, 0 keys turned around, \
         {} copies, {dropped} rows dropped",
        found.orders,
        found.events,
        extent.crowd.writers,
        began.elapsed().as_secs_f64(),
        written.rolled_back.len(),
        extent.rounds,
        PLACES.len() + 1,
        extent.frozen,
        extent.away.as_secs_f64(),
        backlog.as_secs_f64(),
        found.copies,
    );
}
