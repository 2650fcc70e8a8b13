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

pub mod boards;
mod challenge;
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
pub mod page;
mod pages;
mod pattern;
mod recent;
pub mod routes;
pub mod settings;
mod standing;
pub mod target;
pub mod upstreams;
mod visit;
mod wire;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use http::header::{ACCEPT, CACHE_CONTROL, LOCATION, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::sync::Semaphore;
use tower::util::MapResponseLayer;

use crate::base::ids::{FanId, Generation, IdSource, ShowId};
use crate::base::time::Clock;
use crate::gateway::boards::Boards;
use crate::gateway::credentials::{CookieStyle, Reader};
use crate::gateway::entry::Entry;
use crate::gateway::follow_up::FollowUps;
use crate::gateway::forward::{Errand, Forwarder, Said};
use crate::gateway::gate::{Entrant, Memory, Passage};
use crate::gateway::page::Site;
use crate::gateway::recent::Recent;
use crate::gateway::routes::{Access, Matched, NoRoute, RouteTable};
use crate::gateway::settings::Settings;
use crate::gateway::upstreams::{Route, Upstream};
use crate::http::problem::Problem;
use crate::http::server::ServerSettings;
use crate::limit::{Joins, Limiter};
use crate::room::{Rooms, StoreError};
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
    ids: Arc<IdSource>,
    clock: Arc<dyn Clock>,
    cookies: CookieStyle,
    site: Site,
    table: RouteTable,
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

/// Whether a gateway can have these upstreams and routes.
///
/// # Errors
/// A sentence that names the upstream or route that cannot be.
pub fn check(upstreams: &BTreeMap<String, Upstream>, routes: &[Route]) -> Result<(), String> {
    for (name, upstream) in upstreams {
        upstream
            .authority()
            .map_err(|rule| format!("upstreams.{name}.{rule}"))?;
    }
    RouteTable::new(upstreams, routes).map(drop)
}

impl Gateway {
    /// Puts a gateway together. It reads no board before [`Boards::run`] does.
    ///
    /// # Errors
    /// A sentence that names the limit, upstream or route that cannot be.
    pub fn new(parts: Parts) -> Result<GatewayState, String> {
        parts.settings.limits.check()?;
        parts.settings.challenge.check()?;
        let table = RouteTable::new(&parts.upstreams, &parts.routes)?;
        let mut forwarders = BTreeMap::new();
        for (name, upstream) in &parts.upstreams {
            let secret = parts.keys.upstream_secret(name);
            let clock = Arc::clone(&parts.clock);
            let forwarder = Forwarder::new(upstream, secret, &parts.settings, clock)
                .map_err(|rule| format!("upstreams.{name}.{rule}"))?;
            forwarders.insert(name.clone(), forwarder);
        }
        Ok(Arc::new(Self {
            boards: Arc::new(Boards::new(parts.rooms.clone())),
            follow_ups: Arc::new(FollowUps::new(parts.rooms.clone())),
            rooms: parts.rooms,
            keys: parts.keys,
            limits: parts.limits,
            joins: parts.joins,
            ids: parts.ids,
            clock: parts.clock,
            cookies: CookieStyle::of(&parts.settings),
            site: Site::new(),
            table,
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
        let peer = peer.to_canonical();
        let trusted = &self.settings.trusted_proxies;
        trusted.iter().any(|net| net.contains(&peer))
    }
}

/// Every route of the gateway. What is not ours is an upstream's, or nobody's.
pub fn router(gateway: GatewayState) -> Router {
    Router::new()
        .route("/v1/shows/{show}/join", post(visit::join))
        .route("/v1/shows/{show}/status", get(visit::status))
        .route("/v1/shows/{show}/place", delete(visit::leave))
        .route("/v1/shows/{show}/receipt", get(visit::receipt))
        .route("/v1/shows/{show}/board", get(boards::board))
        .route("/v1/shows/{show}/ticket", get(gate::ticket))
        .route("/.well-known/jwks.json", get(jwks))
        .route("/w/{show}", get(pages::waiting))
        .route("/w/{show}/place", get(pages::place))
        .route("/w/{show}/join", post(pages::join))
        .route("/w/{show}/leave", post(pages::leave))
        .route("/w/assets/{name}", get(pages::asset))
        .method_not_allowed_fallback(async || entry::no_such_method())
        .layer(MapResponseLayer::new(own_answer))
        .fallback(forwarding)
        .layer(from_fn_with_state(Arc::clone(&gateway), front::door))
        .with_state(gateway)
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

/// Any path that is not ours: an upstream's, past its gate, or nobody's.
async fn forwarding(
    State(gateway): State<GatewayState>,
    Extension(entry): Extension<Entry>,
    request: Request,
) -> Result<Response, Problem> {
    let (uri, host) = (request.uri(), entry.host_name());
    let matched = gateway
        .table
        .find(&host, request.method().as_str(), uri.path(), uri.query())
        .map_err(leads_nowhere)?;
    let show = matched.show.as_ref();
    let passed = gate::pass(&gateway, matched.access, show, request.headers()).await;
    let (entrant, is_off) = match passed {
        Ok(Passage::Entrant(entrant)) => (Some(entrant), false),
        Ok(Passage::Off(entrant)) => (entrant, true),
        Ok(Passage::Open) => (None, false),
        Err(problem) => return to_the_room(&matched, &request, problem),
    };
    let forwarder = &gateway.forwarders[matched.upstream];
    let errand = Errand {
        target: &matched.target,
        show,
        entrant: entrant.as_ref(),
    };
    let mut response = forwarder.forward(request, &errand).await?;
    let said = response.extensions_mut().remove::<Said>();
    if let (Some(said), Some(show), true) = (said, show, forwarder.is_trusted()) {
        listen(&gateway, show, entrant.as_ref(), &said).await;
    }
    if is_off {
        let off = HeaderValue::from_static("off");
        response.headers_mut().insert(gate::ROOM, off);
    }
    Ok(response)
}

fn leads_nowhere(none: NoRoute) -> Problem {
    match none {
        NoRoute::BadPath => entry::bad_path(),
        NoRoute::NotFound => Problem::not_found("not-found", "There is nothing here."),
        NoRoute::Method => entry::no_such_method(),
    }
}

/// Does what a trusted upstream said in its answer.
async fn listen(gateway: &Gateway, show: &ShowId, entrant: Option<&Entrant>, said: &Said) {
    if let (Some(admission), Some(entrant)) = (&said.admission, entrant) {
        follow_up::admission(gateway, show, entrant.fan, admission).await;
    }
    if let Some(stock) = &said.stock {
        follow_up::stock(gateway, show, stock).await;
    }
}

/// Who looks with a browser at a shop with a waiting room, and has no ticket, is led to the room.
fn to_the_room(
    matched: &Matched<'_>,
    request: &Request,
    problem: Problem,
) -> Result<Response, Problem> {
    let has_no_ticket = problem.status() == StatusCode::UNAUTHORIZED;
    let looks = matches!(*request.method(), Method::GET | Method::HEAD);
    let leads = matched.access == Access::Room && has_no_ticket && looks;
    match &matched.show {
        Some(show) if leads && wants_html(request.headers()) => {
            let headers = [
                (LOCATION, format!("/w/{show}")),
                (CACHE_CONTROL, "no-store".to_owned()),
            ];
            Ok((StatusCode::SEE_OTHER, headers).into_response())
        }
        Some(_) | None => Err(problem),
    }
}

fn wants_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("text/html"))
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Overloaded => Self::unavailable("busy"),
            StoreError::Unfenced => Self::unavailable("room-unavailable").with("reason", "mending"),
            StoreError::Unavailable(away) => {
                Self::unavailable("room-unavailable").with("reason", away.outage.word())
            }
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
