//! Keeps SQL in step with the rooms that this admitter leads: copies their ledgers, keeps their
//! checkpoints, raises their ceilings.
//!
//! It runs beside the ticks, not between them: a database that is slow or away must not slow the
//! calling. What it cannot copy is bounded in the room: beyond `LEDGER_UNCOPIED_MAX`, ticks call
//! nobody.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admitter::VisitError;
use crate::admitter::ledger::row_of;
use crate::base::ids::{Edition, Number, ShowId};
use crate::base::limits::{LEDGER_COPY_EVERY_MS, LEDGER_COPY_MAX, NUMBER_BLOCK};
use crate::room::Rooms;
use crate::room::model::command::Board;
use crate::show::{Checkpoint, Store};

const COPY_EVERY: Duration = Duration::from_millis(LEDGER_COPY_EVERY_MS);
/// How often a checkpoint is kept, and how long a show rests after a failure.
const SECOND: Duration = Duration::from_secs(1);

/// The shows that an admitter leads, as far as it knows, with their editions.
#[derive(Debug, Clone, Default)]
pub(super) struct Leading(Arc<Mutex<BTreeMap<ShowId, Edition>>>);

impl Leading {
    pub(super) fn begin(&self, show: &ShowId, edition: Edition) {
        self.lock().insert(show.clone(), edition);
    }

    pub(super) fn end(&self, show: &ShowId) {
        self.lock().remove(show);
    }

    fn all(&self) -> BTreeMap<ShowId, Edition> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ShowId, Edition>> {
        // Nothing panics under this lock; if it did, the map would still be whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When what is due for a show.
#[derive(Debug, Clone, Copy)]
struct Due {
    copy_at: Instant,
    checkpoint_at: Instant,
}

/// The part of an admitter that writes to SQL.
#[derive(Debug, Clone)]
pub(super) struct Archive {
    rooms: Rooms,
    shows: Arc<dyn Store>,
    leading: Leading,
    due: BTreeMap<ShowId, Due>,
}

impl Archive {
    pub(super) fn new(rooms: Rooms, shows: Arc<dyn Store>, leading: Leading) -> Self {
        Self {
            rooms,
            shows,
            leading,
            due: BTreeMap::new(),
        }
    }

    pub(super) async fn run(&mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.step().await;
            stop.run_until_cancelled(tokio::time::sleep(COPY_EVERY))
                .await;
        }
    }

    /// Copies and keeps what is due. Each part may run twice: rows that are there stay as they are,
    /// ceilings never fall, and a checkpoint of another generation is ignored.
    pub(super) async fn step(&mut self) {
        let led = self.leading.all();
        self.due.retain(|show, _| led.contains_key(show));
        for (show, edition) in led {
            let now = Instant::now();
            let due = self.due.entry(show.clone()).or_insert(Due {
                copy_at: now,
                checkpoint_at: now,
            });
            let mut next = *due;
            if let Err(error) = self.keep(&show, edition, now, &mut next).await {
                let error = anyhow::Error::from(error);
                tracing::warn!(show.id = %show, "cannot keep what a room has done: {error:#}");
                next.copy_at = Instant::now() + SECOND;
                next.checkpoint_at = next.copy_at;
            }
            self.due.insert(show, next);
        }
    }

    async fn keep(
        &self,
        show: &ShowId,
        edition: Edition,
        now: Instant,
        due: &mut Due,
    ) -> Result<(), VisitError> {
        if due.copy_at <= now {
            due.copy_at = now + COPY_EVERY;
            if now < due.checkpoint_at {
                self.copy_ledger(show, edition).await?;
            } else {
                due.checkpoint_at = now + SECOND;
                let board = self.take_checkpoint(show, edition).await?;
                self.raise_ceiling(show, &board).await?;
            }
        }
        Ok(())
    }

    /// Keeps what the room looks like, and with it that everything up to then is copied: the board is
    /// read first. It is also the last that a leader who goes does.
    pub(super) async fn take_checkpoint(
        &self,
        show: &ShowId,
        edition: Edition,
    ) -> Result<Board, VisitError> {
        let board = self.rooms.board(show).await?;
        for _ in 0..=board.uncopied.div_ceil(LEDGER_COPY_MAX) {
            if !self.copy_ledger(show, edition).await? {
                break;
            }
        }
        self.shows.checkpoint(show, &checkpoint_of(&board)).await?;
        Ok(board)
    }

    async fn raise_ceiling(&self, show: &ShowId, board: &Board) -> Result<(), VisitError> {
        if NUMBER_BLOCK / 2 <= board.ceiling.0.saturating_sub(board.issued.0) {
            return Ok(());
        }
        // SQL first: a number above SQL's ceiling could be issued again after a loss.
        let ceiling = Number(board.ceiling.0 + NUMBER_BLOCK);
        let raise = self.shows.raise_ceiling(show, board.generation, ceiling);
        if raise.await? {
            self.rooms.raise_ceiling(show, ceiling).await?;
        }
        Ok(())
    }

    /// Copies one page of the ledger and trims what is copied; whether there may be more. Where SQL does
    /// not take it, the same page would be the next.
    async fn copy_ledger(&self, show: &ShowId, edition: Edition) -> Result<bool, VisitError> {
        let entries = self.rooms.ledger(show, LEDGER_COPY_MAX).await?;
        let Some(last) = entries.last() else {
            return Ok(false);
        };
        let (through, current) = (last.seq, last.generation);
        let rows: Vec<_> = entries.iter().map(|entry| row_of(edition, entry)).collect();
        if !self.shows.append_ledger(show, current, &rows).await? {
            return Ok(false);
        }
        self.rooms.trim(show, through).await?;
        Ok(entries.len() == LEDGER_COPY_MAX)
    }
}

fn checkpoint_of(board: &Board) -> Checkpoint {
    Checkpoint {
        generation: board.generation,
        state: board.state.word().to_owned(),
        verb_version: board.verb_version,
        issued: board.issued,
        serving: board.serving,
        waiting: board.waiting,
        at: board.now,
    }
}
