//! A transaction that is held open for ten minutes, and what the others' events take meanwhile: they are
//! published as before, and its own when it is committed. `./dev drill relay` is the long form.

use std::env;
use std::time::Duration;

use catraca::base::time::{Clock, SystemClock};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::chaos::relay::audit::{self, percentile};
use crate::chaos::relay::crew::Crew;
use crate::chaos::relay::mortal::Orders;
use crate::chaos::relay::writers::{self, Writer, Written};
use crate::chaos::relay::{ORDERS, topic};
use crate::support::kafka::{self, Broker};
use crate::support::postgres::{self, Server as Postgres};

/// How long a part lasts in the long form, and otherwise.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);
/// Parts under the open transaction.
const PARTS: u32 = 10;
/// How long marks may take that nothing holds up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Orders a second, of two events each.
const PER_S: u64 = 50;
/// Writers that share them.
const WRITERS: u64 = 4;

/// Steady orders for so long.
async fn orders(url: &str, lasting: Duration) -> Written {
    let mut writing = JoinSet::new();
    for _ in 0..WRITERS {
        let mut writer = Writer::open(url).await;
        writing.spawn(async move {
            let mut written = Written::default();
            let mut due = interval(Duration::from_millis(1_000 * WRITERS / PER_S));
            due.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let end = Instant::now() + lasting;
            while Instant::now() < end {
                due.tick().await;
                let order = writer.order();
                written.add(writer.write(order, 2, async { false }).await);
            }
            written
        });
    }
    let mut written = Written::default();
    for of_writer in writing.join_all().await {
        written.add(of_writer);
    }
    written
}

/// What is not marked yet.
const UNMARKED: &str = "select count(*) from outbox o
    where not exists (select 1 from outbox_log l where l.seq = o.seq)";

/// Waits until all that can be seen is marked.
async fn is_marked(url: &str) {
    let mut looking = postgres::connect(url).await;
    let end = Instant::now() + PATIENCE;
    while 0 < sqlx::query_scalar::<_, i64>(UNMARKED)
        .fetch_one(&mut looking)
        .await
        .unwrap()
    {
        assert!(Instant::now() < end, "not everything is marked");
        sleep(Duration::from_millis(50)).await;
    }
}

/// When a transaction was held open, and what was written before and meanwhile.
struct Story {
    compared_ms: i64,
    held_ms: i64,
    committed_ms: i64,
    written: Written,
}

/// Orders for two parts, the first to warm up, and for ten more under an open transaction, which then
/// commits the only event of its key.
async fn story(url: &str, part: Duration) -> Story {
    let now_ms = || SystemClock.now().as_millis();
    let mut written = orders(url, part).await;
    let compared_ms = now_ms();
    written.add(orders(url, part).await);
    let held_ms = now_ms();
    let mut writer = Writer::open(url).await;
    let order = writer.order();
    let mut others = Written::default();
    let pausing = async {
        others = orders(url, PARTS * part).await;
        is_marked(url).await; // nobody waits for it
        false
    };
    let late = writer.write(order, 1, pausing).await;
    let committed_ms = now_ms();
    is_marked(url).await;
    written.add(others);
    written.add(late);
    Story {
        compared_ms,
        held_ms,
        committed_ms,
        written,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_is_held_open_holds_up_nobody() {
    let (Some(postgres), Some(broker)) = (Postgres::start(&[]), Broker::start()) else {
        return;
    };
    let part = env::var(ORDERS).map_or(SHORT, |_| LONG);
    let (url, kafka) = (postgres.database().await, topic(&broker).await);
    writers::prepare(&url).await;
    let told = Orders {
        database: url.clone(),
        kafka: broker.url(),
        topic: kafka.topic().to_owned(),
        ahead_ms: 0,
        drops_rows: false,
    };
    let crew = Crew::start(told, 1);
    let story = story(&url, part).await;
    drop(crew);
    let client = broker.client();
    let records = tokio::task::spawn_blocking(move || kafka::records_by(client, &kafka));
    let found = audit::hold(&records.await.unwrap(), &story.written, &[]);
    let within = |from_ms: i64, to_ms: i64| {
        let took = found.took_ms.iter().copied();
        let took: Vec<_> = took
            .filter(|(at, _)| from_ms <= *at && *at < to_ms)
            .collect();
        (percentile(&took, 50), percentile(&took, 99))
    };
    let part_ms = i64::try_from(part.as_millis()).unwrap();
    let parts: Vec<_> = (0..i64::from(PARTS))
        .map(|n| story.held_ms + n * part_ms)
        .map(|from_ms| within(from_ms, from_ms + part_ms))
        .collect();
    eprintln!(
        "held: {} events; ms from commit to topic (median, 99 %), by {part:?}: {:?}, and then, while a \
         transaction was held open for {} ms, {parts:?}; its own event took {} ms",
        found.events,
        within(story.compared_ms, story.held_ms),
        story.committed_ms - story.held_ms,
        found.took_ms.last().unwrap().1,
    );
}
