//! `GET /admin/v1/shows/{show}/sales?after=TIME`: what was sold, by minute.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use crate::analytics::store::{Minute, Store, Sum};
use crate::analytics::window::LATENESS_MS;
use crate::base::ids::ShowId;
use crate::base::time::Timestamp;
use crate::event::money::Money;
use crate::http::extract::{Path, Query};
use crate::http::problem::Problem;

/// The route, for the operators' listener.
pub fn router(sales: Arc<dyn Store>) -> Router {
    Router::new()
        .route("/admin/v1/shows/{show}/sales", get(minutes))
        .with_state(sales)
}

#[derive(Debug, Deserialize)]
struct Page {
    after: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
struct Answer {
    show: ShowId,
    lateness_ms: u64,
    minutes: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    minute: Timestamp,
    kind: String,
    #[serde(flatten)]
    in_time: Sums,
    late: Sums,
}

#[derive(Debug, Serialize)]
struct Sums {
    orders: u64,
    seats: u64,
    total: Money,
}

async fn minutes(
    State(sales): State<Arc<dyn Store>>,
    Path(show): Path<String>,
    Query(page): Query<Page>,
) -> Result<Json<Answer>, Problem> {
    let show: ShowId = show
        .parse()
        .map_err(|_| Problem::bad_request("bad-id", "An identifier is malformed."))?;
    let after = page.after.unwrap_or(Timestamp::from_unix_ms(i64::MIN));
    let minutes = sales.minutes(&show, after).await?;
    Ok(Json(Answer {
        show,
        lateness_ms: LATENESS_MS,
        minutes: minutes.into_iter().map(row).collect(),
    }))
}

fn row(minute: Minute) -> Row {
    let Minute {
        minute,
        kind,
        in_time,
        late,
    } = minute;
    Row {
        minute,
        kind,
        in_time: sums(in_time),
        late: sums(late),
    }
}

fn sums(sum: Sum) -> Sums {
    Sums {
        orders: sum.orders,
        seats: sum.seats,
        total: sum.total,
    }
}
