//! So many requests a second, and so many at once after a pause: the time at which the next one is
//! due, and how far ahead of it requests may come (GCRA).

use std::time::Duration;

/// What has passed of what may. Times are since any one moment.
#[derive(Debug)]
pub(crate) struct Rate {
    every: Duration,
    ahead_max: Duration,
    due: Duration,
}

impl Rate {
    /// `per_s` requests a second and `burst` at once; both at least 1.
    pub(crate) fn new(per_s: u32, burst: u32) -> Self {
        let every = Duration::from_secs(1) / per_s;
        Self {
            every,
            ahead_max: every * (burst - 1),
            due: Duration::ZERO,
        }
    }

    /// Whether a request passes now. One that does not is not counted, and would within a second.
    pub(crate) fn ask(&mut self, now: Duration) -> bool {
        let due = self.due.max(now);
        let passes = due - now <= self.ahead_max;
        if passes {
            self.due = due + self.every;
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut rate = Rate::new(10, 3);
        let mut passed = 0;
        for ms in (0..1_000).step_by(10) {
            passed += u32::from(rate.ask(Duration::from_millis(ms)));
        }
        assert_eq!(passed, 3 + 9);
        assert!(!rate.ask(Duration::from_millis(990)));
        assert!(rate.ask(Duration::from_millis(1_000)));
    }
}
