//! Nothing that a shop would take for a guarded path passes the gate without a ticket.
//!
//! Two shops that know nothing of us stand behind one gateway: an axum router as it comes, and the
//! same behind the most obliging reader that we can think of, which decodes twice, drops parameters,
//! resolves dot segments, folds case and takes a backslash for a slash. Request targets are made up
//! at random from guarded and open paths and sent as raw bytes, without a ticket. A guarded handler
//! that runs has been reached past the gate.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use catraca::gateway::upstreams::{Gate, Route, RouteGate, Upstream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;
use tower::{ServiceExt, service_fn};

use crate::e2e::gateway::door::{Door, PATIENCE, Plan, show};
use crate::e2e::gateway::liar::Liar;

/// How many targets are sent to each shop when nobody asks for more.
const TARGETS: u64 = 10_000;
/// The variable that asks for more.
const TARGETS_VARIABLE: &str = "CATRACA_TARGETS";
/// Requests under way at once.
const LANES: u64 = 16;
/// Who answered.
const SHOP: &str = "x-shop";
/// Set by the shop's handlers.
const GUARDED: &str = "guarded";
const OPEN: &str = "open";

/// A shop whose guarded handlers count how often they ran.
#[derive(Debug, Clone, Default)]
struct Shop {
    guarded_runs: Arc<AtomicU64>,
}

impl Shop {
    fn router(&self) -> Router {
        let runs = Arc::clone(&self.guarded_runs);
        let guarded = move || {
            runs.fetch_add(1, Ordering::SeqCst);
            async { [(SHOP, GUARDED)] }
        };
        let open = || async { [(SHOP, OPEN)] };
        Router::new()
            .route("/", any(guarded.clone()))
            .route("/orders", any(guarded.clone()))
            .route("/orders/{id}", any(guarded.clone()))
            .route("/orders/{id}/pay", any(guarded.clone()))
            .route("/api/checkout/{*rest}", any(guarded))
            .route("/about", any(open))
            .route("/static/{*rest}", any(open))
    }
}

/// What an obliging reader takes a path for.
fn obliging(path: &str) -> String {
    let mut text = path.to_owned();
    for _ in 0..2 {
        let decoded = percent_decode(text.as_bytes());
        text = String::from_utf8_lossy(&decoded).into_owned();
    }
    let mut kept: Vec<String> = Vec::new();
    let text = text.replace(['\\', '\u{ff0f}', '\u{2215}'], "/");
    for segment in text.split('/') {
        let name = segment.split([';', '\0', '?', '#']).next().unwrap_or("");
        match name.trim().trim_end_matches('.') {
            "" if name.trim() == ".." => drop(kept.pop()),
            "" => {}
            name => kept.push(name.to_lowercase()),
        }
    }
    format!("/{}", kept.join("/"))
}

fn percent_decode(bytes: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let value = hex.and_then(|two| u8::from_str_radix(two, 16).ok());
        match value {
            Some(value) if byte == b'%' => {
                decoded.push(value);
                rest = &after[2..];
            }
            Some(_) | None => {
                decoded.push(byte);
                rest = after;
            }
        }
    }
    decoded
}

/// The shop as it comes, or behind the obliging reader.
async fn ask_shop(router: Router, mut request: Request, reads: Reads) -> Response {
    if reads == Reads::Obligingly {
        let read = obliging(request.uri().path());
        match read.parse() {
            Ok(uri) => *request.uri_mut() = uri,
            Err(_) => return Response::default(),
        }
    }
    router.oneshot(request).await.into_response()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    AsItComes,
    Obligingly,
}

/// Opens a shop on a port of its own.
async fn open(shop: &Shop, reads: Reads) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = shop.router();
    let service = service_fn(move |request: Request| {
        let router = router.clone();
        async move { Ok::<_, Infallible>(ask_shop(router, request, reads).await) }
    });
    tokio::spawn(async move {
        let made = tower::make::Shared::new(service);
        axum::serve(listener, made).await
    });
    address
}

/// A gateway before it: all is guarded but what two routes open.
async fn guard(address: SocketAddr) -> Door {
    let upstream = |gate| Upstream {
        show: Some(show()),
        ..Upstream::new(format!("http://{address}").parse().unwrap(), gate)
    };
    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE"];
    let route = |path: &str, upstream: &str, gate| Route {
        gate,
        ..Route::new(path, &methods, upstream)
    };
    Door::planned(Plan {
        upstreams: Some(BTreeMap::from([
            ("shop".to_owned(), upstream(Gate::Ticket)),
            ("static".to_owned(), upstream(Gate::Open)),
        ])),
        routes: Some(vec![
            route("/about", "shop", Some(RouteGate::Open)),
            route("/static/{*rest}", "static", None),
            route("/{*rest}", "shop", None),
        ]),
        ..Plan::default()
    })
    .await
}

/// What became of the targets.
#[derive(Debug, Default)]
struct Tally {
    /// The shop, asked directly, would have run a guarded handler.
    guarded: u64,
    /// The gateway forwarded them to something open.
    passed: u64,
    /// Answers by status.
    statuses: BTreeMap<String, u64>,
}

/// Sends bytes from one of many addresses, so that no port is short, and reads the whole answer.
async fn send(gateway: SocketAddr, number: u64, bytes: &[u8]) -> String {
    let [.., high, low] = (number >> 8).to_be_bytes();
    let socket = TcpSocket::new_v4().unwrap();
    socket
        .bind((Ipv4Addr::new(127, 9, high, low), 0).into())
        .unwrap();
    let mut answer = Vec::new();
    let talk = async {
        let mut stream = socket.connect(gateway).await.unwrap();
        let _cut = stream.write_all(bytes).await;
        let _reset = stream.read_to_end(&mut answer).await;
    };
    let talked = tokio::time::timeout(PATIENCE, talk).await;
    talked.expect("an answer or an end");
    String::from_utf8_lossy(&answer).to_lowercase()
}

/// Whether the shop alone would run a guarded handler for this target, and no matter what is asked
/// of it.
async fn would_guard(router: &Router, target: &str, reads: Reads) -> bool {
    let Ok(request) = Request::builder()
        .uri(target)
        .body(axum::body::Body::empty())
    else {
        return false;
    };
    let answer = ask_shop(router.clone(), request, reads).await;
    answer
        .headers()
        .get(SHOP)
        .is_some_and(|said| said == GUARDED)
}

async fn lane(
    (gateway, reads): (SocketAddr, Reads),
    (seed, numbers): (u64, std::ops::Range<u64>),
) -> Tally {
    let mut liar = Liar::new(seed ^ numbers.start);
    let yardstick = Shop::default().router();
    let mut tally = Tally::default();
    for number in numbers {
        let target = liar.target();
        let request = liar.request(&target);
        let answer = send(gateway, number, request.as_bytes()).await;
        let is_guarded = would_guard(&yardstick, &target, reads).await;
        let says = |who: &str| answer.contains(&format!("{SHOP}: {who}\r\n"));
        assert!(!says(GUARDED), "past the gate: {request}{answer}");
        // A method or host of its own may be refused first; forwarded to something open it is never.
        assert!(
            !(is_guarded && says(OPEN)),
            "taken for open: {request}{answer}"
        );
        tally.guarded += u64::from(is_guarded);
        tally.passed += u64::from(says(OPEN));
        let status = answer.split(' ').nth(1).unwrap_or("closed").to_owned();
        *tally.statuses.entry(status).or_default() += 1;
    }
    tally
}

async fn nothing_passes(reads: Reads) {
    let targets = env::var(TARGETS_VARIABLE).map_or(TARGETS, |text| text.parse().unwrap());
    let seed = rand::random();
    let shop = Shop::default();
    let door = guard(open(&shop, reads).await).await;
    let each = targets.div_ceil(LANES);
    let mut lanes = JoinSet::new();
    for number in 0..LANES {
        let numbers = number * each..(number + 1) * each;
        lanes.spawn(lane((door.address, reads), (seed, numbers)));
    }
    let mut all = Tally::default();
    while let Some(tally) = lanes.join_next().await {
        let tally = tally.unwrap_or_else(|error| panic!("SEED={seed}: {error}"));
        (all.guarded, all.passed) = (all.guarded + tally.guarded, all.passed + tally.passed);
        for (status, count) in tally.statuses {
            *all.statuses.entry(status).or_default() += count;
        }
    }
    eprintln!("{reads:?}: {} targets, SEED={seed}: {all:?}", LANES * each);
    assert_eq!(shop.guarded_runs.load(Ordering::SeqCst), 0, "SEED={seed}");
    let enough = targets / 20;
    assert!(
        enough < all.guarded && enough / 10 < all.passed,
        "vacuous: {all:?}"
    );
    // The way in is there for who has a ticket.
    let (ana, ticket) = door.admitted().await;
    let headers = [
        ("x-catraca-pass", ana.pass.as_str()),
        ("x-admission-ticket", &ticket),
    ];
    let inside = door.get("/orders/7", &headers).await;
    assert_eq!(inside.header(SHOP), GUARDED, "{inside:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_a_router_would_guard_passes_without_a_ticket() {
    nothing_passes(Reads::AsItComes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_an_obliging_reader_would_guard_passes_without_a_ticket() {
    nothing_passes(Reads::Obligingly).await;
}
