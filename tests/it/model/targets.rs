//! What happens to somebody in particular, and at one moment in particular. Chance alone seldom finds
//! whoever was called, and never the last millisecond of their slot.

use proptest::prelude::*;

use catraca::base::ids::FanId;
use catraca::base::limits::PRESENT_MS;
use catraca::base::time::Timestamp;
use catraca::room::model::Standing;
use catraca::room::model::command::{AfterRevoke, Command, Joining, Origin, RoomState, Tick};

use crate::model::happenings::{Pass, Wrong, pass};
use crate::model::own_clock;
use crate::model::twins::Twins;
use crate::model::world::{at, fan, stock, tick};

/// How those stand to whom something happens.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stand {
    Waiting,
    Called,
    Returned,
    Admitted,
    Ended,
}

/// What happens to them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Act {
    Join,
    Claim,
    Check,
    Leave,
    Consume,
    /// Until their admission ends anyway, and so many more milliseconds.
    Extend(i64),
    Revoke(AfterRevoke),
    Restore(Pass),
}

/// Moments at which something begins or is over.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Moment {
    /// A slot or an admission ends.
    Admission,
    Lease,
    Restoring,
    Hour,
    /// A call no longer counts.
    Quota,
    /// Who showed up is not there any more.
    Presence,
    /// Fans have had the time to show up.
    OpenLongEnough,
}

/// Something that happens to the `nth` of those who stand so, and to `more` behind them; to the first
/// of them twice in one breath where there are none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    stand: Stand,
    nth: usize,
    more: usize,
    act: Act,
}

fn stand() -> impl Strategy<Value = Stand> {
    prop_oneof![
        2 => Just(Stand::Waiting),
        5 => Just(Stand::Called),
        2 => Just(Stand::Returned),
        4 => Just(Stand::Admitted),
        1 => Just(Stand::Ended),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let then = prop_oneof![Just(AfterRevoke::Returned), Just(AfterRevoke::Out)];
    prop_oneof![
        2 => Just(Act::Join),
        9 => Just(Act::Claim),
        2 => Just(Act::Check),
        2 => Just(Act::Leave),
        2 => Just(Act::Consume),
        5 => prop_oneof![Just(0i64), -1i64..2, 5_000i64..20_000].prop_map(Act::Extend),
        3 => then.prop_map(Act::Revoke),
        2 => pass().prop_map(|(_, pass)| Act::Restore(pass)),
    ]
}

/// Something that happens to somebody.
pub(crate) fn turn() -> impl Strategy<Value = Turn> {
    (stand(), 0usize..40, 0usize..3, act()).prop_map(|(stand, nth, more, act)| Turn {
        stand,
        nth,
        more,
        act,
    })
}

/// A moment worth waiting for.
pub(crate) fn moment() -> impl Strategy<Value = Moment> {
    prop_oneof![
        6 => Just(Moment::Admission),
        1 => Just(Moment::Lease),
        2 => Just(Moment::Restoring),
        2 => Just(Moment::Hour),
        2 => Just(Moment::Quota),
        2 => Just(Moment::Presence),
        1 => Just(Moment::OpenLongEnough),
    ]
}

impl Twins<'_> {
    /// It happens to them, if there are any.
    pub(super) fn take_turn(&mut self, turn: Turn) -> Result<(), TestCaseError> {
        let those = self.those(turn.stand, turn.nth);
        let Some(&first) = those.first() else {
            return Ok(());
        };
        let fans = match turn.more {
            0 => vec![first, first],
            more => those.into_iter().take(more).collect(),
        };
        self.act(turn.act, fans, turn.nth as u64)
    }

    /// It happens to these, of whom there is one at least. `n` is any number.
    fn act(&mut self, act: Act, fans: Vec<FanId>, n: u64) -> Result<(), TestCaseError> {
        let first = fans[0];
        let command = match act {
            Act::Join => {
                let origin = Origin::Known;
                let joining = fans.into_iter().map(|fan| Joining { fan, origin });
                Command::Join {
                    joining: joining.collect(),
                }
            }
            Act::Claim => Command::Claim { fans },
            Act::Check => Command::Check { fans },
            Act::Leave => Command::Leave { fan: first },
            Act::Consume => Command::Consume { fan: first },
            Act::Extend(more_ms) => Command::Extend {
                fan: first,
                until: at(self.end_of(first).as_millis() + more_ms),
            },
            Act::Revoke(then) => Command::Revoke { fans, then },
            Act::Restore(pass) => {
                let shown = fans.into_iter().map(|fan| (fan, pass));
                self.restore(shown, n)
            }
        };
        self.say(&command)
    }

    /// It is that moment, or a millisecond before or after; whoever has to do with it asks, and
    /// somebody ticks.
    pub(super) fn wait_until(
        &mut self,
        (moment, nth): (Moment, usize),
        off_ms: u64,
        turn: Turn,
    ) -> Result<(), TestCaseError> {
        let moments = self.moments(moment);
        if moments.is_empty() {
            return Ok(());
        }
        if let Some(moment) = moments.get(nth % moments.len()) {
            let offset_ms = self.room.facts().offset_ms;
            let told = moment.plus_ms(off_ms).minus_ms(1 + offset_ms);
            self.now = self.now.max(told);
        }
        let fans = [Stand::Called, Stand::Admitted].map(|stand| self.those(stand, nth));
        let fans = fans.concat();
        let whose = |fan: &FanId| Some(&self.end_of(*fan)) == moments.get(nth % moments.len());
        let concerned = fans.iter().copied().find(whose);
        self.say(&Command::Check { fans })?;
        match concerned {
            Some(fan) => self.act(turn.act, vec![fan], nth as u64)?,
            None if nth.is_multiple_of(2) => self.take_turn(turn)?,
            None => {}
        }
        self.say(&Command::Board)?;
        let holder = format!("admitter-{}", nth % 3);
        let Command::Tick(known) = self.tick_drawn(3, 5, Wrong::Nothing) else {
            unreachable!("it ticks")
        };
        self.say(&Command::Tick(Tick { holder, ..known }))
    }

    /// These show up, and so long that nobody else is there, nothing happens.
    pub(super) fn sleep(&mut self, fans: Vec<u64>, more_ms: u64) -> Result<(), TestCaseError> {
        let fans = fans.into_iter().map(fan).collect();
        self.say(&Command::Touch { fans })?;
        self.now = self.now.plus_ms(PRESENT_MS + more_ms);
        let command = self.tick_drawn(5, 9, Wrong::Nothing);
        self.say(&command)
    }

    /// So much is left that stock and capacity let the same number in, for one seat a fan or so many;
    /// and a tick asks for more.
    pub(super) fn stock_as_capacity(&mut self, seats: u64) -> Result<(), TestCaseError> {
        let facts = self.room.facts();
        let version = facts.stock.map_or(0, |stock| stock.version) + 1;
        let free = facts.settings.capacity.min(1_000) * seats;
        self.say(&Command::Stock(stock(version, free, 0)))?;
        self.now = own_clock::wait(self.clock, self.now, self.settings.window_ms + 1);
        self.say(&Command::Tick(tick(500)))
    }

    /// The operator sets hours that are about to come.
    pub(super) fn hours_come_now(&mut self) -> Result<(), TestCaseError> {
        let now = self.room.facts().last;
        (self.settings.early_at, self.settings.opens_at) = (None, Some(now.plus_ms(1)));
        self.settings.closes_at = Some(now.plus_ms(5_000));
        self.configure(self.version.is_multiple_of(2).then_some(RoomState::Early))
    }

    /// Everybody who stands so, from the `nth` on.
    fn those(&self, stand: Stand, nth: usize) -> Vec<FanId> {
        let fans = self.room.fans().filter(|(_, standing)| match standing {
            Standing::Waiting { .. } => matches!(stand, Stand::Waiting),
            Standing::Called { .. } => matches!(stand, Stand::Called),
            Standing::Returned { .. } => matches!(stand, Stand::Returned),
            Standing::Admitted { .. } => matches!(stand, Stand::Admitted),
            Standing::Ended(_) => matches!(stand, Stand::Ended),
        });
        let mut fans: Vec<FanId> = fans.map(|(fan, _)| fan).collect();
        let count = fans.len().max(1);
        fans.rotate_left(nth % count);
        fans
    }

    /// When the slot or the admission of a fan ends; now, where they have none.
    fn end_of(&self, fan: FanId) -> Timestamp {
        match self.room.standing(fan) {
            Some(Standing::Called { until, .. } | Standing::Admitted { until, .. }) => until,
            Some(Standing::Waiting { .. } | Standing::Returned { .. } | Standing::Ended(_))
            | None => self.now,
        }
    }

    /// All moments of this kind that are still to come.
    fn moments(&self, moment: Moment) -> Vec<Timestamp> {
        let facts = self.room.facts();
        let settings = &facts.settings;
        let moments: Vec<Timestamp> = match moment {
            Moment::Admission => {
                let inside = [Stand::Called, Stand::Admitted].map(|stand| self.those(stand, 0));
                inside
                    .concat()
                    .into_iter()
                    .map(|fan| self.end_of(fan))
                    .collect()
            }
            Moment::Lease => vec![facts.lease_until],
            Moment::Restoring => facts.restoring_until.into_iter().collect(),
            Moment::Hour => [settings.early_at, settings.opens_at, settings.closes_at]
                .into_iter()
                .flatten()
                .collect(),
            Moment::Quota => {
                let ends = facts.quota.iter();
                ends.map(|(stamp, _)| stamp.plus_ms(settings.window_ms))
                    .collect()
            }
            Moment::Presence => {
                let seen = facts.seen.iter();
                seen.map(|(_, last)| last.plus_ms(PRESENT_MS)).collect()
            }
            Moment::OpenLongEnough => {
                let since = facts.open_since.into_iter();
                since.map(|since| since.plus_ms(PRESENT_MS)).collect()
            }
        };
        moments
            .into_iter()
            .filter(|moment| facts.last < *moment)
            .collect()
    }
}
