//! The boards, read once a second, so that polls cost the room nothing.
//!
//! Between two reads room time is the board's own time plus what has passed here since: the wall
//! clocks of gateways need not agree. A board that cannot be read keeps its last state and says
//! how old it is; only what may open a gate asks whether it is fresh.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::ids::{Number, Place, ShowId};
use crate::base::limits::POLL_MS_MAX;
use crate::base::time::Timestamp;
use crate::gateway::GatewayState;
use crate::gateway::room_unavailable;
use crate::gateway::wire::BoardBody;
use crate::http::extract::ShowPath;
use crate::http::problem::Problem;
use crate::room::draw::Table;
use crate::room::model::command::{Board, Cause, RoomState};
use crate::room::model::place_of;
use crate::room::{Rooms, StoreError, position};
use crate::telemetry::metrics;

/// How often boards are read.
const READ_EVERY: Duration = Duration::from_secs(1);
/// How long positions may rise after a loss: by then everybody in line has asked again.
const RISES_FOR: Duration = Duration::from_millis(2 * POLL_MS_MAX);
/// A board this old says nothing about what is open.
const FRESH: Duration = Duration::from_secs(3);

/// A board and when it was read.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) board: Board,
    /// The places of an open draw.
    table: Option<Arc<Table>>,
    body: Bytes,
    read_at: Instant,
    /// Until when a position that has risen is the loss's doing.
    rises_until: Option<Instant>,
}

impl Seen {
    /// A board that was read now, after `last`.
    fn after(last: Option<&Self>, show: &ShowId, board: Board, table: Option<Arc<Table>>) -> Self {
        let now = Instant::now();
        let mut board = greatest(board, last);
        let rises_until = rises_until(&board, last, now);
        if rises_until.is_some_and(|until| now < until) {
            board.measured.cause = Some(Cause::Restoring);
        }
        let body = serde_json::to_vec(&BoardBody::of(show, &board));
        Self {
            body: body.expect("a board has only text keys").into(),
            board,
            table,
            read_at: now,
            rises_until,
        }
    }

    /// The place of a number; none before the draw that is to give it one.
    pub(crate) fn place(&self, number: Number) -> Option<Place> {
        position::place(&self.board, self.table.as_deref(), number)
    }

    /// The place that an open draw gave a number; none for those who took no part.
    pub(crate) fn drawn(&self, number: Number) -> Option<Place> {
        let table = self.table.as_ref();
        let table = table.filter(|table| number.0 <= table.size())?;
        Some(table.place(number))
    }

    /// The number that an open draw gave a place.
    pub(crate) fn number(&self, place: Place) -> Option<Number> {
        self.table.as_ref().map(|table| table.number(place))
    }

    /// The board of a fan who has seen a greater `serving` on another gateway's; none where this one will do.
    /// No greater than what was issued, for anybody can say anything.
    pub(crate) fn raised(&self, told: Option<Place>) -> Option<Box<Board>> {
        let serving = told?.min(place_of(self.board.issued));
        (self.board.serving < serving).then(|| {
            let board = self.board.clone();
            Box::new(Board { serving, ..board })
        })
    }

    /// Room time.
    pub(crate) fn now(&self) -> Timestamp {
        self.board.now + self.read_at.elapsed()
    }

    /// Whether the room was off when it could last be asked, which is too long ago to open a gate.
    pub(crate) fn was_off(&self) -> bool {
        self.board.state == RoomState::Off && FRESH <= self.read_at.elapsed()
    }

    /// Whether the operator has taken the waiting room away, as far as a fresh board says.
    pub(crate) fn is_off(&self) -> bool {
        self.board.state == RoomState::Off && self.read_at.elapsed() < FRESH
    }
}

/// Says loudly, once a change, that a show's gates stand open.
fn say_off(show: &ShowId, was: Option<bool>, is: bool) {
    let show = show.as_str();
    metrics::room_off(show, u8::from(is));
    match (was.unwrap_or(false), is) {
        (false, true) => tracing::warn!(show, "waiting room is off: its gates let everybody pass"),
        (true, false) => {
            tracing::info!(show, "waiting room is on again: its gates ask for tickets")
        }
        (false, false) | (true, true) => {}
    }
}

/// A show's board, or the word for why it could not be read yet.
type Known = Result<Arc<Seen>, &'static str>;

/// The boards of all shows.
#[derive(Debug)]
pub struct Boards {
    rooms: Rooms,
    /// Whether any room was off when it was read last: where none is, nobody looks for one.
    any_off: AtomicBool,
    /// What is known of each show; or else the word for why nothing is.
    known: RwLock<Result<BTreeMap<ShowId, Known>, &'static str>>,
}

impl Boards {
    /// None read yet.
    pub fn new(rooms: Rooms) -> Self {
        Self {
            rooms,
            any_off: AtomicBool::new(false),
            known: RwLock::new(Err("starting")),
        }
    }

    /// Whether boards have been read at all: before that a gateway knows no show.
    pub fn is_ready(&self) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.is_ok()
    }

    /// The board of a show.
    ///
    /// # Errors
    /// 404 for a show that has no room, 503 where its board could not be read yet. A store that knows
    /// no show at all may have lost its list: 503, too.
    pub(crate) fn find(&self, show: &ShowId) -> Result<Arc<Seen>, Problem> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let boards = known.as_ref().map_err(|reason| room_unavailable(reason))?;
        match boards.get(show) {
            None if boards.is_empty() => Err(room_unavailable("mending")),
            None => Err(Problem::not_found("no-such-show", "There is no such show.")),
            Some(Err(reason)) => Err(room_unavailable(reason)),
            Some(Ok(seen)) => Ok(Arc::clone(seen)),
        }
    }

    /// Whether a show's room is off, as far as a fresh board says.
    pub(crate) fn is_off(&self, show: &ShowId) -> bool {
        self.is_any_off() && self.find(show).is_ok_and(|seen| seen.is_off())
    }

    /// Whether any room may be off.
    pub(crate) fn is_any_off(&self) -> bool {
        self.any_off.load(Ordering::Relaxed)
    }

    /// Reads the list of shows and every board. Reading twice changes nothing; a board that cannot
    /// be read keeps its last state. A show that is listed no more is still read: shows are not taken
    /// away, but a store can lose its list, or have it where just now it cannot be read.
    ///
    /// # Errors
    /// The list could not be read, or the last board that could not.
    pub async fn step(&self) -> Result<(), StoreError> {
        let mut read = Vec::new();
        let mut failed = Ok(());
        let mut shows: BTreeSet<ShowId> = self.known_shows().into_iter().collect();
        match self.rooms.shows().await {
            Ok(listed) => shows.extend(listed),
            Err(error) if shows.is_empty() => {
                let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
                if known.is_err() {
                    *known = Err(error.word());
                }
                return Err(error);
            }
            Err(error) => failed = Err(error),
        }
        for show in shows {
            let board = self.rooms.board(&show).await;
            let board = board.map_err(|error| {
                let word = error.word();
                failed = Err(error);
                word
            });
            let table = match &board {
                Ok(board) => self.table(&show, board).await,
                Err(_) => None,
            };
            read.push((show, board, table));
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::replace(&mut *known, Ok(BTreeMap::new())).unwrap_or_default();
        let mut after = BTreeMap::new();
        for (show, board, table) in read {
            let last = before.remove(&show).and_then(Result::ok);
            let was_off = last.as_ref().map(|seen| seen.board.state == RoomState::Off);
            let seen = match board {
                Ok(board) => Ok(Arc::new(Seen::after(last.as_deref(), &show, board, table))),
                Err(word) => last.ok_or(word),
            };
            if let Ok(seen) = &seen {
                metrics::board_age(show.as_str(), seen.read_at.elapsed());
                say_off(&show, was_off, seen.board.state == RoomState::Off);
            }
            after.insert(show, seen);
        }
        let is_off = |seen: &Arc<Seen>| seen.board.state == RoomState::Off;
        let any_off = after.values().flatten().any(is_off);
        self.any_off.store(any_off, Ordering::Relaxed);
        *known = Ok(after);
        failed
    }

    fn known_shows(&self) -> Vec<ShowId> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    /// The table of an open draw, built once.
    async fn table(&self, show: &ShowId, board: &Board) -> Option<Arc<Table>> {
        let (seed, size) = board.draw.and_then(|draw| Some((draw.seed?, draw.size)))?;
        let last = self.find(show).ok().and_then(|seen| seen.table.clone());
        match last.filter(|table| (table.seed(), table.size()) == (seed, size)) {
            Some(known) => Some(known),
            None => {
                let build = move || Arc::new(Table::new(&seed, size));
                let built = tokio::task::spawn_blocking(build).await;
                Some(built.expect("a table of a size that a room has is built"))
            }
        }
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

/// A loss takes the last calls with it, so that `serving` may have fallen. Whoever asks for the first
/// time since is to be told why.
fn rises_until(board: &Board, last: Option<&Seen>, now: Instant) -> Option<Instant> {
    let last = last?;
    let is_mended = last.board.edition == board.edition && last.board.generation < board.generation;
    if is_mended {
        Some(now + RISES_FOR)
    } else {
        last.rises_until
    }
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
