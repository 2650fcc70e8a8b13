//! Every door and every loop of the process, in one list.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::admin::access::{Access, Operator, Role};
use crate::admin::health::Health;
use crate::admin::{self, Admin};
use crate::admitter::Admitter;
use crate::app::backends::{Backends, holder};
use crate::app::data_dir::DataDir;
use crate::app::{Addresses, App, Listeners, StartError};
use crate::base::secret::Secret;
use crate::config::Config;
use crate::gateway::upstreams::{Route, Upstream, orders_routes};
use crate::gateway::{self, Gateway, GatewayState, Parts};
use crate::http::server::{ServerSettings, serve};
use crate::journey::{self, Journeys};
use crate::limit::Limiter;
use crate::limit::in_memory::InMemory as Limits;
use crate::log::consume::Consuming;
use crate::notify;
use crate::notify::step::Notifier;
use crate::orders::reconcile::Reconcile;
use crate::orders::{self, Orders};
use crate::relay::step::{Relay, Settings as RelaySettings};
use crate::room::Rooms;
use crate::stock;
use crate::stock::step::Counter;
use crate::stock::used::Used;
use crate::supervisor::Supervisor;

/// The file of the generated admin token.
pub const ADMIN_TOKEN: &str = "admin-token";
/// The upstream that is our own.
const ORDERS: &str = "orders";
/// How long the loops may take to end once the doors are shut.
const GRACE: Duration = Duration::from_secs(10);
/// How often histograms are folded.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// What the roles are made of.
struct Roles<'a> {
    config: &'a Config,
    backends: &'a Backends,
    rooms: Rooms,
    /// Wakes whoever carries out what an operator decided.
    changed: Arc<Notify>,
}

/// Starts every role over these backends.
pub(super) fn all(
    config: &Config,
    data_dir: DataDir,
    backends: Backends,
    listeners: Listeners,
) -> Result<App, StartError> {
    let addresses = listeners.addresses()?;
    let drain = Duration::from_millis(config.gateway.drain_ms);
    let mut supervisor = Supervisor::new(drain + GRACE);
    let rooms = Rooms::new(Arc::clone(&backends.rooms));
    let roles = Roles {
        config,
        backends: &backends,
        rooms,
        changed: Arc::default(),
    };

    let limits = Arc::new(Limits::new(&config.gateway.limits));
    let gateway = roles.gateway(addresses, Arc::clone(&limits) as _)?;
    let orders = roles.orders();
    let token = roles.admin_token(&data_dir)?;
    let admin = roles.admin(token.as_ref(), &supervisor, &orders)?;

    // Doors: they stop first and drain.
    let served = gateway.server_settings();
    let own = ServerSettings {
        drain_max: drain,
        ..ServerSettings::default()
    };
    let stop = supervisor.door_stop();
    let public = gateway::router(Arc::clone(&gateway));
    // The shop stays open until the gateway has answered its last request, which may need the shop.
    let shop_stop = CancellationToken::new();
    let (public_stop, last) = (stop.clone(), shop_stop.clone().drop_guard());
    supervisor.door("gateway", async move {
        let _last = last;
        serve(listeners.gateway, public, served, public_stop).await
    });
    supervisor.door("admin", serve(listeners.admin, admin, own.clone(), stop));
    supervisor.door(
        "orders",
        serve(listeners.orders, orders.router(), own, shop_stop),
    );

    let stop = supervisor.loop_stop();
    supervisor.background("limits", async move { limits.run(stop).await });
    roles.loops(&mut supervisor, &gateway, &orders);
    let changed = roles.changed;
    Ok(App {
        addresses,
        shows: backends.shows,
        boards: gateway.boards(),
        changed,
        admin_token: token,
        supervisor,
        database: backends.database,
        data_dir,
    })
}

impl Roles<'_> {
    /// The loops, in the order in which a sale meets them. They stop last.
    fn loops(&self, supervisor: &mut Supervisor, gateway: &GatewayState, orders: &Orders) {
        let stop = supervisor.loop_stop();
        let backends = self.backends;
        let clock = || Arc::clone(&backends.clock);

        let (boards, token) = (gateway.boards(), stop.clone());
        supervisor.background("boards", async move { boards.run(token).await });
        let (follow_ups, token) = (gateway.follow_ups(), stop.clone());
        supervisor.background("follow-ups", async move { follow_ups.run(token).await });

        let admitter = Admitter::new(
            self.rooms.clone(),
            Arc::clone(&backends.shows),
            clock(),
            holder(&backends.ids, "admitter"),
            Arc::clone(&self.changed),
        )
        .beside_another_for(self.rooms.split_brain_ms());
        supervisor.background("admitter", admitter.run(stop.clone()));

        let reconcile = Reconcile::new(Arc::clone(&backends.orders), Arc::clone(&backends.shows));
        supervisor.background("reconcile", reconcile.run(stop.clone()));
        let cancel = orders.cancel(Arc::clone(&backends.shows));
        supervisor.background("cancel", cancel.run(stop.clone()));
        supervisor.background("settle", orders.settle().run(stop.clone()));
        supervisor.background("expire", orders.expire().run(stop.clone()));

        self.after_orders(supervisor, orders);

        let exposition = backends.exposition.clone();
        supervisor.background("metrics", async move {
            while stop
                .run_until_cancelled(tokio::time::sleep(UPKEEP_EVERY))
                .await
                .is_some()
            {
                exposition.upkeep();
            }
            Ok(())
        });
    }

    /// The loops behind the outbox: relay, then one consumer for each concern.
    fn after_orders(&self, supervisor: &mut Supervisor, orders: &Orders) {
        let stop = supervisor.loop_stop();
        let backends = self.backends;
        let nudge = || Arc::new(Notify::new());
        let (to_notify, to_rooms, to_stock) = (nudge(), nudge(), nudge());
        let relay = Relay::new(
            Arc::clone(&backends.relay),
            Arc::clone(&backends.clock),
            holder(&backends.ids, "relay"),
            RelaySettings::default(),
        );
        let readers = [&to_notify, &to_rooms, &to_stock].map(Arc::clone).to_vec();
        supervisor.background("relay", relay.run(orders.written(), readers, stop.clone()));

        let notifying = Consuming::new(
            self.notifier(),
            Arc::clone(&backends.log),
            Arc::clone(&backends.inbox),
            Arc::clone(&backends.clock),
        );
        supervisor.background("notify", notifying.run(to_notify, stop.clone()));

        let using = Consuming::new(
            Used::new(self.rooms.clone(), Arc::clone(&backends.inbox)),
            Arc::clone(&backends.log),
            Arc::clone(&backends.inbox),
            Arc::clone(&backends.clock),
        );
        supervisor.background("admissions", using.run(to_rooms, stop.clone()));

        let counter = Counter::new(stock::step::Parts {
            store: Arc::clone(&backends.stock),
            log: Arc::clone(&backends.log),
            inbox: Arc::clone(&backends.inbox),
            rooms: self.rooms.clone(),
            clock: Arc::clone(&backends.clock),
            ids: Arc::clone(&backends.ids),
        });
        supervisor.background("stock", counter.run(to_stock, orders.written(), stop));
    }

    fn notifier(&self) -> Notifier {
        Notifier::new(
            Arc::clone(&self.backends.inbox),
            Arc::clone(&self.backends.sent),
            Arc::clone(&self.backends.sender),
        )
    }

    /// The gateway and what it lets through.
    fn gateway(
        &self,
        addresses: Addresses,
        limits: Arc<dyn Limiter>,
    ) -> Result<GatewayState, StartError> {
        let (upstreams, routes) = upstreams(self.config, addresses.orders)?;
        Gateway::new(Parts {
            rooms: self.rooms.clone(),
            keys: Arc::clone(&self.backends.keys),
            limits,
            ids: Arc::clone(&self.backends.ids),
            clock: Arc::clone(&self.backends.clock),
            settings: self.config.gateway.clone(),
            upstreams,
            routes,
        })
        .map_err(StartError::config)
    }

    /// The shop's back end, which believes the gateway by the secret that both have.
    fn orders(&self) -> Orders {
        let own = self
            .config
            .upstreams
            .get(ORDERS)
            .and_then(|upstream| upstream.secret.clone());
        let secret = own.unwrap_or_else(|| self.backends.keys.upstream_secret(ORDERS));
        Orders::new(
            Arc::clone(&self.backends.orders),
            Arc::clone(&self.backends.payments),
            Arc::clone(&self.backends.clock),
            orders::Settings::with_secret(secret),
        )
    }

    /// A generated token, where the configuration names none.
    fn admin_token(&self, data_dir: &DataDir) -> Result<Option<Secret>, StartError> {
        if !self.config.admin.tokens.is_empty() {
            return Ok(None);
        }
        data_dir.secret(ADMIN_TOKEN).map(Some)
    }

    /// The operators' listener: shows, and what they may ask of other services.
    fn admin(
        &self,
        generated: Option<&Secret>,
        supervisor: &Supervisor,
        orders: &Orders,
    ) -> Result<Router, StartError> {
        let mut access = Access::default();
        for token in &self.config.admin.tokens {
            let (role, hash) = (Role::of_word(&token.role), hash_of(&token.sha256));
            let (Some(role), Some(hash)) = (role, hash) else {
                let name = &token.name;
                return Err(StartError::config(format!(
                    "admin.tokens: {name} cannot be used"
                )));
            };
            access.allow(
                hash,
                Operator {
                    name: token.name.clone(),
                    role,
                },
            );
        }
        if let Some(token) = generated {
            let operator = Operator {
                name: ADMIN_TOKEN.to_owned(),
                role: Role::Admin,
            };
            access.allow(Access::hash(token.expose()), operator);
        }
        let admin = Admin {
            access: Arc::new(access),
            shows: Arc::clone(&self.backends.shows),
            rooms: self.rooms.clone(),
            clock: Arc::clone(&self.backends.clock),
            changed: Arc::clone(&self.changed),
            health: Arc::new(Health {
                phase: supervisor.phase(),
                exposition: self.backends.exposition.clone(),
            }),
        };
        let journeys = journey::api::router(Journeys::new(Arc::clone(&self.backends.journeys)));
        let letters = notify::api::router(Arc::clone(&self.backends.inbox), self.notifier());
        let orders = orders.operators_router(Arc::clone(&self.backends.shows));
        Ok(admin::router(admin, journeys.merge(letters).merge(orders)))
    }
}

/// The services behind the gateway and the ways there; `orders` is where our own listens.
pub(super) fn upstreams(
    config: &Config,
    orders: SocketAddr,
) -> Result<(BTreeMap<String, Upstream>, Vec<Route>), StartError> {
    let mut upstreams = BTreeMap::new();
    for (name, entry) in &config.upstreams {
        let own = format!("http://{orders}");
        let url = match &entry.url {
            Some(url) => url.clone(),
            None => own
                .parse()
                .map_err(|_| StartError::config(format!("{own} is no URL")))?,
        };
        let upstream = Upstream {
            url,
            gate: entry.gate,
            show: entry.show.clone(),
            secret: entry.secret.clone(),
            trusted: entry.trusted,
        };
        upstreams.insert(name.clone(), upstream);
    }
    let routes = if config.routes.is_empty() {
        orders_routes(ORDERS)
    } else {
        config.routes.clone()
    };
    Ok((upstreams, routes))
}

/// A SHA-256 in hexadecimal.
fn hash_of(hex: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    for (byte, i) in hash.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(hex.get(i..i + 2)?, 16).ok()?;
    }
    (hex.len() == 64).then_some(hash)
}
