//! A fan's visit: join, ask how one stands, take a receipt, leave.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{AppendHeaders, IntoResponse, Response};
use http::StatusCode;
use http::header::SET_COOKIE;
use serde::Deserialize;

use crate::base::ids::{Number, Place, ShowId};
use crate::gateway::boards::Seen;
use crate::gateway::credentials::{Bearer, Shown, no_pass};
use crate::gateway::standing::{self, Standing, View};
use crate::gateway::wire::{AdmittedBody, JoinBody, ReceiptBody, StatusBody};
use crate::gateway::{Gateway, GatewayState, limit};
use crate::http::extract::{ClientAddr, Headers, IdempotencyKey, ShowPath};
use crate::http::problem::Problem;
use crate::limit::{Asking, Prefix};
use crate::room::model::command::{Gone, Joined, Joining, Left, Origin, RoomState};
use crate::telemetry::metrics;
use crate::token::pass::Pass;
use crate::token::receipt::Receipt;

/// Who wants to join.
#[derive(Debug)]
pub(crate) struct Joiner {
    /// The pass that the request shows.
    pub(crate) shown: Option<Shown>,
    /// The idempotency key that it carries.
    pub(crate) key: Option<String>,
    /// Where it comes from.
    pub(crate) prefix: Prefix,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Entered<'a> {
    pub(crate) shown: Shown,
    view: View<'a>,
    status: StatusCode,
}

/// `POST /v1/shows/{show}/join`: a number. Repeating it, with the pass or the same key, gives the
/// same one.
pub(crate) async fn join(
    State(gateway): State<GatewayState>,
    ShowPath(show): ShowPath,
    client: ClientAddr,
    IdempotencyKey(key): IdempotencyKey,
    Headers(headers): Headers,
) -> Result<Response, Response> {
    let seen = gateway.boards.find(&show).map_err(Problem::into_response)?;
    let shown = gateway
        .reader(&show)
        .pass(&headers, Bearer::IsPass)
        .map_err(|problem| without_cookies(&gateway, &show, problem))?;
    let prefix = Prefix::of(client.0);
    let joiner = Joiner { shown, key, prefix };
    let entered = enter(&gateway, &seen, &show, joiner)
        .await
        .map_err(Problem::into_response)?;
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
    let cookie = [(SET_COOKIE, gateway.cookies.pass(&show, text))];
    Ok((entered.status, cookie, axum::Json(body)).into_response())
}

/// Gives whoever joins their number: the one they have, or a new one.
///
/// # Errors
/// Every refusal of a join, as a problem.
pub(crate) async fn enter<'a>(
    gateway: &Gateway,
    seen: &'a Seen,
    show: &ShowId,
    joiner: Joiner,
) -> Result<Entered<'a>, Problem> {
    let asking = match &joiner.shown {
        Some(shown) => Asking::Fan(shown.pass.fan),
        None => Asking::Join(joiner.prefix),
    };
    limit::within(&*gateway.limits, asking).await?;
    if seen.is_off() {
        return Err(refused(RoomState::Off));
    }
    if let Some(shown) = joiner.shown
        && shown.pass.edition == seen.board.edition
    {
        let standing = standing::restore(gateway, seen, &shown.pass).await?;
        if !matches!(standing, Standing::Gone(_)) {
            metrics::join("kept");
            let view = View::new(seen, &shown.pass, standing);
            let status = StatusCode::OK;
            return Ok(Entered {
                shown,
                view,
                status,
            });
        }
        // A turn that is over gives way to a new one.
    }
    let joining = match &joiner.key {
        Some(key) => Joining {
            fan: gateway.keys.fan_of_key(show, seen.board.edition, key),
            origin: Origin::Known,
        },
        None => Joining {
            fan: gateway.ids.fan(),
            origin: Origin::Minted,
        },
    };
    let joined = match gateway.rooms.join(show, joining).await? {
        // The room has no table: the number is what the draw gave this place.
        Joined::Drawn { place } => seen
            .number(place)
            .map_or(Joined::Busy, |number| Joined::Kept { number }),
        joined => joined,
    };
    metrics::join(outcome(joined));
    let (number, status) = number_of(joined)?;
    let mut pass = Pass {
        show: show.clone(),
        fan: joining.fan,
        number,
        edition: seen.board.edition,
        generation: seen.board.generation,
        issued_at: seen.now(),
        eta: None,
        commitment: seen
            .board
            .settings
            .draw
            .as_ref()
            .map(|draw| draw.commitment),
    };
    let view = View::new(seen, &pass, Standing::InLine);
    let seconds = |s: u64| u32::try_from(s).unwrap_or(u32::MAX - 1);
    pass.eta = view.eta().map(|eta| (seconds(eta.low), seconds(eta.high)));
    let text = pass.sign(&gateway.keys);
    let shown = Shown { pass, text };
    Ok(Entered {
        shown,
        view,
        status,
    })
}

fn outcome(joined: Joined) -> &'static str {
    match joined {
        Joined::New { .. } => "new",
        Joined::Kept { .. } | Joined::Drawn { .. } => "kept",
        Joined::Admitted { .. } => "admitted",
        Joined::Gone(_) => "gone",
        Joined::Busy => "busy",
        Joined::Full => "full",
        Joined::Scheduled { .. } => "scheduled",
        Joined::Refused(_) => "refused",
    }
}

fn number_of(joined: Joined) -> Result<(Number, StatusCode), Problem> {
    let over = |why: &'static str| {
        Problem::conflict(
            "turn-over",
            "The turn of this key is over. Join with another.",
        )
        .with("reason", why)
    };
    match joined {
        Joined::New { number } => Ok((number, StatusCode::CREATED)),
        Joined::Kept { number } => Ok((number, StatusCode::OK)),
        // Whoever is inside came in with the pass; without it, the key alone opens nothing.
        Joined::Admitted { .. } => Err(over("admitted")),
        Joined::Gone(Gone::Used) => Err(over("used")),
        Joined::Gone(Gone::Expired) => Err(over("expired")),
        Joined::Gone(Gone::Left) => Err(over("left")),
        Joined::Gone(Gone::Revoked) => Err(over("revoked")),
        Joined::Drawn { .. } | Joined::Busy => Err(Problem::unavailable("busy")),
        Joined::Full => Err(Problem::unavailable("full").retry_after(30)),
        Joined::Scheduled { opens_in_ms } => {
            Err(refused(RoomState::Scheduled).with("opens_in_ms", opens_in_ms))
        }
        Joined::Refused(state) => Err(refused(state)),
    }
}

fn refused(state: RoomState) -> Problem {
    match state {
        RoomState::Scheduled => Problem::conflict("scheduled", "Joining has not begun yet."),
        RoomState::SoldOut => Problem::conflict("sold-out", "Everything is sold."),
        RoomState::Closed => Problem::conflict("closed", "The sale is over."),
        RoomState::Off => Problem::conflict("off", "There is no line: go straight to the shop."),
        RoomState::Early | RoomState::Open | RoomState::Paused | RoomState::Restoring => {
            Problem::unavailable("busy") // these take fans; the room has just changed
        }
    }
}

/// A bad pass in a cookie would keep its browser out for ever, so it goes with the refusal.
fn without_cookies(gateway: &Gateway, show: &ShowId, problem: Problem) -> Response {
    let goes = gateway.cookies.none(show).map(|line| (SET_COOKIE, line));
    (AppendHeaders(goes), problem).into_response()
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
    limit::within(&*gateway.limits, Asking::Fan(pass.fan)).await?;
    if seen.is_off() {
        return Err(refused(RoomState::Off));
    }
    let view = standing::ask(&gateway, &seen, &pass, query.serving.map(Place)).await?;
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
        reach: crate::room::estimate::reach(&view.board),
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
    Ok((AppendHeaders(cookies), axum::Json(body)).into_response())
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
    limit::within(&*gateway.limits, Asking::Fan(pass.fan)).await?;
    let receipt = Receipt::of(&pass).sign(&gateway.keys);
    Ok(axum::Json(ReceiptBody { receipt: &receipt }).into_response())
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
    limit::within(&*gateway.limits, Asking::Fan(pass.fan)).await?;
    give_up(&gateway, &seen, &pass).await?;
    let goes = gateway.cookies.none(&show).map(|line| (SET_COOKIE, line));
    Ok((StatusCode::NO_CONTENT, AppendHeaders(goes)).into_response())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_of_a_room_to_a_join_has_its_own() {
        let number = Number(7);
        let opens_in_ms = Some(5);
        let rows: Vec<String> = [
            Joined::New { number },
            Joined::Kept { number },
            Joined::Admitted {
                until: Default::default(),
            },
            Joined::Gone(Gone::Used),
            Joined::Busy,
            Joined::Full,
            Joined::Scheduled { opens_in_ms },
            Joined::Refused(RoomState::SoldOut),
            Joined::Refused(RoomState::Closed),
            Joined::Refused(RoomState::Off),
        ]
        .map(|joined| match number_of(joined) {
            Ok((number, status)) => format!("{} {number}", status.as_u16()),
            Err(problem) => {
                let retry = problem.retry_after_s().map(|s| format!(" after {s} s"));
                let (status, word) = (problem.status().as_u16(), problem.word());
                format!("{status} {word}{}", retry.unwrap_or_default())
            }
        })
        .into();
        assert_eq!(
            rows,
            [
                "201 7",
                "200 7",
                "409 turn-over",
                "409 turn-over",
                "503 busy after 1 s",
                "503 full after 30 s",
                "409 scheduled",
                "409 sold-out",
                "409 closed",
                "409 off",
            ]
        );
    }
}
