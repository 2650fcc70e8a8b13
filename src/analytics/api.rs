//! `GET /admin/v1/shows/{show}/sales?after=TIME`: what was sold, by minute. `…/joins?after=TIME`: from where
//! fans have joined, in five minutes.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use crate::analytics::store::{Came, Joined, Minute, Store, Sum};
use crate::analytics::window::{FIVE_MINUTES, LATENESS_MS};
use crate::base::ids::ShowId;
use crate::base::time::Timestamp;
use crate::event::money::Money;
use crate::http::extract::{Path, Query};
use crate::http::problem::Problem;

/// The routes, for the operators' listener.
pub fn router(store: Arc<dyn Store>) -> Router {
    Router::new()
        .route("/admin/v1/shows/{show}/sales", get(minutes))
        .route("/admin/v1/shows/{show}/joins", get(joins))
        .with_state(store)
}

#[derive(Debug, Deserialize)]
struct Page {
    after: Option<Timestamp>,
}

impl Page {
    fn begin(&self) -> Timestamp {
        self.after.unwrap_or(Timestamp::from_unix_ms(i64::MIN))
    }
}

fn id(show: &str) -> Result<ShowId, Problem> {
    let malformed = |_| Problem::bad_request("bad-id", "An identifier is malformed.");
    show.parse().map_err(malformed)
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
    let (show, after) = (id(&show)?, page.begin());
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

#[derive(Debug, Serialize)]
struct Crowd {
    show: ShowId,
    window_ms: u64,
    lateness_ms: u64,
    windows: Vec<WindowRow>,
}

#[derive(Debug, Serialize)]
struct WindowRow {
    window: Timestamp,
    #[serde(flatten)]
    all: Joins,
    networks: Vec<NetworkRow>,
}

#[derive(Debug, Serialize)]
struct NetworkRow {
    network: String,
    #[serde(flatten)]
    joins: Joins,
}

#[derive(Debug, Serialize)]
struct Joins {
    joins: u64,
    late_joins: u64,
}

async fn joins(
    State(store): State<Arc<dyn Store>>,
    Path(show): Path<String>,
    Query(page): Query<Page>,
) -> Result<Json<Crowd>, Problem> {
    let show = id(&show)?;
    let windows = store.joins(&show, page.begin()).await?;
    Ok(Json(Crowd {
        show,
        window_ms: FIVE_MINUTES.0,
        lateness_ms: LATENESS_MS,
        windows: windows.into_iter().map(window).collect(),
    }))
}

fn window(joined: Joined) -> WindowRow {
    let networks = joined.networks.into_iter();
    WindowRow {
        window: joined.window,
        all: came(joined.all),
        networks: networks
            .map(|(network, joins)| NetworkRow {
                network,
                joins: came(joins),
            })
            .collect(),
    }
}

fn came(came: Came) -> Joins {
    Joins {
        joins: came.in_time,
        late_joins: came.late,
    }
}
