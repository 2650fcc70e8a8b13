//! How many fans to ask for now.
//!
//! A tick asks for the share of the rate that the time since the last one makes, plus what earlier
//! ticks could not call, so that calls are spread evenly and a tick that came late, or whose answer
//! was lost, costs the line nothing. It never asks for more than a quarter of the rate: the quota frees
//! calls as they were made, so a window's calls made at once would be made at once for ever, and of the
//! ten windows after them one would be empty. The room's quota bounds it; this file only paces.

use std::time::Duration;

use crate::base::limits::{RATE_MAX, TICK_CALLS_MAX, TICK_EVERY_MS};
use crate::room::model::command::{Step, Why};

/// In how many parts a window's calls are made at least.
const PARTS_MIN: u64 = 4;

/// What a tick asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Fans to call with this tick.
    pub want: u64,
    /// Fans who should have been called by now.
    due: u64,
}

/// Fans who should have been called by the last tick.
#[derive(Debug, Clone, Copy, Default)]
pub struct Debt(u64);

/// How long to rest between ticks: a tenth of a second, less where a window is so short that its calls
/// would be made in fewer parts.
pub fn rhythm(window_ms: u64) -> Duration {
    Duration::from_millis((window_ms / PARTS_MIN).clamp(1, TICK_EVERY_MS))
}

impl Debt {
    /// What the next tick asks for, where the last answered one was `since` ago.
    pub fn ask(self, (rate, window_ms): (u64, u64), since: Duration) -> Ask {
        let window_ms = window_ms.max(1);
        let rhythm_ms = millis(rhythm(window_ms));
        // Sooner than usual is an extra tick, for the moment at which the quota frees.
        let since_ms = millis(since).clamp(rhythm_ms, window_ms.max(rhythm_ms));
        let share = (rate.min(RATE_MAX * window_ms) * since_ms).div_ceil(window_ms);
        let due = (share + self.0).min(rate);
        let part = rate.div_ceil(PARTS_MIN).min(TICK_CALLS_MAX);
        Ask {
            want: due.min(part),
            due,
        }
    }

    /// Takes in the answer to a tick.
    pub fn after(&mut self, asked: Ask, step: &Step, rate: u64) {
        // Fans that could not be called for want of seats or capacity leave no debt: they are called
        // when there is room, at the usual rhythm.
        self.0 = match step.why {
            // More could have been called had the tick looked further: the next one does.
            Why::Enough | Why::Rate | Why::Moved | Why::Looked => {
                asked.due.saturating_sub(step.count).min(rate)
            }
            Why::Empty | Why::Capacity | Why::Stock | Why::State | Why::Unarchived => 0,
        };
    }
}

#[cfg(test)]
impl Ask {
    /// As many as are due.
    pub const fn of(want: u64) -> Self {
        Self { want, due: want }
    }
}

/// A step that called so many and came to this place, in an open room with many in line.
#[cfg(test)]
pub fn step(count: u64, serving: u64, why: Why) -> Step {
    use crate::base::ids::{FencingToken, Number, Place};
    use crate::room::model::command::RoomState;
    Step {
        count,
        serving: Place(serving),
        token: FencingToken(1),
        state: RoomState::Open,
        why,
        free_in_ms: None,
        waiting: 1_000,
        live: 0,
        issued: Number(100_000),
        ceiling: Number(1_000_000),
        uncopied: 0,
        opening: false,
        draw: None,
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: (u64, u64) = (30, 1_000);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_tick_asks_for_its_share_and_for_what_the_quota_left_over() {
        let mut debt = Debt::default();
        for (since_ms, want, due) in [
            (0, 3, 3),
            (100, 3, 3),
            (101, 4, 4),
            (250, 8, 8),
            (400, 8, 12),
            (5_000, 8, 30),
        ] {
            let asked = debt.ask(RATE, ms(since_ms));
            assert_eq!(asked, Ask { want, due }, "{since_ms} ms");
        }
        debt.after(Ask::of(3), &step(1, 1, Why::Rate), 30);
        assert_eq!(debt.ask(RATE, ms(100)), Ask::of(5));
        debt.after(Ask::of(5), &step(5, 1, Why::Enough), 30);
        assert_eq!(debt.ask(RATE, ms(100)), Ask::of(3));
        // What was due and not asked for is not forgotten.
        debt.after(Ask { want: 8, due: 12 }, &step(8, 1, Why::Enough), 30);
        assert_eq!(debt.ask(RATE, ms(100)), Ask::of(7));
        debt.after(Ask::of(7), &step(0, 1, Why::Capacity), 30);
        assert_eq!(debt.ask(RATE, ms(100)), Ask::of(3));
    }

    #[test]
    fn every_rate_and_window_has_its_parts() {
        for (rate, window_ms, want) in [
            (1, 1_000, 1),
            (30, 60_000, 1),
            (0, 1_000, 0),
            (5_000, 1_000, 500),
            (40, 100, 10),
        ] {
            let asked = Debt::default().ask((rate, window_ms), rhythm(window_ms));
            assert_eq!(asked, Ask::of(want), "{rate} in {window_ms} ms");
        }
        let rests = [100, 250, 400, 1_000].map(rhythm);
        assert_eq!(rests, [25, 62, 100, 100].map(ms));
    }
}
