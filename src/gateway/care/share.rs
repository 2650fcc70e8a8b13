//! How many requests an upstream may have at once: never more than the operator says, and no more than
//! it gets through with in time.
//!
//! What an upstream cannot answer in time it works on in vain. So it begins with a few, and gets more
//! only while answers take less than a quarter of their deadline: by the time that an answer shows how
//! long the way is, it may be twice as long. A deadline that is missed halves what is allowed, and from
//! then on it grows by one for each round of answers, as TCP does it. It is not the number under way that
//! is halved: an upstream that is asked little would be allowed one request for a single one that hung.
//! What was accepted is answered in time.

use std::time::Duration;

/// One request, in the unit in which the number grows.
const ONE: u64 = 1_000_000;
/// How many it begins with: enough for a quick upstream, and few enough for one that is slow.
const FIRST: u64 = 200 * ONE;

/// Requests under way, and how many may be. Times are since any one moment.
#[derive(Debug)]
pub(crate) struct Share {
    max: u64,
    allowed: u64,
    in_flight: u64,
    cut_at: Option<Duration>,
}

impl Share {
    /// None under way, of at most `max`.
    pub(crate) fn new(max: usize) -> Self {
        let max = (max as u64).saturating_mul(ONE);
        Self {
            max,
            allowed: max.min(FIRST),
            in_flight: 0,
            cut_at: None,
        }
    }

    /// Takes a place for a request, if there is one; whoever got one gives it back.
    pub(crate) fn take(&mut self) -> bool {
        let is_free = self.in_flight + ONE <= self.allowed;
        if is_free {
            self.in_flight += ONE;
        }
        is_free
    }

    /// Whether one more may wait for a place, behind so many: all together they are no more than the operator
    /// says.
    pub(crate) fn has_room_for(&self, waiting: usize) -> bool {
        self.in_flight + (waiting as u64 + 1) * ONE <= self.max
    }

    /// A request has ended.
    pub(crate) fn give_back(&mut self) {
        self.in_flight -= ONE;
    }

    /// A request was answered after `took` of the `deadline` that it had. More are allowed only where
    /// there was time enough, and where what is allowed is made use of.
    pub(crate) fn answered(&mut self, took: Duration, deadline: Duration) {
        if deadline < 4 * took || 2 * self.in_flight < self.allowed {
            return;
        }
        let more = match self.cut_at {
            None => ONE,
            Some(_) => ONE * ONE / self.allowed,
        };
        self.allowed = (self.allowed + more).min(self.max);
    }

    /// A request that was sent at `sent_at` was not answered in time. All those that were on their way
    /// together tell the same, so only one of them counts.
    pub(crate) fn late(&mut self, sent_at: Duration, now: Duration) {
        if self.cut_at.is_none_or(|cut_at| cut_at < sent_at) {
            self.allowed = (self.allowed / 2).max(ONE);
            self.cut_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::care::breaker::{Breaker, Role, Verdict};
    use std::collections::VecDeque;

    const DEADLINE: Duration = Duration::from_secs(10);
    const SOON: Duration = Duration::from_secs(2);
    const BARELY: Duration = Duration::from_secs(3);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn fill(share: &mut Share) -> usize {
        (0..).take_while(|_| share.take()).count()
    }

    #[test]
    fn there_are_never_more_than_the_operator_says() {
        let mut share = Share::new(3);
        assert_eq!(fill(&mut share), 3);
        for _ in 0..10 {
            share.answered(SOON, DEADLINE);
        }
        assert_eq!(fill(&mut share), 0);
        share.give_back();
        assert_eq!(fill(&mut share), 1);
    }

    #[test]
    fn it_begins_with_some_and_grows_while_answers_come_soon() {
        let mut share = Share::new(5_000);
        assert_eq!(fill(&mut share), 200);
        for _ in 0..50 {
            share.answered(BARELY, DEADLINE);
        }
        assert_eq!(fill(&mut share), 0, "as much as it can do in time");
        for _ in 0..50 {
            share.answered(SOON, DEADLINE);
        }
        assert_eq!(fill(&mut share), 50);
    }

    #[test]
    fn a_missed_deadline_halves_it_once_a_round() {
        let mut share = Share::new(100);
        assert_eq!(fill(&mut share), 100);
        for _ in 0..40 {
            share.late(at(1), at(16));
            share.give_back();
        }
        assert_eq!(share.in_flight, 60 * ONE);
        assert!(!share.take(), "50 may be under way");
        share.late(at(17), at(32));
        for _ in 0..60 {
            share.give_back();
        }
        assert_eq!(fill(&mut share), 25);
        for round in 40..50 {
            share.late(at(round), at(round));
        }
        assert!(ONE <= share.allowed, "one request always passes");
    }

    #[test]
    fn one_that_hangs_at_a_quiet_time_halves_what_is_allowed_and_no_more() {
        let mut share = Share::new(1_000);
        assert!(share.take());
        share.late(at(0), at(15));
        share.give_back();
        assert_eq!(fill(&mut share), 100);
    }

    #[test]
    fn after_that_a_round_of_answers_allows_one_more() {
        let mut share = Share::new(20);
        (0..20).for_each(|_| assert!(share.take()));
        share.late(at(0), at(1));
        (0..20).for_each(|_| share.give_back());
        assert_eq!(fill(&mut share), 10);
        for _ in 0..11 {
            share.answered(SOON, DEADLINE);
        }
        assert_eq!(fill(&mut share), 1);
        (0..11).for_each(|_| share.give_back());
        for _ in 0..100 {
            share.answered(SOON, DEADLINE);
        }
        assert_eq!(fill(&mut share), 11, "nobody needed more");
    }

    /// An upstream of so many workers, each a tenth of a second a request, that never learns that
    /// nobody waits any more.
    struct Upstream {
        free_at: Vec<Duration>,
    }

    impl Upstream {
        /// When a request that comes now is done: whoever is free first takes it, in order.
        fn done_at(&mut self, now: Duration) -> Duration {
            let first = self.free_at.iter_mut().min().unwrap();
            *first = now.max(*first) + Duration::from_millis(100);
            *first
        }
    }

    /// Answers in time while a hundred requests a second come for each ten that the upstream can do.
    fn answered(workers: usize, overload: u32, for_s: u64) -> u64 {
        const PATIENCE: Duration = Duration::from_secs(15);
        let mut upstream = Upstream {
            free_at: vec![Duration::ZERO; workers],
        };
        let (mut breaker, mut share) = (Breaker::default(), Share::new(5_000));
        let mut under_way: VecDeque<(Duration, Duration, Role)> = VecDeque::new();
        let mut in_time = 0;
        let every = Duration::from_millis(100) / (u32::try_from(workers).unwrap() * overload);
        let mut now = Duration::ZERO;
        while now < Duration::from_secs(for_s) {
            now += every;
            while let Some(&(sent_at, done_at, role)) = under_way.front() {
                if now < done_at.min(sent_at + PATIENCE) {
                    break; // in order, as they came
                }
                under_way.pop_front();
                if done_at <= sent_at + PATIENCE {
                    in_time += 1;
                    share.answered(done_at - sent_at, PATIENCE);
                    breaker.answered(role);
                } else {
                    share.late(sent_at, now);
                    breaker.failed(role, now);
                }
                share.give_back();
            }
            if let Verdict::Pass(role) = breaker.ask(now) {
                if share.take() {
                    under_way.push_back((now, upstream.done_at(now), role));
                } else {
                    breaker.abandoned(role, now);
                }
            }
        }
        in_time
    }

    #[test]
    fn an_upstream_with_five_times_too_much_to_do_does_four_fifths_of_what_it_can() {
        for workers in [1, 4, 10, 40] {
            let for_s = 300;
            let peak = workers as u64 * 10 * for_s;
            let done = answered(workers, 5, for_s);
            assert!(peak * 8 / 10 <= done, "{workers} workers: {done} of {peak}");
        }
    }
}
