//! A fan's visit: join, ask how one stands, take a receipt, leave.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{AppendHeaders, IntoResponse, Response};
use http::header::SET_COOKIE;
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;

use crate::base::ids::{Place, ShowId};
use crate::gateway::boards::Seen;
use crate::gateway::challenge::Evidence;
use crate::gateway::credentials::{Bearer, Shown, no_pass};
use crate::gateway::enter::{Joiner, enter, refused};
use crate::gateway::standing::{self, Standing};
use crate::gateway::wire::{AdmittedBody, JoinBody, ReceiptBody, StatusBody};
use crate::gateway::{Gateway, GatewayState, account, limit, wire};
use crate::http::extract::{ClientAddr, Headers, IdempotencyKey, ShowPath};
use crate::http::problem::Problem;
use crate::limit::Asking;
use crate::limit::prefix::Prefixes;
use crate::room::model::command::{Left, RoomState};
use crate::telemetry::metrics;
use crate::token::pass::Pass;
use crate::token::receipt::Receipt;

/// `POST /v1/shows/{show}/join`: a number. Repeating it, with the pass or the same key, gives the
/// same one.
pub(crate) async fn join(
    State(gateway): State<GatewayState>,
    ShowPath(show): ShowPath,
    client: ClientAddr,
    IdempotencyKey(key): IdempotencyKey,
    Headers(headers): Headers,
) -> Result<Response, Problem> {
    let seen = gateway.boards.find(&show)?;
    let shown = gateway.reader(&show).pass(&headers, Bearer::IsPass);
    let joiner = Joiner {
        // A bad pass in a cookie would keep its browser out for ever, so it goes with the refusal.
        shown: shown.map_err(|bad| bad.with_headers(no_cookies(&gateway, &show)))?,
        key,
        account: account::token(&headers),
        from: Prefixes::of(client.0),
        evidence: Evidence::of(&headers),
    };
    let entered = enter(&gateway, &seen, &show, joiner).await?;
    let told = entered
        .left
        .map(|left| limit::told_of_joins(&gateway, left, None));
    let (view, Shown { pass, text }) = (&entered.view, &entered.shown);
    let body = JoinBody {
        show: &show,
        fan: pass.fan,
        number: pass.number,
        place: view.place,
        position: view.position(),
        state: view.state(),
        eta: view.eta().map(Into::into),
        poll_after_ms: view.poll_after_ms(),
        pass: text,
    };
    let cookie = (SET_COOKIE, gateway.cookies.pass(&show, text));
    let headers = std::iter::once(cookie).chain(told.into_iter().flatten());
    let headers = AppendHeaders(headers.collect::<Vec<_>>());
    Ok((entered.status, headers, wire::answer(&body)).into_response())
}

/// Takes pass and ticket from a browser.
fn no_cookies(gateway: &Gateway, show: &ShowId) -> [(HeaderName, HeaderValue); 2] {
    gateway.cookies.none(show).map(|line| (SET_COOKIE, line))
}

/// The query of a status poll.
#[derive(Debug, Deserialize)]
pub(crate) struct StatusQuery {
    /// The greatest `serving` that the fan has seen.
    serving: Option<u64>,
}

/// `GET /v1/shows/{show}/status`: how the fan stands, and the ticket once it is their turn.
pub(crate) async fn status(
    State(gateway): State<GatewayState>,
    ShowPath(show): ShowPath,
    query: Result<Query<StatusQuery>, QueryRejection>,
    Headers(headers): Headers,
) -> Result<Response, Problem> {
    let Query(query) =
        query.map_err(|_| Problem::bad_request("bad-request", "serving is a whole number."))?;
    let seen = gateway.boards.find(&show)?;
    let Shown { pass, .. } = gateway
        .reader(&show)
        .pass_of(&headers, seen.board.edition)?;
    limit::within(&*gateway.limits, Asking::Fan(pass.fan))?;
    if seen.is_off() {
        return Err(refused(RoomState::Off));
    }
    let raised = seen.raised(query.serving.map(Place));
    let board = raised.as_deref().unwrap_or(&seen.board);
    let view = standing::ask(&gateway, &seen, board, &pass).await?;
    metrics::status(view.state());
    let mut cookies = Vec::new();
    let mut ticket = String::new();
    let mut admitted = None;
    if let Standing::Admitted { until } = view.standing {
        ticket = standing::ticket(&gateway, &seen, &pass, until);
        cookies.push((SET_COOKIE, gateway.cookies.ticket(&show, &ticket)));
        admitted = Some(until);
    }
    let body = StatusBody {
        show: &show,
        state: view.state(),
        place: view.place,
        position: view.position(),
        eta: view.eta().map(Into::into),
        reach: crate::room::estimate::reach(view.board),
        poll_after_ms: view.poll_after_ms(),
        serving: view.board.serving,
        admitted: admitted.map(|until| AdmittedBody {
            ticket: &ticket,
            ticket_expires_at: until,
            ticket_expires_in_ms: until.ms_since(view.now),
            enter: view.board.settings.shop_url.as_deref(),
        }),
        reason: view.reason(),
    };
    Ok((AppendHeaders(cookies), wire::answer(&body)).into_response())
}

/// `GET /v1/shows/{show}/receipt`: what the fan's pass says, signed so that third parties can verify
/// it. A pass of an earlier edition still proves what it proves.
pub(crate) async fn receipt(
    State(gateway): State<GatewayState>,
    ShowPath(show): ShowPath,
    Headers(headers): Headers,
) -> Result<Response, Problem> {
    gateway.boards.find(&show)?;
    let shown = gateway.reader(&show).pass(&headers, Bearer::IsPass)?;
    let Shown { pass, .. } = shown.ok_or_else(no_pass)?;
    limit::within(&*gateway.limits, Asking::Fan(pass.fan))?;
    let receipt = Receipt::of(&pass).sign(&gateway.keys);
    Ok(wire::answer(&ReceiptBody { receipt: &receipt }))
}

/// `DELETE /v1/shows/{show}/place`: gives up place or admission. Repeating it changes nothing.
pub(crate) async fn leave(
    State(gateway): State<GatewayState>,
    ShowPath(show): ShowPath,
    Headers(headers): Headers,
) -> Result<Response, Problem> {
    let seen = gateway.boards.find(&show)?;
    let Shown { pass, .. } = gateway
        .reader(&show)
        .pass_of(&headers, seen.board.edition)?;
    limit::within(&*gateway.limits, Asking::Fan(pass.fan))?;
    give_up(&gateway, &seen, &pass).await?;
    let goes = AppendHeaders(no_cookies(&gateway, &show));
    Ok((StatusCode::NO_CONTENT, goes).into_response())
}

/// Gives up the place of this pass.
///
/// # Errors
/// 503 where the room is away.
pub(crate) async fn give_up(gateway: &Gateway, seen: &Seen, pass: &Pass) -> Result<(), Problem> {
    let mut left = gateway.rooms.leave(&pass.show, pass.fan).await?;
    if left == Left::Unknown {
        // A fan whom the room has lost could still come back with the pass: lost no more, then gone.
        standing::restore(gateway, seen, pass).await?;
        left = gateway.rooms.leave(&pass.show, pass.fan).await?;
    }
    metrics::leave(match left {
        Left::Now => "now",
        Left::Before => "before",
        Left::Unknown => "unknown",
    });
    gateway.memory.forget(pass.fan);
    gateway.left.insert(pass.fan, ());
    Ok(())
}
