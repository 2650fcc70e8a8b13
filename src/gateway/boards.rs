//! The boards, read once a second, so that polls cost the room nothing.
//!
//! Between two reads room time is the board's own time plus what has passed here since: the wall
//! clocks of gateways need not agree. A board that cannot be read keeps its last state and says
//! how old it is; only what may open a gate asks whether it is fresh.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::ids::{Place, ShowId};
use crate::base::time::Timestamp;
use crate::gateway::GatewayState;
use crate::gateway::wire::BoardBody;
use crate::http::extract::ShowPath;
use crate::http::problem::Problem;
use crate::room::model::command::{Board, RoomState};
use crate::room::{Rooms, StoreError};
use crate::telemetry::metrics;

/// How often boards are read.
const READ_EVERY: Duration = Duration::from_secs(1);
/// A board this old says nothing about what is open.
const FRESH: Duration = Duration::from_secs(3);

/// A board and when it was read.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) board: Board,
    body: Bytes,
    read_at: Instant,
}

impl Seen {
    fn new(show: &ShowId, board: Board) -> Self {
        let body = serde_json::to_vec(&BoardBody::of(show, &board));
        Self {
            body: body.expect("a board has only text keys").into(),
            board,
            read_at: Instant::now(),
        }
    }

    /// Room time.
    pub(crate) fn now(&self) -> Timestamp {
        self.board.now + self.read_at.elapsed()
    }

    /// Whether the operator has taken the waiting room away, as far as a fresh board says.
    pub(crate) fn is_off(&self) -> bool {
        self.board.state == RoomState::Off && self.read_at.elapsed() < FRESH
    }
}

/// The boards of all shows.
#[derive(Debug)]
pub struct Boards {
    rooms: Rooms,
    known: RwLock<Option<BTreeMap<ShowId, Option<Arc<Seen>>>>>,
}

impl Boards {
    /// None read yet.
    pub fn new(rooms: Rooms) -> Self {
        Self {
            rooms,
            known: RwLock::default(),
        }
    }

    /// Whether boards have been read at all: before that a gateway knows no show.
    pub fn is_ready(&self) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.is_some()
    }

    /// The board of a show.
    ///
    /// # Errors
    /// 404 for a show that has no room, 503 where its board could not be read yet.
    pub(crate) fn find(&self, show: &ShowId) -> Result<Arc<Seen>, Problem> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let Some(boards) = known.as_ref() else {
            return Err(Problem::unavailable("room-unavailable"));
        };
        match boards.get(show) {
            None => Err(Problem::not_found("no-such-show", "There is no such show.")),
            Some(None) => Err(Problem::unavailable("room-unavailable")),
            Some(Some(seen)) => Ok(Arc::clone(seen)),
        }
    }

    /// Reads the list of shows and every board. Reading twice changes nothing; a board that cannot
    /// be read keeps its last state, and so does a show that is listed no more: shows are not taken
    /// away, but a store can lose its list.
    ///
    /// # Errors
    /// The list could not be read, or the last board that could not.
    pub async fn step(&self) -> Result<(), StoreError> {
        let mut read = Vec::new();
        let mut failed = Ok(());
        let mut shows: BTreeSet<ShowId> = self.rooms.shows().await?.into_iter().collect();
        shows.extend(self.known_shows());
        for show in shows {
            let board = self.rooms.board(&show).await;
            let board = board.map_err(|error| failed = Err(error)).ok();
            read.push((show, board));
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let mut before = known.take().unwrap_or_default();
        let mut after = BTreeMap::new();
        for (show, board) in read {
            let last = before.remove(&show).flatten();
            let seen = match board {
                Some(board) => Some(Arc::new(Seen::new(&show, greatest(board, last.as_deref())))),
                None => last,
            };
            if let Some(seen) = &seen {
                metrics::board_age(show.as_str(), seen.read_at.elapsed());
            }
            after.insert(show, seen);
        }
        *known = Some(after);
        failed
    }

    fn known_shows(&self) -> Vec<ShowId> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    /// Reads boards until told to stop.
    ///
    /// # Errors
    /// None: a room that is away is asked again in a second.
    pub async fn run(&self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut was_well = true;
        while !stop.is_cancelled() {
            let read = stop.run_until_cancelled(self.step()).await;
            let is_well = !matches!(read, Some(Err(_)));
            if let Some(Err(error)) = read
                && was_well
            {
                let error = anyhow::Error::from(error);
                tracing::warn!(error = format!("{error:#}"), "boards cannot be read");
            } else if is_well && !was_well {
                tracing::info!("boards are read again");
            }
            was_well = is_well;
            stop.run_until_cancelled(tokio::time::sleep(READ_EVERY))
                .await;
        }
        Ok(())
    }
}

/// A board never shows a smaller `serving` than before, lest positions rise: of one edition and
/// generation the greatest counts.
fn greatest(mut board: Board, last: Option<&Seen>) -> Board {
    let same_line = last.filter(|last| {
        (last.board.edition, last.board.generation) == (board.edition, board.generation)
    });
    let before = same_line.map_or(Place(0), |last| last.board.serving);
    board.serving = board.serving.max(before);
    board
}

/// `GET /v1/shows/{show}/board`: the public snapshot, the same bytes for everybody.
pub(crate) async fn board(
    State(gateway): State<GatewayState>,
    ShowPath(show): ShowPath,
) -> Result<Response, Problem> {
    let seen = gateway.boards.find(&show)?;
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "public, max-age=1"),
    ];
    Ok((headers, seen.body.clone()).into_response())
}
