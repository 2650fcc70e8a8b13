//! A started program before a shop that remembers what reached it, and rows of what to send to it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use catraca::base::secret::Secret;
use catraca::token::keyring::KeyRing;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::e2e::gateway::shop::Shop;
use crate::support::client::Client;
use crate::support::process::Server;
use crate::support::sale::settings;
use crate::support::until;

/// Longest that an exchange may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// What is on sale.
pub(crate) const SHOW: &str = "gala";
/// The root secret.
pub(crate) const SECRET: &str = "the root secret of a site that is under attack";
/// Sent by every row; no answer repeats it.
pub(crate) const MARK: &str = "zq7-mark-of-the-sender";

/// What stands behind the gate: one shop as two upstreams, and our own.
const UPSTREAMS: &str = r#"
[upstreams.open]
url = "http://SHOP"
gate = "open"
[upstreams.shop]
url = "http://SHOP"
gate = "ticket"
show = "gala"
[upstreams.orders]
gate = "ticket"
trusted = true
"#;

/// Which request goes where.
const ROUTES: [(&str, &str, &str); 7] = [
    (
        "/open/{*rest}",
        "GET HEAD POST PUT PATCH DELETE OPTIONS",
        "open",
    ),
    ("/orders", "GET HEAD POST PUT DELETE", "shop"),
    ("/orders/{*rest}", "GET HEAD POST PUT DELETE", "shop"),
    ("/v1/shows/{show}/holds", "POST", "orders"),
    ("/v1/shows/{show}/holds/{hold}", "DELETE", "orders"),
    ("/v1/shows/{show}/orders", "POST", "orders"),
    ("/v1/shows/{show}/orders/{order}", "GET", "orders"),
];

/// The program, and what it guards.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) shop: Shop,
    pub(crate) folder: TempDir,
    pub(crate) strangers: AtomicU64,
}

/// A fan inside.
#[derive(Debug, Clone)]
pub(crate) struct Buyer {
    pub(crate) pass: String,
    pub(crate) ticket: String,
}

impl Buyer {
    /// Both credentials, as headers.
    pub(crate) fn headers(&self) -> String {
        let Self { pass, ticket } = self;
        format!("x-catraca-pass: {pass}\r\nx-admission-ticket: {ticket}\r\n")
    }
}

impl Site {
    pub(crate) async fn open() -> Self {
        Self::with("", &[]).await
    }

    /// A site with these lines in `[gateway]` and these variables.
    pub(crate) async fn with(gateway: &str, env: &[(&str, &str)]) -> Self {
        let (shop, address) = Shop::open().await;
        Self::before(shop, &address, gateway, env).await
    }

    /// A site before this shop.
    pub(crate) async fn before(
        shop: Shop,
        address: &str,
        gateway: &str,
        env: &[(&str, &str)],
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("site.toml");
        let mut text = format!("[keys]\nsecret = \"{SECRET}\"\n[gateway]\n{gateway}\n{UPSTREAMS}");
        for (path, methods, upstream) in ROUTES {
            let methods: Vec<&str> = methods.split(' ').collect();
            text += &format!(
                "[[routes]]\npath = \"{path}\"\nmethods = {methods:?}\nupstream = \"{upstream}\"\n"
            );
        }
        std::fs::write(&file, text.replace("SHOP", address)).unwrap();
        let words = ["--config", file.to_str().unwrap()];
        let server = Server::up_by(folder.path(), &words, env, Stdio::inherit()).await;
        let strangers = AtomicU64::new(0);
        let site = Self {
            server,
            shop,
            folder,
            strangers,
        };
        site.put_on_sale().await;
        site
    }

    pub(crate) fn keys(&self) -> KeyRing {
        KeyRing::new(&Secret::new(SECRET), "k1", &[]).unwrap()
    }

    /// The operators' bearer token.
    pub(crate) fn token(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("admin-token")).unwrap();
        text.trim().to_owned()
    }

    async fn put_on_sale(&self) {
        let client = Client::of(format!("http://{}", self.server.admin));
        let token = format!("Bearer {}", self.token());
        let headers = [("authorization", token.as_str())];
        let show =
            settings(&json!({ "ticket_ttl_ms": 120_000, "claim_ms": 60_000, "capacity": 1_000 }));
        for (line, body) in [
            (format!("PUT /admin/v1/shows/{SHOW}"), &show),
            (format!("POST /admin/v1/shows/{SHOW}/open"), &Value::Null),
        ] {
            until("an operator is heard", || async {
                let (status, said) = client.ask(&line, &headers, body).await;
                assert!(status.as_u16() < 500 || status == 503, "{line}: {said}");
                status.is_success().then_some(())
            })
            .await;
        }
        self.is_open().await;
    }

    /// Waits until the show is open.
    pub(crate) async fn is_open(&self) {
        let line = format!("GET /v1/shows/{SHOW}/board");
        let client = Client::of(format!("http://{}", self.server.gateway));
        until("the show is open", || async {
            let (_, board) = client.ask(&line, &[], &Value::Null).await;
            (board["state"] == "open").then_some(())
        })
        .await;
    }

    /// A fan whose turn it is.
    pub(crate) async fn buyer(&self) -> Buyer {
        let client = Client::of(format!("http://{}", self.server.gateway));
        let (status, joined) = client
            .ask("POST /v1/shows/gala/join", &[], &Value::Null)
            .await;
        assert_eq!(status, 201, "{joined}");
        let pass = joined["pass"].as_str().unwrap().to_owned();
        let ticket = until("the fan is called", || async {
            let headers = [("x-catraca-pass", pass.as_str())];
            let (_, status) = client
                .ask("GET /v1/shows/gala/status", &headers, &Value::Null)
                .await;
            status["ticket"].as_str().map(str::to_owned)
        })
        .await;
        Buyer { pass, ticket }
    }

    /// A connection from an address of its own, so that no limit of a client is in the way.
    pub(crate) async fn connect(&self, to: SocketAddr) -> TcpStream {
        let number = self.strangers.fetch_add(1, Ordering::Relaxed);
        let [.., high, low] = number.to_be_bytes();
        let socket = TcpSocket::new_v4().unwrap();
        socket
            .bind((Ipv4Addr::new(127, 8, high, low), 0).into())
            .unwrap();
        socket.connect(to).await.unwrap()
    }

    /// Sends bytes to the gateway and reads until the connection is closed.
    pub(crate) async fn send(&self, bytes: &[u8]) -> String {
        self.send_to(self.server.gateway, bytes).await
    }

    /// The same to another door.
    pub(crate) async fn send_to(&self, to: SocketAddr, bytes: &[u8]) -> String {
        let (mut read, mut write) = self.connect(to).await.into_split();
        let mut answer = Vec::new();
        let talk = async {
            // Who is cut off while still sending may see a reset: what was read counts.
            tokio::join!(write.write_all(bytes), read.read_to_end(&mut answer))
        };
        let talked = tokio::time::timeout(PATIENCE, talk).await;
        let text = String::from_utf8_lossy(bytes);
        assert!(talked.is_ok(), "the connection stays: {text:.300}");
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// The state of a connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// Closed: what was sent behind the request was not read as one.
    Closed,
    /// Open: the next request was answered.
    Open,
    /// Open, and the request itself has reached the shop, once.
    Passed,
    /// The same, but closed.
    PassedLast,
    /// Closed if the status is 400 or 413, open else: how a refusal ends in general.
    AsRefused,
}

impl After {
    fn is_closed(self, status: u16) -> bool {
        match self {
            Self::Closed | Self::PassedLast => true,
            Self::Open | Self::Passed => false,
            Self::AsRefused => matches!(status, 400 | 413),
        }
    }

    fn has_passed(self) -> bool {
        matches!(self, Self::Passed | Self::PassedLast)
    }
}

/// One concrete input.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// The row of the catalogue that it stands for.
    pub(crate) number: u8,
    pub(crate) bytes: Vec<u8>,
    pub(crate) status: u16,
    /// Another status that does as well.
    or: Option<u16>,
    pub(crate) after: After,
}

impl Row {
    /// A whole request. The mark of the sender goes into its first line's neighbourhood.
    pub(crate) fn new(number: u8, request: impl AsRef<[u8]>, status: u16, after: After) -> Self {
        let bytes = request.as_ref().to_vec();
        let or = None;
        Self {
            number,
            bytes,
            status,
            or,
            after,
        }
    }

    /// The same row with other bytes.
    pub(crate) fn with_bytes(&self, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self {
            bytes,
            ..self.clone()
        }
    }

    /// A whole request for which either of two statuses does.
    pub(crate) fn either(
        number: u8,
        request: impl AsRef<[u8]>,
        statuses: [u16; 2],
        after: After,
    ) -> Self {
        let [status, or] = statuses;
        Self {
            or: Some(or),
            ..Self::new(number, request, status, after)
        }
    }
}

/// `GET` of a target, with the mark of the sender.
pub(crate) fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nhost: a\r\nx-mark: {MARK}\r\n\r\n")
}

/// A request with these header lines, each with its end.
pub(crate) fn with(line: &str, headers: &str) -> String {
    format!("{line} HTTP/1.1\r\nhost: a\r\nx-mark: {MARK}\r\n{headers}\r\n")
}

/// What follows every row: an honest request that no shop sees.
pub(crate) const NEXT: &str =
    "GET /.well-known/jwks.json HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

/// The answers of a connection: status, and the whole text.
pub(crate) fn answers(text: &str, request: &[u8]) -> Vec<(u16, String)> {
    let (mut answers, mut rest) = (Vec::new(), text);
    while let Some((head, after)) = rest.split_once("\r\n\r\n") {
        let status: u16 = head
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok())
            .unwrap_or(0);
        if status == 100 {
            rest = after;
            continue;
        }
        let lower = head.to_ascii_lowercase();
        let length = lower.split("content-length: ").nth(1);
        let length = length.and_then(|tail| tail.split("\r\n").next()?.parse().ok());
        let bodiless = answers.is_empty() && request.starts_with(b"HEAD ");
        let end = match (bodiless, length) {
            (true, _) => 0,
            (false, Some(length)) => length,
            (false, None) if lower.contains("transfer-encoding: chunked") => {
                after.find("0\r\n\r\n").map_or(after.len(), |at| at + 5)
            }
            (false, None) => 0,
        };
        let end = end.min(after.len());
        answers.push((status, format!("{head}\r\n\r\n{}", &after[..end])));
        rest = &after[end..];
    }
    answers
}

impl Site {
    /// Sends every row to a door and says in what they differ from what the catalogue expects; prints
    /// how many stand for each row.
    pub(crate) async fn judge(&self, door: SocketAddr, chapter: &str, rows: &[Row]) {
        let (mut counts, mut wrong) = (BTreeMap::<u8, usize>::new(), Vec::new());
        for row in rows {
            *counts.entry(row.number).or_default() += 1;
            if let Err(why) = self.check(door, row).await {
                let request = String::from_utf8_lossy(&row.bytes);
                wrong.push(format!("row {}: {request:.200?}\n    {why}", row.number));
            }
        }
        eprintln!(
            "hostile {chapter}: {} requests, by row of the catalogue {counts:?}",
            rows.len()
        );
        assert!(
            wrong.is_empty(),
            "{} of {}:\n{}",
            wrong.len(),
            rows.len(),
            wrong.join("\n")
        );
    }

    async fn check(&self, door: SocketAddr, row: &Row) -> Result<(), String> {
        let mut bytes = row.bytes.clone();
        bytes.extend_from_slice(NEXT.as_bytes());
        let text = self.send_to(door, &bytes).await;
        let answers = answers(&text, &row.bytes);
        let statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
        let first = statuses.first().copied().unwrap_or_default();
        let is_expected = first == row.status || Some(first) == row.or;
        let count = if row.after.is_closed(first) { 1 } else { 2 };
        let reached = self.shop.reached().len();
        if !is_expected || statuses.len() != count {
            return Err(format!(
                "{statuses:?}, not {} and {:?}: {text:.400?}",
                row.status, row.after
            ));
        }
        if reached != usize::from(row.after.has_passed()) {
            return Err(format!("{reached} requests have reached the shop"));
        }
        let first = &answers[0].1;
        let is_problem = first.contains("content-type: application/problem+json");
        if 400 <= row.status && !is_problem && !row.bytes.starts_with(b"HEAD ") {
            return Err(format!("no problem: {first}"));
        }
        match first.contains(MARK) && !row.after.has_passed() {
            true => Err(format!("an echo: {first}")),
            false => Ok(()),
        }
    }
}
