//! Our own shop behind the gateway, with a cable between them that a test can cut.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use catraca::app::database::{Database, Stores};
use catraca::base::ids::IdSource;
use catraca::base::secret::Secret;
use catraca::base::time::Clock;
use catraca::log::consume::Consuming;
use catraca::orders::payment::via_sandbox::ViaSandbox;
use catraca::orders::{Orders, Settings};
use catraca::relay::step::Relay;
use catraca::show::Change;
use catraca::show::settings::Settings as ShowSettings;
use catraca::stock::turns::Turns;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::e2e::gateway::door::{Answer, Door, Plan, show};
use crate::support::cut::Cut;
use crate::support::database;

/// How long holds last: beyond the ticket of whoever makes one.
pub(crate) const HOLD_MS: u64 = 400_000;

pub(crate) struct Till {
    pub(crate) door: Door,
    pub(crate) cut: Cut,
    pub(crate) orders: Orders,
    pub(crate) address: SocketAddr,
    db: Database,
    stores: Stores,
    serving: JoinHandle<std::io::Result<()>>,
    _folder: TempDir,
}

/// Somebody inside.
#[derive(Debug, Clone)]
pub(crate) struct Buyer {
    pub(crate) pass: String,
    pub(crate) ticket: String,
}

impl Till {
    /// A shop with ten numbered seats in B and ten places in GA, and a show of somebody else's.
    pub(crate) async fn open(db: Database, folder: TempDir) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = Cut::before(address).await;
        let mut plan = Plan {
            upstream: Some(cut.address().to_string()),
            ..Plan::default()
        };
        plan.settings.upstream_ms = 5_000;
        let door = Door::planned(plan).await;
        let clock: Arc<dyn Clock> = door.clock.clone();
        let stores = db.stores(&clock, &Arc::new(IdSource::random()));
        sell(&stores, show().as_str(), "B").await;
        sell(&stores, "another-show", "Z").await;
        let sandbox = Arc::new(ViaSandbox::new(Duration::from_secs(3_600)));
        let settings = Settings::with_secret(Secret::new("shared"));
        let orders = Orders::new(stores.orders.clone(), sandbox, clock, settings);
        let router = orders.router();
        Self {
            door,
            cut,
            orders,
            address,
            db,
            stores,
            serving: tokio::spawn(async move { axum::serve(listener, router).await }),
            _folder: folder,
        }
    }

    /// A fan whose turn it is.
    pub(crate) async fn buyer(&self) -> Buyer {
        self.door.clock.advance_ms(1_000); // a window of their own
        self.door.gateway.boards().step().await.unwrap();
        let (ana, ticket) = self.door.admitted().await;
        Buyer {
            pass: ana.pass,
            ticket,
        }
    }

    /// What a buyer asks below the show, `POST orders`, with more headers.
    pub(crate) async fn ask(
        &self,
        buyer: &Buyer,
        line: &str,
        more: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let (method, path) = line.split_once(' ').unwrap();
        let mut headers = vec![
            ("content-type", "application/json"),
            ("x-catraca-pass", buyer.pass.as_str()),
            ("x-admission-ticket", buyer.ticket.as_str()),
        ];
        headers.extend(more);
        let path = format!("/v1/shows/{}/{path}", show());
        self.door.ask(method, &path, &headers, body).await
    }

    /// The event log does its work: the room is told what the shop has decided.
    pub(crate) async fn tell_the_room(&self) {
        let (clock, stores): (Arc<dyn Clock>, _) = (self.door.clock.clone(), self.stores.clone());
        let settings = catraca::relay::step::Settings::default();
        let holder = "till".to_owned();
        let mut relay = Relay::new(stores.relay, None, clock.clone(), holder, settings);
        while relay.step().await.unwrap().sent != 0 {}
        relay.resign().await.unwrap();
        let turns = Turns::new(self.door.rooms.clone(), stores.inbox.clone(), clock.clone());
        let step = Consuming::new(turns, stores.log, stores.inbox, clock)
            .step()
            .await;
        assert_eq!(step.unwrap().failed, 0);
    }

    /// Time passes, and the gateway notices.
    pub(crate) async fn wait_ms(&self, ms: u64) {
        self.door.clock.advance_ms(ms);
        self.door.gateway.boards().step().await.unwrap();
    }

    /// The operator takes an order back, so that its seats are there for the next buyer.
    pub(crate) async fn give_back(&self, order: &serde_json::Value) {
        let order = order.as_str().unwrap().parse().unwrap();
        self.stores.orders.cancel(order).await.unwrap().unwrap();
    }

    /// How many rows a query counts.
    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        database::count(&self.db, sql).await
    }
}

impl Drop for Till {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Puts a show on sale.
async fn sell(stores: &Stores, show: &str, section: &str) {
    let text = format!(
        r#"{{"name":"Gala","rate":10,"hold_ms":{HOLD_MS},"sections":[
          {{"name":"{section}","seats":10,"numbered":true,"price":{{"amount":390.00,"currency":"BRL"}}}},
          {{"name":"GA","seats":10,"price":{{"amount":90.00,"currency":"BRL"}}}}]}}"#
    );
    let settings: ShowSettings = serde_json::from_str(&text).unwrap();
    let change = Change {
        who: "test".to_owned(),
        role: "admin".to_owned(),
        action: "create".to_owned(),
        detail: text,
        at: catraca::base::time::SystemClock.now(),
    };
    let id = show.parse().unwrap();
    let put = stores.shows.put(&id, &change, &settings, None);
    put.await.unwrap();
    let sections = &settings.sections;
    stores.orders.reconcile(&id, 1, sections).await.unwrap();
}
