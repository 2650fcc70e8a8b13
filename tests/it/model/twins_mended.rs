//! What befalls two rooms that are told the same: losses, mends, passes shown.

use proptest::prelude::*;

use catraca::base::ids::{Edition, Generation, Number, Place};
use catraca::room::draw::Draw;
use catraca::room::model::Facts;
use catraca::room::model::command::{
    Command, Configure, Finish, Folded, Mend, Restoring, RoomState, Stock,
};

use crate::model::happenings::{Pass, Wrong};
use crate::model::twins::Twins;
use crate::model::world::fan;

impl Twins<'_> {
    /// The command that says so of those who have a number.
    pub(super) fn fold(&self, folded: Vec<(u64, Folded)>) -> Command {
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
            generation: Generation(self.generation),
            folded: folded.into_iter().filter_map(with_place).collect(),
        })
    }

    pub(super) fn restore(&self, passes: &[(u64, Pass)]) -> Command {
        let show = |(n, pass): &(u64, Pass)| {
            let good = Restoring {
                fan: fan(*n),
                number: *self.numbers.get(&fan(*n))?,
                edition: Edition(self.edition),
                generation: Generation(self.generation),
                place: self.drawn_place(fan(*n)),
            };
            Some(pass.of(good, *n))
        };
        Command::Restore {
            restoring: passes.iter().filter_map(show).collect(),
        }
    }

    pub(crate) fn begin(&mut self, mended: u64) -> Result<(), TestCaseError> {
        self.say(&Command::Mend(Mend::Begin {
            edition: Edition(self.edition),
            generation: Generation(self.generation),
            mended: Generation(mended),
        }))
    }

    pub(super) fn copy(&mut self, through: u64, max: usize) -> Result<(), TestCaseError> {
        self.say(&Command::Mend(Mend::Copy {
            generation: Generation(self.generation),
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

    /// As a mender does it; `steps` beyond 3: of a room whose queue is found.
    pub(super) fn lose_and_mend(
        &mut self,
        steps: usize,
        wrong: Wrong,
    ) -> Result<(), TestCaseError> {
        let Facts {
            state,
            serving,
            generation,
            ..
        } = self.room.facts();
        self.lose();
        self.generation += 1;
        self.begin(if 3 < steps { generation.0 } else { 0 })?;
        let known = self.draw;
        self.draw = match wrong {
            Wrong::Nothing => known,
            Wrong::Seed => None,
            Wrong::Number => known.map(|draw| Draw { seed: None, ..draw }),
        };
        if 2 < steps {
            self.finish(state, [serving.0, 0, 30, 3_000 * (steps as u64 % 2)], None)?;
        }
        self.draw = known;
        Ok(())
    }
}
