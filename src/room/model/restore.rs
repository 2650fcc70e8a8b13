//! Restore: fans whom the room has forgotten show their passes and stand where they stood.

use crate::base::ids::{Number, Place};
use crate::base::time::Timestamp;
use crate::room::model::State;
use crate::room::model::claim::claim_one;
use crate::room::model::command::{Restored, Restoring};
use crate::room::model::line::{Standing, place_of};

/// One answer a fan, in order. Whom the room knows it answers as a claim would: a pass can be older
/// than what has happened since. But who was given another number meanwhile, for the room had lost
/// them and they asked without the pass, gets the first one back.
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
    if !is_first(room, pass) {
        return Restored::Known(claim_one(room, now, pass.fan));
    }
    let place = match place_shown(room, pass) {
        Ok(place) => place,
        Err(refused) => return refused,
    };
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

/// Whether the number of a pass comes before what the room knows of its fan. Of two numbers that both
/// took part in a draw nobody may choose.
fn is_first(room: &State, pass: &Restoring) -> bool {
    match room.line.standing(pass.fan) {
        None => true,
        Some(Standing::Waiting { number }) => {
            pass.number < number && room.draw_size().is_none_or(|size| size < number.0)
        }
        Some(
            Standing::Called { .. }
            | Standing::Returned { .. }
            | Standing::Admitted { .. }
            | Standing::Ended(_),
        ) => false,
    }
}

/// The place of a pass: its number, or what the draw gave it. The room has no table, so for those who
/// took part the asker says it.
fn place_shown(room: &State, pass: &Restoring) -> Result<Place, Restored> {
    match (room.draw_size(), pass.place) {
        (None, None) => Ok(place_of(pass.number)),
        (None, Some(_)) => Err(Restored::Ahead),
        (Some(size), _) if size < pass.number.0 => Ok(place_of(pass.number)),
        (Some(size), Some(place)) if Place(0) < place && place.0 <= size => Ok(place),
        (Some(_), Some(_) | None) => Err(Restored::Placeless),
    }
}
