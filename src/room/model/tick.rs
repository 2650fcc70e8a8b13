//! Tick: one step of an admitter. It takes the lease, passes the hours, calls the next fans.
//!
//! The lease saves work; it is not what keeps the rate. Quota, capacity and order are kept by this
//! very step, so a tick from a process that wrongly believes it leads is harmless.

use crate::base::ids::{FanId, FencingToken, Place};
use crate::base::limits::{LEASE_TTL_MS, LEDGER_UNCOPIED_MAX, TICK_CALLS_MAX};
use crate::base::time::Timestamp;
use crate::room::model::call::{Taken, call, move_serving};
use crate::room::model::command::{Called, Change, Measured, RoomState, Step, Tick, Ticked, Why};
use crate::room::model::{State, ledger, schedule};

/// Seats that a called fan is taken to want until that is known, in thousandths.
const SEATS_PER_FAN_MILLI_UNKNOWN: u64 = 2_000;
/// The fewest that the guard believes, so that a measurement gone wrong cannot open the doors.
const SEATS_PER_FAN_MILLI_MIN: u64 = 500;

/// Who leads the show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) holder: String,
    pub(super) until: Timestamp,
    pub(super) token: FencingToken,
}

impl Lease {
    /// The other admitter that leads now. A lease that would outlast any that is asked for comes from
    /// a clock that was wrong, and binds nobody.
    fn held_by_other(&self, now: Timestamp, tick: &Tick) -> Option<&str> {
        let longest_ms = tick.lease_ttl_ms.max(LEASE_TTL_MS);
        let is_live = now < self.until && self.until <= now.plus_ms(longest_ms);
        (self.holder != tick.holder && is_live).then_some(self.holder.as_str())
    }
}

pub(super) fn tick(room: &mut State, now: Timestamp, tick: &Tick) -> Ticked {
    if let Some(other) = room.lease.held_by_other(now, tick) {
        return Ticked::Follower {
            holder: other.to_owned(),
        };
    }
    lead(room, now, tick);
    schedule::pass_hours(room, now);
    let serving_before = room.serving;
    room.quota.pass_time(now, room.settings.window_ms);

    room.seen.pass_time(now);

    let bounds = Bounds::of(room, tick);
    let Taken { called, absent } = call(room, now, tick.drawn.as_ref(), bounds.allowed());
    move_serving(room);
    let count = called.len() as u64;
    let why = bounds.why(count, room.line.waiting());
    if !called.is_empty() {
        room.quota.spend(now, room.settings.window_ms, count);
        write_called(room, now, called, why);
    }
    if !absent.is_empty() {
        ledger::write(room, now, Change::Absent { fans: absent });
    }

    assert!(serving_before <= room.serving, "serving never goes down");
    assert!(
        count == 0 || room.quota.counted() <= room.settings.rate,
        "the rate holds"
    );
    assert!(
        count == 0 || room.line.live() <= room.settings.capacity,
        "the capacity holds"
    );
    Ticked::Leader(step(room, now, count, why))
}

fn lead(room: &mut State, now: Timestamp, tick: &Tick) {
    if room.lease.holder != tick.holder {
        room.lease.holder.clone_from(&tick.holder);
        room.lease.token.0 += 1;
        room.changed();
    }
    let until = now.plus_ms(tick.lease_ttl_ms);
    if until < room.lease.until {
        // Resigned. Unlike a longer lease, which can be forgotten, this lets another in earlier.
        room.changed();
    }
    room.lease.until = until;
    room.measured = tick.measured;
}

/// Everything that bounds the calls of one tick.
struct Bounds {
    /// What stops all calls, whatever the numbers say.
    stopped: Option<Why>,
    asked: u64,
    rate: u64,
    capacity: u64,
    stock: u64,
}

impl Bounds {
    fn of(room: &State, tick: &Tick) -> Self {
        let stopped = if room.state != RoomState::Open {
            Some(Why::State)
        } else if LEDGER_UNCOPIED_MAX < room.ledger.uncopied() {
            Some(Why::Unarchived)
        } else if is_elsewhere(room, tick) {
            Some(Why::Moved)
        } else {
            None
        };
        Self {
            stopped,
            asked: tick.want.min(TICK_CALLS_MAX),
            rate: room.quota.left(room.settings.rate),
            capacity: room.settings.capacity.saturating_sub(room.line.live()),
            stock: stock_guard(room).unwrap_or(u64::MAX),
        }
    }

    fn allowed(&self) -> u64 {
        match self.stopped {
            Some(_) => 0,
            None => self.asked.min(self.rate).min(self.capacity).min(self.stock),
        }
    }

    fn why(&self, count: u64, waiting: u64) -> Why {
        match self.stopped {
            Some(stopped) => stopped,
            None if self.asked <= count => Why::Enough,
            None if waiting == 0 => Why::Empty,
            None if self.rate <= count => Why::Rate,
            None if self.capacity <= count => Why::Capacity,
            None if self.stock <= count => Why::Stock,
            None => Why::Looked,
        }
    }
}

/// Whether the tick names places that are not next, or those of another draw.
fn is_elsewhere(room: &State, tick: &Tick) -> bool {
    let seed = room.draw.and_then(|draw| draw.seed);
    tick.drawn
        .as_ref()
        .is_some_and(|drawn| seed != Some(drawn.seed) || room.serving != drawn.serving)
}

/// How many more fans may be called so that each can still find the seats that fans take on average;
/// none if nothing is known of the stock, or the operator does not want the guard.
fn stock_guard(room: &State) -> Option<u64> {
    let stock = room.stock.filter(|_| room.settings.stock_guard)?;
    let left_milli = stock.free.saturating_add(stock.held).saturating_mul(1_000);
    let per_fan_milli = seats_per_fan_milli(&room.measured);
    let promised_milli = room.line.live().saturating_mul(per_fan_milli);
    Some(
        left_milli
            .saturating_sub(promised_milli)
            .div_ceil(per_fan_milli),
    )
}

/// Seats that a called fan takes on average, in thousandths: as measured, within reason.
pub fn seats_per_fan_milli(measured: &Measured) -> u64 {
    match measured.seats_per_fan_milli {
        0 => SEATS_PER_FAN_MILLI_UNKNOWN,
        known => known.max(SEATS_PER_FAN_MILLI_MIN),
    }
}

fn write_called(room: &mut State, now: Timestamp, fans: Vec<(FanId, Place)>, why: Why) {
    let called = Called {
        fans,
        until: now.plus_ms(room.settings.claim_ms),
        rate: room.settings.rate,
        window_ms: room.settings.window_ms,
        capacity: room.settings.capacity,
        live: room.line.live(),
        waiting: room.line.waiting(),
        why,
    };
    ledger::write(room, now, Change::Called(called));
}

fn step(room: &State, now: Timestamp, count: u64, why: Why) -> Step {
    let free_in_ms = (why == Why::Rate).then(|| {
        room.quota
            .free_in_ms(now, room.settings.rate, room.settings.window_ms)
    });
    Step {
        count,
        serving: room.serving,
        token: room.lease.token,
        state: room.state,
        why,
        free_in_ms: free_in_ms.flatten(),
        waiting: room.line.waiting(),
        live: room.line.live(),
        issued: room.seq,
        ceiling: room.ceiling,
        uncopied: room.ledger.uncopied(),
        opening: room.opening,
        draw: room.draw,
    }
}
