//! The board: what everybody may see of a room.

use crate::base::ids::Number;
use crate::base::time::Timestamp;
use crate::room::model::State;
use crate::room::model::command::{Board, Cause, Measured, RoomState};

pub(super) fn board(room: &State, now: Timestamp) -> Board {
    Board {
        version: room.version,
        verb_version: room.verb_version,
        settings: room.settings.clone(),
        edition: room.edition,
        generation: room.generation,
        state: room.state,
        serving: room.serving,
        issued: room.seq,
        ceiling: room.ceiling,
        waiting: room.line.waiting(),
        standby: room.line.standby(),
        live: room.line.live(),
        gaps: room.gaps.clone(),
        measured: Measured {
            cause: cause(room),
            ..room.measured
        },
        stock: room.stock,
        sold_out_at: room.sold_out_at,
        restoring_until: room
            .restoring_until
            .filter(|_| room.state == RoomState::Restoring),
        now,
        uncopied: room.ledger.uncopied(),
        draw: room.draw,
        empty: empty(room),
        leader: (now < room.lease.until).then(|| room.lease.holder.clone()),
    }
}

/// Places of the draw that are still ahead and whose numbers nobody in the queue holds.
fn empty(room: &State) -> u64 {
    match room.draw_size() {
        Some(size) if room.is_drawing() => {
            let held = room.line.waiting_up_to(Number(size));
            (size - room.serving.0).saturating_sub(held)
        }
        Some(_) | None => 0,
    }
}

/// The room's own reason to be slow, else the measured one.
fn cause(room: &State) -> Option<Cause> {
    let all_in_carts = room
        .stock
        .is_some_and(|stock| stock.free == 0 && 0 < stock.held);
    match room.state {
        RoomState::Paused => Some(Cause::Paused),
        RoomState::Restoring => Some(Cause::Restoring),
        RoomState::Open if all_in_carts => Some(Cause::InCarts),
        RoomState::Open
        | RoomState::Scheduled
        | RoomState::Early
        | RoomState::SoldOut
        | RoomState::Closed
        | RoomState::Off => room.measured.cause,
    }
}
