//! The door: gives fans a place in line, and lets those whose turn it is through to the shop.
//!
//! ```text
//! boards ──► memory ──► status, board, pages       (no room is asked)
//! join, claim, restore, leave ──► room             (batched)
//! any other path ──► routes ──► gate ──► forward ──► upstream
//!                                           └─ follow_up ──► room
//! ```
//!
//! Absent on purpose: SQL. A gateway needs rooms and keys only.

mod account;
pub mod boards;
mod brief;
mod care;
mod challenge;
mod cors;
pub mod credentials;
mod enter;
mod entry;
pub mod follow_up;
mod form;
mod forward;
mod front;
mod gate;
mod headers;
mod limit;
mod outgoing;
pub mod page;
mod pages;
mod pattern;
mod pool;
mod reach;
mod recent;
pub mod routes;
mod rules;
mod sending;
pub mod settings;
mod standing;
pub mod target;
mod terms;
mod through;
pub mod upstreams;
mod visit;
mod wire;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use tokio::sync::Semaphore;
use tower::util::MapResponseLayer;

use crate::base::ids::{FanId, Generation, IdSource, ShowId};
use crate::base::time::Clock;
use crate::gateway::boards::Boards;
use crate::gateway::care::{Care, Way};
use crate::gateway::cors::Origins;
use crate::gateway::credentials::{CookieStyle, Reader};
use crate::gateway::follow_up::FollowUps;
use crate::gateway::forward::Forwarder;
use crate::gateway::front::Door;
use crate::gateway::gate::Memory;
use crate::gateway::outgoing::Address;
use crate::gateway::page::Site;
use crate::gateway::reach::Reach;
use crate::gateway::recent::Recent;
use crate::gateway::routes::RouteTable;
use crate::gateway::settings::Settings;
use crate::gateway::terms::Terms;
use crate::gateway::upstreams::{Route, Upstream};
use crate::http::extract::is_trusted;
use crate::http::problem::Problem;
use crate::http::server::ServerSettings;
use crate::limit::{Joins, Limiter};
use crate::room::{Rooms, StoreError};
use crate::seller::Accounts;
use crate::token::keyring::KeyRing;

/// Fans of whom something is remembered that saves the room a question.
const FANS_REMEMBERED: usize = 100_000;

/// What a gateway is built from.
#[derive(Debug)]
pub struct Parts {
    /// The rooms.
    pub rooms: Rooms,
    /// What signs passes and tickets.
    pub keys: Arc<KeyRing>,
    /// How often somebody may ask.
    pub limits: Arc<dyn Limiter>,
    /// How often somebody may join.
    pub joins: Arc<dyn Joins>,
    /// The shop's accounts, where it has any here.
    pub accounts: Option<Accounts>,
    /// New fans and requests.
    pub ids: Arc<IdSource>,
    /// Wall time, for assertions and request ids only.
    pub clock: Arc<dyn Clock>,
    /// `[gateway]`.
    pub settings: Settings,
    /// `[upstreams.<name>]`.
    pub upstreams: BTreeMap<String, Upstream>,
    /// `[[routes]]`.
    pub routes: Vec<Route>,
}

/// One gateway: what its handlers share.
#[derive(Debug)]
pub struct Gateway {
    rooms: Rooms,
    boards: Arc<Boards>,
    follow_ups: Arc<FollowUps>,
    keys: Arc<KeyRing>,
    limits: Arc<dyn Limiter>,
    joins: Arc<dyn Joins>,
    accounts: Option<Accounts>,
    ids: Arc<IdSource>,
    clock: Arc<dyn Clock>,
    cookies: CookieStyle,
    origins: Origins,
    site: Site,
    table: RouteTable,
    /// By number in the table.
    ways: Vec<Way>,
    /// The longest body that any of them takes.
    body_bytes_max: u64,
    forwarders: BTreeMap<String, Forwarder>,
    memory: Memory,
    /// Requests that may be answered at a time.
    in_flight: Semaphore,
    /// Fans who left: their place lies ahead, but they are gone.
    left: Recent<FanId, ()>,
    /// Fans whom the room is known to have since its data was lost.
    restored: Recent<FanId, Generation>,
    settings: Settings,
}

/// What handlers are given.
pub type GatewayState = Arc<Gateway>;

/// Whether a gateway can have these upstreams and routes beside its settings, which `rules.rs` checks.
///
/// # Errors
/// A sentence that names the upstream or route that cannot be.
pub fn check(
    settings: &Settings,
    upstreams: &BTreeMap<String, Upstream>,
    routes: &[Route],
) -> Result<(), String> {
    planned(settings, upstreams, routes).map(drop)
}

fn planned(
    settings: &Settings,
    upstreams: &BTreeMap<String, Upstream>,
    routes: &[Route],
) -> Result<(RouteTable, Vec<Terms>), String> {
    for (name, upstream) in upstreams {
        rules::upstream(upstream).map_err(|rule| format!("upstreams.{name}.{rule}"))?;
    }
    let table = RouteTable::new(upstreams, routes)?;
    let terms = |route: &Route| {
        Terms::of(route, settings).map_err(|rule| format!("route {:?} {rule}", route.path))
    };
    let terms: Result<_, String> = routes.iter().map(terms).collect();
    Ok((table, terms?))
}

fn longest(terms: &[Terms], settings: &Settings) -> u64 {
    let routes = terms.iter().map(|terms| terms.body_bytes_max);
    routes.fold(settings.forward_body_bytes_max, u64::max)
}

impl Parts {
    fn forwarder(&self, name: &str, upstream: &Upstream) -> Result<Forwarder, String> {
        let own = || self.keys.upstream_secret(name);
        let address = Address {
            authority: upstream.authority()?,
            host: upstream.host,
            is_trusted: upstream.trusted,
            secret: upstream.secret.clone().unwrap_or_else(own),
            clock: Arc::clone(&self.clock),
            ids: Arc::clone(&self.ids),
        };
        let settings = &self.settings;
        let in_flight_max = upstream.in_flight_max;
        let in_flight_max = in_flight_max.unwrap_or(settings.upstream_in_flight_max);
        let care = Care::new(name, in_flight_max);
        let connect_max = Duration::from_millis(settings.connect_ms);
        let reach = Reach::new(upstream, connect_max)?;
        Ok(Forwarder::new(address, care, reach))
    }
}

impl Gateway {
    /// Puts a gateway together. It reads no board before [`Boards::run`] does.
    ///
    /// # Errors
    /// A sentence that names the upstream or route that cannot be.
    pub fn new(parts: Parts) -> Result<GatewayState, String> {
        let settings = &parts.settings;
        let (table, terms) = planned(settings, &parts.upstreams, &parts.routes)?;
        let mut forwarders = BTreeMap::new();
        for (name, upstream) in &parts.upstreams {
            forwarders.insert(name.clone(), parts.forwarder(name, upstream)?);
        }
        Ok(Arc::new(Self {
            boards: Arc::new(Boards::new(parts.rooms.clone())),
            follow_ups: Arc::new(FollowUps::new(parts.rooms.clone())),
            rooms: parts.rooms,
            keys: parts.keys,
            limits: parts.limits,
            joins: parts.joins,
            accounts: parts.accounts,
            ids: parts.ids,
            clock: parts.clock,
            cookies: CookieStyle::of(&parts.settings),
            origins: Origins::new(&parts.settings.cors_origins)?,
            site: Site::new(),
            table,
            body_bytes_max: longest(&terms, settings),
            ways: terms.into_iter().map(Way::new).collect(),
            forwarders,
            memory: Memory::new(),
            in_flight: Semaphore::new(parts.settings.in_flight_max),
            left: Recent::new(FANS_REMEMBERED),
            restored: Recent::new(FANS_REMEMBERED),
            settings: parts.settings,
        }))
    }

    /// The loop that reads boards.
    pub fn boards(&self) -> Arc<Boards> {
        Arc::clone(&self.boards)
    }

    /// The loop that repeats what upstreams said.
    pub fn follow_ups(&self) -> Arc<FollowUps> {
        Arc::clone(&self.follow_ups)
    }

    /// How its listener is to be served, but for TLS.
    pub fn server_settings(&self) -> ServerSettings {
        let (ms, settings) = (Duration::from_millis, &self.settings);
        ServerSettings {
            head_max: ms(settings.head_ms),
            answer_max: ms(settings.request_ms),
            body_silence_max: ms(settings.body_silence_ms),
            stall_max: ms(settings.stall_ms),
            idle_max: ms(settings.idle_ms),
            drain_max: ms(settings.drain_ms),
            connections_max: settings.connections_max,
            connections_per_client_max: settings.connections_per_client_max,
            trusted_proxies: settings.trusted_proxies.clone(),
            tls: None,
        }
    }

    fn reader<'a>(&'a self, show: &'a ShowId) -> Reader<'a> {
        Reader {
            show,
            keys: &self.keys,
            style: self.cookies,
        }
    }

    fn trusts(&self, peer: IpAddr) -> bool {
        is_trusted(peer, &self.settings.trusted_proxies)
    }
}

/// Every route of the gateway. What is not ours is an upstream's, or nobody's.
pub fn router(gateway: GatewayState) -> Door {
    let inside = Router::new()
        .route("/v1/shows/{show}/join", post(visit::join))
        .route("/v1/shows/{show}/status", get(visit::status))
        .route("/v1/shows/{show}/place", delete(visit::leave))
        .route("/v1/shows/{show}/receipt", get(visit::receipt))
        .route("/v1/shows/{show}/board", get(boards::board))
        .route("/v1/shows/{show}/ticket", get(gate::ticket))
        .route("/.well-known/jwks.json", get(jwks))
        .route("/openapi.json", get(openapi))
        .route("/w/{show}", get(pages::waiting))
        .route("/w/{show}/place", get(pages::place))
        .route("/w/{show}/join", post(pages::join))
        .route("/w/{show}/leave", post(pages::leave))
        .route("/w/assets/{name}", get(pages::asset))
        .method_not_allowed_fallback(async || Problem::no_such_method())
        .layer(MapResponseLayer::new(own_answer))
        .fallback(through::through)
        .with_state(Arc::clone(&gateway));
    Door { gateway, inside }
}

/// Our own answers are for one fan and for now, unless they say otherwise.
fn own_answer(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// `GET /.well-known/jwks.json`: the keys that verify tickets and receipts.
async fn jwks(State(gateway): State<GatewayState>) -> Response {
    let headers = [(CACHE_CONTROL, "public, max-age=300")];
    (headers, axum::Json(gateway.keys.jwks())).into_response()
}

/// `GET /openapi.json`: the document of all this, as `catraca openapi` wrote it.
async fn openapi() -> Response {
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "public, max-age=300"),
    ];
    (headers, include_str!("../../docs/openapi.json")).into_response()
}

/// 503: the room cannot be asked, and why.
pub(crate) fn room_unavailable(reason: &'static str) -> Problem {
    Problem::unavailable("room-unavailable").with("reason", reason)
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Overloaded => Self::unavailable("busy"),
            StoreError::Unfenced | StoreError::Unavailable(_) => room_unavailable(error.word()),
            StoreError::Corrupt(_) => Self::internal("room-corrupt"),
        }
        .caused_by(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_that_cannot_be_asked_is_a_503_unless_it_is_broken() {
        let cause = || anyhow::anyhow!("x");
        for (error, status, word, retry_after_s) in [
            (StoreError::Unfenced, 503, "room-unavailable", Some(1)),
            (StoreError::Overloaded, 503, "busy", Some(1)),
            (
                StoreError::Unavailable(cause().into()),
                503,
                "room-unavailable",
                Some(1),
            ),
            (StoreError::Corrupt(cause()), 500, "room-corrupt", None),
        ] {
            let problem = Problem::from(error);
            assert_eq!((problem.status().as_u16(), problem.word()), (status, word));
            assert_eq!(problem.retry_after_s(), retry_after_s);
        }
    }
}
