//! Does a secret get out? The whole program runs a sale with secrets that one would recognise, at the
//! most talkative log, with errors on the way; then everything that it said is searched for them.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::e2e::hostile::site::{PATIENCE, get, with};
use crate::support::client::Client;
use crate::support::free_port;
use crate::support::process::{Server, run_in};
use crate::support::sale::settings;
use crate::support::until;

const ROOT: &str = "canary-root-secret-0123456789abcdef0123";
const OF_UPSTREAM: &str = "canary-secret-of-upstream-0123456789";
const MAIL: &str = "canary.buyer@example.com";
const CARD: &str = "canary-card-4111111111111111";
const DATABASE: &str = "canary-database-password";
const REDIS: &str = "canary-redis-password";

/// Everything that was said, and what must not be in it.
#[derive(Debug, Default)]
struct Said {
    secrets: Vec<(&'static str, String)>,
    texts: Vec<(String, String)>,
}

impl Said {
    fn add(&mut self, who: &str, text: impl Into<String>) {
        self.texts.push((who.to_owned(), text.into()));
    }

    fn check(&self) {
        for (who, text) in &self.texts {
            for (what, secret) in &self.secrets {
                // The signature of a token is as good as the whole.
                let signature = secret.rsplit('.').next().filter(|part| 20 < part.len());
                for part in signature.into_iter().chain([secret.as_str()]) {
                    let at = text.find(part);
                    let near =
                        at.map(|at| &text[at.saturating_sub(200)..(at + 20).min(text.len())]);
                    assert!(near.is_none(), "{who} tells {what}: {near:?}");
                }
            }
        }
    }
}

/// Sends bytes and reads until the connection is closed.
async fn send(server: &Server, request: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(server.gateway)
        .await
        .unwrap();
    stream
        .write_all(
            request
                .replacen("\r\n", "\r\nconnection: close\r\n", 1)
                .as_bytes(),
        )
        .await
        .unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    read.unwrap().unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// A fan inside: pass and ticket.
async fn buyer(client: &Client) -> (String, String) {
    let (_, joined) = client
        .ask("POST /v1/shows/gala/join", &[], &Value::Null)
        .await;
    let pass = joined["pass"].as_str().unwrap().to_owned();
    let ticket = until("the fan is called", || async {
        let headers = [("x-catraca-pass", pass.as_str())];
        let (_, status) = client
            .ask("GET /v1/shows/gala/status", &headers, &Value::Null)
            .await;
        status["ticket"].as_str().map(str::to_owned)
    })
    .await;
    (pass, ticket)
}

/// Buys, with every mistake on the way that a fan can make with their secrets.
async fn sale(server: &Server, client: &Client, said: &mut Said, (pass, ticket): (&str, &str)) {
    let headers = [
        ("x-catraca-pass", pass),
        ("x-admission-ticket", ticket),
        ("idempotency-key", "canary-key-0123456789abcdef"),
    ];
    let wanted = json!({ "section": "Floor", "quantity": 1 });
    let (_, hold) = client
        .ask("POST /v1/shows/gala/holds", &headers, &wanted)
        .await;
    let order = json!({ "hold_id": hold["hold_id"], "customer": { "email": MAIL, "locale": "pt-BR" }, "payment": { "token": CARD } });
    let broken =
        json!({ "hold_id": MAIL, "customer": { "email": CARD }, "payment": { "token": MAIL } });
    for (line, body) in [
        ("POST /v1/shows/gala/orders", &broken),
        ("POST /v1/shows/gala/orders", &json!(MAIL)),
        ("POST /v1/shows/gala/orders", &order),
        ("POST /v1/shows/gala/orders", &order),
        ("POST /v1/shows/gala/nowhere", &order),
        ("POST /away/x", &order),
    ] {
        let (head, body) = client.exchange(line, &headers, body).await.unwrap();
        said.add(line, format!("{head:?} {}", String::from_utf8_lossy(&body)));
    }
    let both = format!("x-catraca-pass: {pass}\r\nx-admission-ticket: {ticket}\r\n");
    for request in [
        get(&format!("/v1/shows/gala/orders/{ticket}")),
        get(&format!(
            "/v1/shows/gala/status?pass={pass}&ticket={ticket}"
        )),
        get(&format!("/{pass}/{ticket}")),
        get(&format!("/{pass}|")),
        get(&format!("/w/gala?pass={pass}")),
        with(
            "GET /v1/shows/gala/status",
            &format!("x-catraca-pass: {pass}x\r\n"),
        ),
        with(
            "GET /v1/shows/gala/status",
            &format!("{both}x-catraca-pass: {pass}\r\n"),
        ),
        with(
            "GET /v1/shows/gala/orders/x",
            &format!("x-admission-ticket: {ticket}x\r\nx-catraca-pass: {pass}\r\n"),
        ),
        with(
            "POST /v1/shows/gala/holds",
            &format!("{both}content-length: {pass}\r\n"),
        ),
        with("POST /v1/shows/gala/holds", &format!("{both}{ticket}\r\n")),
        with(
            "POST /w/gala/join",
            &format!("cookie: catraca-pass-gala={pass}\r\norigin: {MAIL}\r\n"),
        ),
        with(
            "GET /w/gala/place",
            &format!("cookie: catraca-pass-gala={pass}x; catraca-ticket-gala={ticket}\r\n"),
        ),
        with("GET /away/x", &both),
        format!("GET / {ticket}\r\n{pass}\r\n\r\n"),
    ] {
        said.add("an answer", send(server, &request).await);
    }
}

/// A shop of ours, and one that is away.
fn configuration() -> String {
    let text = format!(
        "[keys]\nsecret = \"{ROOT}\"\n[upstreams.orders]\ngate = \"ticket\"\ntrusted = true\n[upstreams.away]\n\
         url = \"http://127.0.0.1:{}\"\ngate = \"ticket\"\nshow = \"gala\"\nsecret = \"{OF_UPSTREAM}\"\n",
        free_port()
    );
    let route = |path: &str, upstream: &str| {
        format!(
            "[[routes]]\npath = \"{path}\"\nmethods = [\"GET\", \"POST\"]\nupstream = \"{upstream}\"\n"
        )
    };
    let routes = [
        route("/v1/shows/{show}/holds", "orders"),
        route("/v1/shows/{show}/orders", "orders"),
        route("/v1/shows/{show}/orders/{order}", "orders"),
        route("/away/{*rest}", "away"),
    ];
    text + &routes.concat()
}

/// Creates the show, opens it and waits until fans see that.
async fn put_on_sale(operator: &Client, client: &Client, bearer: &str) {
    let headers = [("authorization", bearer)];
    let show = settings(&json!({ "ticket_ttl_ms": 60_000 }));
    let line = "PUT /admin/v1/shows/gala";
    operator.ask(line, &headers, &show).await;
    let line = "POST /admin/v1/shows/gala/open";
    operator.ask(line, &headers, &Value::Null).await;
    until("the show is open", || async {
        let line = "GET /v1/shows/gala/board";
        let (_, board) = client.ask(line, &[], &Value::Null).await;
        (board["state"] == "open").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_in_a_log_a_metric_an_error_or_an_address() {
    let folder = tempfile::tempdir().unwrap();
    let (config, log) = (folder.path().join("canary.toml"), folder.path().join("log"));
    std::fs::write(&config, configuration()).unwrap();
    let words = ["--config", config.to_str().unwrap()];
    let filter = "debug,catraca=trace,hyper=trace,hyper_util=trace";
    let talkative = [("RUST_LOG", filter)];
    let file = Stdio::from(File::create(&log).unwrap());
    let server = Server::up_by(folder.path(), &words, &talkative, file).await;
    let token = std::fs::read_to_string(folder.path().join("admin-token"))
        .unwrap()
        .trim()
        .to_owned();
    let (operator, client) = (
        Client::of(format!("http://{}", server.admin)),
        Client::of(format!("http://{}", server.gateway)),
    );
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    put_on_sale(&operator, &client, &bearer).await;
    let (pass, ticket) = buyer(&client).await;
    let mut said = Said::default();
    for (what, secret) in [
        ("the root secret", ROOT),
        ("an upstream's secret", OF_UPSTREAM),
        ("the operators' token", &token),
        ("a pass", &pass),
        ("a ticket", &ticket),
        ("an e-mail address", MAIL),
        ("what is paid with", CARD),
    ] {
        said.secrets.push((what, secret.to_owned()));
    }
    sale(&server, &client, &mut said, (&pass, &ticket)).await;
    let wrong = [
        ("authorization", "Bearer canary-of-nobody"),
        ("x-catraca-pass", pass.as_str()),
    ];
    for (line, headers) in [
        ("GET /admin/v1/shows", &wrong[..]),
        ("GET /admin/v1/nowhere", &headers[..]),
        ("GET /metrics", &[]),
    ] {
        let (head, body) = operator
            .exchange(line, headers, &Value::Null)
            .await
            .unwrap();
        said.add(line, format!("{head:?} {}", String::from_utf8_lossy(&body)));
    }
    until("the buyer is written to", || async {
        let letters = std::fs::read_dir(folder.path().join("mailbox")).ok()?;
        (0 < letters.count()).then_some(())
    })
    .await;
    let print = ["config", "print", "--config", "canary.toml"];
    let printed = run_in(folder.path(), &print, &[]).await;
    said.add("config print", printed.out + &printed.err);
    assert_eq!(server.terminate().await, Some(0));
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(20_000 < text.len(), "the log is talkative: {}", text.len());
    eprintln!(
        "canary: {} bytes of log, {} other texts, {} secrets",
        text.len(),
        said.texts.len(),
        said.secrets.len()
    );
    said.add("the log", text);
    said.check();
}

/// What a verb says until it ends, or for as long as it takes to try some servers.
async fn for_a_while(folder: &Path, words: &[&str], env: &[(&str, &str)]) -> String {
    let log = folder.join("said");
    let file = || {
        Stdio::from(
            File::options()
                .create(true)
                .append(true)
                .open(&log)
                .unwrap(),
        )
    };
    let mut child = Command::new(env!("CARGO_BIN_EXE_catraca"))
        .args(words)
        .current_dir(folder)
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .stdout(file())
        .stderr(file())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let _ended = tokio::time::timeout(Duration::from_secs(3), child.wait()).await;
    child.kill().await.unwrap();
    std::fs::read_to_string(&log).unwrap()
}

/// Passwords of servers that are away, or whose addresses are wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_password_of_a_server_is_told() {
    let mut said = Said {
        secrets: vec![
            ("the database's password", DATABASE.to_owned()),
            ("the password of Redis", REDIS.to_owned()),
        ],
        texts: Vec::new(),
    };
    let port = free_port();
    let (database, redis) = (
        format!("postgres://shop:{DATABASE}@127.0.0.1:{port}/shop"),
        format!("redis://fan:{REDIS}@127.0.0.1:{port}"),
    );
    for (words, database, redis) in [
        (&["config", "print"][..], &*database, &*redis),
        (&["config", "check"], &*database, &*redis),
        (
            &["config", "check"],
            &database.replace("@127", "@@127"),
            "memory:",
        ),
        (
            &["config", "check"],
            "memory:",
            &redis.replace("redis:", "redos:"),
        ),
        (
            &["config", "check"],
            "sqlite:",
            &redis.replace("@127.0.0.1", "@[::"),
        ),
        (
            &["config", "check"],
            &database.replace("postgres:", "mysql:"),
            "memory:",
        ),
        (&["up"], "sqlite:", &*redis),
        (&["migrate"], &*database, "memory:"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let env = [
            ("CATRACA__DATABASE__URL", database),
            ("CATRACA__ROOM__URL", redis),
            ("RUST_LOG", "debug"),
            ("CATRACA__GATEWAY__LISTEN", "127.0.0.1:0"),
            ("CATRACA__ADMIN__LISTEN", "127.0.0.1:0"),
            ("CATRACA__ORDERS__LISTEN", "127.0.0.1:0"),
        ];
        let text = for_a_while(folder.path(), words, &env).await;
        assert!(!text.is_empty(), "{words:?} says nothing");
        said.add(&format!("{words:?}"), text);
    }
    said.check();
}
