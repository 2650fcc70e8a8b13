//! What operators may do about orders, for their listener: take one back, and see how far the
//! cancellation of a show has come.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;

use crate::base::ids::ShowId;
use crate::base::time::Timestamp;
use crate::http::extract::Path;
use crate::http::problem::Problem;
use crate::orders::api::{outcome, refused, respond};
use crate::orders::rules::Refusal;
use crate::orders::{Orders, answer, wire};
use crate::show::Store as ShowStore;
use crate::telemetry::metrics;

#[derive(Debug, Clone)]
struct Desk {
    orders: Orders,
    shows: Arc<dyn ShowStore>,
}

/// The routes, for the operators' listener.
pub(super) fn router(orders: Orders, shows: Arc<dyn ShowStore>) -> Router {
    Router::new()
        .route("/admin/v1/orders/{order}/cancel", post(cancel))
        .route("/admin/v1/shows/{show}/cancellation", get(cancellation))
        .with_state(Desk { orders, shows })
}

/// `POST /admin/v1/orders/{order}/cancel`: takes an order back. Repeating it changes nothing; what
/// was paid goes back by itself.
async fn cancel(State(desk): State<Desk>, Path(order): Path<String>) -> Result<Response, Problem> {
    let order = order.parse().map_err(|_| wire::bad_id())?;
    let told = desk.orders.store.cancel(order).await;
    metrics::cancel(outcome(&told));
    let order = told?.map_err(refused)?;
    desk.orders.payable.notify_one();
    desk.orders.written.notify_one();
    let now = desk.orders.clock.now();
    Ok(respond(&answer::shown(&order, now)))
}

#[derive(Debug, Serialize)]
struct Progress {
    show: ShowId,
    /// Absent: the show is not cancelled.
    cancelled_at: Option<Timestamp>,
    done: bool,
    seats_free: u64,
    seats_held: u64,
    seats_sold: u64,
    orders_cancelled: u64,
    orders_refunded: u64,
    payments_open: u64,
}

/// `GET /admin/v1/shows/{show}/cancellation`: what is still to be taken back and paid back.
async fn cancellation(
    State(desk): State<Desk>,
    Path(show): Path<String>,
) -> Result<Json<Progress>, Problem> {
    let id: ShowId = show.parse().map_err(|_| wire::bad_id())?;
    let show = desk.shows.get(&id).await?;
    let cancelled_at = show
        .ok_or_else(|| refused(Refusal::NoSuchShow))?
        .cancelled_at;
    let progress = desk.orders.store.cancellation(&id).await?;
    Ok(Json(Progress {
        show: id,
        cancelled_at,
        done: cancelled_at.is_some() && progress.is_done(),
        seats_free: progress.seats_free,
        seats_held: progress.seats_held,
        seats_sold: progress.seats_sold,
        orders_cancelled: progress.orders_cancelled,
        orders_refunded: progress.orders_refunded,
        payments_open: progress.payments_open,
    }))
}
