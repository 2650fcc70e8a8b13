//! The way in: what every request meets before any route is looked for, in this order.
//!
//! This is one function and not a stack of layers. A layer boxes its future and clones all that lies
//! below it, for every request; nine of them cost more than everything else that a status poll does.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::base::ids::ShowId;
use crate::gateway::routes::METHODS;
use crate::gateway::{Gateway, GatewayState, entry, gate, limit};
use crate::http::layers;
use crate::limit::Asking;
use crate::limit::prefix::Prefixes;

/// Lets a request in, or answers it at the door.
pub(crate) async fn door(
    State(gateway): State<GatewayState>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = gateway.ids.request(gateway.clock.now());
    let signature = layers::name(id, &mut request); // first: all below can be found again
    let method = request.method().clone();
    let is_off = is_off(&gateway, &request);
    let site = gateway.origins.listed(request.headers()).cloned();
    let patience = gateway.patience(&mut request); // which a route may lengthen
    let answer = past(&gateway, request, next);
    let answer = layers::in_time(&patience, answer); // also what lets a drain end
    let mut response = layers::panic_to_500(answer).await; // a bug costs one request
    layers::log_failure(id, &method, &response); // sees the answers of all above
    response.headers_mut().insert(layers::REQUEST_ID, signature);
    if is_off {
        response.headers_mut().insert(gate::ROOM, gate::OFF); // nobody takes it for a room that is on
    }
    gateway.origins.tell(site, response.headers_mut()); // whatever it says
    response
}

/// Whether a request is about a show whose room is off, whatever becomes of it. Seldom is any room off, so
/// that it may take a while to find out.
fn is_off(gateway: &Gateway, request: &Request) -> bool {
    if !gateway.boards.is_any_off() {
        return false;
    }
    let show = named(request.uri().path()).or_else(|| routed(gateway, request));
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
fn routed(gateway: &Gateway, request: &Request) -> Option<ShowId> {
    let (uri, host) = (request.uri(), entry::reached(gateway, request).ok()?);
    let host = host.host_name();
    let find = |method| {
        let found = gateway.table.find(&host, method, uri.path(), uri.query());
        found.ok()?.show
    };
    let own = request.method().as_str();
    std::iter::once(own).chain(METHODS).find_map(find)
}

async fn past(gateway: &Gateway, request: Request, next: Next) -> Response {
    let Some(_permit) = layers::permit(&gateway.in_flight) else {
        return layers::shed(); // before doing any work
    };
    match let_in(gateway, request).await {
        Ok(request) => next.run(request).await,
        Err(refused) => refused,
    }
}

async fn let_in(gateway: &Gateway, request: Request) -> Result<Request, Response> {
    let mut request = layers::fitting(request, gateway.body_bytes_max) // nobody sends what nobody takes
        .await
        .map_err(IntoResponse::into_response)?;
    let entry = entry::strictly(gateway, &request) // one reading, or none
        .map_err(entry::refused)?;
    let proxies = &gateway.settings.trusted_proxies;
    let client = layers::client_addr(&request, proxies); // who is asking
    let asking = Asking::Anything(Prefixes::of(client.0).narrowest());
    limit::within(&*gateway.limits, asking) // and how often
        .await
        .map_err(IntoResponse::into_response)?;
    if let Some(told) = gateway.origins.preflight(&request) {
        return Err(told); // browsers that ask first
    }
    request.extensions_mut().insert(entry);
    request.extensions_mut().insert(client);
    Ok(request)
}
