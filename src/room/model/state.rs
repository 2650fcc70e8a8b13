//! What a room keeps, and what is always true of it.

use crate::base::ids::{Edition, FanId, Generation, Number, Place};
use crate::base::time::Timestamp;
use crate::room::model::command::{Draw, Gap, Measured, RoomState, Settings, Stock};
use crate::room::model::ledger::Ledger;
use crate::room::model::line::{Line, Standing, place_of};
use crate::room::model::presence::Seen;
use crate::room::model::tick::Lease;
use crate::room::quota::Quota;

/// One room. It begins as a room that is missing; only a mend makes it whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// Rises with every change that must outlive the process. Lease, clock and measurements do not
    /// count: the next tick brings them again.
    pub(super) revision: u64,
    pub(super) clock: RoomClock,
    pub(super) fence: Fence,
    pub(super) edition: Edition,
    pub(super) generation: Generation,

    /// The last number issued.
    pub(super) seq: Number,
    pub(super) ceiling: Number,
    pub(super) serving: Place,
    pub(super) gaps: Vec<Gap>,
    pub(super) line: Line,
    pub(super) seen: Seen,
    pub(super) draw: Option<Draw>,

    pub(super) version: u64,
    pub(super) settings: Settings,
    pub(super) state: RoomState,
    /// The state that follows `Restoring`.
    pub(super) state_after: RoomState,
    /// While set, nobody is called and `serving` stands.
    pub(super) restoring_until: Option<Timestamp>,
    /// The last verb that was applied, and when.
    pub(super) verb_version: u64,
    pub(super) verb_at: Option<Timestamp>,
    pub(super) stock: Option<Stock>,
    /// The statement of the shop that the operator overruled by opening a sold-out room.
    pub(super) overruled_stock: Option<u64>,
    pub(super) sold_out_at: Option<Timestamp>,
    /// Opening was asked for, and waits for the draw.
    pub(super) opening: bool,
    /// Since when the room has been open without a break.
    pub(super) open_since: Option<Timestamp>,

    pub(super) lease: Lease,
    pub(super) measured: Measured,
    pub(super) quota: Quota,
    pub(super) ledger: Ledger,
}

/// Whether the room's data can be trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Fence {
    /// Lost, or never there.
    #[default]
    Missing,
    /// Being mended.
    Mending {
        edition: Edition,
        generation: Generation,
    },
    /// All there.
    Whole,
}

/// Room time: the store's clock, and how far it has fallen behind what it once said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RoomClock {
    pub(super) offset_ms: u64,
    pub(super) last: Timestamp,
}

impl RoomClock {
    /// Room time at the store's time `told`. A clock that was put back does not stop the room's: from
    /// then on the difference is added to it.
    pub(super) fn pass(&mut self, told: Timestamp) -> Timestamp {
        let now = told.plus_ms(self.offset_ms);
        self.offset_ms = self.offset_ms.saturating_add(self.last.ms_since(now));
        self.last = self.last.max(now);
        self.last
    }

    /// Room time is at least this from now on.
    fn skip(&mut self, to: Timestamp) -> Timestamp {
        self.offset_ms = self.offset_ms.saturating_add(to.ms_since(self.last));
        self.last = self.last.max(to);
        self.last
    }
}

impl State {
    /// Room time at the last command.
    pub fn now(&self) -> Timestamp {
        self.clock.last
    }

    /// Rises with every change that must outlive the process: a store that keeps a journal compares.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether the room answers at all: it is neither missing nor being mended.
    pub fn is_whole(&self) -> bool {
        self.fence == Fence::Whole
    }

    /// Where a fan stands; none if the room does not know them.
    pub fn standing(&self, fan: FanId) -> Option<Standing> {
        self.line.standing(fan)
    }

    /// Every fan and where they stand, in the order of their ids.
    pub fn fans(&self) -> impl Iterator<Item = (FanId, Standing)> {
        self.line.fans()
    }

    /// What a store does that loses its data, or comes back with old data: the room answers
    /// `Unfenced` from now on. For tests of loss.
    pub fn lose(&mut self) {
        self.fence = Fence::Missing;
    }

    /// Whether a draw has yet to say who is first. Once anybody's turn has come it is too late.
    pub(super) fn needs_draw(&self) -> bool {
        self.settings.draw.is_some() && self.draw_size().is_none() && self.serving == Place(0)
    }

    /// D, once the draw is open: places up to it are the draw's.
    pub(super) fn draw_size(&self) -> Option<u64> {
        let open = self.draw.filter(|draw| draw.seed.is_some());
        open.map(|draw| draw.size)
    }

    /// Whether the next place is the draw's.
    pub(super) fn is_drawing(&self) -> bool {
        self.draw_size().is_some_and(|size| self.serving.0 < size)
    }

    pub(super) fn changed(&mut self) {
        self.revision += 1;
    }

    /// Lets time pass and says what room time it is.
    pub(super) fn pass_time(&mut self, told: Timestamp) -> Timestamp {
        let now = self.clock.pass(told);
        self.line.pass_time(now);
        now
    }

    /// Room time was this already, though this room has forgotten: it goes on from there.
    pub(super) fn skip_time(&mut self, to: Timestamp) -> Timestamp {
        let now = self.clock.skip(to);
        self.line.pass_time(now);
        now
    }

    /// How many fans the room knows: what a check costs.
    pub(super) fn size(&self) -> usize {
        self.line.len()
    }

    /// What is true of a whole room after every command. Looks at every fan.
    ///
    /// # Errors
    /// The first thing that is not true, in words.
    pub fn check(&self) -> Result<(), String> {
        if !self.is_whole() {
            return Ok(());
        }
        self.line.check(self.now())?;
        let serving = self.serving;
        let drawn = Number(self.draw_size().unwrap_or(0));
        let truths = [
            (
                self.seq <= self.ceiling,
                "a number above the ceiling was issued",
            ),
            (
                serving <= place_of(self.seq),
                "serving has passed the last number",
            ),
            (
                self.line
                    .lowest_after(drawn)
                    .is_none_or(|lowest| serving < place_of(lowest)),
                "serving has passed somebody in the queue",
            ),
            (
                self.draw.is_none_or(|draw| draw.size <= self.seq.0),
                "a number that was never issued takes part in the draw",
            ),
            (
                !self.opening || self.state == RoomState::Early,
                "a room that is not early waits for its draw",
            ),
            (
                self.gaps.is_sorted_by(|a, b| a.last < b.first),
                "gaps overlap",
            ),
            (
                self.gaps.iter().all(|gap| gap.last <= self.seq),
                "a gap lies ahead of the numbers",
            ),
        ];
        for (holds, broken) in truths {
            if !holds {
                return Err(broken.into());
            }
        }
        for (fan, standing) in self.fans() {
            let place = match standing {
                Standing::Waiting { number } => place_of(number),
                Standing::Called { place, .. } | Standing::Admitted { place, .. } => place,
                // May come back by place, too: but only a place that serving has passed.
                Standing::Returned { place } if serving < place => {
                    return Err(format!("{fan} returned before being called"));
                }
                Standing::Returned { place } => place,
                Standing::Ended(_) => continue,
            };
            if place_of(self.seq) < place {
                return Err(format!("{fan} holds a place that was never given"));
            }
        }
        Ok(())
    }
}
