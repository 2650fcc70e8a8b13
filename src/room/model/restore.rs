//! Restore: fans whom the room has forgotten show their passes and stand where they stood.

use crate::base::ids::Number;
use crate::base::time::Timestamp;
use crate::room::model::State;
use crate::room::model::claim::claim_one;
use crate::room::model::command::{Restored, Restoring};
use crate::room::model::line::{Standing, place_of};

/// One answer a fan, in order. Whom the room knows it answers as a claim would: a pass can be older
/// than what has happened since.
pub(super) fn restore(room: &mut State, now: Timestamp, restoring: &[Restoring]) -> Vec<Restored> {
    restoring
        .iter()
        .map(|pass| restore_one(room, now, pass))
        .collect()
}

fn restore_one(room: &mut State, now: Timestamp, pass: &Restoring) -> Restored {
    if pass.edition != room.edition || pass.number == Number(0) {
        return Restored::Void;
    }
    // A number that this room has yet to issue comes from a later life of it, too.
    if room.generation < pass.generation || room.seq < pass.number {
        return Restored::Ahead;
    }
    if room.line.standing(pass.fan).is_some() {
        return Restored::Known(claim_one(room, now, pass.fan));
    }
    let place = place_of(pass.number);
    for gap in &mut room.gaps {
        if gap.first <= pass.number && pass.number <= gap.last {
            gap.restored += 1;
        }
    }
    room.changed();
    if room.serving < place {
        room.line.set(
            pass.fan,
            Standing::Waiting {
                number: pass.number,
            },
        );
        Restored::Waiting
    } else {
        room.line.set(pass.fan, Standing::Returned { place });
        Restored::Returned
    }
}
