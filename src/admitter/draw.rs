//! The draw of a show, from its seal to the places of each tick.
//!
//! ```text
//! seal (SQL) ─ born ─ … ─ due ─► freeze (room) ─► size (SQL) ─► beacon ─► seed (SQL) ─► open (room)
//! ```
//!
//! The process may die, and the room may lose its data, between any two of these. Whoever leads looks
//! at what SQL and the room have, and takes the next step that is missing. Every step may be taken
//! twice: SQL keeps the first word, and the room refuses what is not its draw.

use std::sync::Arc;

use crate::admitter::settings::configure;
use crate::admitter::step::Led;
use crate::admitter::{Admitter, VisitError};
use crate::base::ids::{Number, Place, Seed};
use crate::base::limits::TICK_PLACES_MAX;
use crate::room::draw::{self, Table};
use crate::room::model::command::{Board, Draw, DrawOpened, Drawn, Frozen, Step};
use crate::room::position::places_to_name;
use crate::show::Show;
use crate::show::draw::{DrawFact, Sealed};
use crate::telemetry::metrics;

/// How far a draw is, as the leader saw it last.
#[derive(Debug, Clone, Default)]
pub(super) struct Turn {
    /// The draw and the last place passed.
    pub(super) at: Option<(Draw, Place)>,
    table: Option<Arc<Table>>,
}

/// Whether a show draws and its draw has yet to be sealed. Until then it has no room: no pass may be
/// without the commitment.
pub(super) fn is_unsealed(show: &Show) -> bool {
    show.settings.draw && show.draw.is_none()
}

/// The draw as SQL has it, for a room that is mended: its size and seed come from nowhere else.
pub(super) fn kept(show: &Show) -> Option<Draw> {
    let draw = show.draw.as_ref()?;
    Some(Draw {
        size: draw.size?.0,
        seed: draw.seed,
    })
}

/// What follows from a draw as SQL has it; none as long as its size or its beacon is not known.
fn seed_of(show: &Show) -> Option<(Number, Seed)> {
    let draw = show.draw.as_ref()?;
    let size = draw.size?;
    if let Some(seed) = draw.seed {
        return Some((size, seed));
    }
    if show.settings.beacon.is_some() && draw.beacon_value.is_none() {
        return None;
    }
    let value = draw.beacon_value.as_deref().unwrap_or_default();
    let seed = draw::seed(&show.id, &draw.sealed.secret, value, size.0);
    Some((size, seed))
}

impl Admitter {
    /// Seals a draw with a secret that nobody knows.
    pub(super) async fn seal(&mut self, show: &Show) -> Result<(), VisitError> {
        let secret = self.ids.draw_secret();
        let beacon = show.settings.beacon.as_deref().unwrap_or_default();
        let commitment = draw::commitment(&show.id, &secret, beacon);
        let sealed = DrawFact::Sealed(Sealed { secret, commitment });
        self.shows.keep_draw(&show.id, show.edition, sealed).await?;
        self.listed_at = None;
        Ok(())
    }

    /// Takes the next step of an opening that waits for its draw.
    pub(super) async fn draw_lots(&mut self, show: &Show, step: &Step) -> Result<(), VisitError> {
        let Some(frozen) = step.draw else {
            return self.freeze(show).await;
        };
        let is_kept = show.draw.as_ref().is_some_and(|draw| draw.size.is_some());
        if !is_kept {
            // The last leader died before SQL had it, or our list is older than that.
            return self.keep_size(show, frozen.size).await;
        }
        let Some((size, seed)) = seed_of(show) else {
            return Ok(()); // the beacon has not spoken
        };
        let fact = DrawFact::Seed(seed);
        self.shows.keep_draw(&show.id, show.edition, fact).await?;
        // SQL's word counts, whoever wrote it; and fans are to have the secret with the seed.
        let Some(current) = self.shows.get(&show.id).await? else {
            return Ok(());
        };
        self.rooms.configure(&show.id, configure(&current)).await?;
        let opened = self.rooms.open_draw(&show.id, size.0, seed).await?;
        metrics::draw(match opened {
            DrawOpened::Now => "opened",
            DrawOpened::Before => "open",
            DrawOpened::Refused => "refused",
        });
        tracing::info!(show.id = %show.id, draw.size = size.0, outcome = ?opened, "draw is held");
        self.listed_at = None;
        Ok(())
    }

    async fn freeze(&mut self, show: &Show) -> Result<(), VisitError> {
        match self.rooms.freeze(&show.id).await? {
            Frozen::At { size } => {
                tracing::info!(show.id = %show.id, draw.size = size, "draw is frozen");
                metrics::draw("frozen");
                self.keep_size(show, size).await
            }
            Frozen::NotDue => Ok(()),
        }
    }

    async fn keep_size(&mut self, show: &Show, size: u64) -> Result<(), VisitError> {
        let fact = DrawFact::Size(Number(size));
        self.shows.keep_draw(&show.id, show.edition, fact).await?;
        self.listed_at = None;
        Ok(())
    }
}

impl Led {
    /// Who is next by the draw, for a tick that asks for `want`; none before it is open and once it
    /// is through.
    pub(super) async fn drawn(&mut self, board: &Board, want: u64) -> Option<Drawn> {
        let (draw, serving) = match self.turn.at {
            Some(at) => at,
            None => (board.draw?, board.serving),
        };
        let seed = draw.seed?;
        if draw.size <= serving.0 {
            self.turn.table = None;
            return None;
        }
        let most = if board.draw == Some(draw) {
            places_to_name(board, want).min(TICK_PLACES_MAX)
        } else {
            TICK_PLACES_MAX
        };
        let table = self.turn.table_of(seed, draw.size).await;
        Some(Drawn {
            seed,
            serving,
            numbers: table.next(serving, most),
        })
    }
}

impl Turn {
    async fn table_of(&mut self, seed: Seed, size: u64) -> Arc<Table> {
        let known = self.table.as_ref();
        if let Some(table) = known.filter(|table| (table.seed(), table.size()) == (seed, size)) {
            return Arc::clone(table);
        }
        let built = tokio::task::spawn_blocking(move || Arc::new(Table::new(&seed, size)));
        let table = built.await.expect("a table of a size that fits is built");
        self.table = Some(Arc::clone(&table));
        table
    }
}
