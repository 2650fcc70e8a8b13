//! Consumers are killed every two seconds, one process after the other, while a sale goes on: every event
//! is handled once by every group all the same, and the checker finds every promise kept.
//!
//! The short form is a sale of some seconds; `./dev drill groups` has 100,000 events in it.

use std::path::Path;
use std::time::{Duration, Instant};

use catraca::app::alone::Role;
use catraca::base::time::{Clock, SystemClock};
use catraca::check;
use loadtest::report::Report;
use serde_json::json;
use tokio::sync::oneshot;

use crate::support::client::Client;
use crate::support::need::REDIS;
use crate::support::process::{Alone, Variables, signal};
use crate::support::redis::Server as Redis;
use crate::support::sale::{at_the_end, create_by_hand, crowd, settings};
use crate::support::{kafka, postgres};

/// How many events the long form has at least.
const EVENTS_VARIABLE: &str = "CATRACA_DRILL_EVENTS";
const EVENTS: u32 = 150;
/// Of those who arrive a part buys, and whoever does leaves three events: a hold, an order, its payment.
const EVENTS_PER_TWO_FANS: u32 = 5;
/// Between two deaths.
const LIFE: Duration = Duration::from_secs(2);
/// Deaths in the short form; in the long one they go on until all is sold and told.
const KILLS: usize = 5;
/// Whoever reads the log, in the order in which they die. Kafka gives the partitions of a dead member away when it
/// has heard nothing of it for 10 s: so both of a group die one after the other, and it has a moment until
/// it is their turn again.
const CONSUMERS: [Role; 8] = [
    Role::Notify,
    Role::Notify,
    Role::Stock,
    Role::Stock,
    Role::Search,
    Role::Search,
    Role::Analytics,
    Role::Analytics,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_killed_every_two_seconds_handle_every_event_once() {
    sale("the outbox is the log", Vec::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_killed_every_two_seconds_handle_every_event_once_from_kafka() {
    let Some(topic) = kafka::topic().await else {
        return;
    };
    let url = kafka::broker().unwrap().url();
    let topic = topic.topic().to_owned();
    let log = [("CATRACA__LOG__URL", url), ("CATRACA__LOG__TOPIC", topic)];
    sale("Kafka is the log", log.to_vec()).await;
}

async fn sale(name: &str, log: Variables) {
    let (Some(redis), Some(url)) = (Redis::start(&REDIS), postgres::database().await) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let shared = [
        log,
        vec![
            ("CATRACA__ROOM__URL", redis.url()),
            ("CATRACA__DATABASE__URL", url.clone()),
        ],
    ]
    .concat();
    let drill = std::env::var(EVENTS_VARIABLE).ok();
    let (events, kills_max) = match drill {
        Some(text) => (text.parse().unwrap(), usize::MAX),
        None => (EVENTS, KILLS),
    };
    let began = Instant::now();
    let (stop, stopped) = oneshot::channel();
    let killing = kill_in_turn(folder, &shared, (kills_max, stopped));
    let selling = async {
        let report = sell(folder, &shared, events).await;
        stop.send(()).unwrap();
        report
    };
    let ((kills, consumers), (report, others)) = tokio::join!(killing, selling);
    assert!(report.is_clean(), "{report}");
    let calm = Instant::now();
    let verdicts = at_the_end(folder, Some(&url)).await;
    let written: i64 = sqlx::query_scalar("select count(*) from outbox")
        .fetch_one(&mut postgres::connect(&url).await)
        .await
        .unwrap();
    assert!(i64::from(events) <= written, "{written} events");
    assert!(3 <= kills, "{kills} deaths prove little");
    eprintln!(
        "{name}: {written} events, consumers killed {kills} times in {:.0?}, all read {:.0?} later\n{}",
        calm - began,
        calm.elapsed(),
        check::render(&verdicts)
    );
    drop((consumers, others));
}

/// Starts everybody but consumers, and sells.
async fn sell(folder: &Path, shared: &Variables, events: u32) -> (Report, Vec<Alone>) {
    let orders = Alone::start(Role::Orders, folder, shared).await;
    let shop = format!("http://{}", orders.address("orders"));
    let env = [&**shared, &[("CATRACA__UPSTREAMS__ORDERS__URL", shop)]].concat();
    let gateway = Alone::start(Role::Gateway, folder, &env).await;
    let admitter = Alone::start(Role::Admitter, folder, shared).await;
    let relay = Alone::start(Role::Relay, folder, shared).await;
    let fans = events * 2 / EVENTS_PER_TWO_FANS + 10;
    let arrive_s = f64::from(fans / 250).max(5.0);
    let now = SystemClock.now();
    let price = json!({ "amount": 120.00, "currency": "BRL" });
    let document = settings(&json!({
        "rate": 500,
        "window_ms": 1_000,
        "capacity": 200,
        "claim_ms": 20_000,
        "ticket_ttl_ms": 300_000,
        "hold_ms": 240_000,
        "early_at": now,
        "opens_at": now.plus_ms(2_000),
        "sections": [
            { "name": "Floor", "seats": 3 * fans, "price": price },
            { "name": "Stand", "seats": 3 * fans, "price": price },
        ],
    }));
    let admin = format!("http://{}", admitter.address("admin API"));
    let door = gateway.address("gateway");
    let client = Client::of(format!("http://{door}"));
    create_by_hand(folder, &admin, &client, &document).await;
    let words = format!(
        "--fans {fans} --arrive-s {arrive_s} --connections 64 --buy 1 --leave 0 --sleep 0 \
         --claim-ms 20000 --for-s 3600 --mail-wait-s 1800"
    );
    let report = crowd(door.parse().unwrap(), folder, &words).await;
    (report, vec![orders, gateway, admitter, relay])
}

/// Kills one consumer after the other, and starts another in its place, so often or until it is told to stop.
/// Answers how often, and those who live.
async fn kill_in_turn(
    folder: &Path,
    shared: &Variables,
    (most, mut stopped): (usize, oneshot::Receiver<()>),
) -> (usize, Vec<Alone>) {
    let mut consumers = Vec::new();
    for role in CONSUMERS {
        consumers.push(Alone::start(role, folder, shared).await);
    }
    for (kills, at) in (0..CONSUMERS.len()).cycle().enumerate() {
        tokio::select! {
            _ = &mut stopped => return (kills, consumers),
            () = tokio::time::sleep(LIFE), if kills < most => {}
        }
        signal(consumers[at].id(), "-KILL").await;
        consumers[at] = Alone::start(CONSUMERS[at], folder, shared).await;
    }
    unreachable!("a cycle has no end")
}
