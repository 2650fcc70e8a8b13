//! The turnstile: a live ticket passes, everybody else is shown the room.
//!
//! A ticket says who; only the room says whether it is still live. The signature is checked once per
//! gateway, because it costs as much as everything else together; liveness is asked of the room in
//! batches, and a positive answer is reused for [`LIVENESS_REUSE_MS`] at most. Where the admission was
//! extended beyond the ticket's `exp`, a new ticket goes with the answer. Whoever may not pass
//! gets the same answer, whatever is wrong, and as late.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep_until, timeout};

use crate::base::ids::{FanId, ShowId, TicketId};
use crate::base::limits::{CHECK_DEADLINE_MS, LIVENESS_REUSE_MS};
use crate::base::time::Timestamp;
use crate::gateway::boards::Seen;
use crate::gateway::credentials::{Bearer, TICKET_HEADER, no_pass};
use crate::gateway::limit;
use crate::gateway::recent::Recent;
use crate::gateway::room_unavailable;
use crate::gateway::routes::Access;
use crate::gateway::settings::Degraded;
use crate::gateway::wire::TicketBody;
use crate::gateway::{Gateway, GatewayState, wire};
use crate::http::extract::{Headers, ShowPath};
use crate::http::problem::Problem;
use crate::limit::Asking;
use crate::room::model::command::Checked;
use crate::telemetry::metrics;
use crate::token::ticket::Ticket;

/// Says that the operator has taken the waiting room away.
pub(crate) const ROOM: HeaderName = HeaderName::from_static("catraca-room");
/// What it says.
pub(crate) const OFF: HeaderValue = HeaderValue::from_static("off");
/// Tickets and live admissions that a gateway remembers, at least: all that can be live at once in
/// a very large shop.
const REMEMBERED: usize = 100_000;

/// How long it takes to refuse a ticket: longer than it takes to find out, whichever of its faults it is,
/// and the room's answer with it. Who measures does not learn whether a signature was good.
const REFUSAL: Duration = Duration::from_millis(20);

/// Somebody who may pass, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entrant {
    pub(crate) fan: FanId,
    pub(crate) ticket_id: Option<TicketId>,
}

/// Why a request may pass.
#[derive(Debug)]
pub(crate) enum Passage {
    /// The entrant has what the route asks for.
    Entrant(Entrant),
    /// The same, but the ticket's `exp` is over while the admission is not: here is one with the new time.
    Renewed(Entrant, String),
    /// The entrant has a ticket that is good by itself, and the room cannot be asked.
    Degraded(Entrant),
    /// The room is off; the entrant is named where they can prove it.
    Off(Option<Entrant>),
    /// The route is open.
    Open,
}

impl Passage {
    /// The new ticket that goes with the answer, if there is one. It is taken.
    pub(crate) fn renewal(&mut self) -> Option<String> {
        if let Self::Renewed(_, ticket) = self {
            return Some(std::mem::take(ticket));
        }
        None
    }

    /// Who passes, where they are known.
    pub(crate) fn entrant(self) -> Option<Entrant> {
        match self {
            Self::Entrant(entrant) | Self::Renewed(entrant, _) | Self::Degraded(entrant) => {
                Some(entrant)
            }
            Self::Off(entrant) => entrant,
            Self::Open => None,
        }
    }
}

/// What the gate remembers.
#[derive(Debug)]
pub(crate) struct Memory {
    tickets: Recent<[u8; 32], Ticket>,
    live: Recent<FanId, Live>,
}

/// A positive answer of the room.
#[derive(Debug, Clone, Copy)]
struct Live {
    asked_at: Instant,
    until: Timestamp,
}

impl Memory {
    pub(crate) fn new() -> Self {
        Self {
            tickets: Recent::new(REMEMBERED),
            live: Recent::new(REMEMBERED),
        }
    }

    /// The fan's admission has ended: ask the room again at once.
    pub(crate) fn forget(&self, fan: FanId) {
        self.live.remove(&fan);
    }
}

/// Whether a request to a route with this access may pass.
///
/// # Errors
/// The one 401 for all who may not; 400, 404, 429 and 503 as everywhere.
pub(crate) async fn pass(
    gateway: &Gateway,
    access: Access,
    show: Option<&ShowId>,
    headers: &HeaderMap,
) -> Result<Passage, Problem> {
    let show = match (access, show) {
        (Access::Open, _) => return Ok(Passage::Open),
        (Access::Ticket | Access::Room | Access::Pass, Some(show)) => show,
        // The table refuses such a route at start; if one came to be, nobody has its show's ticket.
        (Access::Ticket | Access::Room | Access::Pass, None) => return Err(Problem::no_ticket()),
    };
    let passage = if access == Access::Pass {
        with_pass(gateway, show, headers).await
    } else {
        let began = Instant::now();
        let passage = with_ticket(gateway, show, headers).await;
        if passage.as_ref().is_err_and(is_the_one_401) && shows_something(headers) {
            sleep_until(began + REFUSAL).await;
        }
        passage
    };
    metrics::gate(match &passage {
        Ok(Passage::Entrant(_) | Passage::Renewed(..)) => "passed",
        Ok(Passage::Degraded(_)) => "degraded",
        Ok(Passage::Off(_)) => "off",
        Ok(Passage::Open) => "open",
        Err(problem) if problem.status().is_server_error() => "unavailable",
        Err(problem) if problem.status().as_u16() == 429 => "limited",
        Err(_) => "refused",
    });
    passage
}

async fn with_pass(
    gateway: &Gateway,
    show: &ShowId,
    headers: &HeaderMap,
) -> Result<Passage, Problem> {
    let seen = asked(gateway, show)?;
    let shown = gateway.reader(show).pass(headers, Bearer::IsNotOurs);
    let entrant = shown.and_then(|shown| {
        let good = shown.filter(|shown| shown.pass.edition == seen.board.edition);
        let fan = good.ok_or_else(no_pass)?.pass.fan;
        let ticket_id = None;
        Ok(Entrant { fan, ticket_id })
    });
    if seen.is_off() {
        return Ok(Passage::Off(entrant.ok()));
    }
    let entrant = entrant?;
    limit::within(&*gateway.limits, Asking::Fan(entrant.fan))?;
    Ok(Passage::Entrant(entrant))
}

async fn with_ticket(
    gateway: &Gateway,
    show: &ShowId,
    headers: &HeaderMap,
) -> Result<Passage, Problem> {
    let seen = asked(gateway, show)?;
    let bound = bound_ticket(gateway, show, headers).and_then(|ticket| {
        match ticket.edition == seen.board.edition {
            true => Ok(ticket),
            false => Err(Problem::no_ticket()),
        }
    });
    if seen.is_off() {
        return Ok(Passage::Off(bound.ok().map(entrant)));
    }
    let ticket = bound?;
    limit::within(&*gateway.limits, Asking::Gated(ticket.id))?;
    let now = seen.now();
    match live_until(gateway, &ticket, now).await {
        Ok(Some(until)) if ticket.expires_at <= now => Ok(renewed(gateway, &seen, ticket, until)),
        Ok(Some(_)) => Ok(Passage::Entrant(entrant(ticket))),
        Ok(None) => Err(Problem::no_ticket()),
        Err(away) => unasked(gateway.settings.degraded, ticket, now, away),
    }
}

/// The admission was extended, so that its ticket has outlived its own time: whoever verifies without us
/// needs another.
fn renewed(gateway: &Gateway, seen: &Seen, ticket: Ticket, until: Timestamp) -> Passage {
    let ticket = Ticket {
        generation: seen.board.generation,
        issued_at: seen.now(),
        expires_at: until,
        ..ticket
    };
    let text = ticket.mint(&gateway.keys);
    Passage::Renewed(entrant(ticket), text)
}

/// Nobody can say whether the ticket is still live: what the operator decided for that case.
fn unasked(
    degraded: Degraded,
    ticket: Ticket,
    now: Timestamp,
    away: Problem,
) -> Result<Passage, Problem> {
    let is_away = away.status() == StatusCode::SERVICE_UNAVAILABLE; // not one that is corrupt
    match degraded {
        Degraded::Signature if is_away && ticket.covers(now) => {
            Ok(Passage::Degraded(entrant(ticket)))
        }
        Degraded::Signature if is_away => Err(Problem::no_ticket()),
        Degraded::Signature | Degraded::Closed => Err(away),
    }
}

/// The board that says whether there is a gate at all. Who needed no ticket while the room was off has
/// none, so a room that was off and cannot be asked any more is away for everybody.
fn asked(gateway: &Gateway, show: &ShowId) -> Result<Arc<Seen>, Problem> {
    let seen = gateway.boards.find(show)?;
    if seen.was_off() {
        return Err(room_unavailable("away"));
    }
    Ok(seen)
}

fn entrant(ticket: Ticket) -> Entrant {
    Entrant {
        fan: ticket.fan,
        ticket_id: Some(ticket.id),
    }
}

/// The ticket of the fan whose pass came with it.
fn bound_ticket(gateway: &Gateway, show: &ShowId, headers: &HeaderMap) -> Result<Ticket, Problem> {
    let reader = gateway.reader(show);
    let ticket = reader.ticket(headers, |text| verified(gateway, show, text))?;
    let shown = reader
        .pass(headers, Bearer::IsNotOurs)
        .map_err(as_no_ticket)?
        .ok_or_else(Problem::no_ticket)?;
    if shown.pass.fan == ticket.fan && shown.pass.edition == ticket.edition {
        Ok(ticket)
    } else {
        Err(Problem::no_ticket())
    }
}

fn is_the_one_401(problem: &Problem) -> bool {
    problem.status() == StatusCode::UNAUTHORIZED
}

/// Whether a request may show a ticket. Who shows none knows why they are refused.
fn shows_something(headers: &HeaderMap) -> bool {
    headers.contains_key(&TICKET_HEADER) || headers.contains_key(COOKIE)
}

/// A bad pass at the gate is answered like a bad ticket.
fn as_no_ticket(problem: Problem) -> Problem {
    if is_the_one_401(&problem) {
        Problem::no_ticket()
    } else {
        problem
    }
}

/// Checks a ticket's signature, or remembers that it was good. Bad ones are not remembered: whoever
/// makes them up could fill the memory with them.
fn verified(gateway: &Gateway, show: &ShowId, text: &str) -> Option<Ticket> {
    let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    if let Some(ticket) = gateway.memory.tickets.get(&hash) {
        return (ticket.show == *show).then_some(ticket);
    }
    let ticket = Ticket::verify(text, show, &gateway.keys).ok()?;
    gateway.memory.tickets.insert(hash, ticket.clone());
    Some(ticket)
}

/// Until when the admission of a ticket is live; none where it is over.
async fn live_until(
    gateway: &Gateway,
    ticket: &Ticket,
    now: Timestamp,
) -> Result<Option<Timestamp>, Problem> {
    let reuse = Duration::from_millis(LIVENESS_REUSE_MS);
    let known = gateway.memory.live.get(&ticket.fan);
    let known = known.filter(|live| live.asked_at.elapsed() < reuse && now < live.until);
    if let Some(live) = known {
        return Ok(Some(live.until));
    }
    let asked_at = Instant::now();
    let deadline = Duration::from_millis(CHECK_DEADLINE_MS);
    let asked = timeout(deadline, gateway.rooms.check(&ticket.show, ticket.fan)).await;
    let checked = asked.map_err(|_| room_unavailable("slow"))??;
    match checked {
        Checked::Live { until } => {
            gateway
                .memory
                .live
                .insert(ticket.fan, Live { asked_at, until });
            Ok(Some(until))
        }
        Checked::NotLive => {
            gateway.memory.forget(ticket.fan);
            Ok(None)
        }
    }
}

/// Hands the browser, and whoever keeps tickets itself, a ticket with a new time. Such an answer is for
/// nobody else, whatever the shop says of it.
pub(crate) fn hand_over(gateway: &Gateway, show: &ShowId, ticket: &str, answer: &mut Response) {
    let cookie = gateway.cookies.ticket(show, ticket);
    let text = HeaderValue::from_str(ticket).expect("tokens are ASCII");
    let headers = answer.headers_mut();
    headers.append(SET_COOKIE, cookie);
    headers.insert(&TICKET_HEADER, text);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// `GET /v1/shows/{show}/ticket`: whether the request would pass the gate. Also for proxies that ask
/// before they let through, such as nginx with `auth_request`: they cannot read the body, so fan and
/// ticket are named in headers too, by the names that upstreams know.
pub(crate) async fn ticket(
    State(gateway): State<GatewayState>,
    ShowPath(show): ShowPath,
    Headers(headers): Headers,
) -> Result<Response, Problem> {
    let mut passage = pass(&gateway, Access::Ticket, Some(&show), &headers).await?;
    if matches!(passage, Passage::Off(_)) {
        return Ok([(ROOM, OFF)].into_response());
    }
    let renewal = passage.renewal();
    let Some(Entrant {
        fan,
        ticket_id: Some(ticket_id),
    }) = passage.entrant()
    else {
        return Err(Problem::no_ticket());
    };
    let body = TicketBody {
        show: &show,
        fan,
        ticket_id,
    };
    let named = [
        ("x-catraca-fan", fan.to_string()),
        ("x-catraca-ticket-id", ticket_id.to_string()),
    ];
    let mut answer = (named, wire::answer(&body)).into_response();
    if let Some(ticket) = renewal {
        hand_over(&gateway, &show, &ticket, &mut answer);
    }
    Ok(answer)
}
