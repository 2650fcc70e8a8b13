//! Redis fails in every way we know, under a program that serves: nobody new gets a number and no
//! gate opens, but everybody is told the last that is known and why; and when Redis is well again,
//! everything goes on without a hand.

use std::time::Duration;

use http::StatusCode;
use redis::Connection;
use serde_json::Value;

use crate::chaos::site::{Answer, Site};
use crate::support::need::{Need, on_both};
use crate::support::redis::Server;
use crate::support::until;

/// One way to fail: the word for it, how it comes about, and how it ends.
struct Outage {
    reason: &'static str,
    begins: &'static [&'static [&'static str]],
    ends: &'static [&'static [&'static str]],
}

const KILL: &[&str] = &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];

const REFUSALS: &[Outage] = &[
    Outage {
        reason: "too_few_replicas",
        begins: &[&["CONFIG", "SET", "min-replicas-to-write", "1"]],
        ends: &[&["CONFIG", "SET", "min-replicas-to-write", "0"]],
    },
    Outage {
        reason: "slow",
        begins: &[&["CLIENT", "PAUSE", "60000", "WRITE"]],
        ends: &[&["CLIENT", "UNPAUSE"]],
    },
    Outage {
        reason: "evicts",
        begins: &[&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]],
        ends: &[&["CONFIG", "SET", "maxmemory-policy", "noeviction"]],
    },
    Outage {
        reason: "password",
        begins: &[&["CONFIG", "SET", "requirepass", "changed"], KILL],
        ends: &[&["CONFIG", "SET", "requirepass", ""]],
    },
    Outage {
        reason: "out_of_connections",
        begins: &[&["CONFIG", "SET", "maxclients", "1"], KILL],
        ends: &[&["CONFIG", "SET", "maxclients", "1000"]],
    },
    Outage {
        reason: "forbidden",
        begins: &[&["ACL", "SETUSER", "default", "-hset"]],
        ends: &[&["ACL", "SETUSER", "default", "+hset"]],
    },
];

fn tell(connection: &mut Connection, commands: &[&[&str]]) {
    for command in commands {
        let (name, args) = command.split_first().unwrap();
        redis::cmd(name).arg(args).exec(connection).unwrap();
    }
}

/// What everybody sees while rooms cannot be asked, for this reason.
async fn is_out(site: &Site, reason: &str) {
    let joined = until(&format!("joins are refused: {reason}"), || async {
        let joined = site.join().await;
        (joined.says() == ("room-unavailable", reason)).then_some(joined)
    })
    .await;
    assert_eq!((joined.status, &*joined.retry_after), (503, "1"));
    let held = until("the gate knows", || async {
        let held = site.hold().await;
        (held.status == 503).then_some(held)
    })
    .await;
    assert_eq!(
        (held.says().0, &*held.retry_after),
        ("room-unavailable", "1")
    );

    until("readiness names it", || async {
        (site.ready().await == (StatusCode::SERVICE_UNAVAILABLE, reason.to_owned())).then_some(())
    })
    .await;
    let named = format!("\"{reason}\"");
    let counted = site.metric("catraca_redis_").await;
    assert!(
        counted.iter().any(|line| line.contains(&named)),
        "{counted:?}"
    );

    // From memory: the board's last state, and everybody's place.
    let board = site.board().await;
    assert_eq!(board.status, 200);
    let (pass, before) = &site.waiting;
    let stands = site.status(pass).await;
    assert_eq!(
        (stands.status, &stands.body["place"]),
        (200, &before["place"])
    );
    assert_eq!(stands.body["position"], before["position"]);
    tokio::time::sleep(Duration::from_millis(1_100)).await; // longer than boards are apart
    assert_eq!(site.board().await.body["as_of"], board.body["as_of"]);
    assert_eq!(site.hold().await.status, 503);
}

/// Everything goes on, without a hand.
async fn is_back(site: &Site) {
    site.joined().await;
    until("readiness returns", || async {
        (site.ready().await == (StatusCode::OK, "ok".to_owned())).then_some(())
    })
    .await;
    until("the gate opens", || async {
        (site.hold().await.status != 503).then_some(())
    })
    .await;
    let (pass, before) = &site.waiting;
    assert_eq!(site.status(pass).await.body["place"], before["place"]);
}

async fn refusals(need: &Need) {
    let Some(server) = Server::start(need) else {
        return;
    };
    let site = Site::open(&server.url(), &[]).await;
    let mut hand = server.connection();
    for outage in REFUSALS {
        tell(&mut hand, outage.begins);
        is_out(&site, outage.reason).await;
        tell(&mut hand, outage.ends);
        is_back(&site).await;
    }
    site.terminate().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_have_a_name_and_an_end() {
    on_both(refusals).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_occupied_or_reads_only_is_waited_for() {
    on_both(is_occupied_or_reads_only).await;
}

async fn is_occupied_or_reads_only(need: &Need) {
    let Some(server) = Server::start(need) else {
        return;
    };
    let site = Site::open(&server.url(), &[]).await;
    let (mut hand, mut other) = (server.connection(), server.connection());
    tell(
        &mut hand,
        &[&["CONFIG", "SET", "busy-reply-threshold", "100"]],
    );
    let endless = std::thread::spawn(move || {
        let mut endless = redis::cmd("EVAL");
        endless.arg("while true do end").arg(0).exec(&mut other)
    });
    is_out(&site, "occupied").await;
    tell(&mut hand, &[&["SCRIPT", "KILL"]]);
    endless.join().unwrap().unwrap_err();
    is_back(&site).await;

    // A server that was a replica has a new history: its rooms are mended.
    tell(&mut hand, &[&["REPLICAOF", "127.0.0.1", "1"]]);
    is_out(&site, "read_only").await;
    tell(&mut hand, &[&["REPLICAOF", "NO", "ONE"]]);
    is_back(&site).await;

    // And so has a server that is followed for the first time, or has long been alone again.
    let generation = async || site.board().await.body["generation"].as_u64();
    let before = generation().await;
    let (replica, _cable) = server.copied(need).await;
    let is_later = async || (before < generation().await).then_some(());
    until("the room is mended", is_later).await;
    is_back(&site).await;
    let before = generation().await;
    tell(&mut hand, &[&["CONFIG", "SET", "repl-backlog-ttl", "1"]]);
    drop(replica);
    let is_later = async || (before < generation().await).then_some(());
    until("the room is mended again", is_later).await;
    is_back(&site).await;
    site.terminate().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still_or_goes_away_is_waited_for() {
    on_both(stands_still_or_goes_away).await;
}

async fn stands_still_or_goes_away(need: &Need) {
    let Some(server) = Server::start(need) else {
        return;
    };
    let site = Site::open(&server.url(), &[]).await;
    server.pause();
    is_out(&site, "slow").await;
    server.resume();
    is_back(&site).await;

    let port = server.port();
    drop(server);
    is_out(&site, "away").await;
    // With nothing in it: what fans have in their hands and SQL knows is put back.
    let settings = ["--maxmemory-policy", "noeviction"];
    let server = until("the port is free", || async {
        Server::start_on(need, [port], &settings)
    })
    .await;
    is_back(&site).await;
    site.terminate().await;
    drop(server);
}

async fn cannot_write_its_file(need: &Need) {
    let Some(server) = Server::start(need) else {
        return;
    };
    let site = Site::open(&server.url(), &[]).await;
    // A folder has the name of its file, so that a snapshot cannot take its place.
    let file = server.folder().join("dump.rdb");
    std::fs::create_dir(&file).unwrap();
    server.tell(&["CONFIG", "SET", "save", "1 1"]);
    is_out(&site, "disk_error").await;
    std::fs::remove_dir(&file).unwrap();
    is_back(&site).await; // it tries again by itself
    site.terminate().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_write_its_file_is_waited_for() {
    on_both(cannot_write_its_file).await;
}

async fn reads_its_file(need: &Need) {
    const KEYS: usize = 6_000;
    let slowly = [
        "--maxmemory-policy",
        "noeviction",
        "--key-load-delay", // µs a key
        "2000",
        "--loading-process-events-interval-bytes",
        "1024",
    ];
    let Some(mut server) = Server::start_with(need, &slowly) else {
        return;
    };
    let site = Site::open(&server.url(), &[]).await;
    let mut much = redis::pipe();
    for n in 0..KEYS {
        much.set(format!("of somebody else: {n}"), "something")
            .ignore();
    }
    much.exec(&mut server.connection()).unwrap();
    server.tell(&["SAVE"]);
    server.die();
    server.begin_to_live_again();
    is_out(&site, "starting").await;
    is_back(&site).await;
    site.terminate().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_reads_its_file_is_waited_for() {
    on_both(reads_its_file).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_takes_nobody_new_and_serves_those_it_has() {
    on_both(is_full).await;
}

/// The same fan each time.
async fn join_with_key(site: &Site) -> Answer {
    let line = format!("POST /v1/shows/{}/join", crate::support::sale::SHOW);
    let key = [("idempotency-key", "a-key-of-this-very-fan-alone")];
    site.ask(&line, &key, &Value::Null).await
}

async fn is_full(need: &Need) {
    let Some(server) = Server::start(need) else {
        return;
    };
    let site = Site::open(&server.url(), &[]).await;
    let mut hand = server.connection();
    let joined = join_with_key(&site).await;
    assert_eq!(joined.status, 201, "{joined:?}");
    tell(&mut hand, &[&["CONFIG", "SET", "maxmemory", "1"]]);
    let refused = site.join().await;
    assert_eq!(refused.says(), ("room-unavailable", "out_of_memory"));
    assert_eq!((refused.status, &*refused.retry_after), (503, "1"));
    // Who has a place is told so.
    let kept = join_with_key(&site).await;
    assert_eq!(kept.status, 200, "{kept:?}");
    assert_eq!(kept.body["number"], joined.body["number"]);

    // The gate is open, and readiness stays: another gateway would have the same memory.
    assert_eq!(site.hold().await.status, 201);
    assert_eq!(site.ready().await, (StatusCode::OK, "ok".to_owned()));
    // An end frees the slot; the next is called and claims, all of it in a full server.
    let leaves = format!("DELETE /v1/shows/{}/place", crate::support::sale::SHOW);
    let gone = site
        .ask(&leaves, &[("x-catraca-pass", &site.inside.0)], &().into())
        .await;
    assert_eq!(gone.status, 204, "{gone:?}");
    until("the next fan is inside", || async {
        let status = site.status(&site.waiting.0).await.body;
        status["ticket"].as_str().map(drop)
    })
    .await;
    // The room is lost, and mended without more memory: who is inside stays inside.
    let room = format!("catraca:{{{}}}:room", crate::support::sale::SHOW);
    tell(&mut hand, &[&["HDEL", &room, "replid"]]);
    until("the room is mended", || async {
        (site.board().await.body["generation"] == 2).then_some(())
    })
    .await;
    let status = until("the status is answered", || async {
        let status = site.status(&site.waiting.0).await;
        (status.status == 200).then_some(status.body)
    })
    .await;
    assert!(status["ticket"].is_string(), "{status}");
    assert_eq!(
        site.join().await.says(),
        ("room-unavailable", "out_of_memory")
    );
    tell(&mut hand, &[&["CONFIG", "SET", "maxmemory", "0"]]);
    site.joined().await;
    site.terminate().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_data_is_an_error_and_no_guess() {
    on_both(has_foreign_data).await;
}

async fn has_foreign_data(need: &Need) {
    let Some(server) = Server::start(need) else {
        return;
    };
    let site = Site::open(&server.url(), &[]).await;
    let mut hand = server.connection();
    let queue = format!("catraca:{{{}}}:queue", crate::support::sale::SHOW);
    let aside = format!("aside:{{{}}}", crate::support::sale::SHOW);
    tell(
        &mut hand,
        &[
            &["RENAME", &queue, &aside],
            &["SET", &queue, "of somebody else"],
        ],
    );
    let refused = site.join().await;
    assert_eq!((refused.status, refused.says().0), (500, "room-corrupt"));
    let (pass, before) = &site.waiting;
    assert_eq!(site.status(pass).await.body["place"], before["place"]);
    tell(&mut hand, &[&["RENAME", &aside, &queue]]);
    site.joined().await;

    // The list of shows is everybody's, and no show depends on it once it is known.
    tell(
        &mut hand,
        &[
            &["RENAME", "catraca:shows", &aside],
            &["SET", "catraca:shows", "of somebody else"],
        ],
    );
    tokio::time::sleep(Duration::from_millis(1_100)).await; // a board that was read before
    let before = site.board().await.body["as_of"].clone();
    until("boards go on", || async {
        (site.board().await.body["as_of"] != before).then_some(())
    })
    .await;
    site.joined().await;
    site.terminate().await;
}
