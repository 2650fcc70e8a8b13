//! The exact sliding window: at most so many calls in any window, wherever it begins.
//!
//! Calls are remembered by the millisecond for as long as they count, so there is no edge between
//! fixed windows at which twice the rate could slip through. For long windows calls are merged into
//! slots of a thousandth of the window and stamped at the slot's end: late, so never too generous.

use std::collections::VecDeque;

use crate::base::time::Timestamp;

/// Slots in a window: bounds the memory of a quota, and costs at most a thousandth of the rate.
const SLOTS: u64 = 1_000;
/// More calls than any rate allows.
const BURNED: u64 = u64::MAX;

/// The calls that still count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quota {
    /// Stamp and calls, oldest first.
    calls: VecDeque<(Timestamp, u64)>,
}

impl Quota {
    /// Forgets the calls that no longer count. Room time never goes back, so they never will again.
    pub fn pass_time(&mut self, now: Timestamp, window_ms: u64) {
        // A call counts while now - stamp <= window: the window includes both of its ends.
        while self
            .calls
            .front()
            .is_some_and(|(stamp, _)| window_ms < now.ms_since(*stamp))
        {
            self.calls.pop_front();
        }
    }

    /// Stamps and calls, oldest first; `u64::MAX` calls where the window was burned.
    pub fn calls(&self) -> impl Iterator<Item = (Timestamp, u64)> {
        self.calls.iter().copied()
    }

    /// Calls that count now.
    pub fn counted(&self) -> u64 {
        self.calls
            .iter()
            .fold(0, |sum, (_, calls)| sum.saturating_add(*calls))
    }

    /// How many may be called now.
    pub fn left(&self, rate: u64) -> u64 {
        rate.saturating_sub(self.counted())
    }

    /// Notes that `calls` fans are called now.
    pub fn spend(&mut self, now: Timestamp, window_ms: u64, calls: u64) {
        let stamp = end_of_slot(now, window_ms);
        match self.calls.back_mut() {
            Some((last, sum)) if *last == stamp => *sum = sum.saturating_add(calls),
            Some(_) | None => self.calls.push_back((stamp, calls)),
        }
    }

    /// Takes back what is left of the present window, whatever the rate, now or later in it. After a
    /// change of the window's length the calls of the old one do not add up with the new; after a
    /// loss nobody knows them. Either way a window without calls is the safe answer.
    pub fn burn(&mut self, now: Timestamp) {
        self.calls.clear();
        self.calls.push_back((now, BURNED));
    }

    /// When at least one more call will be allowed, in milliseconds; none if the rate is 0.
    pub fn free_in_ms(&self, now: Timestamp, rate: u64, window_ms: u64) -> Option<u64> {
        if rate == 0 {
            return None;
        }
        let mut counted = self.counted();
        for (stamp, calls) in &self.calls {
            if counted < rate {
                break;
            }
            counted = if counted == BURNED {
                0
            } else {
                counted - calls
            };
            if counted < rate {
                return Some(stamp.plus_ms(window_ms.saturating_add(1)).ms_since(now));
            }
        }
        Some(0)
    }
}

fn end_of_slot(now: Timestamp, window_ms: u64) -> Timestamp {
    let slot = i64::try_from((window_ms / SLOTS).max(1)).unwrap_or(i64::MAX);
    let into_slot = now.as_millis().rem_euclid(slot);
    now.plus_ms((slot - 1 - into_slot).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_unix_ms(ms)
    }

    #[test]
    fn a_call_counts_for_the_whole_window_and_no_longer() {
        let mut quota = Quota::default();
        quota.spend(at(5_000), 1_000, 3);
        for (now, left) in [(5_000, 7), (5_999, 7), (6_000, 7), (6_001, 10)] {
            quota.pass_time(at(now), 1_000);
            assert_eq!(quota.left(10), left, "at {now}");
        }
    }

    #[test]
    fn it_says_when_the_next_call_is_free() {
        let mut quota = Quota::default();
        quota.spend(at(0), 1_000, 6);
        quota.spend(at(100), 1_000, 4);
        let rows = [
            (0, None),
            (4, Some(951)),
            (5, Some(851)),
            (10, Some(851)),
            (11, Some(0)),
        ];
        for (rate, expected) in rows {
            assert_eq!(
                quota.free_in_ms(at(150), rate, 1_000),
                expected,
                "rate {rate}"
            );
        }
    }

    #[test]
    fn a_burned_window_has_nothing_left_at_any_rate() {
        let mut quota = Quota::default();
        quota.spend(at(0), 1_000, 6);
        quota.burn(at(10));
        assert_eq!((quota.left(10), quota.left(u64::MAX)), (0, 0));
        assert_eq!(quota.free_in_ms(at(10), 5, 500), Some(501));
        quota.pass_time(at(511), 500);
        assert_eq!(quota.left(10), 10);
    }

    #[test]
    fn long_windows_are_kept_in_a_thousand_slots_stamped_late() {
        let hour = 3_600_000;
        let mut quota = Quota::default();
        for now in 0..20_000 {
            quota.spend(at(now), hour, 1);
        }
        assert_eq!((quota.calls.len(), quota.counted()), (6, 20_000));
        quota.pass_time(at(3_600_000), hour);
        assert_eq!(quota.counted(), 20_000);
        quota.pass_time(at(3_599 + 3_600_001), hour);
        assert_eq!(quota.counted(), 16_400);
    }
}
