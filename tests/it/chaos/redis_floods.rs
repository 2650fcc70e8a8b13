//! Joins come in floods, and then their connection stands still: ticks, mends, operators and health
//! checks have connections of their own and go on. More joins than may wait are told to come back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use catraca::base::limits::{BATCH_MAX, BATCH_QUEUE_MAX};
use catraca::room::in_redis::scripts::Name;
use catraca::room::keys::Key;
use http::StatusCode;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::chaos::joiners::Joiners;
use crate::chaos::site::Site;
use crate::support::cut::{Cut, Still};
use crate::support::need::{Need, REDIS, on_both};
use crate::support::redis::Server;
use crate::support::sale::SHOW;
use crate::support::until;

/// Calls a second.
const RATE: u64 = 20;
/// How long each part is watched.
const WATCHED: Duration = Duration::from_secs(5);
/// Crowds that join at once, each one fan after the other.
const CROWDS: usize = 48;
/// A busy machine may be three times as slow.
const SLACK: u64 = 3;

/// The place up to which fans were called, as the server has it.
fn serving(server: &Server) -> u64 {
    let room = Key::Room.of(&SHOW.parse().unwrap());
    let mut connection = server.connection();
    let mut ask = redis::cmd("HGET");
    ask.arg(room).arg("serving").query(&mut connection).unwrap()
}

/// The last number given, as the server has it.
fn issued(server: &Server) -> u64 {
    let seq = Key::Seq.of(&SHOW.parse().unwrap());
    let mut connection = server.connection();
    redis::cmd("GET").arg(seq).query(&mut connection).unwrap()
}

/// Calls come at their rate, readiness is told, and operators are heard.
async fn everything_else_goes_on(what: &str, site: &Site, server: &Server) {
    let (from, since) = (serving(server), Instant::now());
    let (mut asked, mut ready) = (0, 0);
    while since.elapsed() < WATCHED {
        asked += 1;
        ready += u64::from(site.ready().await == (StatusCode::OK, "ok".to_owned()));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let due = u64::try_from(since.elapsed().as_millis()).unwrap() * RATE / 1_000;
    let called = serving(server) - from;
    eprintln!("{what}: {called} of {due} calls, {ready} of {asked} times ready");
    assert!(due <= SLACK * called, "{what}: {called} of {due} calls");
    assert!(asked <= SLACK * ready, "{what}: {ready} of {asked}");
    site.change(r#"{"message": {"en": "We hear you."}}"#).await;
    until("the room has heard it", || async {
        let board = site.board().await.body;
        (board["message"]["en"] == "We hear you.").then_some(())
    })
    .await;
    site.change(r#"{"message": {}}"#).await;
}

async fn joins_flood_and_stand_still(need: &Need) {
    let Some(server) = Server::start(need) else {
        return;
    };
    let cable = Cut::before(server.address()).await;
    cable.mark(redis::Script::new(Name::Join.text()).get_hash());
    let site = Site::open(&format!("redis://{}/", cable.address()), &[]).await;
    let (joiners, stop, mut flood) = (Joiners::default(), CancellationToken::new(), JoinSet::new());
    for _ in 0..CROWDS {
        let door = site.gateway.clone();
        flood.spawn(joiners.clone().keep_joining(door, stop.clone()));
    }
    until("a line has formed", || async {
        (400 <= joiners.joined().len()).then_some(())
    })
    .await;
    site.change(&format!(
        r#"{{"rate": {RATE}, "capacity": null, "claim_ms": 1000, "stock_guard": false}}"#
    ))
    .await;
    everything_else_goes_on("flood", &site, &server).await;

    cable.stand(Still::Marked);
    until("joins are not answered", || async {
        (site.join().await.says() == ("room-unavailable", "slow")).then_some(())
    })
    .await;
    everything_else_goes_on("stands still", &site, &server).await;

    // What is lost meanwhile is mended meanwhile.
    server.tell(&["FLUSHALL"]);
    until("the room is mended", || async {
        (site.board().await.body["generation"] == 2).then_some(())
    })
    .await;
    let refused = site.join().await;
    assert_eq!(refused.says(), ("room-unavailable", "slow"));

    cable.stand(Still::None);
    site.joined().await;
    stop.cancel();
    flood.join_all().await;
    joiners.promises_are_kept(site.folder()).await;
    site.terminate().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_never_wait_behind_joins() {
    on_both(joins_flood_and_stand_still).await;
}

/// Fans who join at once: the queue, a call under way, those who wait to come back, and more.
const CROWD: usize = BATCH_QUEUE_MAX + 3 * BATCH_MAX;
/// So many of them have met a full queue before the server goes on.
const REFUSED: usize = 200;

/// How often joins were refused, and with which word and reason.
type Refused = Arc<Mutex<BTreeMap<(String, String), usize>>>;

/// Joins under one key, and comes back when told to, until there is a number.
async fn join_in_the_end(site: Arc<Site>, n: usize, refused: Refused) -> u64 {
    let from = format!("10.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255);
    let key = format!("the-fan-in-the-crowd-{n:08}");
    let headers = [("x-forwarded-for", &*from), ("idempotency-key", &*key)];
    let line = format!("POST /v1/shows/{SHOW}/join");
    loop {
        let answer = site.ask(&line, &headers, &serde_json::Value::Null).await;
        if answer.status == 503 {
            assert_eq!(answer.retry_after, "1", "{answer:?}");
            let (word, reason) = answer.says();
            let why = (word.to_owned(), reason.to_owned());
            *refused.lock().unwrap().entry(why).or_default() += 1;
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        }
        assert!([200, 201].contains(&answer.status), "{answer:?}");
        return answer.body["number"].as_u64().unwrap();
    }
}

/// A full queue answers 503 and harms nobody: not those in it, and not those it refuses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_joins_than_may_wait_are_told_to_come_back_and_all_get_one_number() {
    let Some(server) = Server::start(&REDIS) else {
        return;
    };
    let cable = Cut::before(server.address()).await;
    cable.mark(redis::Script::new(Name::Join.text()).get_hash());
    let site = Arc::new(Site::open(&format!("redis://{}/", cable.address()), &[]).await);
    let before = issued(&server);
    cable.stand(Still::Marked);
    let (refused, mut crowd) = (Refused::default(), JoinSet::new());
    for n in 0..CROWD {
        crowd.spawn(join_in_the_end(Arc::clone(&site), n, Arc::clone(&refused)));
    }
    let busy = ("busy".to_owned(), String::new());
    until("the queue is full", || async {
        let met = refused.lock().unwrap().get(&busy).copied();
        (REFUSED <= met.unwrap_or_default()).then_some(())
    })
    .await;
    cable.stand(Still::None);
    let numbers = crowd.join_all().await;
    let distinct: BTreeSet<u64> = numbers.iter().copied().collect();
    assert_eq!(distinct.len(), CROWD, "each has a number of their own");
    let refused = refused.lock().unwrap().clone();
    eprintln!("{CROWD} fans have their numbers; refused before: {refused:?}");
    let slow = ("room-unavailable".to_owned(), "slow".to_owned());
    assert!(
        refused.keys().all(|why| *why == busy || *why == slow),
        "{refused:?}"
    );
    // A join whose answer nobody heard was made for whoever asked again.
    assert_eq!(issued(&server), before + CROWD as u64);
    let metric = site.metric("catraca_batch_refused_total").await;
    assert!(!metric.is_empty(), "{metric:?}");
    Arc::into_inner(site).unwrap().terminate().await;
}
