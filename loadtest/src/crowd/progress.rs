//! One line a second about how it goes: rewritten on a terminal, every fifth elsewhere.

use std::io::{IsTerminal, Write};

use crate::crowd::clock::Moment;
use crate::crowd::fan::{End, Fan, Stage};
use crate::crowd::world::World;

/// Elsewhere than on a terminal a line is written so often.
const QUIET_SECONDS: u64 = 5;

/// How many fans are where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    pub coming: u64,
    pub waiting: u64,
    pub asleep: u64,
    pub inside: u64,
    pub holding: u64,
    pub paying: u64,
    pub bought: u64,
    pub left: u64,
    pub silent: u64,
    pub told: u64,
    pub no_seats: u64,
    pub ran_out: u64,
    pub gave_up: u64,
}

impl Tally {
    /// Counts a crowd.
    pub fn of(fans: &[Fan]) -> Self {
        let mut tally = Self::default();
        for fan in fans {
            *tally.at(fan.stage) += 1;
        }
        tally
    }

    /// A fan went from one stage to another.
    pub fn moved(&mut self, from: Stage, to: Stage) {
        *self.at(from) -= 1;
        *self.at(to) += 1;
    }

    /// Fans for whom it has not ended.
    pub const fn open(&self) -> u64 {
        self.coming + self.waiting + self.asleep + self.inside + self.holding + self.paying
    }

    const fn at(&mut self, stage: Stage) -> &mut u64 {
        match stage {
            Stage::Coming => &mut self.coming,
            Stage::Waiting => &mut self.waiting,
            Stage::Asleep => &mut self.asleep,
            Stage::Inside => &mut self.inside,
            Stage::Holding => &mut self.holding,
            Stage::Paying => &mut self.paying,
            Stage::Ended(End::Bought) => &mut self.bought,
            Stage::Ended(End::Left) => &mut self.left,
            Stage::Ended(End::Silent) => &mut self.silent,
            Stage::Ended(End::Told) => &mut self.told,
            Stage::Ended(End::NoSeats) => &mut self.no_seats,
            Stage::Ended(End::RanOut) => &mut self.ran_out,
            Stage::Ended(End::GaveUp) => &mut self.gave_up,
        }
    }
}

/// Writes the line.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    seconds: u64,
    answers: u64,
    shown_at: Moment,
}

impl Progress {
    /// A line for whatever standard error is.
    pub fn new(now: Moment) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self {
            terminal,
            seconds: 0,
            answers: 0,
            shown_at: now,
        }
    }

    /// A second has passed.
    pub fn show(&mut self, world: &mut World, tally: &Tally) {
        self.seconds += 1;
        if !self.terminal && !self.seconds.is_multiple_of(QUIET_SECONDS) {
            return;
        }
        let line = self.line(world, tally);
        let mut out = std::io::stderr().lock();
        // Nobody may be reading any more; the run goes on all the same.
        drop(if self.terminal {
            write!(out, "\r\x1b[2K{line}").and_then(|()| out.flush())
        } else {
            writeln!(out, "{line}")
        });
    }

    /// Leaves the line as it is.
    pub fn finish(&self) {
        if self.terminal {
            eprintln!();
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of one run")]
    fn line(&mut self, world: &mut World, tally: &Tally) -> String {
        let now = world.clock.now();
        let answers = world.counts.answers + world.board.reads;
        let per_second =
            (answers - self.answers) as f64 / now.seconds_since(self.shown_at).max(0.001);
        (self.answers, self.shown_at) = (answers, now);
        let seconds = now.us_since(world.clock.started()) / 1_000_000;
        format!(
            "{:02}:{:02} {:<8} joined {} · waiting {} · called {} · inside {} · holding {} · bought {} · left {} · told {} · {:.0} req/s · p99 {:.1} ms · faults {}",
            seconds / 60,
            seconds % 60,
            world.board.state(),
            world.counts.joined,
            tally.waiting + tally.asleep,
            world.counts.called,
            tally.inside,
            tally.holding + tally.paying,
            tally.bought,
            tally.left + tally.silent + tally.no_seats,
            tally.told,
            per_second,
            world.latency.recent_p99_us() as f64 / 1_000.0,
            world.faults.total(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fan_is_counted_once() {
        let mut tally = Tally {
            coming: 2,
            ..Tally::default()
        };
        tally.moved(Stage::Coming, Stage::Waiting);
        tally.moved(Stage::Waiting, Stage::Ended(End::Told));
        assert_eq!((tally.open(), tally.told, tally.waiting), (1, 1, 0));
    }
}
