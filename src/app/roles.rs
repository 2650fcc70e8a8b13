//! Every door and every loop, in one list; those of consumer groups are in `groups.rs`. `all` starts them in one
//! process; `alone.rs` a role of them.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::admin::access::{Access, Operator, Role};
use crate::admin::dead_letters;
use crate::admin::health::Health;
use crate::admin::{self, Admin};
use crate::admitter::Admitter;
use crate::analytics;
use crate::app::backends::{Backends, holder};
use crate::app::data_dir::DataDir;
use crate::app::door::{self, ORDERS};
use crate::app::{self, App, Listeners, StartError};
use crate::base::ids::parse_hex;
use crate::base::secret::Secret;
use crate::config::{Config, Writer};
use crate::driver::https::connector;
use crate::gateway;
use crate::http::server::{ServerSettings, serve};
use crate::journey::{self, Journeys};
use crate::limit::in_memory::InMemory as Limits;
use crate::orders::reconcile::Reconcile;
use crate::orders::{self, Orders};
use crate::relay;
use crate::relay::step::{Relay, Settings as RelaySettings};
use crate::room::Rooms;
use crate::search;
use crate::supervisor::Supervisor;
use crate::tally::step::Tallier;
use crate::telemetry::Exposition;
use crate::telemetry::otlp::{self, Exporter};

/// The file of the generated admin token.
pub const ADMIN_TOKEN: &str = "admin-token";
/// How long the loops may take to end once the doors are shut.
const GRACE: Duration = Duration::from_secs(10);
/// How often histograms are folded.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// What the roles are made of.
pub(super) struct Roles<'a> {
    config: &'a Config,
    pub(super) backends: &'a Backends,
    pub(super) rooms: Rooms,
    /// Wakes whoever carries out what an operator decided.
    changed: Arc<Notify>,
}

/// How long the tasks of a process may take to end when it is asked to.
pub(super) fn grace(config: &Config) -> Duration {
    Duration::from_millis(config.gateway.drain_ms) + GRACE
}

/// Starts every role over these backends.
pub(super) fn all(
    config: &Config,
    data_dir: DataDir,
    backends: Backends,
    listeners: Listeners,
) -> Result<App, StartError> {
    let addresses = listeners.addresses()?;
    let mut supervisor = Supervisor::new(grace(config));
    let roles = Roles::new(config, &backends);

    let limits = Arc::new(Limits::new(&config.gateway.limits));
    let (front, rooms) = (backends.front(), roles.rooms.clone());
    let gateway = door::gateway(config, front, rooms, (&limits, addresses.orders))?;
    let orders = roles.orders();
    let token = roles.admin_token(&data_dir)?;
    let admin = roles.admin(token.as_ref(), &supervisor, &orders)?;

    // Doors: they stop first and drain.
    let served = door::served(config, &mut supervisor, &gateway)?;
    let own = own_door(config);
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
        orders.clone().serve(listeners.orders, own, shop_stop),
    );

    door::behind(&mut supervisor, &gateway, limits);
    roles.loops(&mut supervisor, &orders);
    upkeep(&mut supervisor, backends.exposition.clone());
    trace(&mut supervisor, "catraca");
    let changed = roles.changed;
    Ok(App {
        addresses,
        gateway_url: door::url(config, addresses.gateway),
        shows: backends.shows,
        boards: gateway.boards(),
        changed,
        admin_token: token,
        supervisor,
        database: backends.database,
        data_dir,
    })
}

/// Keeps the histograms of the process small.
pub(super) fn upkeep(supervisor: &mut Supervisor, exposition: Exposition) {
    let stop = supervisor.loop_stop();
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

/// Sends spans to a collector, where the environment names one.
pub(super) fn trace(supervisor: &mut Supervisor, service: &str) {
    let settings = otlp::Settings::of(app::otel, service);
    let exporter = settings.and_then(|settings| match settings {
        Some(settings) => Exporter::start(settings, connector(None)?),
        None => Ok(None),
    });
    match exporter {
        Ok(None) => {}
        Ok(Some(exporter)) => {
            let stop = supervisor.loop_stop();
            supervisor.background("traces", exporter.run(stop));
        }
        // A sale does not wait for those who watch it.
        Err(error) => tracing::error!("no spans are sent: {error:#}"),
    }
}

/// How our own listeners beside the gateway are served.
pub(super) fn own_door(config: &Config) -> ServerSettings {
    ServerSettings {
        drain_max: Duration::from_millis(config.gateway.drain_ms),
        ..ServerSettings::default()
    }
}

impl<'a> Roles<'a> {
    /// Roles over these backends.
    pub(super) fn new(config: &'a Config, backends: &'a Backends) -> Self {
        Self {
            config,
            backends,
            rooms: Rooms::new(Arc::clone(&backends.rooms)),
            changed: Arc::default(),
        }
    }

    /// The loops, in the order in which a sale meets them. They stop last.
    fn loops(&self, supervisor: &mut Supervisor, orders: &Orders) {
        let nudge = || Arc::new(Notify::new());
        let (to_notify, to_rooms, to_stock) = (nudge(), nudge(), nudge());
        let (to_search, to_analytics, to_thin) = (nudge(), nudge(), nudge());
        let shop = [&to_notify, &to_rooms, &to_stock];
        let views = [&to_search, &to_analytics, &to_thin];
        let readers = shop.into_iter().chain(views).map(Arc::clone).collect();
        self.admit(supervisor, orders.written());
        self.sell(supervisor, orders);
        if self.config.log.writer == Writer::Relay {
            self.relay(supervisor, orders.written(), readers);
        }
        self.notify(supervisor, to_notify);
        self.count(supervisor, [to_rooms, to_stock], orders.written());
        self.list(supervisor, to_search);
        self.analyse(supervisor, to_analytics);
        self.thin(supervisor, to_thin);
    }

    /// The loop that lets fans in, and the one that tells how many came; it wakes the relay.
    pub(super) fn admit(&self, supervisor: &mut Supervisor, written: Arc<Notify>) {
        let admitter = Admitter::new(
            self.rooms.clone(),
            Arc::clone(&self.backends.shows),
            Arc::clone(&self.backends.clock),
            holder(&self.backends.ids, "admitter"),
            Arc::clone(&self.changed),
        )
        .beside_another_for(self.rooms.split_brain_ms());
        let stop = supervisor.loop_stop();
        supervisor.background("admitter", admitter.run(stop.clone()));
        let tallier = Tallier {
            shows: Arc::clone(&self.backends.shows),
            joins: Arc::clone(&self.backends.joins),
            store: Arc::clone(&self.backends.tally),
            clock: Arc::clone(&self.backends.clock),
            ids: Arc::clone(&self.backends.ids),
        };
        supervisor.background("tally", tallier.run(written, stop));
    }

    /// The loops behind the shop's back end.
    pub(super) fn sell(&self, supervisor: &mut Supervisor, orders: &Orders) {
        let (backends, stop) = (self.backends, supervisor.loop_stop());
        let reconcile = Reconcile::new(Arc::clone(&backends.orders), Arc::clone(&backends.shows));
        supervisor.background("reconcile", reconcile.run(stop.clone()));
        let cancel = orders.cancel(Arc::clone(&backends.shows));
        supervisor.background("cancel", cancel.run(stop.clone()));
        supervisor.background("settle", orders.settle().run(stop.clone()));
        supervisor.background("expire", orders.expire().run(stop));
    }

    /// From the outbox into the log; woken by `written`, it wakes the readers.
    pub(super) fn relay(
        &self,
        supervisor: &mut Supervisor,
        written: Arc<Notify>,
        readers: Vec<Arc<Notify>>,
    ) {
        let relay = Relay::new(
            Arc::clone(&self.backends.relay),
            self.backends.sink.clone(),
            Arc::clone(&self.backends.clock),
            holder(&self.backends.ids, "relay"),
            RelaySettings::default(),
        );
        let stop = supervisor.loop_stop();
        supervisor.background("relay", relay.run(written, readers, stop));
    }

    /// What groups have built from the log, for operators.
    fn views(&self) -> Router {
        let listings = search::api::router(Arc::clone(&self.backends.search));
        listings.merge(analytics::api::router(Arc::clone(&self.backends.analytics)))
    }

    /// The shop's back end, which believes the gateway by the secret that both have.
    pub(super) fn orders(&self) -> Orders {
        let own = self
            .config
            .upstreams
            .get(ORDERS)
            .and_then(|upstream| upstream.secret.clone());
        let secret = own.unwrap_or_else(|| self.backends.keys.upstream_secret(ORDERS));
        Orders::new(
            Arc::clone(&self.backends.orders),
            Arc::clone(&self.backends.payments),
            Arc::clone(&self.backends.wall),
            orders::Settings::with_secret(secret),
        )
    }

    /// A generated token, where the configuration names none.
    pub(super) fn admin_token(&self, data_dir: &DataDir) -> Result<Option<Secret>, StartError> {
        if !self.config.admin.tokens.is_empty() {
            return Ok(None);
        }
        data_dir.secret(ADMIN_TOKEN).map(Some)
    }

    /// The operators' listener: shows, and what they may ask of other services.
    pub(super) fn admin(
        &self,
        generated: Option<&Secret>,
        supervisor: &Supervisor,
        orders: &Orders,
    ) -> Result<Router, StartError> {
        let mut access = Access::default();
        for token in &self.config.admin.tokens {
            let (role, hash) = (
                Role::of_word(&token.role),
                parse_hex(&token.sha256.to_lowercase()),
            );
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
                rooms: self.rooms.clone(),
                shows: Some(Arc::clone(&self.backends.shows)),
                log: Some(Arc::clone(&self.backends.log)),
            }),
        };
        let (facts, clock) = (&self.backends.journeys, &self.backends.clock);
        let journeys = Journeys::new(Arc::clone(facts), Arc::clone(clock));
        let journeys = journey::api::router(journeys);
        let letters = dead_letters::router(self.dead_letters());
        let orders = orders.operators_router(Arc::clone(&self.backends.shows));
        let quarantine = relay::api::router(Arc::clone(&self.backends.quarantine));
        let letters = letters.merge(quarantine);
        let more = journeys.merge(letters).merge(orders).merge(self.views());
        Ok(admin::router(admin, more))
    }
}
