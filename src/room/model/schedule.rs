//! The states of a room: the schedule, the operator's verbs, sold out.
//!
//! The schedule moves a room only forward, and only once at each of its hours: a verb that comes
//! after an hour overrules it.

use crate::base::time::Timestamp;
use crate::room::model::State;
use crate::room::model::command::{Configure, Configured, RoomState, Settings, Stock};

/// Moves the room to the state that the time asks for.
pub(super) fn pass_hours(room: &mut State, now: Timestamp) {
    if room.state == RoomState::Restoring && room.restoring_until.is_none_or(|until| until <= now) {
        let after = room.state_after;
        enter(room, now, after);
    }
    if room.restoring_until.is_some_and(|until| until <= now) {
        room.restoring_until = None;
    }
    let due = due(room, now);
    let waits_for_draw = room.opening && due == RoomState::Open && room.needs_draw();
    if due != room.state && !waits_for_draw {
        enter(room, now, due);
    }
    if room.state == RoomState::Open && is_sold_out(room) {
        enter(room, now, RoomState::SoldOut);
    }
}

fn due(room: &State, now: Timestamp) -> RoomState {
    let has_come = |hour: Option<Timestamp>| {
        hour.is_some_and(|hour| hour <= now && room.verb_at.is_none_or(|verb| verb < hour))
    };
    let Settings {
        early_at,
        opens_at,
        closes_at,
        ..
    } = room.settings;
    match room.state {
        RoomState::Scheduled | RoomState::Early | RoomState::Open | RoomState::Paused
            if has_come(closes_at) =>
        {
            RoomState::Closed
        }
        RoomState::Scheduled | RoomState::Early if has_come(opens_at) => RoomState::Open,
        RoomState::Early if room.opening => RoomState::Open,
        RoomState::Scheduled if has_come(early_at) => RoomState::Early,
        // The operator took the schedule away.
        RoomState::Scheduled if early_at.is_none() && opens_at.is_none() => RoomState::Early,
        RoomState::Scheduled
        | RoomState::Early
        | RoomState::Open
        | RoomState::Paused
        | RoomState::SoldOut
        | RoomState::Closed
        | RoomState::Restoring
        | RoomState::Off => room.state,
    }
}

/// Puts settings and verb in force.
pub(super) fn configure(room: &mut State, now: Timestamp, asked: &Configure) -> Configured {
    if asked.version <= room.version {
        return Configured::Before;
    }
    room.version = asked.version;
    if room.settings.window_ms != asked.settings.window_ms {
        room.quota.burn(now);
    }
    room.settings = asked.settings.clone();
    if let Some((version, state)) = asked.verb
        && room.verb_version < version
    {
        room.verb_version = version;
        room.verb_at = Some(now);
        enter(room, now, state);
    }
    room.changed();
    Configured::Now
}

/// Takes note of what the shop has left. The same version again, later, says that it is still true.
pub(super) fn tell_stock(room: &mut State, now: Timestamp, told: &Stock) {
    if room
        .stock
        .is_some_and(|known| (told.version, told.as_of) <= (known.version, known.as_of))
    {
        return;
    }
    room.stock = Some(*told);
    if room.state == RoomState::Open && is_sold_out(room) {
        enter(room, now, RoomState::SoldOut);
    }
    room.changed();
}

/// Nothing is free or held, and the operator has not opened the room in spite of that.
fn is_sold_out(room: &State) -> bool {
    room.stock.is_some_and(|stock| {
        stock.free == 0 && stock.held == 0 && room.overruled_stock < Some(stock.version)
    })
}

/// Puts the room into the state that was asked for. Where a draw has yet to be held, opening waits for
/// it: the room stays early, and the next tick says so.
pub(super) fn enter(room: &mut State, now: Timestamp, asked: RoomState) {
    room.opening = asked == RoomState::Open && room.needs_draw();
    let state = if room.opening {
        RoomState::Early
    } else {
        asked
    };
    room.open_since = match state {
        RoomState::Open => room.open_since.or(Some(now)),
        RoomState::Scheduled
        | RoomState::Early
        | RoomState::Paused
        | RoomState::SoldOut
        | RoomState::Closed
        | RoomState::Restoring
        | RoomState::Off => None,
    };
    if room.state == RoomState::SoldOut && state == RoomState::Open {
        room.overruled_stock = room.stock.map(|stock| stock.version);
    }
    room.sold_out_at = match state {
        RoomState::SoldOut => room.sold_out_at.or(Some(now)),
        RoomState::Scheduled | RoomState::Early | RoomState::Open => None,
        RoomState::Paused | RoomState::Closed | RoomState::Restoring | RoomState::Off => {
            room.sold_out_at
        }
    };
    // Time or the operator ends the wait for those who were lost.
    room.restoring_until = None;
    room.state = state;
    room.changed();
}
