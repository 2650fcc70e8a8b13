//! What groups build from the log is told to operators, and is the same when a group begins again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use catraca::app::backends::Backends;
use catraca::base::time::{Clock, SystemClock, Timestamp};
use catraca::limit::Settings;
use catraca::limit::gcra::Ladder;
use catraca::limit::joins_in_memory::JoinsInMemory;
use http::StatusCode;
use serde_json::{Value, json};

use crate::e2e::drill_journey::Desk;
use crate::e2e::mail::{buy, create_show};
use crate::support::client::Client;
use crate::support::process::Server;
use crate::support::sale::{Running, SHOW};
use crate::support::until;

/// Who runs the program on this folder.
fn desk<'a>(folder: &'a Path, server: &Server) -> Desk<'a> {
    Desk {
        folder,
        admin: format!("http://{}", server.admin),
        env: vec![("CATRACA_TOKEN_FILE", "admin-token")],
    }
}

/// What operators are told of the show once so many orders are counted: its sections, and its sales.
async fn told(desk: &Desk<'_>, orders: u64) -> (Value, Value) {
    let read = async |line: String| serde_json::from_str::<Value>(&desk.done(&line).await).unwrap();
    until("the groups have counted the orders", async || {
        if !desk
            .run(&format!("show availability {SHOW}"))
            .await
            .err
            .is_empty()
        {
            return None; // it is not listed yet
        }
        let listed = read(format!("show availability {SHOW}")).await;
        let sales = read(format!("show sales {SHOW}")).await;
        assert_eq!(
            (&listed["show"], &sales["show"]),
            (&json!(SHOW), &json!(SHOW))
        );
        let minutes = sales["minutes"].as_array().unwrap();
        let count = |name: &str| {
            minutes
                .iter()
                .flat_map(|row| row[name].as_u64())
                .sum::<u64>()
        };
        let sections = listed["sections"].as_array().unwrap();
        let sold: u64 = sections.iter().flat_map(|one| one["sold"].as_u64()).sum();
        if count("orders") != orders || sold != orders {
            return None;
        }
        assert_eq!(listed["free"], 24 - orders, "{listed}");
        assert_eq!(count("seats"), orders, "{sales}");
        for row in minutes {
            assert_eq!(
                (&row["kind"], &row["late"]["orders"]),
                (&json!("sold"), &json!(0))
            );
            assert_eq!(row["total"]["currency"], "BRL", "{sales}");
        }
        Some((listed["sections"].clone(), sales.clone()))
    })
    .await
}

/// The mails that were written, and when.
fn mails(folder: &Path) -> Vec<(String, SystemTime)> {
    // The folder comes with the first mail.
    let entries = std::fs::read_dir(folder.join("mailbox"))
        .into_iter()
        .flatten();
    let mut mails: Vec<_> = entries
        .map(|entry| {
            let entry = entry.unwrap();
            let at = entry.metadata().unwrap().modified().unwrap();
            (entry.file_name().into_string().unwrap(), at)
        })
        .collect();
    mails.sort();
    mails
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_groups_have_built_is_told_and_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = Server::up(folder, &[]).await;
    let before = desk(folder, &server);
    before
        .refused(
            &format!("show availability {SHOW}"),
            "No event has told of the seats",
        )
        .await;
    create_show(&server, folder).await;
    let client = Client::of(format!("http://{}", server.gateway));
    for email in ["ana@example.com", "bob@example.com"] {
        buy(&client, email, "en").await;
    }
    let first = told(&before, 2).await;
    until("both are written to", || async {
        (mails(folder).len() == 2).then_some(())
    })
    .await;
    routes_are_for_operators_and_say_what_they_do_not_know(&server, folder).await;

    let taken = "another catraca runs in the data folder";
    before.failed(&reset("search"), 69, taken).await;
    let written = mails(folder);
    assert_eq!(server.terminate().await, Some(0));
    before
        .refused(&reset("search --dry-run"), "search was seen ")
        .await;
    before.refused(&reset("search"), "search was seen ").await;
    before
        .refused(&reset("nobody"), "no group nobody has ever run")
        .await;
    for group in ["search", "analytics", "notify"] {
        begins_again(&before, group).await;
    }

    let server = Server::up(folder, &[]).await;
    assert_eq!(told(&desk(folder, &server), 2).await, first);
    let operator = Client::of(format!("http://{}", server.admin));
    until("notify has read all of it again", || async {
        let metrics = operator.exchange("GET /metrics", &[], &Value::Null).await;
        let metrics = String::from_utf8(metrics.unwrap().1.to_vec()).unwrap();
        let passed = "catraca_deliveries_total{group=\"notify\",outcome=\"passed\"} ";
        let line = metrics.lines().find_map(|line| line.strip_prefix(passed))?;
        (4 <= line.parse::<u64>().unwrap()).then_some(())
    })
    .await;
    assert_eq!(mails(folder), written, "nobody is written to twice");
    assert_eq!(server.terminate().await, Some(0));
}

async fn routes_are_for_operators_and_say_what_they_do_not_know(server: &Server, folder: &Path) {
    let client = Client::of(format!("http://{}", server.admin));
    let token = std::fs::read_to_string(folder.join("admin-token")).unwrap();
    let bearer = format!("Bearer {}", token.trim());
    let operator = [("authorization", bearer.as_str())];
    let ask = async |headers: &[(&str, &str)], path: &str| {
        let line = format!("GET /admin/v1/shows/{path}");
        client.ask(&line, headers, &Value::Null).await
    };
    for view in ["availability", "sales", "joins"] {
        let (status, _) = ask(&[], &format!("{SHOW}/{view}")).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        let (status, answer) = ask(&operator, &format!("No%20Show/{view}")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
        let (status, _) = ask(&operator, &format!("{SHOW}/{view}")).await;
        assert_eq!(status, StatusCode::OK);
    }
    let (status, answer) = ask(&operator, "another-show/availability").await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{answer}");
    for nothing in [
        "another-show/sales",
        "small-sale/sales?after=2999-01-01T00:00:00Z",
    ] {
        let (status, answer) = ask(&operator, nothing).await;
        assert_eq!((status, &answer["minutes"]), (StatusCode::OK, &json!([])));
    }
    let (status, answer) = ask(&operator, "another-show/joins").await;
    assert_eq!((status, &answer["windows"]), (StatusCode::OK, &json!([])));
}

fn reset(words: &str) -> String {
    format!("offsets reset {words} --data-dir .")
}

/// Lets a group begin again once it is sure that nobody runs it; first only to see what that would do.
async fn begins_again(desk: &Desk<'_>, group: &str) {
    let dry = reset(&format!("{group} --dry-run"));
    let says = until("the group is not running", || async {
        let ended = desk.run(&dry).await;
        (ended.code == Some(0)).then_some(ended.out)
    })
    .await;
    assert!(says.ends_with("nothing was changed\n"), "{says}");
    let stood: Vec<&str> = says
        .lines()
        .filter(|line| line.ends_with(" to 0"))
        .collect();
    assert_eq!(stood.len(), 6, "{says}");
    assert!(
        stood.iter().any(|line| !line.contains("from 0 to")),
        "{says}"
    );
    assert_eq!(desk.done(&dry).await, says, "a dry run changes nothing");
    let done = desk.done(&reset(group)).await;
    let expected = format!(
        "{}\n{group} reads the log again once it is started\n",
        stood.join("\n")
    );
    assert_eq!(done, expected);
    let again = desk.done(&dry).await;
    assert!(
        again
            .lines()
            .all(|line| line.contains("from 0 to 0") || line == "nothing was changed")
    );
}

/// How far the clock by which joins are counted is ahead, in milliseconds.
static AHEAD_MS: AtomicU64 = AtomicU64::new(0);

/// A clock that needs no minute to be a minute on.
#[derive(Debug)]
struct Quick;

impl Clock for Quick {
    fn now(&self) -> Timestamp {
        SystemClock.now().plus_ms(AHEAD_MS.load(Ordering::Relaxed))
    }
}

fn quickly(backends: &mut Backends, _: &Path) {
    let joins = JoinsInMemory::new(Ladder::of(&Settings::default()), 1_000);
    backends.joins = Arc::new(joins.tallying(Arc::new(Quick)));
}

/// From where fans have joined, from their join to what operators read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_are_told_from_where_fans_have_joined() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(folder.path(), &json!({}), quickly).await;
    for address in ["203.0.113.7", "203.0.113.200", "2001:db8:1:2::1"] {
        let from = [("x-forwarded-for", address)];
        let line = format!("POST /v1/shows/{SHOW}/join");
        let (status, joined) = running.client().ask(&line, &from, &Value::Null).await;
        assert_eq!(status, StatusCode::CREATED, "{joined}");
    }
    AHEAD_MS.store(60_000, Ordering::Relaxed);
    let token = std::fs::read_to_string(folder.path().join("admin-token")).unwrap();
    let bearer = format!("Bearer {}", token.trim());
    let operator = Client::of(format!("http://{}", running.admin));
    let told = until("all three are told", async || {
        let line = format!("GET /admin/v1/shows/{SHOW}/joins");
        let headers = [("authorization", &*bearer)];
        let (status, told) = operator.ask(&line, &headers, &Value::Null).await;
        assert_eq!(status, StatusCode::OK, "{told}");
        let windows = told["windows"].as_array().unwrap();
        let joins = windows.iter().flat_map(|window| window["joins"].as_u64());
        (joins.sum::<u64>() == 3).then(|| told.clone())
    })
    .await;
    let mut networks: Vec<(&str, u64)> = Vec::new();
    for window in told["windows"].as_array().unwrap() {
        assert_eq!(window["late_joins"], 0, "{told}");
        for row in window["networks"].as_array().unwrap() {
            networks.push((
                row["network"].as_str().unwrap(),
                row["joins"].as_u64().unwrap(),
            ));
        }
    }
    // All in one minute, or a new one has begun meanwhile.
    let of = |name: &str| {
        let rows = networks.iter().filter(|(network, _)| *network == name);
        rows.map(|(_, joins)| joins).sum::<u64>()
    };
    assert_eq!((of("203.0.113.0/24"), of("2001:db8:1::/48")), (2, 1));
    assert_eq!(
        (&told["window_ms"], &told["show"]),
        (&json!(300_000), &json!(SHOW))
    );
    running.stop().await;
}
