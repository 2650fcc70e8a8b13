//! Builds a room from SQL: for a new show from an empty ledger, after a loss from what was copied.
//!
//! Every step may run twice. The generation is raised first, in SQL, where it still is what was
//! read; every later step names it, and the room refuses steps of another one. A mender that slept
//! or died is therefore overtaken, never in the way.

use crate::admitter::draw::kept;
use crate::admitter::ledger::entry_of;
use crate::admitter::settings::configure;
use crate::base::ids::{FanId, Generation, Number};
use crate::base::limits::{BATCH_MAX, NUMBER_BLOCK};
use crate::room::fold::Fold;
use crate::room::model::command::{Finish, Folded, Mend, Mended, RoomState};
use crate::room::{Rooms, StoreError as RoomError};
use crate::show::{Show, Store, StoreError as ShowError};

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

/// Mends the room of `show`, as SQL has it.
///
/// # Errors
/// [`MendError`] where a store is away; the next attempt begins anew.
pub async fn mend(rooms: &Rooms, shows: &dyn Store, show: &Show) -> Result<Attempt, MendError> {
    let ceiling = Number(show.ceiling.0 + NUMBER_BLOCK);
    if !shows.begin_mend(&show.id, show.generation, ceiling).await? {
        return Ok(Attempt::Overtaken);
    }
    let generation = Generation(show.generation.0 + 1);
    let fold = fold_ledger(shows, show).await?;

    let begin = Mend::Begin {
        edition: show.edition,
        generation,
        mended: show.mended,
    };
    let mut steps = vec![begin];
    let fans: Vec<(FanId, Folded)> = fold
        .fans
        .iter()
        .map(|(fan, folded)| (*fan, *folded))
        .collect();
    steps.extend(fans.chunks(BATCH_MAX).map(|part| Mend::Fold {
        generation,
        folded: part.to_vec(),
    }));
    steps.push(Mend::Finish(Box::new(finish(
        show, generation, &fold, ceiling,
    ))));
    for step in steps {
        if rooms.mend(&show.id, step).await? == Mended::Stale {
            return Ok(Attempt::Overtaken);
        }
    }
    shows.end_mend(&show.id, generation).await?;
    Ok(Attempt::Whole(generation))
}

async fn fold_ledger(shows: &dyn Store, show: &Show) -> Result<Fold, MendError> {
    let (mut fold, mut after) = (Fold::default(), (Generation(0), 0));
    loop {
        let rows = shows.ledger(&show.id, show.edition, after, PAGE).await?;
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

fn finish(show: &Show, generation: Generation, fold: &Fold, ceiling: Number) -> Finish {
    let is_new = show.mended == Generation(0) && fold.fans.is_empty();
    // A restarted line waits until the fans could come back: the whole crowd at the rate at which
    // they may, and at least one window, since the quota of the lost one is not known.
    let back_ms = show.waiting * 1_000 / show.settings.restore_per_s.max(1) + RESTORE_SLACK_MS;
    Finish {
        generation,
        configure: configure(show),
        state: RoomState::of_word(&show.state).unwrap_or(RoomState::Paused),
        serving: fold.serving,
        known: Number(fold.serving.0).max(show.issued),
        issued: show.ceiling,
        ceiling,
        restoring_ms: if is_new {
            0
        } else {
            back_ms.max(show.settings.window_ms + 1)
        },
        stock: None,
        draw: kept(show),
    }
}
