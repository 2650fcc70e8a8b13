//! Joins come in floods, and then their connection stands still: ticks, mends, operators and health
//! checks have connections of their own and go on.

use std::time::{Duration, Instant};

use catraca::room::in_redis::scripts::Name;
use catraca::room::keys::Key;
use http::StatusCode;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::chaos::joiners::Joiners;
use crate::chaos::site::Site;
use crate::support::cut::{Cut, Still};
use crate::support::need::{Need, on_both};
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
