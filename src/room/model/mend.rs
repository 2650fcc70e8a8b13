//! Mend: a room is put together from SQL, in steps that a later mend can overtake.
//!
//! A room that was lost answers nothing until `Finish`. A new show goes the same way, with an empty
//! ledger: there is no other way for a room to come to be.

use crate::base::ids::{FanId, Generation, Number};
use crate::base::time::Timestamp;
use crate::room::model::command::{Configure, Finish, Folded, Gap, Mend, Mended, RoomState};
use crate::room::model::ledger::Ledger;
use crate::room::model::line::{Standing, number_of, place_of};
use crate::room::model::{Fence, State, ledger, schedule};
use crate::room::quota::Quota;

pub(super) fn mend(room: &mut State, step: &Mend) -> Mended {
    match step {
        Mend::Begin {
            edition,
            generation,
            mended,
        } => {
            let mending = Fence::Mending {
                edition: *edition,
                generation: *generation,
            };
            if !is_later(room, mending) {
                return Mended::Stale;
            }
            begin(room, edition == &room.edition && mended == &room.generation);
            room.fence = mending;
        }
        Mend::Copy {
            generation,
            through,
            max,
        } => {
            if !is_current(room, *generation) {
                return Mended::Stale;
            }
            ledger::trim(room, *through);
            return Mended::Found {
                now: room.now(),
                issued: room.seq,
                entries: ledger::read(room, *max),
            };
        }
        Mend::Fold { generation, folded } => {
            if !is_current(room, *generation) {
                return Mended::Stale;
            }
            for (fan, folded) in folded {
                fold(room, *fan, *folded);
            }
        }
        Mend::Finish(rest) => match room.fence {
            Fence::Mending {
                edition,
                generation,
            } if generation == rest.generation => {
                room.edition = edition;
                room.generation = generation;
                let now = room.skip_time(rest.not_before);
                finish(room, now, rest);
            }
            // The answer was lost and the mender asks again.
            Fence::Whole if room.generation == rest.generation => return Mended::Done,
            Fence::Mending { .. } | Fence::Whole | Fence::Missing => return Mended::Stale,
        },
    }
    room.changed();
    Mended::Done
}

/// Whether this mend is newer than all that the room has seen. The same mend may begin again: its
/// mender had no answer.
fn is_later(room: &State, asked: Fence) -> bool {
    let Fence::Mending {
        edition,
        generation,
    } = asked
    else {
        return false;
    };
    let asked = (edition, generation);
    match room.fence {
        Fence::Mending {
            edition,
            generation,
        } => (edition, generation) <= asked,
        Fence::Whole | Fence::Missing => (room.edition, room.generation) < asked,
    }
}

/// Whether this is the mend under way: its mender has not been overtaken, nor the room lost again.
fn is_current(room: &State, asked: Generation) -> bool {
    match room.fence {
        Fence::Mending { generation, .. } => generation == asked,
        Fence::Missing | Fence::Whole => false,
    }
}

/// Empties the room. Clock and lease stay; queue and ledger where what was found counts.
fn begin(room: &mut State, counts: bool) {
    let before = std::mem::take(room);
    room.revision = before.revision;
    room.clock = before.clock;
    room.lease = before.lease;
    if counts {
        room.edition = before.edition;
        room.generation = before.generation;
        room.seq = before.seq;
        room.gaps = before.gaps;
        room.line = before.line;
        room.line.keep_queue_only();
        room.ledger = before.ledger;
    }
}

fn fold(room: &mut State, fan: FanId, folded: Folded) {
    let passed = match folded {
        Folded::Called { place, .. } | Folded::Claimed { place, .. } => place,
        Folded::Returned { place } => place,
        Folded::Ended(_) => room.serving,
    };
    room.serving = room.serving.max(passed);
    let standing = match folded {
        Folded::Called { until, place } => Standing::Called { until, place },
        Folded::Claimed { until, place } => Standing::Admitted { until, place },
        Folded::Returned { place } => Standing::Returned { place },
        Folded::Ended(why) => Standing::Ended(why),
    };
    room.line.set(fan, standing);
}

fn finish(room: &mut State, now: Timestamp, rest: &Finish) {
    let Configure {
        version,
        settings,
        verb,
    } = &rest.configure;
    room.version = *version;
    room.settings = settings.clone();
    room.verb_version = verb.map_or(0, |(version, _)| version);
    room.stock = rest.stock;

    // SQL's ceiling is never below what was issued; the greatest of all that we know is safe anyway.
    room.draw = rest.draw;
    let took_part = Number(rest.draw.map_or(0, |draw| draw.size));
    let known = rest.known.max(room.seq).max(took_part);
    room.serving = room.serving.max(rest.serving);
    room.seq = rest.issued.max(known).max(number_of(room.serving));
    room.ceiling = rest.ceiling.max(room.seq);
    if known < room.seq {
        room.gaps.push(Gap {
            first: Number(known.0 + 1),
            last: room.seq,
            restored: 0,
        });
    }
    let serving = room.serving;
    room.gaps
        .retain(|gap| serving < place_of(gap.last) && took_part < gap.last);
    if !room.is_drawing() {
        room.line.return_passed(serving);
    }

    let state = rest.state_before();
    room.quota = Quota::default();
    room.ledger = Ledger::default();
    room.state_after = state;
    schedule::enter(room, now, state);
    if 0 < rest.restoring_ms {
        // Nobody knows the calls of the last window.
        room.quota.burn(now);
        room.restoring_until = Some(now.plus_ms(rest.restoring_ms));
        (room.opening, room.open_since) = (false, None);
        room.state = match state {
            RoomState::Early | RoomState::Open | RoomState::Paused => RoomState::Restoring,
            // Nobody joins or is called in these; the schedule or the operator goes on from here.
            RoomState::Scheduled
            | RoomState::SoldOut
            | RoomState::Closed
            | RoomState::Restoring
            | RoomState::Off => state,
        };
    }
    room.fence = Fence::Whole;
}
