//! Any path that is not ours: an upstream's, past its gate, or nobody's.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, CACHE_CONTROL, LOCATION};
use http::{HeaderMap, Method, StatusCode};

use crate::base::ids::ShowId;
use crate::gateway::entry::{self, Caller};
use crate::gateway::forward::Said;
use crate::gateway::gate::{self, Entrant, Passage};
use crate::gateway::outgoing::Errand;
use crate::gateway::routes::{Access, Matched, NoRoute};
use crate::gateway::{Gateway, GatewayState, follow_up};
use crate::http::problem::Problem;

/// Forwards what has passed the gate of its upstream. Where it passed because the room is off, the answer
/// says so, even if the room is on again by then.
pub(crate) async fn through(
    State(gateway): State<GatewayState>,
    request: Request,
) -> Result<Response, Problem> {
    let caller = request.extensions().get::<Caller>();
    let caller = caller.expect("whoever comes here has passed the door");
    let host = caller.entry.host_name();
    let uri = request.uri();
    let matched = gateway
        .table
        .find(&host, request.method().as_str(), uri.path(), uri.query())
        .map_err(leads_nowhere)?;
    let terms = &gateway.ways[matched.route].terms;
    terms.grant(&caller.patience);
    let show = matched.show.as_ref();
    let mut passage = gate::pass(&gateway, matched.access, show, request.headers()).await;
    let is_off = matches!(passage, Ok(Passage::Off(_)));
    let renewal = passage.as_mut().ok().and_then(Passage::renewal);
    let mut answered = match passage.map(Passage::entrant) {
        Ok(entrant) => onward(&gateway, &matched, entrant, request).await,
        Err(problem) => to_the_room(&matched, &request, problem),
    };
    if let (Ok(answer), Some(ticket), Some(show)) = (&mut answered, renewal, show) {
        gate::hand_over(&gateway, show, &ticket, answer);
    }
    match is_off {
        true => Ok(([(gate::ROOM, gate::OFF)], answered).into_response()),
        false => answered,
    }
}

/// To the upstream and back.
async fn onward(
    gateway: &Gateway,
    matched: &Matched<'_>,
    entrant: Option<Entrant>,
    request: Request,
) -> Result<Response, Problem> {
    let forwarder = &gateway.forwarders[matched.upstream];
    let show = matched.show.as_ref();
    let errand = Errand {
        target: &matched.target,
        show,
        entrant: entrant.as_ref(),
    };
    let way = &gateway.ways[matched.route];
    let (response, said) = forwarder.forward(request, &errand, way).await?;
    if let (Some(show), true) = (show, forwarder.is_trusted()) {
        listen(gateway, show, entrant.as_ref(), &said).await;
    }
    Ok(response)
}

fn leads_nowhere(none: NoRoute) -> Problem {
    match none {
        NoRoute::BadPath => entry::bad_path(),
        NoRoute::NotFound => Problem::not_found("not-found", "There is nothing here."),
        NoRoute::Method => Problem::no_such_method(),
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
