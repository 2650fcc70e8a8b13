//! Is a request ever two? Streams of bytes go through the gateway to two shops that read in their own
//! ways: an axum router and Debian's nginx. Every request that a stream spells has a name, those that
//! hide in bodies and headers too.
//!
//! What must arrive arrives once; what may (its head has one reading, its body has none) arrives once
//! at most; what hides never arrives. And nothing arrives twice under one request id of ours.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use http::HeaderMap;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::e2e::gateway::shop::Shop;
use crate::e2e::hostile::site::{Site, answers};
use crate::e2e::hostile::spelling::{Class, Spelling, Stream};
use crate::support::need::NGINX;
use crate::support::{free_port, until};

/// How many streams each shop is sent when nobody asks for more.
const STREAMS: u64 = 600;
/// The variable that asks for more.
const STREAMS_VARIABLE: &str = "CATRACA_STREAMS";
/// Connections at once.
const LANES: usize = 8;

/// What reached a shop: the name of a request, and our id for it.
type Arrival = (String, String);

/// A shop that remembers.
enum Backend {
    Axum(Arc<Mutex<Vec<Arrival>>>),
    Nginx {
        log: PathBuf,
        child: Child,
        _folder: TempDir,
    },
}

const NGINX_CONF: &str = r#"
daemon off; master_process off; worker_processes 1; pid FOLDER/pid; error_log FOLDER/error;
events { worker_connections 512; }
http {
  log_format names '$http_x_name $http_x_request_id $request_uri';
  access_log FOLDER/access names; client_body_temp_path FOLDER; proxy_temp_path FOLDER;
  fastcgi_temp_path FOLDER; uwsgi_temp_path FOLDER; scgi_temp_path FOLDER;
  server { listen 127.0.0.1:PORT; location / { return 200 "ok"; } }
}
"#;

async fn remember(
    arrived: Arc<Mutex<Vec<Arrival>>>,
    headers: HeaderMap,
    _whole: Bytes,
) -> &'static str {
    let text = |name: &str| {
        headers
            .get(name)
            .map_or("-", |value| value.to_str().unwrap_or("?"))
            .to_owned()
    };
    arrived
        .lock()
        .unwrap()
        .push((text("x-name"), text("x-request-id")));
    "ok"
}

impl Backend {
    async fn axum() -> (Self, String) {
        let arrived = Arc::<Mutex<Vec<Arrival>>>::default();
        let shared = Arc::clone(&arrived);
        let router = Router::new()
            .fallback(move |headers: HeaderMap, whole: Bytes| remember(shared, headers, whole));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move { axum::serve(listener, router).await });
        (Self::Axum(arrived), address)
    }

    async fn nginx() -> Option<(Self, String)> {
        let program = NGINX.find()?;
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let text = NGINX_CONF
            .replace("FOLDER", folder.path().to_str().unwrap())
            .replace("PORT", &port.to_string());
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, text).unwrap();
        let child = Command::new(program)
            .arg("-c")
            .arg(&file)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let address = format!("127.0.0.1:{port}");
        let log = folder.path().join("access");
        until("nginx listens", || async {
            tokio::net::TcpStream::connect(&address).await.ok()
        })
        .await;
        Some((
            Self::Nginx {
                log,
                child,
                _folder: folder,
            },
            address,
        ))
    }

    fn arrived(&self) -> Vec<Arrival> {
        match self {
            Self::Axum(arrived) => arrived.lock().unwrap().clone(),
            Self::Nginx { log, .. } => {
                let text = std::fs::read_to_string(log).unwrap();
                let words = |line: &str| {
                    let mut words = line.split(' ').map(str::to_owned);
                    (
                        words.next().unwrap_or_default(),
                        words.next().unwrap_or_default(),
                    )
                };
                text.lines().map(words).collect()
            }
        }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        if let Self::Nginx { child, .. } = self {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Sends its share of the streams; says what each name may do, and how many answers came from a shop.
async fn lane(site: Arc<Site>, seed: u64, numbers: Vec<u64>) -> Vec<(Stream, u64)> {
    let mut sent = Vec::new();
    for number in numbers {
        let stream = Spelling::new(seed, number).stream();
        let text = site.send(&stream.bytes).await;
        let served = answers(&text, b"")
            .iter()
            .filter(|(status, _)| *status == 200)
            .count() as u64;
        sent.push((stream, served));
    }
    sent
}

/// All that was sent to a shop.
struct All {
    sent: Vec<(Stream, u64)>,
    classes: BTreeMap<String, Class>,
    kinds: BTreeMap<&'static str, u64>,
}

impl All {
    fn of(sent: Vec<(Stream, u64)>) -> Self {
        let (mut classes, mut kinds) = (BTreeMap::new(), BTreeMap::new());
        for (stream, _) in &sent {
            *kinds.entry(stream.kind).or_default() += 1;
            classes.extend(stream.names.clone());
        }
        Self {
            sent,
            classes,
            kinds,
        }
    }

    /// The stream that has this name in it.
    fn around(&self, name: &str) -> String {
        let mut streams = self.sent.iter().map(|(stream, _)| stream);
        let found = streams.find(|stream| stream.names.contains_key(name));
        found.map(Stream::text).unwrap_or_default()
    }

    /// Waits until all that must arrive has.
    async fn arrive(&self, backend: &Backend, seed: u64) {
        until("all that must arrive has", || async {
            let arrived = backend.arrived().into_iter().map(|(name, _)| name);
            let names: BTreeSet<String> = arrived.collect();
            let is_missing = |(name, class): &(&String, &Class)| {
                **class == Class::Must && !names.contains(*name)
            };
            let Some((name, _)) = self.classes.iter().find(is_missing) else {
                return Some(());
            };
            eprintln!("SEED={seed}: {name} is not there: {:?}", self.around(name));
            None
        })
        .await;
    }

    /// Nothing arrived twice, without an id of its own, or that hides.
    fn check(&self, arrived: &[Arrival], seed: u64) {
        let (mut names, mut ids) = (BTreeSet::new(), BTreeSet::new());
        for (name, id) in arrived {
            let around = || format!("SEED={seed}: {name} in {:?}", self.around(name));
            assert!(names.insert(name), "arrived twice: {}", around());
            assert!(
                ids.insert(id) && id != "-",
                "has no id of its own: {}",
                around()
            );
            match self.classes.get(name) {
                Some(Class::Must | Class::May) => {}
                Some(Class::Never) | None => panic!("has been smuggled: {}", around()),
            }
        }
    }
}

async fn no_request_is_two((backend, address): (Backend, String), name: &str) {
    let streams = env::var(STREAMS_VARIABLE).map_or(STREAMS, |text| text.parse().unwrap());
    let seed: u64 = rand::random();
    let (unused, _) = Shop::open().await;
    let site = Arc::new(Site::before(unused, &address, "", &[]).await);
    let mut lanes = JoinSet::new();
    for first in 0..LANES {
        let numbers = (0..streams).skip(first).step_by(LANES).collect();
        lanes.spawn(lane(Arc::clone(&site), seed, numbers));
    }
    let sent = lanes.join_all().await.concat();
    let all = All::of(sent);
    let must = all
        .classes
        .values()
        .filter(|class| **class == Class::Must)
        .count();
    all.arrive(&backend, seed).await;
    let arrived = backend.arrived();
    all.check(&arrived, seed);
    let (sent, kinds, classes) = (&all.sent, &all.kinds, &all.classes);
    let served: u64 = sent.iter().map(|(_, served)| served).sum();
    let arrived_count = arrived.len() as u64;
    eprintln!(
        "{name}: {} streams, SEED={seed}, {kinds:?}: {} names, {must} had to arrive, {arrived_count} arrived, {served} answered",
        sent.len(),
        classes.len(),
    );
    assert!(served <= arrived_count, "SEED={seed}: an answer to nothing");
    assert!(
        must <= arrived.len() && streams / 3 < arrived_count,
        "vacuous"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_two_to_axum() {
    no_request_is_two(Backend::axum().await, "axum").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_two_to_nginx() {
    if let Some(nginx) = Backend::nginx().await {
        no_request_is_two(nginx, "nginx").await;
    }
}
