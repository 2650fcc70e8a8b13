//! The shop's HTTP routes, on a listener of their own behind the gate.
//!
//! Handlers read the request, ask the store once, and tell the answer. What may be bought and by
//! whom is decided in `rules/`; who is calling, in `caller.rs`; what was sent, in `wire.rs`.

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::base::limits::BODY_BYTES_MAX;
use crate::http::extract::{Path, Whole};
use crate::http::layers::body_max;
use crate::http::problem::Problem;
use crate::orders::caller::Caller;
use crate::orders::idempotency::Answer;
use crate::orders::rules::hold::PlaceHold;
use crate::orders::rules::order::{Pay, PlaceOrder};
use crate::orders::rules::{Refusal, SeatsTaken};
use crate::orders::store::{StoreError, Told};
use crate::orders::wire::{self, HoldBody, OrderBody, PaymentBody};
use crate::orders::{Orders, answer};
use crate::telemetry::traces::Span;

/// The routes.
pub(super) fn router(orders: Orders) -> Router {
    Router::new()
        .route("/v1/shows/{show}/seats", get(seats))
        .route("/v1/shows/{show}/holds", post(place_hold))
        .route("/v1/shows/{show}/holds/{hold}", delete(release_hold))
        .route("/v1/shows/{show}/orders", get(own_orders).post(place_order))
        .route("/v1/shows/{show}/orders/{order}", get(show_order))
        .route("/v1/shows/{show}/orders/{order}/payment", post(pay))
        .fallback(no_such_route)
        .method_not_allowed_fallback(async || Problem::no_such_method())
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX)) // of bodies that do not say how long they are
        .layer(from_fn_with_state(BODY_BYTES_MAX as u64, body_max))
        .layer(from_fn(traced))
        .with_state(orders)
}

/// The shop's part of an order's way: what is written meanwhile names this span.
async fn traced(mut request: Request, next: Next) -> Response {
    let mut span = Span::of_request("orders", request.headers_mut());
    span.tell("http.request.method", request.method().as_str());
    span.tell("url.path", request.uri().path());
    let response = next.run(request).await;
    span.answered(response.status());
    response
}

/// What the gateway is told about the buyer's admission.
pub(super) const ADMISSION: &str = "catraca-admission";

/// A body within the limit, or what is wrong with it, for whoever may buy at all.
type Sent = Result<Whole, Problem>;

/// `GET /v1/shows/{show}/seats`: how many seats each section has left. The same for everybody, so
/// nobody has to say who they are.
async fn seats(
    State(orders): State<Orders>,
    Path(show): Path<String>,
) -> Result<Response, Problem> {
    let show = show.parse().map_err(|_| wire::bad_id())?;
    let found = orders.seats.of(&*orders.store, &show).await?;
    let body = found.ok_or_else(|| refused(Refusal::NoSuchShow))?;
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "public, max-age=1"),
    ];
    Ok((headers, body).into_response())
}

/// `POST /v1/shows/{show}/holds`: seats set aside, all or none.
async fn place_hold(
    State(orders): State<Orders>,
    caller: Caller,
    Path(show): Path<String>,
    headers: HeaderMap,
    sent: Sent,
) -> Result<Response, Problem> {
    let buyer = caller.buyer(&show)?;
    let body: HoldBody = wire::read(&headers, &sent?.0)?;
    let key = wire::key(&headers, &buyer, "holds", &body)?;
    let wish = body.wish()?;
    let request = PlaceHold { buyer, wish };
    orders
        .to_its_end(|orders| async move { orders.hold(key, request).await })
        .await
}

/// `DELETE /v1/shows/{show}/holds/{hold}`: seats given back. Repeating it changes nothing.
async fn release_hold(
    State(orders): State<Orders>,
    caller: Caller,
    Path((show, hold)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let buyer = caller.buyer(&show)?;
    let hold = hold.parse().map_err(|_| wire::bad_id())?;
    let told = orders.store.release(&buyer, hold).await;
    orders.end(None, told).await?;
    Ok(respond(&answer::released(&())))
}

/// `POST /v1/shows/{show}/orders`: a hold becomes an order, once. Its payment begins at once, but
/// is not waited for: the answer holds only what never changes.
async fn place_order(
    State(orders): State<Orders>,
    caller: Caller,
    Path(show): Path<String>,
    headers: HeaderMap,
    sent: Sent,
) -> Result<Response, Problem> {
    let buyer = caller.buyer(&show)?;
    let body: OrderBody = wire::read(&headers, &sent?.0)?;
    let key = wire::key(&headers, &buyer, "orders", &body)?;
    let (hold, contact, token) = body.parts()?;
    let request = PlaceOrder {
        buyer,
        hold,
        contact,
        token,
    };
    orders
        .to_its_end(|orders| async move { orders.place(key, request).await })
        .await
}

/// `GET /v1/shows/{show}/orders/{order}`: an order as it stands, for its owner.
async fn show_order(
    State(orders): State<Orders>,
    caller: Caller,
    Path((show, order)): Path<(String, String)>,
) -> Result<Response, Problem> {
    caller.at(&show)?;
    let id = order.parse().map_err(|_| wire::bad_id())?;
    let told = orders.store.order(&caller.show, caller.fan, id).await;
    let order = told?.map_err(refused)?;
    Ok(respond(&answer::shown(&order, orders.clock.now())))
}

/// `GET /v1/shows/{show}/orders`: the fan's own orders, which a pass alone opens. An admission ends
/// with the confirmed order, so whoever lost that answer learns of it here.
async fn own_orders(
    State(orders): State<Orders>,
    caller: Caller,
    Path(show): Path<String>,
) -> Result<Response, Problem> {
    caller.at(&show)?;
    let own = orders.store.orders_of(&caller.show, caller.fan).await?;
    Ok(respond(&answer::listed(&own, orders.clock.now())))
}

/// `POST /v1/shows/{show}/orders/{order}/payment`: another attempt to pay, if one is needed.
async fn pay(
    State(orders): State<Orders>,
    caller: Caller,
    Path((show, order)): Path<(String, String)>,
    headers: HeaderMap,
    sent: Sent,
) -> Result<Response, Problem> {
    let buyer = caller.buyer(&show)?;
    let order = order.parse().map_err(|_| wire::bad_id())?;
    let body: PaymentBody = wire::read(&headers, &sent?.0)?;
    let key = wire::key(&headers, &buyer, "payment", &(order, &body))?;
    let token = body.token()?;
    let request = Pay {
        buyer,
        order,
        token,
    };
    orders
        .to_its_end(|orders| async move { orders.pay(key, request).await })
        .await
}

async fn no_such_route() -> Problem {
    Problem::not_found("not-found", "There is nothing here.")
}

pub(super) fn respond(answer: &Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let mut response = (status, answer.body.clone()).into_response();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if answer.body.is_empty() {
        headers.remove(CONTENT_TYPE);
    } else {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    let admission = answer.admission.as_deref().map(HeaderValue::from_str);
    if let Some(Ok(admission)) = admission {
        headers.insert(ADMISSION, admission);
    }
    response
}

pub(super) fn in_progress() -> Problem {
    Problem::conflict("in-progress", "This is being done: ask again in a moment.").retry_after(1)
}

pub(super) fn refused(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::NoSuchShow => Problem::not_found("no-such-show", "There is no such show."),
        Refusal::NoSuchHold => Problem::not_found("not-found", "You have no such hold."),
        Refusal::NoSuchOrder => Problem::not_found("no-such-order", "You have no such order."),
        Refusal::NotOnSale => {
            Problem::unprocessable("unprocessable", "There are no such seats to choose from.")
        }
        Refusal::SoldOut => Problem::conflict("sold-out", "Every seat is sold."),
        Refusal::SeatsTaken(taken) => seats_taken(taken),
        Refusal::TooManyHolds(carts) => {
            let holds: Vec<String> = carts.holds.iter().map(ToString::to_string).collect();
            Problem::conflict(
                "too-many-holds",
                "You hold seats already: order them or give them back.",
            )
            .with("holds", holds)
        }
        Refusal::TurnOver => Problem::conflict("turn-over", "You have bought in this turn."),
        Refusal::HoldEnded => Problem::conflict("hold-ended", "The time to buy them is over."),
        Refusal::HoldOrdered => Problem::conflict("hold-ended", "The hold has become an order."),
        Refusal::PaymentInProgress => in_progress(),
        Refusal::OrderOver => Problem::conflict("order-over", "The order was declined before."),
        Refusal::ShowCancelled => Problem::conflict("show-cancelled", "The show was cancelled."),
    }
}

fn seats_taken(taken: SeatsTaken) -> Problem {
    let title = if taken.in_carts {
        "Somebody was faster. Seats in carts may come back: ask again in a moment."
    } else {
        "Somebody was faster."
    };
    let mut problem = Problem::conflict("seats-taken", title).with("in_carts", taken.in_carts);
    if let Some(free) = taken.free {
        problem = problem.with("free", free);
    }
    if !taken.taken.is_empty() {
        problem = problem.with("taken", taken.taken);
    }
    problem
}

/// The word of an answer in metrics.
pub(super) fn outcome<T>(told: &Told<T>) -> &'static str {
    match told {
        Ok(Ok(_)) => "done",
        Ok(Err(refusal)) => refused(refusal.clone()).word(),
        Err(_) => "failed",
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let problem = match &error {
            StoreError::Unavailable(_) => Self::unavailable("store-unavailable"),
            StoreError::Overtaken => return in_progress(),
            StoreError::Corrupt(_) => Self::internal("store-corrupt"),
        };
        problem.caused_by(error)
    }
}
