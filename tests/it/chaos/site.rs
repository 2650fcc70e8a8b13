//! `catraca up` with its rooms in a real server: one show, one fan inside, one fan in line.

use std::path::Path;

use http::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::client::Client;
use crate::support::process::{Env, Server};
use crate::support::sale::{SHOW, settings};
use crate::support::until;

/// A program that runs, and whoever asks it.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) gateway: Client,
    pub(crate) admin: Client,
    /// Who is inside: pass and ticket.
    pub(crate) inside: (String, String),
    /// Who is in line, and how they stood.
    pub(crate) waiting: (String, Value),
    up: Server,
    folder: TempDir,
}

/// An answer and how long it asks to wait.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: String,
    pub(crate) body: Value,
}

impl Answer {
    /// The word of a problem and its reason.
    pub(crate) fn says(&self) -> (&str, &str) {
        let word = self.body["type"].as_str().unwrap_or_default();
        let word = word.rsplit(':').next().unwrap_or_default();
        (word, self.body["reason"].as_str().unwrap_or_default())
    }
}

/// Starts the program with its rooms there; it waits for nothing.
pub(crate) async fn up(folder: &Path, url: &str, env: &Env<'_>) -> Server {
    let mut all = vec![("CATRACA__ROOM__URL", url)];
    all.extend_from_slice(env);
    Server::up(folder, &all).await
}

/// Creates the show: one fan at a time is inside, for long.
pub(crate) async fn create_show(folder: &Path, admin: &Client) {
    let changes = json!({
        "rate": 100,
        "window_ms": 1_000,
        "capacity": 1,
        "claim_ms": 60_000,
        "ticket_ttl_ms": 300_000,
    });
    let bearer = bearer(folder);
    let headers = [("authorization", bearer.as_str())];
    let line = format!("PUT /admin/v1/shows/{SHOW}");
    let (status, body) = admin.ask(&line, &headers, &settings(&changes)).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    let line = format!("POST /admin/v1/shows/{SHOW}/open");
    let (status, body) = admin.ask(&line, &headers, &Value::Null).await;
    assert_eq!(status, StatusCode::OK, "{body}");
}

/// The operator changes the show.
pub(crate) async fn change_show(folder: &Path, admin: &Client, changes: &str) {
    let bearer = bearer(folder);
    let headers = [("authorization", bearer.as_str())];
    let line = format!("PATCH /admin/v1/shows/{SHOW}");
    let changes = serde_json::from_str(changes).unwrap();
    let (status, body) = admin.ask(&line, &headers, &changes).await;
    assert_eq!(status, StatusCode::OK, "{body}");
}

/// How an operator shows who they are.
fn bearer(folder: &Path) -> String {
    let token = std::fs::read_to_string(folder.join("admin-token")).unwrap();
    format!("Bearer {}", token.trim())
}

async fn ask(door: &Client, line: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let (head, text) = door.exchange(line, headers, body).await.unwrap();
    let wait = head.headers.get("retry-after");
    Answer {
        status: head.status.as_u16(),
        retry_after: wait.map_or("", |wait| wait.to_str().unwrap()).to_owned(),
        body: serde_json::from_slice(&text).unwrap_or_default(),
    }
}

impl Site {
    /// Starts it, and waits until one fan is inside and one in line.
    pub(crate) async fn open(url: &str, env: &Env<'_>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let up = up(folder.path(), url, env).await;
        Self::begin(folder, up).await
    }

    /// The same, where it runs already.
    pub(crate) async fn begin(folder: TempDir, up: Server) -> Self {
        let gateway = Client::of(format!("http://{}", up.gateway));
        let admin = Client::of(format!("http://{}", up.admin));
        create_show(folder.path(), &admin).await;
        let mut site = Self {
            gateway,
            admin,
            inside: Default::default(),
            waiting: Default::default(),
            up,
            folder,
        };
        let first = site.joined().await;
        let ticket = until("the first fan is inside", || async {
            let status = site.status(&first).await.body;
            status["ticket"].as_str().map(str::to_owned)
        })
        .await;
        site.inside = (first, ticket);
        let second = site.joined().await;
        let stands = site.status(&second).await.body;
        assert_eq!(stands["state"], "waiting", "{stands}");
        site.waiting = (second, stands);
        site
    }

    pub(crate) async fn ask(&self, line: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        ask(&self.gateway, line, headers, body).await
    }

    /// Where everything is kept.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The operator changes the show.
    pub(crate) async fn change(&self, changes: &str) {
        change_show(self.folder(), &self.admin, changes).await;
    }

    /// One more fan asks for a number. Each comes from elsewhere: nobody joins too often.
    pub(crate) async fn join(&self) -> Answer {
        Self::join_at(&self.gateway).await
    }

    /// The same at another door.
    pub(crate) async fn join_at(door: &Client) -> Answer {
        let [a, b, c] = rand::random::<[u8; 3]>();
        let from = format!("10.{a}.{b}.{c}");
        let line = format!("POST /v1/shows/{SHOW}/join");
        let headers = [("x-forwarded-for", from.as_str())];
        ask(door, &line, &headers, &Value::Null).await
    }

    /// The pass of one more fan, as soon as there is a room.
    pub(crate) async fn joined(&self) -> String {
        until("a fan joins", || async {
            let joined = self.join().await;
            joined.body["pass"].as_str().map(str::to_owned)
        })
        .await
    }

    pub(crate) async fn status(&self, pass: &str) -> Answer {
        let line = format!("GET /v1/shows/{SHOW}/status");
        self.ask(&line, &[("x-catraca-pass", pass)], &Value::Null)
            .await
    }

    pub(crate) async fn board(&self) -> Answer {
        let line = format!("GET /v1/shows/{SHOW}/board");
        self.ask(&line, &[], &Value::Null).await
    }

    /// Who is inside asks for seats.
    pub(crate) async fn hold(&self) -> Answer {
        let line = format!("POST /v1/shows/{SHOW}/holds");
        let (pass, ticket) = &self.inside;
        let headers = [
            ("x-catraca-pass", pass.as_str()),
            ("x-admission-ticket", ticket.as_str()),
        ];
        let seats = json!({ "section": "Floor", "quantity": 1 });
        self.ask(&line, &headers, &seats).await
    }

    /// What readiness says of the rooms.
    pub(crate) async fn ready(&self) -> (StatusCode, String) {
        let (status, body) = self.admin.ask("GET /readyz", &[], &Value::Null).await;
        (status, body["room"].as_str().unwrap_or_default().to_owned())
    }

    /// The lines of a metric.
    pub(crate) async fn metric(&self, begins: &str) -> Vec<String> {
        let exchange = self.admin.exchange("GET /metrics", &[], &Value::Null).await;
        let text = String::from_utf8(exchange.unwrap().1.to_vec()).unwrap();
        let lines = text.lines().filter(|line| line.starts_with(begins));
        lines.map(str::to_owned).collect()
    }

    /// Asks it to stop, as a service manager does.
    pub(crate) async fn terminate(self) {
        assert_eq!(self.up.terminate().await, Some(0));
        drop(self.folder);
    }
}
