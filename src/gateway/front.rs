//! The way in: what every request meets before any route is looked for, in this order.
//!
//! This is one function and not a stack of layers. A layer boxes its future and clones all that lies
//! below it, for every request; nine of them cost more than everything else that a status poll does.

use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use tower::ServiceExt;

use crate::base::ids::{RequestId, ShowId};
use crate::gateway::brief::{self, Brief};
use crate::gateway::entry::{Caller, Entry};
use crate::gateway::routes::METHODS;
use crate::gateway::{Gateway, GatewayState, entry, gate, limit, own_answer, through};
use crate::http::extract::{ClientAddr, client_addr};
use crate::http::layers;
use crate::http::service::{Arrival, Service};
use crate::limit::Asking;
use crate::limit::prefix::Prefixes;

/// How the paths of our own routes begin.
const OURS: [&str; 4] = ["/v1/shows/", "/.well-known/", "/openapi.json", "/w/"];

/// The gateway as a listener serves it.
#[derive(Debug, Clone)]
pub struct Door {
    pub(super) gateway: GatewayState,
    /// Where a request goes that was let in.
    pub(super) inside: Router,
}

impl Service for Door {
    /// Lets a request in, or answers it at the door.
    async fn answer(&self, request: Request, arrival: Arrival) -> Response {
        let gateway = &*self.gateway;
        let id = gateway.ids.request(gateway.clock.now());
        let signature = layers::signature(id); // first: all below can be found again
        let method = request.method().clone();
        let is_off = is_off(gateway, &request, &arrival);
        let site = gateway.origins.listed(request.headers()).cloned();
        let answer = pin!(self.past(request, &arrival, id)); // which stays where it is: it is large
        let answer = pin!(layers::in_time(&arrival.patience, answer)); // also what lets a drain end
        let mut response = layers::panic_to_500(answer).await; // a bug costs one request
        layers::log_failure(id, &method, &response); // sees the answers of all above
        response.headers_mut().insert(layers::REQUEST_ID, signature);
        if is_off {
            response.headers_mut().insert(gate::ROOM, gate::OFF); // nobody takes it for a room that is on
        }
        gateway.origins.tell(site, response.headers_mut()); // whatever it says
        response
    }

    fn is_brief(&self, method: &str, path: &str) -> bool {
        Brief::of(method, path).is_some()
    }
}

impl Door {
    async fn past(&self, mut request: Request, arrival: &Arrival, id: RequestId) -> Response {
        let gateway = &self.gateway;
        let Some(_permit) = layers::permit(&gateway.in_flight) else {
            return layers::shed(); // before doing any work
        };
        if let Some(bytes) = layers::longer_than(gateway.body_bytes_max, request.headers()) {
            let refused = Box::pin(layers::too_long(request, bytes)).await; // nobody sends what nobody takes
            return refused.into_response();
        }
        let (entry, client) = match let_in(gateway, &request, arrival) {
            Ok(entered) => entered,
            Err(refused) => return *refused,
        };
        if let Some(answered) = brief::answer(gateway, client, &mut request).await {
            return own_answer(answered);
        }
        let patience = arrival.patience.clone();
        request.extensions_mut().insert(Caller {
            id,
            entry,
            client,
            patience,
        });
        if !is_ours(request.uri().path()) {
            let through = through::through(State(Arc::clone(gateway)), request);
            return Box::pin(through).await.into_response();
        }
        request.extensions_mut().insert(client); // for handlers that ask for it
        let answered = Box::pin(self.inside.clone().oneshot(request)).await;
        answered.unwrap_or_else(|never| match never {})
    }
}

/// Whether a path may be one of our own. Of any other the router knows only that it leads through, and says
/// so by way of half a dozen boxes.
fn is_ours(path: &str) -> bool {
    OURS.iter().any(|begins| path.starts_with(begins))
}

/// Whether a request is about a show whose room is off, whatever becomes of it. Seldom is any room off, so
/// that it may take a while to find out.
fn is_off(gateway: &Gateway, request: &Request, arrival: &Arrival) -> bool {
    if !gateway.boards.is_any_off() {
        return false;
    }
    let show = named(request.uri().path()).or_else(|| routed(gateway, request, arrival));
    show.is_some_and(|show| gateway.boards.is_off(&show))
}

/// The show that a path of ours names.
fn named(path: &str) -> Option<ShowId> {
    let rest = path
        .strip_prefix("/v1/shows/")
        .or_else(|| path.strip_prefix("/w/"))?;
    rest.split('/').next()?.parse().ok()
}

/// The show of the route that a request takes, or would with another method.
fn routed(gateway: &Gateway, request: &Request, arrival: &Arrival) -> Option<ShowId> {
    let (uri, host) = (
        request.uri(),
        entry::reached(gateway, request, arrival).ok()?,
    );
    let host = host.host_name();
    let find = |method| {
        let found = gateway.table.find(&host, method, uri.path(), uri.query());
        found.ok()?.show
    };
    let own = request.method().as_str();
    std::iter::once(own).chain(METHODS).find_map(find)
}

fn let_in(
    gateway: &Gateway,
    request: &Request,
    arrival: &Arrival,
) -> Result<(Entry, ClientAddr), Box<Response>> {
    let entry = entry::strictly(gateway, request, arrival) // one reading, or none
        .map_err(|problem| Box::new(entry::refused(problem)))?;
    let proxies = &gateway.settings.trusted_proxies;
    let client = client_addr(arrival.peer.ip(), request.headers(), proxies); // who is asking
    let asking = Asking::Anything(Prefixes::of(client.0).narrowest());
    limit::within(&*gateway.limits, asking) // and how often
        .map_err(|problem| Box::new(problem.into_response()))?;
    if let Some(told) = gateway.origins.preflight(request) {
        return Err(Box::new(told)); // browsers that ask first
    }
    Ok((entry, client))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_that_we_tell_of_may_be_ours() {
        let document = include_str!("../../docs/openapi.json");
        let document: serde_json::Value = serde_json::from_str(document).unwrap();
        for path in document["paths"].as_object().unwrap().keys() {
            assert!(is_ours(path), "{path}");
        }
        for path in ["/", "/shop/seats", "/v1/other", "/w", "/openapi"] {
            assert!(!is_ours(path), "{path}");
        }
    }
}
