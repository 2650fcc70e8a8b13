//! What to tell the line about its speed, and with `ask.rs` how many fans to ask for now.
//!
//! The *pace* is the speed of `serving`: places a second, so that fans who leave the line and fans
//! who are passed over need no book-keeping. What is published may rise freely; it falls only
//! together with a cause.

use std::collections::VecDeque;
use std::time::Duration;

use crate::admitter::ask::{Ask, Debt};
use crate::base::ids::Place;
use crate::base::time::Timestamp;
use crate::room::model::command::{Cause, Measured, RoomState, Step, Why};

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
    debt: Debt,
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
        self.debt.ask((seen.rate, seen.window_ms), since)
    }

    /// What the line is told now.
    pub fn measured(&self) -> Measured {
        self.published
    }

    /// Takes in the answer to a tick.
    pub fn after(&mut self, now: Timestamp, asked: Ask, step: &Step, seen: Seen) {
        self.debt.after(asked, step, seen.rate);
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
    use crate::admitter::ask::step;

    const SEEN: Seen = Seen {
        rate: 30,
        window_ms: 1_000,
        free: Some(100),
        sold: Some(0),
    };

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_unix_ms(ms)
    }

    #[test]
    fn the_pace_is_the_speed_of_serving_and_falls_only_with_a_cause() {
        let mut pace = Pace::default();
        for second in 0..10_i64 {
            let now = at(second * 1_000);
            pace.after(
                now,
                Ask::of(3),
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
                Ask::of(3),
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
            Ask::of(3),
            &Step {
                state: RoomState::Paused,
                ..step(0, 9, Why::State)
            },
            SEEN,
        );
        assert_eq!(pace.measured().cause, Some(Cause::Paused));
        pace.after(at(100), Ask::of(3), &step(0, 9, Why::Empty), SEEN);
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
            pace.after(
                at(second * 1_000),
                Ask::of(3),
                &step(0, 9, Why::Stock),
                SEEN,
            );
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
        pace.after(at(31_000), Ask::of(3), &step(0, 9, Why::Stock), none_free);
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
            pace.after(at(0), Ask::of(1), &step(1, i, Why::Enough), sold);
        }
        assert_eq!(pace.measured().seats_per_fan_milli, 1_502);
    }
}
