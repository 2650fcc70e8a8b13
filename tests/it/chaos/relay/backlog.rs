//! O9: what came together while nobody relayed goes in steps of one size, by a relay that does not grow with it, and each
//! key in order. `./dev drill relay` has a hundred events for each of its orders.

use std::env;
use std::fs;
use std::time::Duration;

use catraca::app::alone::Role;
use sqlx::PgConnection;
use tokio::time::{Instant, sleep};

use crate::chaos::relay::ORDERS;
use crate::support::need::REDIS;
use crate::support::process::Alone;
use crate::support::redis::Server as Redis;
use crate::support::{kafka, postgres};

/// Two steps of a relay that has all partitions: what it needs for these it needs.
const FEW: i64 = 6_000;
const SHORT: i64 = 20_000;
/// Large enough that a relay which held all of the backlog would be seen to.
const PAYLOAD_BYTES: usize = 2_048;
/// How much a relay may need beside what it needed for a few, in kilobytes: less than all payloads of the short form
/// take once, of which a relay has two copies.
const GROWTH_MAX_KB: u64 = 32 * 1_024;
/// Events that may stand in the topic twice: those of a step or two whose marks a database with much to do did not
/// write in time.
const COPIES_MAX: i64 = FEW;
/// Between two looks, which count all marks.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long it may take for each thousand, at most.
const PATIENCE_FOR_1000: Duration = Duration::from_secs(6);

const MARKED: &str = "select count(*) from outbox_log";
/// Versions of a key that stand in the topic before the version before.
const TURNED_AROUND: &str = "select count(*)
    from outbox b join outbox a
      on a.aggregateid = b.aggregateid and a.aggregate_version + 1 = b.aggregate_version
    join outbox_log at_a on at_a.seq = a.seq join outbox_log at_b on at_b.seq = b.seq
    where at_b.offset < at_a.offset";

/// Two events a key, spread over the partitions, from this number on.
async fn fill(sql: &mut PgConnection, from: i64, count: i64) {
    let payload = format!("{{\"order\":\"{}\"}}", "x".repeat(PAYLOAD_BYTES));
    sqlx::query(
        "insert into outbox (id, aggregatetype, aggregateid, aggregate_version, type, payload,
           partition, occurred_at_ms)
         select 'event-' || i, 'order', 'order-' || i / 2, 1 + i % 2, 'OrderPlaced', $3, (i / 2) % 6, 0
         from generate_series($1, $1 + $2 - 1) i",
    )
    .bind(from)
    .bind(count)
    .bind(payload)
    .execute(sql)
    .await
    .unwrap();
}

async fn count(sql: &mut PgConnection, what: &'static str) -> i64 {
    sqlx::query_scalar(what).fetch_one(sql).await.unwrap()
}

/// Waits until so many are marked, and says how much memory the relay has ever had, in kilobytes.
async fn marked(sql: &mut PgConnection, events: i64, relay: &Alone) -> u64 {
    let thousands = u32::try_from(events / 1_000).unwrap();
    let end = Instant::now() + PATIENCE_FOR_1000 * thousands;
    while count(sql, MARKED).await < events {
        assert!(Instant::now() < end, "the backlog does not go");
        sleep(LOOK_EVERY).await;
    }
    let status = fs::read_to_string(format!("/proc/{}/status", relay.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.unwrap().trim_end_matches("kB").trim().parse().unwrap()
}

#[tokio::test]
async fn a_backlog_goes_in_order_through_a_relay_that_does_not_grow() {
    let (Some(url), Some(topic), Some(redis)) = (
        postgres::database().await,
        kafka::topic().await,
        Redis::start(&REDIS),
    ) else {
        return;
    };
    let events = env::var(ORDERS).map_or(SHORT, |orders| 100 * orders.parse::<i64>().unwrap());
    let mut sql = postgres::connect(&url).await;
    fill(&mut sql, 0, FEW).await;
    let folder = tempfile::tempdir().unwrap();
    let broker = kafka::broker().unwrap().url();
    let variables = [
        ("CATRACA__ROOM__URL", redis.url()),
        ("CATRACA__DATABASE__URL", url),
        ("CATRACA__LOG__URL", broker),
        ("CATRACA__LOG__TOPIC", topic.topic().to_owned()),
    ];
    let relay = Alone::start(Role::Relay, folder.path(), &variables).await;
    let before_kb = marked(&mut sql, FEW, &relay).await;
    assert_eq!(relay.terminate().await, Some(0)); // which gives its leases up

    fill(&mut sql, FEW, events).await;
    let began = Instant::now();
    let relay = Alone::start(Role::Relay, folder.path(), &variables).await;
    let peak_kb = marked(&mut sql, FEW + events, &relay).await;
    let took = began.elapsed();
    assert!(
        peak_kb < before_kb + GROWTH_MAX_KB,
        "{before_kb} kB, then {peak_kb}"
    );
    assert_eq!(count(&mut sql, TURNED_AROUND).await, 0);
    let there: usize = kafka::ends(&topic).iter().sum();
    let copies = there as i64 - FEW - events;
    assert!((0..=COPIES_MAX).contains(&copies), "{copies}");
    eprintln!(
        "backlog: {events} events of {PAYLOAD_BYTES} bytes went in {took:.1?}, in order, {copies} of them twice; the \
         relay had {} MB at most, and {} for {FEW}",
        peak_kb / 1_024,
        before_kb / 1_024,
    );
}
