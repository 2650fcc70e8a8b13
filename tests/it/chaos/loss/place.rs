//! A room on a real server, with SQL, admitters and a gateway around it, each to be killed alone.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use catraca::admitter::Admitter;
use catraca::base::ids::{IdSource, ShowId};
use catraca::base::secret::Secret;
use catraca::base::time::{Clock, SystemClock};
use catraca::driver::schema::CATRACA;
use catraca::driver::sqlite::Sqlite;
use catraca::gateway::settings::Settings as GatewaySettings;
use catraca::gateway::upstreams::{Gate, Upstream, orders_routes};
use catraca::gateway::{Gateway, Parts, router};
use catraca::http::server::{ServerSettings, serve};
use catraca::limit::in_memory::InMemory as Limits;
use catraca::limit::joins_in_memory::JoinsInMemory;
use catraca::room::Rooms;
use catraca::room::in_redis::InRedis;
use catraca::room::model::command::{Board, RoomState};
use catraca::show::in_sqlite::InSqlite;
use catraca::show::{Change, Store};
use catraca::token::keyring::KeyRing;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::chaos::loss::fate::{Fate, FatedRooms, Sql};
use crate::e2e::gateway::shop::Shop;
use crate::support::client::Client;
use crate::support::redis::Server;
use crate::support::signpost::Signpost;

/// The show.
pub(crate) const SHOW: &str = "lost-show";
/// Fans that may come back in a second.
pub(crate) const RESTORE_PER_S: u64 = 1_000;

/// All of it.
pub(crate) struct Place {
    /// The way to whichever server is the primary.
    pub(crate) way: Signpost,
    /// The primary first.
    pub(crate) servers: Vec<Server>,
    pub(crate) rooms: Rooms,
    pub(crate) sql: Arc<dyn Store>,
    pub(crate) sql_is_away: Arc<AtomicBool>,
    pub(crate) keys: Arc<KeyRing>,
    pub(crate) shop: Shop,
    shop_address: String,
    pub(crate) admitters: Vec<JoinHandle<anyhow::Result<()>>>,
    gateway: Option<CancellationToken>,
    pub(crate) address: SocketAddr,
    pub(crate) client: Client,
    folder: tempfile::TempDir,
    settings: Value,
}

/// The show's id.
pub(crate) fn show() -> ShowId {
    SHOW.parse().unwrap()
}

/// Asks until there is an answer, for so long at most.
pub(crate) async fn within<T>(
    what: &str,
    most: Duration,
    mut ask: impl AsyncFnMut() -> Option<T>,
) -> T {
    let end = Instant::now() + most;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < end, "waited {most:?} in vain until {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

impl Place {
    /// Opens the show in the room on this server.
    pub(crate) async fn open(server: Server, settings: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let way = Signpost::to(server.address()).await;
        let path = folder.path().join("catraca.db");
        let db = Sqlite::open(&path, CATRACA).await.unwrap();
        let sql_is_away = Arc::new(AtomicBool::new(false));
        let sql: Arc<dyn Store> = Arc::new(InSqlite::new(db));
        let secret = Secret::new("a secret for tests, of some length");
        let (shop, shop_address) = Shop::open().await;
        let mut place = Self {
            rooms: rooms(&way).await,
            way,
            servers: vec![server],
            sql,
            sql_is_away,
            keys: Arc::new(KeyRing::new(&secret, "k1", &[]).unwrap()),
            shop,
            shop_address,
            admitters: Vec::new(),
            gateway: None,
            address: ([127, 0, 0, 1], 0).into(),
            client: Client::of(""),
            folder,
            settings,
        };
        let settings = serde_json::from_value(place.settings.clone()).unwrap();
        let (id, by) = (show(), change());
        let put = place.sql.put(&id, &by, &settings, None);
        put.await.unwrap();
        place.admit("admitter-1", None).await;
        place.say(RoomState::Open).await;
        place.open_gateway().await;
        place
    }

    /// Starts an admitter, with this fate.
    pub(crate) async fn admit(&mut self, name: &str, fate: Option<Arc<Fate>>) {
        let inner = Arc::new(connect(&self.way).await);
        let rooms = match &fate {
            None => Rooms::new(inner),
            Some(fate) => Rooms::new(Arc::new(FatedRooms {
                inner,
                fate: Arc::clone(fate),
            })),
        };
        let shows = Arc::new(Sql {
            inner: Arc::clone(&self.sql),
            is_away: Arc::clone(&self.sql_is_away),
            fate,
        });
        let (clock, nudge) = (Arc::new(SystemClock), Arc::new(Notify::new()));
        let admitter = Admitter::new(rooms, shows, clock, name.to_owned(), nudge);
        let running = tokio::spawn(admitter.run(CancellationToken::new()));
        self.admitters.push(running);
    }

    /// Kills every admitter.
    pub(crate) async fn kill_admitters(&mut self) {
        for admitter in std::mem::take(&mut self.admitters) {
            admitter.abort();
            drop(admitter.await);
        }
    }

    /// Starts a gateway, where the last one stood.
    pub(crate) async fn open_gateway(&mut self) {
        let trusted = vec!["127.0.0.0/8".parse().unwrap()];
        let settings = GatewaySettings {
            trusted_proxies: trusted,
            ..GatewaySettings::default()
        };
        let url = format!("http://{}", self.shop_address).parse().unwrap();
        let upstream = Upstream {
            trusted: true,
            ..Upstream::new(url, Gate::Ticket)
        };
        let gateway = Gateway::new(Parts {
            rooms: rooms(&self.way).await,
            keys: Arc::clone(&self.keys),
            limits: Arc::new(Limits::new(&settings.limits)),
            joins: Arc::new(JoinsInMemory::new(
                settings.ladder(),
                settings.limits.strangers_max,
            )),
            ids: Arc::new(IdSource::random()),
            clock: Arc::new(SystemClock),
            settings,
            upstreams: BTreeMap::from([("orders".to_owned(), upstream)]),
            routes: orders_routes("orders"),
        });
        let gateway = gateway.unwrap();
        let listener = within("the port is free", Duration::from_secs(5), async || {
            TcpListener::bind(self.address).await.ok()
        });
        let listener = listener.await;
        self.address = listener.local_addr().unwrap();
        self.client = Client::of(format!("http://{}", self.address));
        let stop = CancellationToken::new();
        let (boards, follow_ups) = (gateway.boards(), gateway.follow_ups());
        let (first, second) = (stop.clone(), stop.clone());
        tokio::spawn(async move { boards.run(first).await });
        tokio::spawn(async move { follow_ups.run(second).await });
        let at_once = ServerSettings {
            drain_max: Duration::ZERO,
            ..gateway.server_settings()
        };
        tokio::spawn(serve(listener, router(gateway), at_once, stop.clone()));
        self.gateway = Some(stop);
    }

    /// The gateway is gone, and all who speak to it lose their connections.
    pub(crate) fn kill_gateway(&mut self) {
        self.gateway.take().unwrap().cancel();
    }

    /// The operator's verb, and waits until the room has it.
    pub(crate) async fn say(&self, state: RoomState) {
        let (id, by) = (show(), change());
        let verb = self.sql.verb(&id, &by, state.word());
        verb.await.unwrap().unwrap();
        within(
            "the verb is in force",
            Duration::from_secs(20),
            async || {
                let board = self.rooms.board(&show()).await.ok()?;
                (board.state == state).then_some(())
            },
        )
        .await;
    }

    /// The operator changes these settings; waits until the room has them.
    pub(crate) async fn set(&mut self, changes: Value) {
        for (name, value) in changes.as_object().unwrap() {
            self.settings[name] = value.clone();
        }
        let settings = serde_json::from_value(self.settings.clone()).unwrap();
        let seen = self.sql.get(&show()).await.unwrap().unwrap();
        let (id, by) = (show(), change());
        let put = self.sql.put(&id, &by, &settings, Some(seen.version));
        put.await.unwrap();
        let what = "the settings are in force";
        within(what, Duration::from_secs(20), async || {
            let board = self.rooms.board(&show()).await.ok()?;
            (seen.version < board.version).then_some(())
        })
        .await;
    }

    /// The board, where the room answers.
    pub(crate) async fn board(&self) -> Option<Board> {
        self.rooms.board(&show()).await.ok()
    }

    /// Waits until SQL has the whole ledger and a checkpoint of now.
    pub(crate) async fn copied(&self) {
        let now = self.rooms.board(&show()).await.unwrap().now;
        within("SQL has everything", Duration::from_secs(20), async || {
            let board = self.board().await?;
            let seen = self.sql.get(&show()).await.unwrap().unwrap();
            (board.uncopied == 0 && now < seen.checkpoint_at).then_some(())
        })
        .await;
    }

    /// Where the databases are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.admitters.iter().for_each(JoinHandle::abort);
        self.gateway.iter().for_each(CancellationToken::cancel);
    }
}

fn url(way: &Signpost) -> String {
    format!("redis://{}/", way.address)
}

async fn rooms(way: &Signpost) -> Rooms {
    Rooms::new(Arc::new(connect(way).await))
}

/// A busy machine may need more than one attempt.
async fn connect(way: &Signpost) -> InRedis {
    let url = url(way);
    within(
        "the server is reached",
        Duration::from_secs(20),
        async || InRedis::connect(&url).await.ok(),
    )
    .await
}

fn change() -> Change {
    Change {
        who: "test".to_owned(),
        role: "admin".to_owned(),
        action: "set".to_owned(),
        detail: json!({}).to_string(),
        at: SystemClock.now(),
    }
}
