//! Whatever is wrong with a request to any route of ours, the refusal is a problem, and never the plain text
//! of a library. The routes are those of the documents, so that none is forgotten.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::e2e::openapi::{LIMITS, visitor};
use crate::support::client::Client;
use crate::support::process::Server;

/// How long an answer may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest body that this gateway forwards: less than the shop behind it takes, so that it is the one who
/// refuses.
const FORWARDED: usize = 60_000;
/// Longest body that operators may send.
const OPERATORS: usize = 65_536;
/// What any of them might be asked by.
const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "BREW"];

/// A listener, and who asks it.
struct Asker {
    address: SocketAddr,
    /// Headers that let a good request pass.
    credentials: String,
    /// Longest body that it takes.
    body_bytes_max: usize,
}

/// An operation of a document.
struct Operation {
    method: String,
    /// Its path, and the same with a parameter that is not UTF-8.
    path: String,
    broken: String,
    takes_body: bool,
    /// Further methods of the same path.
    beside: Vec<String>,
}

/// All that a document has.
async fn operations(address: SocketAddr) -> Vec<Operation> {
    let client = Client::of(format!("http://{address}"));
    let (_, document) = client.ask("GET /openapi.json", &[], &Value::Null).await;
    let paths = document["paths"].as_object().unwrap();
    paths
        .iter()
        .flat_map(|(path, item)| of_path(path, item.as_object().unwrap()))
        .collect()
}

fn of_path(template: &str, item: &Map<String, Value>) -> Vec<Operation> {
    let fill = |what: fn(&str) -> &str| {
        let parts = template
            .split('/')
            .map(|part| match part.strip_prefix('{') {
                Some(name) => what(name.trim_end_matches('}')),
                None => part,
            });
        parts.collect::<Vec<_>>().join("/")
    };
    let path = fill(|name| match name {
        "show" => "stadium-show",
        "verb" => "open",
        _ => "1",
    });
    let broken = match template.contains('{') {
        true => fill(|_| "%ff"),
        false => format!("{template}%ff"),
    };
    let methods: Vec<String> = item.keys().map(|method| method.to_uppercase()).collect();
    let operation = |(method, about): (&String, &Value)| Operation {
        method: method.to_uppercase(),
        path: path.clone(),
        broken: broken.clone(),
        takes_body: about.get("requestBody").is_some(),
        beside: methods.clone(),
    };
    item.iter().map(operation).collect()
}

impl Asker {
    /// Sends one request over a connection of its own, and reads until the other end closes it.
    async fn ask(&self, line: &str, headers: &str, body: &[u8]) -> String {
        let (address, credentials) = (self.address, &self.credentials);
        let mut bytes = format!(
            "{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{credentials}{headers}\r\n"
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut from, mut to) = stream.into_split();
        let mut answer = Vec::new();
        // Whoever is cut off while still sending may see a reset: what was read counts.
        let exchange = async {
            let (_cut, _reset) = tokio::join!(to.write_all(&bytes), from.read_to_end(&mut answer));
        };
        timeout(PATIENCE, exchange)
            .await
            .unwrap_or_else(|_| panic!("{line} {headers}: no end"));
        String::from_utf8(answer).unwrap()
    }

    /// The status with which a request is refused.
    async fn refusal(&self, line: &str, headers: &str, body: &[u8]) -> u16 {
        let answer = self.ask(line, headers, body).await;
        let what = format!("{line} {headers}: {answer}");
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("{what}"));
        let head = head.to_lowercase();
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        assert!((400..500).contains(&status), "{what}");
        assert!(
            head.contains("content-type: application/problem+json"),
            "{what}"
        );
        let problem: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{what}"));
        assert_eq!(problem["status"], status, "{what}");
        assert!(
            problem["type"]
                .as_str()
                .unwrap()
                .starts_with("urn:catraca:problem:"),
            "{what}"
        );
        status
    }

    /// All that can be wrong with one request. Returns how many were sent.
    async fn provoke(&self, operation: &Operation) -> usize {
        let Operation {
            method,
            path,
            broken,
            takes_body,
            beside,
        } = operation;
        let line = format!("{method} {path}");
        let mut sent = 0;
        for method in METHODS
            .iter()
            .filter(|method| !beside.iter().any(|known| known == *method))
        {
            let line = format!("{method} {path}");
            assert_eq!(
                self.refusal(&line, "content-length: 0\r\n", b"").await,
                405,
                "{line}"
            );
            sent += 1;
        }
        self.refusal(&format!("{method} {broken}"), "", b"").await;
        sent += 1;
        if method != "GET" {
            let long = vec![b'x'; self.body_bytes_max + 10_000];
            let length = format!("content-length: {}\r\n", long.len());
            assert_eq!(self.refusal(&line, &length, &long).await, 413, "{line}");
            sent += 1;
        }
        if *takes_body {
            sent += self.provoke_with_a_body(&line).await;
        }
        sent
    }

    async fn provoke_with_a_body(&self, line: &str) -> usize {
        let json = "content-type: application/json\r\n";
        // A byte too many, and no word of the end: nothing is left unread where it is refused.
        let long = self.body_bytes_max + 1;
        let mut chunk = format!("{long:x}\r\n").into_bytes();
        chunk.resize(chunk.len() + long, b' ');
        let headers = format!("{json}transfer-encoding: chunked\r\n");
        assert_eq!(self.refusal(line, &headers, &chunk).await, 413, "{line}");
        let bodies: [(&str, &[u8]); 5] = [
            (json, b"{\"fan\":"),
            (json, b"[1]"),
            (json, b"\xff\xfe"),
            (json, b""),
            ("content-type: text/plain\r\n", b"hello"),
        ];
        for (kind, body) in bodies {
            let headers = format!("{kind}content-length: {}\r\n", body.len());
            self.refusal(line, &headers, body).await;
        }
        1 + bodies.len()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_wrong_the_refusal_is_a_problem() {
    let folder = tempfile::tempdir().unwrap();
    let forwarded = FORWARDED.to_string();
    let mut env = LIMITS.to_vec();
    env.push(("CATRACA__GATEWAY__FORWARD_BODY_BYTES_MAX", &forwarded));
    let server = Server::up(folder.path(), &env).await;
    let (pass, ticket) = visitor(&server, folder.path()).await;
    let token = std::fs::read_to_string(folder.path().join("admin-token")).unwrap();
    let fan = Asker {
        address: server.gateway,
        credentials: format!("x-catraca-pass: {pass}\r\nx-admission-ticket: {ticket}\r\n"),
        body_bytes_max: FORWARDED,
    };
    let operator = Asker {
        address: server.admin,
        credentials: format!("authorization: Bearer {}\r\n", token.trim()),
        body_bytes_max: OPERATORS,
    };
    let nobody = Asker {
        credentials: String::new(),
        ..operator
    };
    for (asker, least) in [(&fan, 20), (&operator, 18)] {
        let operations = operations(asker.address).await;
        assert!(least <= operations.len(), "{}", operations.len());
        let mut sent = 0;
        for operation in &operations {
            sent += asker.provoke(operation).await;
            if asker.address == operator.address && operation.path != "/openapi.json" {
                let line = format!("{} {}", operation.method, operation.path);
                assert_eq!(nobody.refusal(&line, "", b"").await, 401, "{line}");
                sent += 1;
            }
        }
        assert!(5 * operations.len() < sent, "{sent}");
    }
    for path in ["/livez", "/readyz", "/metrics", "/nowhere"] {
        let line = format!("PUT {path}");
        operator.refusal(&line, "content-length: 0\r\n", b"").await;
    }
    assert_eq!(server.terminate().await, Some(0));
}
