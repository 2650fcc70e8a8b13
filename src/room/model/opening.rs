//! The opening of a show that draws: first it is settled who takes part, then the draw is opened.
//!
//! Between the two stand SQL and, where one was announced, a beacon: whoever steers the opening has
//! written the size down before anybody can know the seed. Each step may be said again.

use crate::base::ids::Number;
use crate::base::limits::DRAW_SIZE_MAX;
use crate::base::time::Timestamp;
use crate::room::draw::{Draw, Seed};
use crate::room::model::command::{DrawOpened, Frozen, RoomState};
use crate::room::model::{State, schedule};

/// Who has joined takes part. Numbers of them that nobody holds are places that will be passed over;
/// so they are no gap of the line any more.
pub(super) fn freeze(room: &mut State) -> Frozen {
    if let Some(Draw { size, .. }) = room.draw {
        return Frozen::At { size };
    }
    if !room.opening {
        return Frozen::NotDue;
    }
    let size = room.seq.0.min(DRAW_SIZE_MAX);
    room.draw = Some(Draw { size, seed: None });
    room.gaps.retain(|gap| Number(size) < gap.last);
    room.changed();
    Frozen::At { size }
}

/// From now on places are the draw's. Calling begins, unless the operator has thought better of it.
pub(super) fn open(room: &mut State, now: Timestamp, size: u64, seed: Seed) -> DrawOpened {
    let asked = Draw {
        size,
        seed: Some(seed),
    };
    if room.draw == Some(asked) {
        return DrawOpened::Before;
    }
    let frozen = Draw { size, seed: None };
    if room.draw != Some(frozen) || !room.needs_draw() {
        return DrawOpened::Refused;
    }
    let is_awaited = room.opening;
    room.draw = Some(asked);
    if is_awaited {
        schedule::enter(room, now, RoomState::Open);
    }
    room.changed();
    DrawOpened::Now
}
