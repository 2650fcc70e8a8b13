//! Presence: who near their turn has shown up lately. Only for shows that ask for it.
//!
//! Who is not there when their turn comes is called into standby without a slot, and is next on
//! return: nobody loses a turn, and no slot waits for somebody who is asleep.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::ids::FanId;
use crate::base::limits::{PRESENT_MS, TICK_LOOKED_MAX};
use crate::base::time::Timestamp;
use crate::room::model::State;
use crate::room::model::command::Touched;
use crate::room::model::line::Standing;

/// When fans of the queue last showed up. Bounded by who shows up in [`PRESENT_MS`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    last: BTreeMap<FanId, Timestamp>,
    order: BTreeSet<(Timestamp, FanId)>,
}

impl Seen {
    fn note(&mut self, fan: FanId, now: Timestamp) {
        self.forget(fan);
        self.last.insert(fan, now);
        self.order.insert((now, fan));
    }

    pub(super) fn forget(&mut self, fan: FanId) {
        if let Some(before) = self.last.remove(&fan) {
            self.order.remove(&(before, fan));
        }
    }

    /// Forgets those who have not shown up for too long: a bounded number, the oldest first.
    pub(super) fn pass_time(&mut self, now: Timestamp) {
        for _ in 0..TICK_LOOKED_MAX {
            match self.order.first() {
                Some(&(last, fan)) if PRESENT_MS < now.ms_since(last) => self.forget(fan),
                Some(_) | None => return,
            }
        }
    }

    fn is_there(&self, fan: FanId, now: Timestamp) -> bool {
        let last = self.last.get(&fan);
        last.is_some_and(|last| now.ms_since(*last) <= PRESENT_MS)
    }

    /// Fans and when they last showed up, in the order of their ids.
    pub(super) fn fans(&self) -> impl Iterator<Item = (FanId, Timestamp)> {
        self.last.iter().map(|(fan, last)| (*fan, *last))
    }
}

/// One answer a fan, in order.
pub(super) fn touch(room: &mut State, now: Timestamp, fans: &[FanId]) -> Vec<Touched> {
    let touch_one = |fan: &FanId| match room.line.standing(*fan) {
        Some(Standing::Waiting { .. }) => {
            if room.settings.require_presence {
                room.seen.note(*fan, now);
                room.changed();
            }
            Touched::Waiting
        }
        Some(
            Standing::Called { .. }
            | Standing::Returned { .. }
            | Standing::Admitted { .. }
            | Standing::Ended(_),
        )
        | None => Touched::Elsewhere,
    };
    fans.iter().map(touch_one).collect()
}

/// Whether a fan of the queue is passed over now. Fans learn how near they are only once the room is
/// open: until they had time to show up, everybody counts as there.
pub(super) fn is_absent(room: &State, now: Timestamp, fan: FanId) -> bool {
    let had_time = room
        .open_since
        .is_some_and(|since| PRESENT_MS <= now.ms_since(since));
    room.settings.require_presence && had_time && !room.seen.is_there(fan, now)
}
