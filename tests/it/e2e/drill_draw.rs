//! A whole sale whose places are drawn, with PostgreSQL and Redis: every promise is kept, and whoever
//! bends the draw afterwards is found out.

use std::path::Path;

use catraca::base::secret::Secret;
use catraca::base::time::{Clock, SystemClock};
use catraca::check::{self, Finding, Paths};
use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::need::REDIS;
use crate::support::postgres;
use crate::support::process::{Server, run_in};
use crate::support::redis::Server as Redis;
use crate::support::sale::{SHOW, crowd, found, settings};
use crate::support::until;

/// The promise that nobody is called out of turn.
const IN_TURN: u8 = 5;
/// So many must take part in the draw: another draw would hardly put them in the same order.
const ENOUGH: i64 = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drawn_sale_is_judged_by_its_draw() {
    let (Some(redis), Some(url)) = (Redis::start(&REDIS), postgres::database().await) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let room = redis.url();
    let stores = [
        ("CATRACA__ROOM__URL", room.as_str()),
        ("CATRACA__DATABASE__URL", url.as_str()),
    ];
    let server = Server::up(folder, &stores).await;
    create(folder, &server).await;
    // Some come before the draw, and some behind it.
    let (report, ()) = tokio::join!(
        crowd(
            server.gateway,
            folder,
            "--fans 60 --arrive-s 4 --sleep 0.5 --seats 24"
        ),
        open_when_some_have_joined(folder, &server)
    );
    assert!(report.is_clean(), "{report}");
    assert!(
        0 < report.counts.stood_by,
        "sleepers know their place: {report}"
    );

    let history = ["--data-dir", ".", "--history", "history.ndjson"];
    let words = [&["check", "--database", &url][..], &history].concat();
    until("every promise is kept", || async {
        let checked = run_in(folder, &words, &[]).await;
        (checked.code == Some(0)).then_some(())
    })
    .await;
    assert!(broken(folder, &url).await.is_empty());
    let mut db = postgres::connect(&url).await;
    let size = "select size from draws";
    let size: i64 = sqlx::query_scalar(size).fetch_one(&mut db).await.unwrap();
    assert!(
        ENOUGH <= size,
        "{size} took part: too few to prove anything"
    );
    for (bend, mend) in bends(&mut db).await {
        postgres::execute(&mut db, &bend).await;
        let broken = broken(folder, &url).await;
        assert!(broken.contains(&IN_TURN), "{bend}: {broken:?}");
        postgres::execute(&mut db, &mend).await;
    }
    assert!(broken(folder, &url).await.is_empty());
    assert_eq!(server.terminate().await, Some(0));
}

/// What somebody may do to the draw afterwards, and how to take it back.
async fn bends(db: &mut sqlx::PgConnection) -> Vec<(String, String)> {
    let seed = "select seed from draws";
    let seed: String = sqlx::query_scalar(seed).fetch_one(&mut *db).await.unwrap();
    let calls = "select seq, body from room_ledger where kind = 'called' order by generation, seq";
    let calls: Vec<(i64, String)> = sqlx::query_as(calls).fetch_all(&mut *db).await.unwrap();
    let two = |body: &str| {
        let called: Value = serde_json::from_str(body).unwrap();
        2 <= called["Called"]["fans"].as_array().unwrap().len()
    };
    let (seq, body) = calls.into_iter().find(|(_, body)| two(body)).unwrap();
    let called: Value = serde_json::from_str(&body).unwrap();
    let with = |swap: fn(&mut Vec<Value>)| {
        let mut bent = called.clone();
        swap(bent["Called"]["fans"].as_array_mut().unwrap());
        format!("update room_ledger set body = '{bent}' where seq = {seq} and kind = 'called'")
    };
    let as_it_was =
        format!("update room_ledger set body = '{body}' where seq = {seq} and kind = 'called'");
    let other = if seed.starts_with('0') { "1" } else { "0" };
    vec![
        (
            "update draws set size = size - 1".to_owned(),
            "update draws set size = size + 1".to_owned(),
        ),
        (
            format!("update draws set seed = '{other}{}'", &seed[1..]),
            format!("update draws set seed = '{seed}'"),
        ),
        // One fan is called before another, or in another's place.
        (with(|fans| fans.swap(0, 1)), as_it_was.clone()),
        (
            with(|fans| {
                let first = fans[0][0].take();
                let second = std::mem::replace(&mut fans[1][0], first);
                fans[0][0] = second;
            }),
            as_it_was,
        ),
    ]
}

/// The promises that the checker says are broken.
async fn broken(folder: &Path, url: &str) -> Vec<u8> {
    let paths = Paths {
        data_dir: folder.to_owned(),
        database: Some(Secret::new(url)),
        histories: vec![folder.join("history.ndjson")],
    };
    let verdicts = check::judge(&check::load(&paths).await.unwrap());
    found(&verdicts, Finding::Broken)
}

async fn create(folder: &Path, server: &Server) {
    let now = SystemClock.now();
    let document = settings(&json!({ "draw": true, "early_at": now, "capacity": 6 }));
    std::fs::write(folder.join("show.json"), document.to_string()).unwrap();
    tell(folder, server, &["show", "create", SHOW, "show.json"]).await;
}

/// However slow the machine is: who took part is enough to prove something.
async fn open_when_some_have_joined(folder: &Path, server: &Server) {
    let fans = Client::of(format!("http://{}", server.gateway));
    until("some have joined", || async {
        let line = format!("GET /v1/shows/{SHOW}/board");
        let (_, board) = fans.ask(&line, &[], &Value::Null).await;
        (2 * ENOUGH <= board["issued"].as_i64()?).then_some(())
    })
    .await;
    tell(folder, server, &["show", "open", SHOW]).await;
}

/// What an operator says.
async fn tell(folder: &Path, server: &Server, words: &[&str]) {
    let admin = format!("http://{}", server.admin);
    let env = [
        ("CATRACA_ADMIN", admin.as_str()),
        ("CATRACA_TOKEN_FILE", "admin-token"),
    ];
    let told = run_in(folder, words, &env).await;
    assert_eq!(told.code, Some(0), "{told:?}");
}
