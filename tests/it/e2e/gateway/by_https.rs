//! What the program asks of others by https: the keys of a shop's accounts, and what a draw is verified
//! with. Whom nobody vouches for is not believed.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use catraca::base::time::{Clock, SystemClock};
use catraca::seller::via_http::ViaHttp;
use catraca::seller::{Accounts, Settings, Source};
use jsonwebtoken::Algorithm;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;

use crate::e2e::gateway::accounts::{Key, claims_until};
use crate::e2e::gateway::door::{Door, Plan};
use crate::e2e::gateway::waits::open_show;
use crate::support::authority::{Authority, Certified};
use crate::support::client::Client;
use crate::support::process::{Server, run_in};
use crate::support::until;

/// Where all of them are.
const HERE: &str = "127.0.0.1";
/// How long a shop may take for its keys, and then some for a busy machine.
const LATE: Duration = Duration::from_secs(6);

/// A shop's own web server, which speaks TLS and publishes its keys at `/jwks`.
#[derive(Debug)]
struct Web {
    url: String,
    /// Requests that came through TLS.
    asked: Arc<AtomicU32>,
}

impl Web {
    async fn open(certified: &Certified, set: &str) -> Self {
        let listener = TcpListener::bind((HERE, 0)).await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicU32::new(0));
        let (acceptor, set, count) = (certified.acceptor(), set.to_owned(), asked.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, set, count) = (acceptor.clone(), set.clone(), count.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        count.fetch_add(1, Ordering::SeqCst);
                        answer(stream, &set).await;
                    }
                });
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Answers one request. Whoever asked may have gone meanwhile.
async fn answer(mut stream: TlsStream<TcpStream>, set: &str) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.is_ok_and(|read| 0 < read) {
            continue;
        }
        return;
    }
    let head = String::from_utf8(head).unwrap();
    let ok = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    let length = set.len();
    let text = match head.split(' ').nth(1).unwrap() {
        "/jwks" => format!("{ok}content-length: {length}\r\n\r\n{set}"),
        "/moved" => "HTTP/1.1 307 Away\r\nlocation: /jwks\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "/long" => format!("{ok}content-length: 100000\r\n\r\n{}", "x".repeat(100_000)),
        "/endless" => format!("{ok}transfer-encoding: chunked\r\n\r\n"),
        "/slow" => format!("{ok}content-length: {length}\r\n\r\n{{"),
        other => panic!("nobody asks for {other}"),
    };
    let mut sent = stream.write_all(text.as_bytes()).await;
    while sent.is_ok() && head.contains("/endless") {
        sent = stream.write_all(b"4\r\nkeys\r\n").await;
    }
    let _gone = stream.read_buf(&mut Vec::new()).await;
}

fn set_of(key: &Key) -> String {
    json!({ "keys": [key.public] }).to_string()
}

/// What a join with an account of this shop comes to, and whether anybody has asked the shop.
async fn joins(web: &Web, path: &str, ca: &str, key: &Key) -> (u16, String, u32) {
    let source = ViaHttp::open(&format!("{}{path}", web.url), Some(ca.as_bytes())).unwrap();
    let source: Arc<dyn Source> = Arc::new(source);
    let accounts = Some(Accounts::new(source, Settings::default()));
    let door = Door::planned(Plan {
        accounts,
        ..Plan::default()
    })
    .await;
    let token = key.token(&claims_until("ana", 1_800_000_600));
    let before = web.asked();
    let joined = door.join(&[("x-catraca-account", &token)]).await;
    let word = match joined.status {
        201 => String::new(),
        _ => joined.word(),
    };
    (joined.status, word, web.asked() - before)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_come_from_whom_a_trusted_authority_vouches_for_and_from_nobody_else() {
    let key = Key::new(Algorithm::ES256);
    let (ours, other) = (Authority::new(), Authority::new());
    let away = |asked| (503, "seller-unavailable".to_owned(), asked);
    for (what, certified, ca, expected) in [
        (
            "ours",
            ours.certify(&[HERE]),
            &ours,
            (201, String::new(), 1),
        ),
        ("a stranger's", other.certify(&[HERE]), &ours, away(0)),
        (
            "another's name",
            ours.certify(&["example.com"]),
            &ours,
            away(0),
        ),
        ("an old one", ours.certify_once(HERE), &ours, away(0)),
    ] {
        let web = Web::open(&certified, &set_of(&key)).await;
        assert_eq!(
            joins(&web, "/jwks", &ca.pem, &key).await,
            expected,
            "{what}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_that_leads_elsewhere_or_never_ends_is_away() {
    let key = Key::new(Algorithm::ES256);
    let ours = Authority::new();
    let web = Web::open(&ours.certify(&[HERE]), &set_of(&key)).await;
    for path in ["/moved", "/long", "/endless", "/slow"] {
        let asking = joins(&web, path, &ours.pem, &key);
        let told = tokio::time::timeout(LATE, asking).await;
        let told = told.unwrap_or_else(|_| panic!("{path} is waited for without end"));
        // One question each: nobody goes where `location` leads.
        assert_eq!(told, (503, "seller-unavailable".to_owned(), 1), "{path}");
    }
}

#[test]
fn an_address_that_anybody_could_change_is_no_source() {
    for (at, says) in [
        ("http://shop.example/jwks", "must begin with https://"),
        ("http://10.0.0.1/jwks", "must begin with https://"),
        ("ftp://shop.example/jwks", "must begin with https://"),
        ("/jwks", "names no host"),
    ] {
        let error = ViaHttp::open(at, None).unwrap_err();
        assert!(error.to_string().contains(says), "{at}: {error}");
    }
    for at in [
        "http://127.0.0.1:1/jwks",
        "http://[::1]:1/",
        "https://shop.example/",
    ] {
        ViaHttp::open(at, None).unwrap();
    }
    let empty = ViaHttp::open("https://shop.example/", Some(b"no PEM")).unwrap_err();
    assert!(empty.to_string().contains("no certificate"), "{empty}");
}

/// The program trusts whom its configuration names, and whom the machine does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_reads_keys_by_https() {
    let key = Key::new(Algorithm::ES256);
    let ours = Authority::new();
    let web = Web::open(&ours.certify(&[HERE]), &set_of(&key)).await;
    let jwks = format!("{}/jwks", web.url);
    let files = tempfile::tempdir().unwrap();
    let ca = files.path().join("ca.pem");
    std::fs::write(&ca, &ours.pem).unwrap();
    for (trusts, joined) in [
        (Some("CATRACA__GATEWAY__SELLER__CA_FILE"), 201),
        (Some("SSL_CERT_FILE"), 201), // as if the machine did
        (None, 503),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut env = vec![
            ("CATRACA__GATEWAY__SELLER__JWKS", jwks.as_str()),
            ("CATRACA__GATEWAY__SELLER__REQUIRED", "true"),
        ];
        env.extend(trusts.map(|name| (name, ca.to_str().unwrap())));
        let server = Server::up(folder.path(), &env).await;
        open_show(&server, folder.path()).await;
        let fans = Client::of(format!("http://{}", server.gateway));
        let now = SystemClock.now().as_millis() / 1_000;
        let token = key.token(&claims_until("ana", now + 600));
        let account = [("x-catraca-account", token.as_str())];
        let status = until("the show takes fans", || async {
            let line = "POST /v1/shows/gala/join";
            let (status, told) = fans.ask(line, &account, &Value::Null).await;
            let is_new = status == 404 || told["type"] == "urn:catraca:problem:room-unavailable";
            let is_early = status == 409 && told["type"] != Value::Null;
            (!is_new && !is_early).then_some(status.as_u16())
        })
        .await;
        assert_eq!(status, joined, "{trusts:?}");
        assert_eq!(server.terminate().await, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draw_is_verified_by_https() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new();
    let certified = ours.certify(&[HERE]);
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let ca = write("ca.pem", &ours.pem);
    let (cert, key) = (
        write("cert.pem", &certified.cert),
        write("key.pem", &certified.key),
    );
    let env = [
        ("CATRACA__GATEWAY__TLS__CERT_FILE", cert.as_str()),
        ("CATRACA__GATEWAY__TLS__KEY_FILE", key.as_str()),
    ];
    let server = Server::up_by(folder.path(), &[], &env, Stdio::inherit()).await;
    open_show(&server, folder.path()).await;
    let url = format!("https://{}", server.gateway);
    let words = ["draw", "verify", "--url", &url, "--show", "gala"];
    let verified = until("the gateway knows the show", || async {
        let ended = run_in(folder.path(), &words, &[("SSL_CERT_FILE", &ca)]).await;
        (ended.code == Some(1)).then_some(ended)
    })
    .await;
    assert!(
        verified.out.contains("The show has no draw"),
        "{verified:?}"
    );
    let stranger = run_in(folder.path(), &words, &[]).await;
    assert_eq!(stranger.code, Some(69), "{stranger:?}");
    assert!(stranger.err.contains("certificate"), "{stranger:?}");
    assert_eq!(server.terminate().await, Some(0));
}
