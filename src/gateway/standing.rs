//! How one fan stands: from memory while they wait, from the room once their place is reached.

use crate::base::ids::{FanId, Number, Place};
use crate::base::limits::{POLL_MS_MAX, POLL_MS_MIN, PRESENT_MS};
use crate::base::time::Timestamp;
use crate::gateway::Gateway;
use crate::gateway::boards::Seen;
use crate::gateway::credentials::no_pass;
use crate::gateway::room_unavailable;
use crate::gateway::wire::{gone_word, line_word};
use crate::http::problem::Problem;
use crate::room::StoreError;
use crate::room::estimate::{self, Eta};
use crate::room::model::command::{Board, Claimed, Gone, Restored, Restoring, RoomState, Touched};
use crate::room::position::position;
use crate::telemetry::metrics;
use crate::token::pass::Pass;
use crate::token::ticket::Ticket;

/// How often a page whose fan is inside asks whether they still are.
const POLL_INSIDE_MS: u64 = 15_000;

/// Where a fan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// In the queue.
    InLine,
    /// Came back after the slot had lapsed: next.
    Standby,
    /// May buy until then.
    Admitted { until: Timestamp },
    /// The turn is over.
    Gone(Gone),
}

/// One fan's view of a board.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) board: &'a Board,
    pub(crate) now: Timestamp,
    /// None before the draw that is to give the fan one.
    pub(crate) place: Option<Place>,
    pub(crate) standing: Standing,
    fan: FanId,
}

impl<'a> View<'a> {
    pub(crate) fn new(seen: &'a Seen, pass: &Pass, standing: Standing) -> Self {
        Self {
            board: &seen.board,
            now: seen.now(),
            place: seen.place(pass.number),
            standing,
            fan: pass.fan,
        }
    }

    /// The word for it.
    pub(crate) fn state(&self) -> &'static str {
        match self.standing {
            Standing::InLine => line_word(self.board.state),
            // Nobody is called any more: being next means nothing.
            Standing::Standby if self.is_over() => line_word(self.board.state),
            Standing::Standby => "standby",
            Standing::Admitted { .. } => "admitted",
            Standing::Gone(_) => "gone",
        }
    }

    /// Whether the sale has ended.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.board.state, RoomState::SoldOut | RoomState::Closed)
    }

    /// Why the turn is over, if it is.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        match self.standing {
            Standing::Gone(gone) => Some(gone_word(gone)),
            Standing::InLine | Standing::Standby | Standing::Admitted { .. } => None,
        }
    }

    /// The position of a fan in the queue.
    pub(crate) fn position(&self) -> Option<u64> {
        let place = self.place.filter(|_| self.standing == Standing::InLine)?;
        Some(position(self.board, place))
    }

    /// How long it may take a fan in the queue.
    pub(crate) fn eta(&self) -> Option<Eta> {
        let place = self.place.filter(|_| self.standing == Standing::InLine)?;
        let eta = estimate::eta(self.board, place, self.now)?;
        Some(Eta {
            cause: self.board.measured.cause,
            ..eta
        })
    }

    /// Whether the fan's turn lies ahead.
    fn is_ahead(&self) -> bool {
        self.place.is_none_or(|place| self.board.serving < place)
    }

    /// Whether it is time for the fan to show that they are there, where the show asks for that.
    fn is_near(&self) -> bool {
        let asks = self.board.settings.require_presence && self.board.state == RoomState::Open;
        asks && self.eta().is_some_and(|eta| eta.low * 1_000 <= PRESENT_MS)
    }

    /// When to ask again.
    pub(crate) fn poll_after_ms(&self) -> u64 {
        let head = self.fan.0.first_chunk().expect("eight bytes of sixteen");
        let seed = u64::from_be_bytes(*head) ^ self.now.unix_ms();
        match self.standing {
            Standing::InLine if !self.is_ahead() => POLL_MS_MIN,
            Standing::InLine if self.is_near() => {
                estimate::poll_after_ms(self.board, self.eta(), seed).min(PRESENT_MS / 4)
            }
            Standing::InLine => estimate::poll_after_ms(self.board, self.eta(), seed),
            Standing::Standby => estimate::poll_next_after_ms(self.board, seed),
            Standing::Admitted { .. } => POLL_INSIDE_MS,
            Standing::Gone(_) => POLL_MS_MAX,
        }
    }
}

/// How the fan of this pass stands by a board, which is the one that was seen or one of [`Seen::raised`].
/// While their place lies ahead, no room is asked.
///
/// # Errors
/// 401 for a pass of another edition, 503 where the room's data is older than the pass.
pub(crate) async fn ask<'a>(
    gateway: &Gateway,
    seen: &'a Seen,
    board: &'a Board,
    pass: &Pass,
) -> Result<View<'a>, Problem> {
    let mut view = View {
        board,
        ..View::new(seen, pass, Standing::InLine)
    };
    let generation = seen.board.generation;
    let may_be_lost =
        pass.generation < generation && gateway.restored.get(&pass.fan) != Some(generation);
    if may_be_lost {
        view.standing = Box::pin(restore_or_wait(gateway, seen, pass)).await?;
        return Ok(view);
    }
    if view.is_ahead()
        && gateway.left.get(&pass.fan).is_none()
        && (!view.is_near() || Box::pin(is_there(gateway, pass)).await)
    {
        return Ok(view);
    }
    view.standing = Box::pin(claim(gateway, seen, pass)).await?;
    Ok(view)
}

/// Asks the room. What waits for a room is boxed: nearly every poll is answered without it.
async fn claim(gateway: &Gateway, seen: &Seen, pass: &Pass) -> Result<Standing, Problem> {
    match gateway.rooms.claim(&pass.show, pass.fan).await {
        Ok(Claimed::Unknown) => restore_or_wait(gateway, seen, pass).await,
        Ok(claimed) => Ok(of_claimed(claimed, seen, pass)),
        Err(error) => wait(error),
    }
}

/// Shows the room that the fan is there. Whether they are in the queue; where nobody can know it, the
/// board's word is better than none.
async fn is_there(gateway: &Gateway, pass: &Pass) -> bool {
    let touched = gateway.rooms.touch(&pass.show, pass.fan).await;
    metrics::touch(match &touched {
        Ok(Touched::Waiting) => "waiting",
        Ok(Touched::Elsewhere) => "elsewhere",
        Err(_) => "unavailable",
    });
    !matches!(touched, Ok(Touched::Elsewhere))
}

/// The next poll asks again; until then the board's word is better than none.
fn wait(error: StoreError) -> Result<Standing, Problem> {
    match error {
        StoreError::Unfenced | StoreError::Overloaded | StoreError::Unavailable(_) => {
            metrics::claim("unavailable");
            Ok(Standing::InLine)
        }
        StoreError::Corrupt(_) => Err(error.into()),
    }
}

async fn restore_or_wait(gateway: &Gateway, seen: &Seen, pass: &Pass) -> Result<Standing, Problem> {
    match show(gateway, seen, pass).await {
        Ok(Restored::OutOfMemory) => wait(StoreError::out_of_memory()),
        Ok(restored) => of_restored(gateway, restored, seen, pass),
        Err(error) => wait(error),
    }
}

/// Shows a pass to the room, which may have lost its fan. Answers the number that counts, too: where the
/// pass is the second that its fan was given, that of the first.
///
/// # Errors
/// 401 for a pass of another edition, 503 where the room is away or older than the pass.
pub(crate) async fn restore(
    gateway: &Gateway,
    seen: &Seen,
    pass: &Pass,
) -> Result<(Standing, Number), Problem> {
    let restored = show(gateway, seen, pass).await?;
    let number = if let Restored::Known(Claimed::Waiting { number }) = restored {
        number
    } else {
        pass.number
    };
    Ok((of_restored(gateway, restored, seen, pass)?, number))
}

async fn show(gateway: &Gateway, seen: &Seen, pass: &Pass) -> Result<Restored, StoreError> {
    let restoring = Restoring {
        fan: pass.fan,
        number: pass.number,
        edition: pass.edition,
        generation: pass.generation,
        place: seen.drawn(pass.number),
    };
    gateway.rooms.restore(&pass.show, restoring).await
}

fn of_restored(
    gateway: &Gateway,
    restored: Restored,
    seen: &Seen,
    pass: &Pass,
) -> Result<Standing, Problem> {
    metrics::restore(match restored {
        Restored::Waiting => "waiting",
        Restored::Returned => "returned",
        Restored::Known(_) => "known",
        Restored::Void => "void",
        Restored::Ahead => "ahead",
        Restored::Placeless => "placeless",
        Restored::OutOfMemory => "out_of_memory",
    });
    let standing = match restored {
        Restored::Waiting => Standing::InLine,
        Restored::Returned => Standing::Standby,
        Restored::Known(claimed) => of_claimed(claimed, seen, pass),
        Restored::Void => return Err(no_pass()),
        Restored::Ahead | Restored::Placeless => {
            return Err(room_unavailable("mending"));
        }
        Restored::OutOfMemory => return Err(StoreError::out_of_memory().into()),
    };
    gateway.restored.insert(pass.fan, seen.board.generation);
    Ok(standing)
}

fn of_claimed(claimed: Claimed, seen: &Seen, pass: &Pass) -> Standing {
    let (outcome, standing) = match claimed {
        Claimed::Admitted { until, first } => {
            if first {
                measure_eta(pass, seen.now());
            }
            let outcome = if first { "first" } else { "again" };
            (outcome, Standing::Admitted { until })
        }
        Claimed::Waiting { .. } => ("waiting", Standing::InLine),
        Claimed::Returned { .. } => ("returned", Standing::Standby),
        Claimed::Gone(gone) => ("gone", Standing::Gone(gone)),
        // Who is unknown right after a restore has left the room in between.
        Claimed::Unknown => ("unknown", Standing::InLine),
    };
    metrics::claim(outcome);
    standing
}

/// Compares what was shown at join with what happened. Nothing is stored for it: the pass says it.
#[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
fn measure_eta(pass: &Pass, now: Timestamp) {
    let Some((low, high)) = pass.eta else {
        return;
    };
    let middle_ms = (u64::from(low) + u64::from(high)) * 500;
    let waited_ms = now.ms_since(pass.issued_at);
    metrics::eta_error(waited_ms.abs_diff(middle_ms) as f64 / middle_ms.max(1_000) as f64);
}

/// The ticket of an admitted fan: the same id on every claim.
pub(crate) fn ticket(gateway: &Gateway, seen: &Seen, pass: &Pass, until: Timestamp) -> String {
    let id = gateway.keys.ticket_id(&pass.show, pass.edition, pass.fan);
    let ticket = Ticket {
        show: pass.show.clone(),
        fan: pass.fan,
        id,
        edition: pass.edition,
        generation: seen.board.generation,
        issued_at: seen.now(),
        expires_at: until,
    };
    ticket.mint(&gateway.keys)
}
