//! Where every fan of a room stands: exactly one place for each, by construction.
//!
//! One map says where a fan stands; beside it stand three orders: the queue by number, the returned
//! by place, the live slots by the time they end. Every change goes through [`Line::set`], so map and
//! orders cannot drift apart.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::base::ids::{FanId, Number, Place};
use crate::base::time::Timestamp;
use crate::room::model::command::Ended;

/// Where a fan stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// In the queue.
    Waiting { number: Number },
    /// Called and not yet there: standby. The slot is kept until then; the standing never lapses.
    /// Who was absent when called has a slot that ended at the call.
    Called { until: Timestamp, place: Place },
    /// Came back after the slot had lapsed, or was sent back: next, by place.
    Returned { place: Place },
    /// Claimed; expired when the time has passed. The place is kept for a revocation that sends the
    /// fan back into the line.
    Admitted { until: Timestamp, place: Place },
    /// Used, left or revoked. Kept until the edition ends, so that a used pass restores nothing.
    Ended(Ended),
}

/// The place that a number gives: fans are called in the order of their numbers.
pub const fn place_of(number: Number) -> Place {
    Place(number.0)
}

/// The number that a place came from.
pub const fn number_of(place: Place) -> Number {
    Number(place.0)
}

/// All fans of a room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line {
    fans: BTreeMap<FanId, Standing>,
    queue: BTreeSet<(Number, FanId)>,
    returned: BTreeSet<(Place, FanId)>,
    /// Slots and admissions by their end; those that had ended at the last [`Line::pass_time`] are
    /// not among them, so that counting the live is free.
    live: BTreeSet<(Timestamp, FanId)>,
    standby: u64,
}

impl Line {
    /// Where this fan stands; none if the room does not know them.
    pub(super) fn standing(&self, fan: FanId) -> Option<Standing> {
        self.fans.get(&fan).copied()
    }

    /// Puts a fan where they stand from now on.
    pub(super) fn set(&mut self, fan: FanId, standing: Standing) {
        if let Some(before) = self.fans.insert(fan, standing) {
            self.unlist(fan, before);
        }
        match standing {
            Standing::Waiting { number } => {
                self.queue.insert((number, fan));
            }
            Standing::Called { until, .. } => {
                self.live.insert((until, fan));
                self.standby += 1;
            }
            Standing::Returned { place } => {
                self.returned.insert((place, fan));
            }
            Standing::Admitted { until, .. } => {
                self.live.insert((until, fan));
            }
            Standing::Ended(_) => {}
        }
    }

    fn unlist(&mut self, fan: FanId, standing: Standing) {
        match standing {
            Standing::Waiting { number } => {
                self.queue.remove(&(number, fan));
            }
            Standing::Called { until, .. } => {
                self.live.remove(&(until, fan));
                self.standby -= 1;
            }
            Standing::Returned { place } => {
                self.returned.remove(&(place, fan));
            }
            Standing::Admitted { until, .. } => {
                self.live.remove(&(until, fan));
            }
            Standing::Ended(_) => {}
        }
    }

    /// Stops counting the slots that have ended by now.
    pub(super) fn pass_time(&mut self, now: Timestamp) {
        while self.live.first().is_some_and(|(until, _)| *until <= now) {
            self.live.pop_first();
        }
    }

    /// Puts a fan into standby without a slot: the one they would have had ends at once.
    pub(super) fn set_absent(&mut self, fan: FanId, now: Timestamp, place: Place) {
        self.set(fan, Standing::Called { until: now, place });
        self.live.remove(&(now, fan));
    }

    /// Who came back and is next, by place.
    pub(super) fn first_returned(&self) -> Option<(FanId, Place)> {
        self.returned.first().map(|(place, fan)| (*fan, *place))
    }

    /// Who is next in the queue.
    pub(super) fn first_in_queue(&self) -> Option<(FanId, Number)> {
        self.queue.first().map(|(number, fan)| (*fan, *number))
    }

    /// Who holds this number in the queue.
    pub(super) fn holder(&self, number: Number) -> Option<FanId> {
        let first = self.queue.range((number, FanId([0; 16]))..).next();
        first
            .filter(|(found, _)| *found == number)
            .map(|(_, fan)| *fan)
    }

    /// The lowest number in the queue.
    pub(super) fn lowest(&self) -> Option<Number> {
        self.queue.first().map(|(number, _)| *number)
    }

    /// The lowest number in the queue above this one.
    pub(super) fn lowest_after(&self, number: Number) -> Option<Number> {
        self.after(number).next()
    }

    /// Fans in the queue whose number is at most this one. Looks at those behind it.
    pub(super) fn waiting_up_to(&self, number: Number) -> u64 {
        (self.queue.len() - self.after(number).count()) as u64
    }

    fn after(&self, number: Number) -> impl Iterator<Item = Number> {
        let above = (number, FanId([u8::MAX; 16]));
        let behind = (Bound::Excluded(above), Bound::Unbounded);
        self.queue.range(behind).map(|(number, _)| *number)
    }

    /// Fans in the queue and returned.
    pub(super) fn waiting(&self) -> u64 {
        (self.queue.len() + self.returned.len()) as u64
    }

    /// Fans called and not yet there.
    pub(super) fn standby(&self) -> u64 {
        self.standby
    }

    /// Slots and admissions that had not ended when time last passed.
    pub(super) fn live(&self) -> u64 {
        self.live.len() as u64
    }

    /// Every fan the room knows, the ended included.
    pub(super) fn len(&self) -> usize {
        self.fans.len()
    }

    /// Every fan and where they stand, in the order of their ids.
    pub(super) fn fans(&self) -> impl Iterator<Item = (FanId, Standing)> {
        self.fans.iter().map(|(fan, standing)| (*fan, *standing))
    }

    /// Forgets everybody who is not in the queue.
    pub(super) fn keep_queue_only(&mut self) {
        let queue = std::mem::take(&mut self.queue);
        *self = Self::default();
        for (number, fan) in queue {
            self.set(fan, Standing::Waiting { number });
        }
    }

    /// Sends everybody in the queue whose place is at most `serving` to the returned.
    pub(super) fn return_passed(&mut self, serving: Place) {
        while let Some(&(number, fan)) = self.queue.first()
            && place_of(number) <= serving
        {
            self.set(
                fan,
                Standing::Returned {
                    place: place_of(number),
                },
            );
        }
    }

    /// Whether the orders say what the map says.
    pub(super) fn check(&self, now: Timestamp) -> Result<(), String> {
        let mut rebuilt = Self::default();
        for (fan, standing) in &self.fans {
            rebuilt.set(*fan, *standing);
        }
        rebuilt.pass_time(now);
        let mut own = self.clone();
        own.pass_time(now);
        if rebuilt == own {
            Ok(())
        } else {
            Err("orders and map of the line differ".into())
        }
    }
}
