//! Builds a room from SQL: for a new show from an empty ledger, after a loss from what was copied and
//! from what the room still holds.
//!
//! Every step may run twice. The generation is raised first, in SQL, where it still is what was
//! read; every later step names it, and room and SQL refuse steps of another one. A mender that
//! slept or died is therefore overtaken, never in the way.
//!
//! ```text
//! SQL: generation + 1 ── room: Begin ── copy what the ledger still holds ── Fold…
//!   ── SQL: what was lost ── room: Finish ── SQL: mended
//! ```
//!
//! What was lost is kept before the room is opened, so that it is known whoever dies after that; and by it
//! the first life of a room is known from any later one ([`Kept::First`]): before that one nobody can
//! have joined or been called, whatever SQL has been told of it.

use anyhow::anyhow;

use crate::admitter::draw::kept;
use crate::admitter::ledger::{entry_of, row_of};
use crate::admitter::settings::configure;
use crate::base::ids::{Edition, FanId, Generation, Number};
use crate::base::limits::{BATCH_MAX, LEDGER_COPY_MAX, NUMBER_BLOCK};
use crate::base::time::Timestamp;
use crate::room::fold::Fold;
use crate::room::model::command::{Finish, Folded, Mend, Mended, RoomState};
use crate::room::{Rooms, StoreError as RoomError};
use crate::show::{Kept, Loss, Show, Store, StoreError as ShowError};

/// Ledger rows read at once.
const PAGE: usize = 10_000;
/// How long the last fans may take to come back beyond their turn.
const RESTORE_SLACK_MS: u64 = 15_000;

/// What became of an attempt to mend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// The room is whole, in this generation.
    Whole(Generation),
    /// Another admitter mends it, or it was lost again meanwhile.
    Overtaken,
}

/// Why a room could not be mended now.
#[derive(Debug, thiserror::Error)]
pub enum MendError {
    /// The room's store failed.
    #[error("cannot mend: {0}")]
    Room(#[from] RoomError),
    /// SQL failed.
    #[error("cannot mend: {0}")]
    Show(#[from] ShowError),
}

/// Whether the room answers, in the life that SQL knows: somebody has mended it meanwhile.
///
/// # Errors
/// The room's store failed.
pub async fn is_whole(rooms: &Rooms, show: &Show) -> Result<bool, MendError> {
    match rooms.board(&show.id).await {
        Ok(board) => Ok((show.edition, show.generation) <= (board.edition, board.generation)),
        Err(RoomError::Unfenced) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A mend that SQL has given to this process, and that no server may have taken for finished yet. While
/// its generation is SQL's, nobody else is at it: what failed is tried again as it stands, without the
/// patience that is due to others, and a server that refuses to write costs no generation each try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun {
    edition: Edition,
    generation: Generation,
    /// SQL's ceiling before.
    issued: Number,
    ceiling: Number,
}

impl Begun {
    /// Raises the generation in SQL; none where somebody else has done so.
    async fn of(shows: &dyn Store, show: &Show) -> Result<Option<Self>, MendError> {
        let begun = Self {
            edition: show.edition,
            generation: Generation(show.generation.0 + 1),
            issued: show.ceiling,
            ceiling: Number(show.ceiling.0 + NUMBER_BLOCK),
        };
        let is_ours = shows.begin_mend(show, begun.ceiling).await?;
        Ok(is_ours.then_some(begun))
    }

    /// Whether it still is the latest that SQL knows of.
    pub fn is_latest(&self, show: &Show) -> bool {
        let latest = (show.edition, show.generation, show.ceiling);
        (self.edition, self.generation, self.ceiling) == latest
    }
}

/// Mends the room of `show`, as SQL has it, or goes on with what was begun. For `split_brain_ms` a room
/// that was taken for lost may go on beside the mended one. Where this fails, `begun` is what may be
/// tried again.
///
/// # Errors
/// [`MendError`] where a store is away.
pub async fn mend(
    rooms: &Rooms,
    shows: &dyn Store,
    show: &Show,
    begun: &mut Option<Begun>,
    split_brain_ms: u64,
) -> Result<Attempt, MendError> {
    if begun.is_none() {
        *begun = Begun::of(shows, show).await?;
    }
    let Some(ours) = *begun else {
        return Ok(Attempt::Overtaken);
    };
    let mender = Mender {
        rooms,
        shows,
        show,
        begun: ours,
    };
    let prepared = mender.prepare(split_brain_ms).await;
    if !matches!(prepared, Err(Stop::Failed(_))) {
        // From here on a server may be whole in this generation. Another must never be: both would
        // give the same numbers.
        *begun = None;
    }
    let mended = match prepared {
        Ok(finish) => mender.finish(finish).await,
        Err(stop) => Err(stop),
    };
    match mended {
        Ok(()) => Ok(Attempt::Whole(ours.generation)),
        Err(Stop::Overtaken) => Ok(Attempt::Overtaken),
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// Why a mender goes no further.
enum Stop {
    Overtaken,
    Failed(MendError),
}

impl<E: Into<MendError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// What a room that was lost still holds.
struct Found {
    /// Room time when it was first looked at: all that it did was before.
    at: Timestamp,
    /// The last number that it had issued, 0 where nothing of it counts.
    issued: Number,
}

/// One attempt, whose generation SQL has.
struct Mender<'a> {
    rooms: &'a Rooms,
    shows: &'a dyn Store,
    show: &'a Show,
    begun: Begun,
}

impl Mender<'_> {
    /// Everything but the last step; that step.
    async fn prepare(&self, split_brain_ms: u64) -> Result<Finish, Stop> {
        let (show, generation) = (self.show, self.begun.generation);
        self.take(Mend::Begin {
            edition: show.edition,
            generation,
            mended: show.mended,
        })
        .await?;
        let found = self.copy_what_is_left().await?;
        let fold = self.fold_ledger().await?;
        let fans: Vec<(FanId, Folded)> = fold
            .fans
            .iter()
            .map(|(fan, folded)| (*fan, *folded))
            .collect();
        for part in fans.chunks(BATCH_MAX) {
            let folded = part.to_vec();
            self.take(Mend::Fold { generation, folded }).await?;
        }
        let loss = Loss {
            edition: show.edition,
            generation,
            found_at: found.at,
        };
        let (not_before, restoring_ms) = match self.shows.keep_loss(&show.id, &loss).await? {
            Kept::Overtaken => return Err(Stop::Overtaken),
            Kept::First => (fold.at, 0),
            Kept::Later => (
                fold.at.max(show.checkpoint_at),
                restoring_ms(show, found.issued, split_brain_ms),
            ),
        };
        Ok(Finish {
            generation,
            configure: configure(show),
            state: RoomState::of_word(&show.state).unwrap_or(RoomState::Paused),
            serving: fold.serving,
            known: Number(fold.serving.0).max(show.issued),
            issued: self.begun.issued,
            ceiling: self.begun.ceiling,
            not_before,
            restoring_ms,
            stock: None,
            draw: kept(show),
        })
    }

    async fn finish(&self, finish: Finish) -> Result<(), Stop> {
        let generation = finish.generation;
        self.take(Mend::Finish(Box::new(finish))).await?;
        Ok(self.shows.end_mend(&self.show.id, generation).await?)
    }

    async fn take(&self, step: Mend) -> Result<Mended, Stop> {
        match self.rooms.mend(&self.show.id, step).await? {
            Mended::Stale => Err(Stop::Overtaken),
            done => Ok(done),
        }
    }

    /// Copies what the room still holds of its ledger, page by page.
    async fn copy_what_is_left(&self) -> Result<Found, Stop> {
        let (show, generation, max) = (self.show, self.begun.generation, LEDGER_COPY_MAX);
        let (mut through, mut found_at) = (0, None);
        loop {
            let copy = Mend::Copy {
                generation,
                through,
                max,
            };
            let Mended::Found {
                now,
                issued,
                entries,
            } = self.take(copy).await?
            else {
                let error = anyhow!("the outcome is not of the command's kind");
                return Err(RoomError::Corrupt(error).into());
            };
            let at = *found_at.get_or_insert(now);
            let Some(last) = entries.last() else {
                return Ok(Found { at, issued });
            };
            through = last.seq;
            let rows: Vec<_> = entries
                .iter()
                .map(|entry| row_of(show.edition, entry))
                .collect();
            let append = self.shows.append_ledger(&show.id, generation, &rows);
            if !append.await? {
                return Err(Stop::Overtaken);
            }
        }
    }

    async fn fold_ledger(&self) -> Result<Fold, Stop> {
        let (show, mut fold, mut after) = (self.show, Fold::default(), (Generation(0), 0));
        loop {
            let page = self.shows.ledger(&show.id, show.edition, after, PAGE);
            let rows = page.await?;
            for row in &rows {
                let entry = entry_of(row).map_err(|error| ShowError::Corrupt(error.into()))?;
                fold.read(&entry);
            }
            match rows.last() {
                Some(last) => after = (last.generation, last.seq),
                None => return Ok(fold),
            }
        }
    }
}

/// For how long nobody is called in a later life: at least one window, since nobody knows the calls of the
/// lost one, and as long as the lost one may go on; and where fans are missing, until they had time to come
/// back at the rate at which they may.
fn restoring_ms(show: &Show, found: Number, split_brain_ms: u64) -> u64 {
    let least_ms = (show.settings.window_ms + 1).max(split_brain_ms);
    // An old replica lacks those who joined since; a room without data lacks all.
    let missing = show.waiting.min(show.issued.0.saturating_sub(found.0));
    if missing == 0 && found != Number(0) {
        return least_ms;
    }
    let back_ms = missing * 1_000 / show.settings.restore_per_s.max(1) + RESTORE_SLACK_MS;
    least_ms.max(back_ms)
}
