//! What befalls two rooms that are told the same: losses, mends, passes shown.

use proptest::prelude::*;

use catraca::base::ids::{Edition, FanId, Generation, Number, Place};
use catraca::room::draw::Draw;
use catraca::room::model::Facts;
use catraca::room::model::command::{
    Command, Configure, Finish, Folded, Mend, Restoring, RoomState, Stock,
};

use crate::model::happenings::{Ordeal, Pass, Wrong};
use crate::model::twins::Twins;
use crate::model::world::fan;

impl Twins<'_> {
    /// The command that says so of those who have a number.
    pub(super) fn fold(&self, folded: Vec<(u64, Folded)>, behind: u64) -> Command {
        let with_place = |(n, folded): (u64, Folded)| {
            let number = self.numbers.get(&fan(n))?;
            let place = self.drawn_place(fan(n)).unwrap_or(Place(number.0));
            let folded = match folded {
                Folded::Called { until, .. } => Folded::Called { until, place },
                Folded::Claimed { until, .. } => Folded::Claimed { until, place },
                Folded::Returned { .. } => Folded::Returned { place },
                Folded::Ended(why) => Folded::Ended(why),
            };
            Some((fan(n), folded))
        };
        Command::Mend(Mend::Fold {
            generation: Generation(self.generation.saturating_sub(behind)),
            folded: folded.into_iter().filter_map(with_place).collect(),
        })
    }

    /// These fans show such passes; `n` is any number.
    pub(super) fn restore(
        &self,
        shown: impl IntoIterator<Item = (FanId, Pass)>,
        n: u64,
    ) -> Command {
        let show = |((fan, pass), n): ((FanId, Pass), u64)| {
            let numbers = match pass {
                Pass::First => &self.firsts,
                _ => &self.numbers,
            };
            let number = *numbers.get(&fan)?;
            let good = Restoring {
                fan,
                number,
                edition: Edition(self.edition),
                generation: Generation(self.generation),
                place: self.place_of(number),
            };
            Some(pass.of(good, n))
        };
        Command::Restore {
            restoring: shown.into_iter().zip(n..).filter_map(show).collect(),
        }
    }

    /// A mend begins that is so many generations and editions later.
    pub(super) fn begin_anew(
        &mut self,
        [generations, editions]: [u64; 2],
        mended: u64,
    ) -> Result<(), TestCaseError> {
        self.compare()?;
        self.generation += generations;
        if 0 < editions {
            self.edition += editions;
            self.numbers.clear();
            self.firsts.clear();
            (self.draw, self.table) = (None, None);
        }
        self.begin(mended)
    }

    pub(crate) fn begin(&mut self, mended: u64) -> Result<(), TestCaseError> {
        self.say(&Command::Mend(Mend::Begin {
            edition: Edition(self.edition),
            generation: Generation(self.generation),
            mended: Generation(mended),
        }))
    }

    pub(super) fn copy(
        &mut self,
        through: u64,
        max: usize,
        behind: u64,
    ) -> Result<(), TestCaseError> {
        self.say(&Command::Mend(Mend::Copy {
            generation: Generation(self.generation.saturating_sub(behind)),
            through,
            max,
        }))
    }

    pub(crate) fn finish(
        &mut self,
        state: RoomState,
        [serving, known, more, restoring_ms]: [u64; 4],
        stock: Option<Stock>,
    ) -> Result<(), TestCaseError> {
        let issued = self
            .numbers
            .values()
            .max()
            .map_or(known, |last| last.0.max(known));
        let finish = Finish {
            generation: Generation(self.generation),
            configure: Configure {
                version: self.version,
                settings: self.settings.clone(),
                verb: (known % 2 == 0).then_some((self.version, RoomState::Open)),
            },
            state,
            serving: Place(serving),
            known: Number(known),
            // SQL's ceiling is never below what was issued.
            issued: Number(issued + more / 3),
            ceiling: Number(issued + more),
            not_before: self.now.plus_ms(restoring_ms % 7).minus_ms(3),
            restoring_ms: restoring_ms.saturating_sub(2_000),
            stock,
            draw: self.draw,
        };
        self.say(&Command::Mend(Mend::Finish(Box::new(finish))))
    }

    pub(super) fn lose(&mut self) {
        self.room.lose();
        let key = format!("catraca:{{{}}}:room", self.show);
        let forget = [
            "replid",
            "mending_replid",
            "mending_edition",
            "mending_generation",
        ];
        redis::cmd("HDEL")
            .arg(key)
            .arg(&forget)
            .exec(&mut self.redis)
            .unwrap();
    }

    /// As a mender does it; `steps` beyond 3: of a room whose queue is found. Then fans come back.
    pub(super) fn lose_and_mend(&mut self, ordeal: Ordeal) -> Result<(), TestCaseError> {
        self.compare()?;
        let Facts {
            state,
            serving,
            generation,
            ..
        } = self.room.facts();
        let Ordeal { steps, wrong, .. } = ordeal;
        self.lose();
        self.generation += 1;
        self.begin(if 3 < steps { generation.0 } else { 0 })?;
        let known = self.draw;
        self.draw = match wrong {
            Wrong::Nothing | Wrong::More => known,
            Wrong::Seed => None,
            Wrong::Number => known.map(|draw| Draw { seed: None, ..draw }),
        };
        if 2 < steps {
            self.copy(ordeal.known, steps, 0)?;
            for folded in ordeal.folds {
                self.say(&self.fold(folded, 0))?;
            }
            let restoring_ms = 3_000 * (steps as u64 % 2);
            self.finish(
                state,
                [serving.0, ordeal.known, ordeal.more, restoring_ms],
                None,
            )?;
        }
        self.draw = known;
        if let Some(pass) = ordeal.everybody {
            let all: Vec<FanId> = self.numbers.keys().copied().collect();
            let command = self.restore(all.into_iter().map(|fan| (fan, pass)), ordeal.known);
            self.say(&command)?;
        }
        let shown = ordeal.passes.into_iter();
        let command = self.restore(shown.map(|(n, pass)| (fan(n), pass)), 0);
        self.say(&command)
    }
}
