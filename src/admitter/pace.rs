//! How many fans to ask for now, and what to tell the line about its speed.
//!
//! A tick asks for the share of the rate that the time since the last one makes, plus what earlier
//! ticks could not call, so that calls are spread evenly and a tick that came late, or whose answer
//! was lost, costs the line nothing. It never asks for more than a quarter of the rate: the quota frees
//! calls as they were made, so a window's calls made at once would be made at once for ever, and of the
//! ten windows after them one would be empty. The room's quota bounds it; this file only paces.
//!
//! The *pace* is the speed of `serving`: places a second, so that fans who leave the line and fans
//! who are passed over need no book-keeping. What is published may rise freely; it falls only
//! together with a cause.

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::ids::Place;
use crate::base::limits::{RATE_MAX, TICK_CALLS_MAX, TICK_EVERY_MS};
use crate::base::time::Timestamp;
use crate::room::model::command::{Cause, Measured, RoomState, Step, Why};

/// In how many parts a window's calls are made at least.
const PARTS_MIN: u64 = 4;
/// How far back the pace is measured.
const PACE_SPAN_MS: u64 = 20_000;
/// Below this the measurement says nothing yet.
const PACE_SPAN_MIN_MS: u64 = 5_000;
/// How often a sample is kept.
const SAMPLE_EVERY_MS: u64 = 1_000;
/// A change of the pace within this many thousandths of it is noise and is not published.
const NOISE_MILLI: u64 = 50;
/// Ended admissions over which seats per fan are measured.
const ENDED_SPAN: u64 = 500;
/// Ended admissions before the measurement counts.
const ENDED_MIN: u64 = 100;

/// What one leader remembers of one show's pace.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    owed: u64,
    samples: VecDeque<(Timestamp, Place)>,
    rates: VecDeque<u64>,
    published: Measured,
    rate_before: Option<u64>,
    called: u64,
    ended: VecDeque<(u64, u64)>,
}

/// What the board said last, as far as pacing needs it.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// Calls in any window.
    pub rate: u64,
    /// The window.
    pub window_ms: u64,
    /// Free seats, if a shop has told.
    pub free: Option<u64>,
    /// Seats sold, if a shop has told.
    pub sold: Option<u64>,
}

/// What a tick asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Fans to call with this tick.
    pub want: u64,
    /// Fans who should have been called by now.
    due: u64,
}

/// How long to rest between ticks: a tenth of a second, less where a window is so short that its calls
/// would be made in fewer parts.
pub fn rhythm(window_ms: u64) -> Duration {
    Duration::from_millis((window_ms / PARTS_MIN).clamp(1, TICK_EVERY_MS))
}

impl Pace {
    /// A pace that goes on from what the board already shows: the line must not hear a jump because
    /// the leader changed.
    pub fn resume(board: Measured) -> Self {
        Self {
            published: board,
            ..Self::default()
        }
    }

    /// What the next tick asks for, where the last answered one was `since` ago.
    pub fn ask(&self, seen: Seen, since: Duration) -> Ask {
        let window_ms = seen.window_ms.max(1);
        let rhythm_ms = millis(rhythm(window_ms));
        // Sooner than usual is an extra tick, for the moment at which the quota frees.
        let since_ms = millis(since).clamp(rhythm_ms, window_ms.max(rhythm_ms));
        let share = (seen.rate.min(RATE_MAX * window_ms) * since_ms).div_ceil(window_ms);
        let due = (share + self.owed).min(seen.rate);
        let part = seen.rate.div_ceil(PARTS_MIN).min(TICK_CALLS_MAX);
        Ask {
            want: due.min(part),
            due,
        }
    }

    /// What the line is told now.
    pub fn measured(&self) -> Measured {
        self.published
    }

    /// Takes in the answer to a tick.
    pub fn after(&mut self, now: Timestamp, asked: Ask, step: &Step, seen: Seen) {
        // Fans that could not be called for want of seats or capacity leave no debt: they are called
        // when there is room, at the usual rhythm.
        self.owed = match step.why {
            // More could have been called had the tick looked further: the next one does.
            Why::Enough | Why::Rate | Why::Moved | Why::Looked => {
                asked.due.saturating_sub(step.count).min(seen.rate)
            }
            Why::Empty | Why::Capacity | Why::Stock | Why::State | Why::Unarchived => 0,
        };
        self.called += step.count;
        self.measure_seats(step, seen);
        self.measure_pace(now, step, seen);
    }

    fn measure_pace(&mut self, now: Timestamp, step: &Step, seen: Seen) {
        let slowed = self.rate_before.is_some_and(|before| seen.rate < before);
        self.rate_before = Some(seen.rate);
        if let Some(cause) = standstill(step.state) {
            self.samples.clear();
            self.rates.clear();
            self.published.cause = Some(cause);
            return;
        }
        if step.why == Why::Empty || step.state != RoomState::Open {
            // An empty line has no pace: whoever joins next is called at the rate.
            self.samples.clear();
            self.rates.clear();
            self.published = Measured {
                pace_milli: 0,
                cause: None,
                ..self.published
            };
            return;
        }
        if step.why == Why::Stock {
            // Calls now wait for single seats: that is no speed, and `reach` says what matters.
            self.samples.clear();
            self.rates.clear();
            self.published.cause = Some(cause_of(step.why, seen));
            return;
        }
        if !self.sample(now, step.serving) && !slowed {
            return;
        }
        let Some(measured) = self.speed_milli() else {
            return;
        };
        self.publish(
            measured,
            if slowed {
                Cause::Slowed
            } else {
                cause_of(step.why, seen)
            },
        );
    }

    /// Keeps at most one sample a second; whether one was kept.
    fn sample(&mut self, now: Timestamp, serving: Place) -> bool {
        if let Some((last, before)) = self.samples.back().copied() {
            let ms = now.ms_since(last);
            if ms < SAMPLE_EVERY_MS {
                return false;
            }
            self.rates
                .push_back(serving.0.saturating_sub(before.0) * 1_000_000 / ms);
        }
        self.samples.push_back((now, serving));
        while self
            .samples
            .front()
            .is_some_and(|(at, _)| PACE_SPAN_MS < now.ms_since(*at))
        {
            self.samples.pop_front();
            self.rates.pop_front();
        }
        true
    }

    fn speed_milli(&self) -> Option<u64> {
        let ((first, from), (last, to)) = (*self.samples.front()?, *self.samples.back()?);
        let ms = last.ms_since(first);
        // 0 means unknown: a line that stands still is as slow as can be said.
        (PACE_SPAN_MIN_MS <= ms).then(|| (to.0.saturating_sub(from.0) * 1_000_000 / ms).max(1))
    }

    /// Publishes a rise at once and a fall with its cause. A change within the noise changes nothing,
    /// so that the cause of a fall stands until the pace has recovered.
    fn publish(&mut self, measured_milli: u64, cause: Cause) {
        self.published.spread_milli = self.spread_milli(measured_milli);
        let before = self.published.pace_milli;
        let noise = before * NOISE_MILLI / 1_000;
        if before + noise < measured_milli {
            self.published.pace_milli = measured_milli;
            self.published.cause = None;
        } else if measured_milli + noise < before {
            self.published.pace_milli = measured_milli;
            self.published.cause = Some(cause);
        }
    }

    /// The mean deviation of single seconds from the pace, in thousandths of it.
    fn spread_milli(&self, pace_milli: u64) -> u64 {
        let count = self.rates.len() as u64;
        if count == 0 || pace_milli == 0 {
            return 0;
        }
        let off: u64 = self
            .rates
            .iter()
            .map(|rate| rate.abs_diff(pace_milli))
            .sum();
        (off * 1_000 / count / pace_milli).min(1_000)
    }

    fn measure_seats(&mut self, step: &Step, seen: Seen) {
        let Some(sold) = seen.sold else { return };
        let ended = self.called.saturating_sub(step.live);
        if self.ended.back().is_none_or(|(before, _)| *before < ended) {
            self.ended.push_back((ended, sold));
        }
        while 1 < self.ended.len() && self.ended[0].0 + ENDED_SPAN < ended {
            self.ended.pop_front();
        }
        let Some((from, sold_from)) = self.ended.front().copied() else {
            return;
        };
        let (fans, seats) = (ended.saturating_sub(from), sold.saturating_sub(sold_from));
        if ENDED_MIN <= fans {
            self.published.seats_per_fan_milli = (seats * 1_000 / fans).max(1);
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Why the line stands still as a whole, if it does.
fn standstill(state: RoomState) -> Option<Cause> {
    match state {
        RoomState::Paused => Some(Cause::Paused),
        RoomState::Restoring => Some(Cause::Restoring),
        RoomState::Scheduled
        | RoomState::Early
        | RoomState::Open
        | RoomState::SoldOut
        | RoomState::Closed
        | RoomState::Off => None,
    }
}

fn cause_of(why: Why, seen: Seen) -> Cause {
    match why {
        Why::Capacity => Cause::Capacity,
        Why::Stock if seen.free == Some(0) => Cause::InCarts,
        Why::Stock => Cause::Stock,
        Why::State => Cause::Paused,
        Why::Enough | Why::Empty | Why::Rate | Why::Unarchived | Why::Moved | Why::Looked => {
            Cause::Crowd
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{FencingToken, Number};

    const SEEN: Seen = Seen {
        rate: 30,
        window_ms: 1_000,
        free: Some(100),
        sold: Some(0),
    };

    fn step(count: u64, serving: u64, why: Why) -> Step {
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

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_unix_ms(ms)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn asked(want: u64) -> Ask {
        Ask { want, due: want }
    }

    #[test]
    fn a_tick_asks_for_its_share_and_for_what_the_quota_left_over() {
        let mut pace = Pace::default();
        for (since_ms, want, due) in [
            (0, 3, 3),
            (100, 3, 3),
            (101, 4, 4),
            (250, 8, 8),
            (400, 8, 12),
            (5_000, 8, 30),
        ] {
            assert_eq!(
                pace.ask(SEEN, ms(since_ms)),
                Ask { want, due },
                "{since_ms} ms"
            );
        }
        pace.after(at(0), asked(3), &step(1, 1, Why::Rate), SEEN);
        assert_eq!(pace.ask(SEEN, ms(100)), asked(5));
        pace.after(at(100), asked(5), &step(5, 6, Why::Enough), SEEN);
        assert_eq!(pace.ask(SEEN, ms(100)), asked(3));
        // What was due and not asked for is not forgotten.
        let late = Ask { want: 8, due: 12 };
        pace.after(at(200), late, &step(8, 14, Why::Enough), SEEN);
        assert_eq!(pace.ask(SEEN, ms(100)), asked(7));
        pace.after(at(300), asked(7), &step(0, 14, Why::Capacity), SEEN);
        assert_eq!(pace.ask(SEEN, ms(100)), asked(3));
    }

    #[test]
    fn every_rate_and_window_has_its_parts() {
        let pace = Pace::default();
        for (rate, window_ms, want) in [
            (1, 1_000, 1),
            (30, 60_000, 1),
            (0, 1_000, 0),
            (5_000, 1_000, 500),
            (40, 100, 10),
        ] {
            let seen = Seen {
                rate,
                window_ms,
                ..SEEN
            };
            let ask = pace.ask(seen, rhythm(window_ms));
            assert_eq!(ask, asked(want), "{rate} in {window_ms} ms");
        }
        assert_eq!(
            [100, 250, 400, 1_000].map(rhythm),
            [25, 62, 100, 100].map(ms)
        );
    }

    #[test]
    fn the_pace_is_the_speed_of_serving_and_falls_only_with_a_cause() {
        let mut pace = Pace::default();
        for second in 0..10_i64 {
            let now = at(second * 1_000);
            pace.after(
                now,
                asked(3),
                &step(3, second.unsigned_abs() * 30, Why::Enough),
                SEEN,
            );
        }
        assert_eq!(pace.measured().pace_milli, 30_000);
        assert_eq!(
            (pace.measured().cause, pace.measured().spread_milli),
            (None, 0)
        );
        for second in 10..40_i64 {
            let places = 270 + (second - 9).unsigned_abs() * 10;
            pace.after(
                at(second * 1_000),
                asked(3),
                &step(1, places, Why::Capacity),
                SEEN,
            );
        }
        assert_eq!(pace.measured().pace_milli, 10_000);
        assert_eq!(pace.measured().cause, Some(Cause::Capacity));
    }

    #[test]
    fn a_pause_has_a_cause_and_an_empty_line_has_no_pace() {
        let mut pace = Pace::resume(Measured {
            pace_milli: 30_000,
            ..Measured::default()
        });
        pace.after(
            at(0),
            asked(3),
            &Step {
                state: RoomState::Paused,
                ..step(0, 9, Why::State)
            },
            SEEN,
        );
        assert_eq!(pace.measured().cause, Some(Cause::Paused));
        pace.after(at(100), asked(3), &step(0, 9, Why::Empty), SEEN);
        assert_eq!(
            (pace.measured().pace_milli, pace.measured().cause),
            (0, None)
        );
    }

    #[test]
    fn waiting_for_the_last_seats_is_no_speed() {
        let mut pace = Pace::resume(Measured {
            pace_milli: 30_000,
            ..Measured::default()
        });
        for second in 0..30_i64 {
            pace.after(at(second * 1_000), asked(3), &step(0, 9, Why::Stock), SEEN);
        }
        let measured = pace.measured();
        assert_eq!(
            (measured.pace_milli, measured.cause),
            (30_000, Some(Cause::Stock))
        );
        let none_free = Seen {
            free: Some(0),
            ..SEEN
        };
        pace.after(at(31_000), asked(3), &step(0, 9, Why::Stock), none_free);
        assert_eq!(pace.measured().cause, Some(Cause::InCarts));
    }

    #[test]
    fn seats_per_fan_are_sold_seats_over_ended_admissions() {
        let mut pace = Pace::default();
        for i in 1..=200 {
            let sold = Seen {
                sold: Some(i * 3 / 2),
                ..SEEN
            };
            pace.after(at(0), asked(1), &step(1, i, Why::Enough), sold);
        }
        assert_eq!(pace.measured().seats_per_fan_milli, 1_502);
    }
}
