//! Join: fans take numbers.

use crate::base::ids::{FanId, Number};
use crate::base::time::Timestamp;
use crate::room::model::State;
use crate::room::model::command::{Gone, Joined, Joining, RoomState};
use crate::room::model::line::{Standing, number_of};

/// One answer a fan, in order. Asking again gives the same number.
///
/// `Origin::Minted` spares other stores a look-up. Here the look-up is made for everybody: the
/// answer is the same, and a lie about the origin cannot give a fan two numbers.
pub(super) fn join(room: &mut State, now: Timestamp, joining: &[Joining]) -> Vec<Joined> {
    joining
        .iter()
        .map(|joining| join_one(room, now, joining.fan))
        .collect()
}

fn join_one(room: &mut State, now: Timestamp, fan: FanId) -> Joined {
    match room.line.standing(fan) {
        Some(Standing::Waiting { number }) => Joined::Kept { number },
        Some(Standing::Called { place, .. } | Standing::Returned { place }) => {
            if Some(place.0) <= room.draw_size() {
                Joined::Drawn { place }
            } else {
                let number = number_of(place);
                Joined::Kept { number }
            }
        }
        Some(Standing::Admitted { until, .. }) if now < until => Joined::Admitted { until },
        Some(Standing::Admitted { .. }) => Joined::Gone(Gone::Expired),
        Some(Standing::Ended(why)) => Joined::Gone(why.into()),
        None => join_anew(room, now, fan),
    }
}

fn join_anew(room: &mut State, now: Timestamp, fan: FanId) -> Joined {
    match room.state {
        RoomState::Scheduled => {
            let begins = room.settings.early_at.or(room.settings.opens_at);
            return Joined::Scheduled {
                opens_in_ms: begins.map(|begins| begins.ms_since(now)),
            };
        }
        RoomState::SoldOut | RoomState::Closed | RoomState::Off => {
            return Joined::Refused(room.state);
        }
        RoomState::Early | RoomState::Open | RoomState::Paused | RoomState::Restoring => {}
    }
    if room.settings.waiting_max <= room.line.waiting() {
        return Joined::Full;
    }
    if room.ceiling <= room.seq {
        return Joined::Busy;
    }
    let number = Number(room.seq.0 + 1);
    room.seq = number;
    room.line.set(fan, Standing::Waiting { number });
    room.changed();
    Joined::New { number }
}
