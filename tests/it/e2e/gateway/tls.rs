//! Upstreams by https: reached where somebody who is trusted vouches for them, and told nothing else.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use catraca::driver::https::trusting;
use catraca::gateway::upstreams::Upstream;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::e2e::gateway::door::{Door, PATIENCE, Plan, upstreams};
use crate::e2e::gateway::script::{Script, Wire};
use crate::e2e::gateway::streaming::{answers_each_piece, exchange_pieces};
use crate::support::authority::{Authority, Certified};
use crate::support::client::Client;
use crate::support::process::{Server, run_in};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// Where all of them are.
const HERE: &str = "127.0.0.1";

/// A gateway before this shop, whose certificate counts if this authority vouches for it.
async fn before(shop: &Script, trusted: &Authority, change: impl FnOnce(&mut Plan)) -> Door {
    let by_https = |upstream: Upstream| Upstream {
        url: format!("https://{}", shop.address).parse().unwrap(),
        tls: Some(trusting(Some(trusted.pem.as_bytes())).unwrap()),
        ..upstream
    };
    let all = upstreams(&shop.address).into_iter();
    let mut plan = Plan {
        upstreams: Some(
            all.map(|(name, upstream)| (name, by_https(upstream)))
                .collect(),
        ),
        ..Plan::default()
    };
    plan.settings.upstream_ms = 10_000;
    change(&mut plan);
    Door::planned(plan).await
}

/// A shop that answers every request, and counts them.
async fn counting(certified: &Certified) -> (Script, Arc<AtomicU32>) {
    let asked = Arc::<AtomicU32>::default();
    let count = Arc::clone(&asked);
    let scene = move |_, mut wire: Wire| {
        let count = Arc::clone(&count);
        async move {
            while let Some(head) = wire.head().await {
                count.fetch_add(1, Ordering::SeqCst);
                assert!(head.contains("host: 127.0.0.1:"), "{head}");
                wire.say(OK).await;
            }
        }
    };
    (Script::play_by_https(certified, scene).await, asked)
}

#[tokio::test]
async fn a_shop_whose_certificate_is_good_is_asked_over_one_connection() {
    let ours = Authority::new();
    let (shop, asked) = counting(&ours.certify(&[HERE])).await;
    let door = before(&shop, &ours, |_| {}).await;
    let (ana, ticket) = door.admitted().await;
    let headers = [
        ("x-catraca-pass", ana.pass.as_str()),
        ("x-admission-ticket", &ticket),
    ];
    for _ in 0..10 {
        let answer = door.get("/shop/seats", &headers).await;
        assert_eq!((answer.status, answer.text.as_str()), (200, "ok"));
        let answer = door.ask("POST", "/static/x", &[], "{}").await;
        assert_eq!((answer.status, answer.text.as_str()), (200, "ok"));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 20);
    assert!(shop.connections() <= 4, "{}", shop.connections()); // of two upstreams
    assert_eq!(door.get("/shop/seats", &[]).await.status, 401);
}

#[tokio::test]
async fn bodies_stream_both_ways_through_tls() {
    let ours = Authority::new();
    let certified = ours.certify(&[HERE]);
    let shop = Script::play_by_https(&certified, |_, wire| answers_each_piece(wire)).await;
    exchange_pieces(&before(&shop, &ours, |_| {}).await).await;
}

#[tokio::test]
async fn a_shop_that_cannot_prove_who_it_is_is_told_nothing() {
    let (ours, other) = (Authority::new(), Authority::new());
    for (what, certified) in [
        ("a stranger's", other.certify(&[HERE])),
        ("another's name", ours.certify(&["shop.example"])),
        ("an old one", ours.certify_once(HERE)),
    ] {
        let (shop, asked) = counting(&certified).await;
        let door = before(&shop, &ours, |_| {}).await;
        for method in ["GET", "POST"] {
            let answer = door.ask(method, "/static/x", &[], "").await;
            let told = (answer.status, answer.word());
            assert_eq!(
                told,
                (502, "upstream-untrusted".to_owned()),
                "{what} {method}"
            );
        }
        assert_eq!(asked.load(Ordering::SeqCst), 0, "{what}");
        assert_eq!(shop.connections(), 2, "{what}: it is not asked again");
    }
}

/// Whoever listens there reads a greeting of TLS, and nothing after it.
#[tokio::test]
async fn a_shop_without_tls_is_told_nothing_in_the_clear() {
    let shop = Script::play(|_, mut wire| async move {
        wire.say("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
            .await;
        assert_eq!(
            wire.until("static").await,
            None,
            "what was asked is not told"
        );
    })
    .await;
    let door = before(&shop, &Authority::new(), |_| {}).await;
    let answer = door.ask("POST", "/static/x", &[], "{}").await;
    let told = (answer.status, answer.word());
    assert_eq!(told, (502, "upstream-untrusted".to_owned()));
}

#[tokio::test]
async fn a_shop_that_fails_to_prove_it_five_times_rests() {
    let (ours, other) = (Authority::new(), Authority::new());
    let (shop, _) = counting(&other.certify(&[HERE])).await;
    let door = before(&shop, &ours, |_| {}).await;
    for _ in 0..5 {
        let answer = door.ask("POST", "/static/x", &[], "{}").await;
        assert_eq!(answer.status, 502, "{answer:?}");
    }
    let answer = door.ask("POST", "/static/x", &[], "{}").await;
    let told = (answer.status, answer.word());
    assert_eq!(told, (503, "upstream-unavailable".to_owned()));
    assert_eq!(shop.connections(), 5);
}

/// It is `connect_ms` that ends it, not what an answer may take.
#[tokio::test]
async fn a_handshake_that_never_ends_is_given_up() {
    let shop = Script::play(|_, mut wire| async move {
        wire.until("never said").await;
    })
    .await;
    let door = before(&shop, &Authority::new(), |plan| {
        plan.settings.connect_ms = 100
    })
    .await;
    let answer = door.ask("POST", "/static/x", &[], "{}").await;
    let told = (answer.status, answer.word());
    assert_eq!(told, (503, "upstream-unavailable".to_owned()));
}

/// The configuration of a program that has this shop at `/x`.
fn configured(shop: &str, more: &str) -> String {
    format!(
        "[upstreams.shop]\nurl = \"{shop}\"\ngate = \"open\"\n{more}\n\
         [[routes]]\npath = \"/x\"\nmethods = [\"GET\"]\nupstream = \"shop\"\n"
    )
}

/// Those that the file names count alone; without one, those that the machine trusts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_trusts_whom_it_is_told_to() {
    let (ours, other) = (Authority::new(), Authority::new());
    let (shop, asked) = counting(&ours.certify(&[HERE])).await;
    let url = format!("https://{}", shop.address);
    let files = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = files.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let (right, wrong) = (
        write("right.pem", &ours.pem),
        write("wrong.pem", &other.pem),
    );
    let named = |file: &str| format!("ca_file = \"{file}\"");
    for (more, machine, status) in [
        (named(&right), &wrong, 200),
        (String::new(), &right, 200),
        (named(&wrong), &right, 502),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = write("catraca.toml", &configured(&url, &more));
        let env = [("SSL_CERT_FILE", machine.as_str()), ("RUST_LOG", "warn")];
        let config = ["--config", file.as_str()];
        let mut server = Server::up_by(folder.path(), &config, &env, Stdio::piped()).await;
        let fans = Client::of(format!("http://{}", server.gateway));
        let before = asked.load(Ordering::SeqCst);
        let (answered, _) = fans.ask("GET /x", &[], &serde_json::Value::Null).await;
        assert_eq!(answered.as_u16(), status, "{more} {machine}");
        let came = asked.load(Ordering::SeqCst) - before;
        assert_eq!(came == 1, status == 200, "{came}");
        if status == 502 {
            let says = format!("no TLS to {url}/: invalid peer certificate");
            let mut log = BufReader::new(server.log()).lines();
            let found = async {
                while let Some(line) = log.next_line().await.unwrap() {
                    if line.contains(&says) {
                        return true;
                    }
                }
                false
            };
            assert!(tokio::time::timeout(PATIENCE, found).await.unwrap());
        }
        assert_eq!(server.terminate().await, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_that_could_trust_nobody_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let empty = empty.to_str().unwrap();
    for (url, more, says) in [
        (
            "https://shop.example",
            "ca_file = \"/no/such\"".to_owned(),
            "upstreams.shop.ca_file: cannot read /no/such".to_owned(),
        ),
        (
            "https://shop.example",
            format!("ca_file = \"{empty}\""),
            "upstreams.shop.ca_file: there is no certificate in it".to_owned(),
        ),
        (
            "http://shop.example",
            format!("ca_file = \"{empty}\""),
            "upstreams.shop.ca_file needs url to begin with https://".to_owned(),
        ),
        (
            "https://shop.example",
            String::new(),
            "upstreams.shop.url needs ca_file: this machine trusts no authority".to_owned(),
        ),
    ] {
        let file = folder.path().join("catraca.toml");
        std::fs::write(&file, configured(url, &more)).unwrap();
        let words = ["config", "check", "--config", "catraca.toml"];
        let env = [("SSL_CERT_FILE", empty), ("SSL_CERT_DIR", "/no/such")];
        let ended = run_in(folder.path(), &words, &env).await;
        assert_eq!(ended.code, Some(78), "{ended:?}");
        assert!(ended.err.contains(&says), "{ended:?}");
    }
}
