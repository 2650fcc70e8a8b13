//! Claim and check, extend, consume, leave, revoke: what becomes of a fan after the call.
//!
//! Each may be said again: the second time finds the work done and says so. Each works in every
//! state of the room, for pausing and closing end no admission.

use crate::base::ids::FanId;
use crate::base::time::Timestamp;
use crate::room::model::command::{
    AfterRevoke, Change, Checked, Claimed, Consumed, Ended, Extended, Gone, Left, Revoked,
};
use crate::room::model::line::Standing;
use crate::room::model::{State, ledger};

/// Called fans show up. The first claim starts the admission; who comes after the slot has lapsed
/// is next, by place.
pub(super) fn claim(room: &mut State, now: Timestamp, fans: &[FanId]) -> Vec<Claimed> {
    fans.iter().map(|fan| claim_one(room, now, *fan)).collect()
}

pub(super) fn claim_one(room: &mut State, now: Timestamp, fan: FanId) -> Claimed {
    match room.line.standing(fan) {
        None => Claimed::Unknown,
        Some(Standing::Waiting { number }) => Claimed::Waiting { number },
        Some(Standing::Returned { place }) => Claimed::Returned { place },
        Some(Standing::Called { until, place }) if now < until => {
            let until = now.plus_ms(room.settings.ticket_ttl_ms);
            room.line.set(fan, Standing::Admitted { until, place });
            ledger::write(room, now, Change::Claimed { fan, until });
            Claimed::Admitted { until, first: true }
        }
        Some(Standing::Called { place, .. }) => {
            room.line.set(fan, Standing::Returned { place });
            ledger::write(room, now, Change::Returned { fan, place });
            Claimed::Returned { place }
        }
        Some(Standing::Admitted { until, .. }) if now < until => Claimed::Admitted {
            until,
            first: false,
        },
        Some(Standing::Admitted { .. }) => Claimed::Gone(Gone::Expired),
        Some(Standing::Ended(why)) => Claimed::Gone(why.into()),
    }
}

/// Which of these fans have a live, claimed admission.
pub(super) fn check(room: &State, now: Timestamp, fans: &[FanId]) -> Vec<Checked> {
    let check_one = |fan: &FanId| match live_until(room, now, *fan) {
        Some(until) => Checked::Live { until },
        None => Checked::NotLive,
    };
    fans.iter().map(check_one).collect()
}

fn live_until(room: &State, now: Timestamp, fan: FanId) -> Option<Timestamp> {
    match room.line.standing(fan)? {
        Standing::Admitted { until, .. } => (now < until).then_some(until),
        Standing::Waiting { .. }
        | Standing::Called { .. }
        | Standing::Returned { .. }
        | Standing::Ended(_) => None,
    }
}

/// Prolongs a live admission: never beyond `ticket_ttl_max_ms` from now, and never shorter than it
/// was.
pub(super) fn extend(room: &mut State, now: Timestamp, fan: FanId, asked: Timestamp) -> Extended {
    let Some(Standing::Admitted {
        until: before,
        place,
    }) = room.line.standing(fan)
    else {
        return Extended::NotLive;
    };
    if before <= now {
        return Extended::NotLive;
    }
    let until = asked.min(now.plus_ms(room.settings.ticket_ttl_max_ms));
    if until <= before {
        return Extended::Until(before);
    }
    room.line.set(fan, Standing::Admitted { until, place });
    ledger::write(room, now, Change::Extended { fan, until });
    Extended::Until(until)
}

/// The fan has bought. Said of somebody in line as well: a loss may have put them back there while
/// their order was being confirmed.
pub(super) fn consume(room: &mut State, now: Timestamp, fan: FanId) -> Consumed {
    match room.line.standing(fan) {
        None => Consumed::Unknown,
        Some(Standing::Ended(_)) => Consumed::Before,
        Some(
            Standing::Waiting { .. }
            | Standing::Called { .. }
            | Standing::Returned { .. }
            | Standing::Admitted { .. },
        ) => {
            end(room, now, fan, Ended::Used);
            Consumed::Now
        }
    }
}

/// The fan gives up.
pub(super) fn leave(room: &mut State, now: Timestamp, fan: FanId) -> Left {
    match room.line.standing(fan) {
        None => Left::Unknown,
        Some(Standing::Ended(_)) => Left::Before,
        Some(Standing::Admitted { until, .. }) if until <= now => Left::Before,
        Some(
            Standing::Waiting { .. }
            | Standing::Called { .. }
            | Standing::Returned { .. }
            | Standing::Admitted { .. },
        ) => {
            end(room, now, fan, Ended::Left);
            Left::Now
        }
    }
}

/// The operator ends the admissions of these fans.
pub(super) fn revoke(
    room: &mut State,
    now: Timestamp,
    fans: &[FanId],
    then: AfterRevoke,
) -> Vec<Revoked> {
    let revoke_one = |fan: &FanId| match then {
        AfterRevoke::Returned => revoke_into_returned(room, now, *fan),
        AfterRevoke::Out => revoke_out(room, now, *fan),
    };
    fans.iter().map(revoke_one).collect()
}

fn revoke_into_returned(room: &mut State, now: Timestamp, fan: FanId) -> Revoked {
    let place = match room.line.standing(fan) {
        None => return Revoked::Unknown,
        // Who waits keeps waiting: a revocation must not carry anybody past others.
        Some(Standing::Waiting { .. } | Standing::Returned { .. } | Standing::Ended(_)) => {
            return Revoked::Before;
        }
        Some(Standing::Admitted { until, .. }) if until <= now => return Revoked::Before,
        Some(Standing::Called { place, .. } | Standing::Admitted { place, .. }) => place,
    };
    room.line.set(fan, Standing::Returned { place });
    ledger::write(
        room,
        now,
        Change::Ended {
            fan,
            why: Ended::Revoked,
        },
    );
    ledger::write(room, now, Change::Returned { fan, place });
    Revoked::Now
}

fn revoke_out(room: &mut State, now: Timestamp, fan: FanId) -> Revoked {
    match room.line.standing(fan) {
        None => Revoked::Unknown,
        Some(Standing::Ended(_)) => Revoked::Before,
        Some(Standing::Admitted { until, .. }) if until <= now => Revoked::Before,
        Some(
            Standing::Waiting { .. }
            | Standing::Called { .. }
            | Standing::Returned { .. }
            | Standing::Admitted { .. },
        ) => {
            end(room, now, fan, Ended::Revoked);
            Revoked::Now
        }
    }
}

fn end(room: &mut State, now: Timestamp, fan: FanId, why: Ended) {
    room.line.set(fan, Standing::Ended(why));
    ledger::write(room, now, Change::Ended { fan, why });
}
