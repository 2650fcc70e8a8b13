//! A gateway on a port of its own, and fans who speak to it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use catraca::base::ids::{FanId, IdSource, ShowId};
use catraca::base::secret::Secret;
use catraca::base::time::{ManualClock, Timestamp};
use catraca::gateway::settings::Settings;
use catraca::gateway::upstreams::{Gate, Route, RouteGate, Upstream, orders_routes};
use catraca::gateway::{Gateway, GatewayState, Parts, router};
use catraca::http::server::{ServerSettings, serve};
use catraca::limit::in_memory::InMemory as Limits;
use catraca::limit::joins_in_memory::JoinsInMemory;
use catraca::room::in_memory::InMemory;
use catraca::room::model::command::{Command, Configure, Outcome, RoomState};
use catraca::room::{Rooms, Store, StoreError};
use catraca::token::keyring::KeyRing;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::RwLock;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::e2e::gateway::shop::Shop;
use crate::model::world::{at, new_room, settings as room_settings, tick};

/// Longest that anything in these tests may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) rooms: Rooms,
    pub(crate) cable: Arc<Cable>,
    pub(crate) gateway: GatewayState,
    pub(crate) keys: Arc<KeyRing>,
    pub(crate) shop: Shop,
    pub(crate) shop_address: String,
    pub(crate) stop: CancellationToken,
    pub(crate) server: JoinHandle<anyhow::Result<()>>,
    client: Client<HttpConnector, Full<Bytes>>,
    _folder: TempDir,
}

/// The way to the room, which a test can cut.
#[derive(Debug)]
pub(crate) struct Cable {
    room: InMemory,
    is_cut: AtomicBool,
    is_unfenced: AtomicBool,
    carried: AtomicU64,
    /// Whoever has this for writing keeps every answer back.
    pub(crate) held: RwLock<()>,
}

impl Cable {
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    /// From now on the room says that its data may be another's, as after a loss.
    pub(crate) fn unfence(&self) {
        self.is_unfenced.store(true, Ordering::SeqCst);
    }

    pub(crate) fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }

    /// Commands and questions that it has carried so far.
    pub(crate) fn carried(&self) -> u64 {
        self.carried.load(Ordering::SeqCst)
    }

    fn check(&self) -> Result<(), StoreError> {
        self.carried.fetch_add(1, Ordering::SeqCst);
        if self.is_cut.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable(
                anyhow::anyhow!("the cable is cut").into(),
            ));
        }
        if self.is_unfenced.load(Ordering::SeqCst) {
            return Err(StoreError::Unfenced);
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl Store for Cable {
    async fn apply(&self, show: &ShowId, command: &Command) -> Result<Outcome, StoreError> {
        self.check()?;
        let _free = self.held.read().await;
        self.room.apply(show, command).await
    }

    async fn shows(&self) -> Result<Vec<ShowId>, StoreError> {
        self.check()?;
        self.room.shows().await
    }
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    /// The last part of the problem's type.
    pub(crate) fn word(&self) -> String {
        assert_eq!(
            self.header("content-type"),
            "application/problem+json",
            "{self:?}"
        );
        let word = self.json()["type"].as_str().unwrap().to_owned();
        word.rsplit(':').next().unwrap().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).map(|value| value.to_str().unwrap());
        value.unwrap_or_default()
    }
}

/// A fan in line: what a join answered.
#[derive(Debug, Clone)]
pub(crate) struct Ana {
    pub(crate) fan: FanId,
    pub(crate) number: u64,
    pub(crate) pass: String,
}

/// How a test changes a gateway.
pub(crate) struct Plan {
    /// The room's time at the beginning.
    pub(crate) now: Timestamp,
    pub(crate) state: RoomState,
    pub(crate) settings: Settings,
    pub(crate) server: ServerSettings,
    /// Instead of the shop's.
    pub(crate) upstream: Option<String>,
    /// Instead of all three.
    pub(crate) upstreams: Option<BTreeMap<String, Upstream>>,
    /// Instead of theirs.
    pub(crate) routes: Option<Vec<Route>>,
}

impl Default for Plan {
    fn default() -> Self {
        let trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
        Self {
            now: at(1_800_000_000_000),
            state: RoomState::Open,
            settings: Settings {
                trusted_proxies,
                upstream_ms: 300,
                ..Settings::default()
            },
            server: ServerSettings::default(),
            upstream: None,
            upstreams: None,
            routes: None,
        }
    }
}

pub(crate) fn show() -> ShowId {
    "gala".parse().unwrap()
}

impl Door {
    pub(crate) async fn open() -> Self {
        Self::planned(Plan::default()).await
    }

    pub(crate) async fn planned(plan: Plan) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(plan.now));
        let file = folder.path().join("room.db");
        let room = InMemory::open(&file, clock.clone()).await.unwrap();
        let cable = Arc::new(Cable {
            room,
            is_cut: AtomicBool::new(false),
            is_unfenced: AtomicBool::new(false),
            carried: AtomicU64::new(0),
            held: RwLock::default(),
        });
        let rooms = Rooms::new(cable.clone());
        for step in new_room(room_settings(), plan.state) {
            rooms.mend(&show(), step).await.unwrap();
        }
        let (shop, address) = Shop::open().await;
        let secret = Secret::new("a secret for tests, of some length");
        let keys = Arc::new(KeyRing::new(&secret, "k1", &[]).unwrap());
        let gateway = Gateway::new(Parts {
            rooms: rooms.clone(),
            keys: keys.clone(),
            limits: Arc::new(Limits::new(&plan.settings.limits)),
            joins: Arc::new(JoinsInMemory::new(
                plan.settings.ladder(),
                plan.settings.limits.strangers_max,
            )),
            ids: Arc::new(IdSource::seeded(1)),
            clock: clock.clone(),
            settings: plan.settings,
            upstreams: plan
                .upstreams
                .unwrap_or_else(|| upstreams(plan.upstream.as_ref().unwrap_or(&address))),
            routes: plan.routes.unwrap_or_else(routes),
        });
        let gateway = gateway.unwrap();
        gateway.boards().step().await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stop = CancellationToken::new();
        let served = router(gateway.clone());
        Self {
            address: listener.local_addr().unwrap(),
            clock,
            rooms,
            cable,
            gateway,
            keys,
            shop,
            shop_address: address,
            stop: stop.clone(),
            server: tokio::spawn(serve(listener, served, plan.server, stop)),
            client: Client::builder(TokioExecutor::new()).build_http(),
            _folder: folder,
        }
    }

    /// Sends a request with these headers, and reads the answer.
    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        self.ask_at(self.address, (method, path), headers, body)
            .await
    }

    /// The same of somebody else.
    pub(crate) async fn ask_at(
        &self,
        address: SocketAddr,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let uri = format!("http://{address}{path}");
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(body.to_owned())).unwrap();
        let answered = tokio::time::timeout(PATIENCE, self.client.request(request)).await;
        let (parts, body) = answered.unwrap().unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask("GET", path, headers, "").await
    }

    /// Writes these bytes and reads until the gateway closes the connection.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut answer = Vec::new();
        let talk = async {
            // Whoever is cut off while still sending may see a reset: what was read counts.
            let _cut = stream.write_all(bytes).await;
            let _reset = stream.read_to_end(&mut answer).await;
        };
        let talked = tokio::time::timeout(PATIENCE, talk).await;
        talked.expect("the connection is closed in time");
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub(crate) async fn join(&self, headers: &[(&str, &str)]) -> Answer {
        self.ask("POST", "/v1/shows/gala/join", headers, "").await
    }

    /// A new fan in line.
    pub(crate) async fn new_fan(&self) -> Ana {
        let joined = self.join(&[]).await;
        assert_eq!(joined.status, 201, "{joined:?}");
        let body = joined.json();
        Ana {
            fan: body["fan"].as_str().unwrap().parse().unwrap(),
            number: body["number"].as_u64().unwrap(),
            pass: body["pass"].as_str().unwrap().to_owned(),
        }
    }

    pub(crate) async fn status(&self, pass: &str) -> Answer {
        let headers = [("x-catraca-pass", pass)];
        self.get("/v1/shows/gala/status", &headers).await
    }

    /// Calls this many fans.
    pub(crate) async fn call(&self, want: u64) {
        self.rooms.tick(&show(), tick(want)).await.unwrap();
        self.gateway.boards().step().await.unwrap();
    }

    /// A new fan whose turn it is, and their ticket.
    pub(crate) async fn admitted(&self) -> (Ana, String) {
        let ana = self.new_fan().await;
        self.call(1).await;
        let status = self.status(&ana.pass).await;
        let ticket = status.json()["ticket"].as_str().unwrap().to_owned();
        (ana, ticket)
    }

    /// The operator's verb.
    pub(crate) async fn turn(&self, version: u64, state: RoomState) {
        let board = self.rooms.board(&show()).await.unwrap();
        let configure = Configure {
            version,
            settings: board.settings,
            verb: Some((version, state)),
        };
        self.rooms.configure(&show(), configure).await.unwrap();
        self.gateway.boards().step().await.unwrap();
    }
}

pub(crate) fn upstreams(address: &str) -> BTreeMap<String, Upstream> {
    let upstream = |gate, show, trusted| Upstream {
        show,
        secret: Some(Secret::new("shared")),
        trusted,
        ..Upstream::new(format!("http://{address}").parse().unwrap(), gate)
    };
    let all = [
        ("orders", upstream(Gate::Ticket, None, true)),
        ("shop", upstream(Gate::Room, Some(show()), false)),
        ("static", upstream(Gate::Open, None, false)),
    ];
    all.map(|(name, upstream)| (name.to_owned(), upstream))
        .into()
}

pub(crate) fn routes() -> Vec<Route> {
    let both = &["GET", "POST"];
    let mut routes = orders_routes("orders");
    routes.push(Route::new("/static/{*rest}", both, "static"));
    routes.push(Route::new("/about", &["GET"], "shop").with_gate(RouteGate::Open));
    routes.push(Route::new("/shop/{*rest}", both, "shop"));
    routes
}
