//! What operators do with the command line while a sale is on.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use catraca::log::patience::Failure;
use catraca::notify::{Notice, Sender};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::process::{Ended, Env, Server, run_in};
use crate::support::sale::{Running, SHOW, settings};
use crate::support::until;
use crate::support::visitor::Visitor;

/// A provider that will not take the first message that it is given.
#[derive(Debug)]
struct Fussy {
    inner: Arc<dyn Sender>,
    has_refused: AtomicBool,
}

#[async_trait]
impl Sender for Fussy {
    async fn send(&self, notice: &Notice) -> Result<String, Failure> {
        if !self.has_refused.swap(true, Ordering::Relaxed) {
            return Err(Failure::Permanent("the provider did not like it".into()));
        }
        self.inner.send(notice).await
    }
}

/// An operator at a terminal.
pub(super) struct Desk<'a> {
    pub(super) folder: &'a Path,
    pub(super) admin: String,
    pub(super) env: Vec<(&'a str, &'a str)>,
}

impl Desk<'_> {
    pub(super) async fn run(&self, line: &str) -> Ended {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut env: Vec<(&str, &str)> = self.env.clone();
        env.push(("CATRACA_ADMIN", &self.admin));
        run_in(self.folder, &words, &env).await
    }

    /// Runs a verb that must do what it says, and gives its output. A server that has too much to
    /// do may ask for patience.
    pub(super) async fn done(&self, line: &str) -> String {
        let ended = until(line, || async {
            let ended = self.run(line).await;
            (!ended.err.contains("(503 ")).then_some(ended)
        })
        .await;
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{line}");
        ended.out
    }

    /// Runs a verb that must fail with one line that says so.
    pub(super) async fn refused(&self, line: &str, says: &str) {
        self.failed(line, 1, says).await;
    }

    /// The same with another exit code.
    pub(super) async fn failed(&self, line: &str, code: i32, says: &str) {
        let ended = self.run(line).await;
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{line}");
        assert_eq!(ended.err.lines().count(), 1, "{line}: {}", ended.err);
        assert!(ended.err.starts_with("catraca: "), "{line}: {}", ended.err);
        assert!(ended.err.contains(says), "{line}, {says:?}: {}", ended.err);
    }
}

/// Buys a seat; the order's id.
async fn buy(running: &Running) -> String {
    let visitor = Visitor::join(running).await.inside().await;
    let hold = visitor.hold().await;
    let (status, placed) = visitor.order(&hold, "approve").await;
    assert_eq!(status, 201, "{placed}");
    visitor.confirmed(&placed).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_followed_and_a_dead_letter_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let running = Running::start(folder, &json!({}), |backends, _| {
        backends.sender = Arc::new(Fussy {
            inner: Arc::clone(&backends.sender),
            has_refused: AtomicBool::new(false),
        });
    })
    .await;
    let desk = Desk {
        folder,
        admin: format!("http://{}", running.admin),
        env: vec![("CATRACA_TOKEN_FILE", "admin-token")],
    };
    assert_eq!(desk.done("dead-letters list").await, "no dead letters\n");

    let order = buy(&running).await;
    let journey = format!("journey {order}");
    let stopped = until("the message is set aside", || async {
        let text = desk.done(&journey).await;
        text.contains("stuck").then_some(text)
    })
    .await;
    let first = format!("order {order} of {SHOW}: confirmed\n");
    assert!(stopped.starts_with(&first), "{stopped}");
    assert!(stopped.contains("It stopped at"), "{stopped}");
    assert!(
        stopped.contains("the provider did not like it"),
        "{stopped}"
    );
    let listed = desk.done("dead-letters list").await;
    for word in [
        "     1  notify",
        "OrderConfirmed",
        &order,
        "did not like it",
    ] {
        assert!(listed.contains(word), "{word}: {listed}");
    }

    let replayed: Value = serde_json::from_str(&desk.done("dead-letters replay 1").await).unwrap();
    assert_eq!(replayed["outcome"], "replayed", "{replayed}");
    let again: Value = serde_json::from_str(&desk.done("dead-letters replay 1").await).unwrap();
    assert_eq!(again["outcome"], "handled-before", "{again}");
    desk.refused("dead-letters replay 99", "no such dead letter")
        .await;
    let arrived = desk.done(&journey).await;
    assert!(arrived.ends_with("It has arrived.\n"), "{arrived}");
    let json: Value = serde_json::from_str(&desk.done(&format!("{journey} --json")).await).unwrap();
    assert_eq!(json["order"], *order, "{json}");
    let nobody = "journey 00000000-0000-7000-8000-000000000000";
    desk.refused(nobody, "no such order").await;
    running.stop().await;
    desk.failed("show list", 69, "cannot reach the admin API")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_show_is_steered_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let running = Running::start(folder, &json!({}), |_, _| {}).await;
    let desk = Desk {
        folder,
        admin: format!("http://{}", running.admin),
        env: vec![("CATRACA_TOKEN_FILE", "admin-token")],
    };
    until("the show is open", || async {
        let list = desk.done("show list").await;
        list.contains(" open ").then_some(())
    })
    .await;
    let list = desk.done("show list").await;
    let mut lines = list.lines();
    assert!(lines.next().unwrap().starts_with("SHOW "), "{list}");
    let cells: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(cells, [SHOW, "open", "0", "0", "0", "24", "Small", "Sale"]);

    let show = format!("show get {SHOW}");
    let got: Value = serde_json::from_str(&desk.done(&show).await).unwrap();
    assert_eq!(got["settings"]["rate"], 100, "{got}");
    let set = desk.done(&format!("show set {SHOW} rate=120")).await;
    assert!(
        set.starts_with(&format!("{SHOW} changed, version ")),
        "{set}"
    );
    let got: Value = serde_json::from_str(&desk.done(&show).await).unwrap();
    assert_eq!(got["settings"]["rate"], 120, "{got}");
    desk.refused(&format!("show set {SHOW} rate=9000"), "rate")
        .await;
    desk.refused(&format!("show set {SHOW} speed=9"), "speed")
        .await;
    desk.refused("show get no-such-show", "no such show").await;

    for (verb, state) in [
        ("pause", "paused"),
        ("resume", "open"),
        ("close", "closed"),
        ("open", "open"),
        ("off", "off"),
    ] {
        let done = desk.done(&format!("show {verb} {SHOW}")).await;
        assert_eq!(done, format!("{SHOW} {verb}: state {state}\n"));
        let board = format!("GET /v1/shows/{SHOW}/board");
        until(&format!("the board says {state}"), || async {
            let (_, board) = running.client().ask(&board, &[], &Value::Null).await;
            (board["state"] == state).then_some(())
        })
        .await;
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_may_do_what_its_role_may() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let entry = |name: &str| {
        let hash: String = Sha256::digest(name)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        format!("{{ name = '{name}', role = '{name}', sha256 = '{hash}' }}")
    };
    let roles = ["viewer", "operator", "admin"].map(entry).join(", ");
    let tokens = format!("[{roles}]");
    let env: &Env<'_> = &[("CATRACA__ADMIN__TOKENS", &tokens)];
    let server = Server::up(folder, env).await;
    assert!(!folder.join("admin-token").exists(), "none is generated");
    std::fs::write(folder.join("show.json"), settings(&json!({})).to_string()).unwrap();
    let desk = |token| Desk {
        folder,
        admin: format!("http://{}", server.admin),
        env: vec![("CATRACA_TOKEN", token)],
    };
    let (viewer, operator, stranger) = (desk("viewer"), desk("operator"), desk("stranger"));
    operator
        .refused(&format!("show create {SHOW} show.json"), "403")
        .await;
    let created = desk("admin")
        .done(&format!("show create {SHOW} show.json"))
        .await;
    assert!(
        created.starts_with(&format!("{SHOW} created, version ")),
        "{created}"
    );
    assert!(viewer.done("show list").await.contains(SHOW));
    for line in [
        format!("show pause {SHOW}"),
        format!("show set {SHOW} rate=1"),
    ] {
        viewer.refused(&line, "403").await;
        stranger.refused(&line, "401").await;
    }
    viewer.refused("dead-letters replay 1", "403").await;
    operator.done(&format!("show pause {SHOW}")).await;
    operator.done(&format!("show set {SHOW} rate=1")).await;
    let nobody = Desk {
        env: vec![],
        ..desk("")
    };
    nobody
        .refused("show list", "no --token, no CATRACA_TOKEN")
        .await;
    assert_eq!(server.terminate().await, Some(0));
}
