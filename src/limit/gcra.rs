//! How joins are counted: the definition. `lua/limit/join.lua` says the same for many gateways at once.
//!
//! A count is one instant, the time at which it will be empty again (GCRA): each join moves it one
//! interval further, and may not move it further ahead of now than the tolerance. So a burst passes
//! after a pause, and in the long run one join an interval.
//!
//! ```text
//! free ─── passes
//!   over ─ a challenge; whoever answers it passes, and so do some of those who have waited instead
//! far ──── refused, whatever they show
//! ```
//!
//! A prefix has three counts: the free one, which joins without a proof fill; that of waits, which cost
//! a program nothing, so that they reach less far than proofs; and the far one, which all fill and
//! which bounds what proofs can buy. How full the far one is makes challenges harder.
//!
//! No join moves a count further ahead than the tolerance, so one that is further ahead was counted on a
//! clock that has been put back since. It counts as full: else nobody would join for as long as the clock
//! was put back.
//!
//! Absent on purpose: clocks and stores. Times are microseconds of whoever counts.

use crate::limit::settings::{Limit, Settings};

/// How far a count may run ahead, and how fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Between two joins in the long run, in microseconds; at least 1.
    pub interval_us: u64,
    /// How far ahead of now a count may be, in microseconds: a burst of joins. 0 lets nobody pass.
    pub tolerance_us: u64,
}

impl Rate {
    /// The rate of a limit, `times` as high.
    pub(crate) fn of(limit: Limit, times: u32) -> Self {
        let interval_us = 1_000_000 / (u64::from(limit.per_s) * u64::from(times)).max(1);
        let interval_us = interval_us.max(1);
        Self {
            interval_us,
            tolerance_us: interval_us * u64::from(limit.burst) * u64::from(times),
        }
    }

    /// When a count will be empty, as far as joins can have moved it.
    fn held(self, count: u64, now: u64) -> u64 {
        count.min(now + self.tolerance_us)
    }

    /// One more: the count after it, or the microseconds until it would fit.
    pub(crate) fn add(self, count: u64, now: u64) -> Result<u64, u64> {
        let after = count.max(now) + self.interval_us;
        let over = after.saturating_sub(now + self.tolerance_us);
        if over == 0 { Ok(after) } else { Err(over) }
    }

    /// How many more would fit now.
    fn left(self, count: u64, now: u64) -> u64 {
        self.tolerance_us.saturating_sub(count.saturating_sub(now)) / self.interval_us
    }

    /// How full it is, in thousandths.
    fn used_milli(self, count: u64, now: u64) -> u64 {
        (count.saturating_sub(now) * 1_000 / self.tolerance_us.max(1)).min(1_000)
    }
}

/// The rates of one prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rung {
    /// Up to here nobody is asked for anything.
    pub free: Rate,
    /// Beyond that, as many as this pass who have waited.
    pub wait: Rate,
    /// Up to here a proof is asked for.
    pub far: Rate,
}

/// Every rate of joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ladder {
    /// All joins of a show.
    pub show: Rate,
    /// /32 and /64, /56, /48.
    pub rungs: [Rung; 3],
}

impl Ladder {
    /// The rates that an operator has set.
    pub fn of(settings: &Settings) -> Self {
        let rung = |limit| Rung {
            free: Rate::of(limit, 1),
            wait: Rate::of(limit, settings.join_wait),
            far: Rate::of(limit, settings.join_far),
        };
        Self {
            show: Rate::of(settings.show, 1),
            rungs: [settings.join, settings.join_56, settings.join_48].map(rung),
        }
    }

    /// The same where every join needs a proof or a wait.
    #[must_use]
    pub fn with_nothing_free(mut self) -> Self {
        for rung in &mut self.rungs {
            rung.free.tolerance_us = 0;
        }
        self
    }
}

/// What is counted of one prefix.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Joins that were free.
    pub free: u64,
    /// Joins that passed because they had waited.
    pub wait: u64,
    /// All joins.
    pub far: u64,
}

impl Count {
    /// When all of it will be empty.
    pub fn ends(&self) -> u64 {
        self.free.max(self.wait).max(self.far)
    }
}

/// What a join shows for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// Nothing.
    Nothing,
    /// It says that it has a proof, at which nobody has looked yet.
    Claim,
    /// A wait that is over and that nobody has shown before.
    Wait,
    /// A proof that nobody has shown before.
    Proof,
    /// A wait or a proof that has been used.
    Spent,
}

/// What becomes of a join. Waits are in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// It may be; so many more could follow without a proof.
    Pass {
        /// Joins.
        left: u64,
    },
    /// There is room for a join with a proof, so that it is worth looking at. Nothing was counted.
    Prove,
    /// It needs a proof, or that much patience.
    Challenge {
        /// Until one would pass that shows no more than this one.
        wait_us: u64,
        /// How near the prefix is to being refused, in thousandths.
        used_milli: u64,
    },
    /// Far too many from there.
    TooMany {
        /// Until one would pass with a proof.
        wait_us: u64,
    },
    /// Too many for this show, wherever they come from.
    Busy {
        /// Until one would pass.
        wait_us: u64,
    },
    /// What it shows has been used.
    Spent,
}

/// What is counted of the show and of the prefixes of a join: never more than full.
fn held(ladder: &Ladder, now: u64, show: &mut u64, counts: &mut [Count]) {
    *show = ladder.show.held(*show, now);
    for (at, count) in ladder.rungs.iter().zip(counts) {
        *count = Count {
            free: at.free.held(count.free, now),
            wait: at.wait.held(count.wait, now),
            far: at.far.held(count.far, now),
        };
    }
}

/// Counts one join against the show's count and those of its prefixes, the narrowest first. Only one
/// that passes is counted; what has changed is to be kept, whether it passes or not.
pub fn decide(
    ladder: &Ladder,
    now: u64,
    show: &mut u64,
    counts: &mut [Count],
    shows: Shows,
) -> Entry {
    held(ladder, now, show, counts);
    if shows == Shows::Spent {
        return Entry::Spent;
    }
    let all = match ladder.show.add(*show, now) {
        Ok(all) => all,
        Err(wait_us) => return Entry::Busy { wait_us },
    };
    let rungs = || ladder.rungs.iter().zip(counts.iter());
    let far: Vec<_> = rungs().map(|(at, is)| at.far.add(is.far, now)).collect();
    let wait: Vec<_> = rungs().map(|(at, is)| at.wait.add(is.wait, now)).collect();
    let free: Vec<_> = rungs().map(|(at, is)| at.free.add(is.free, now)).collect();
    let used_milli = rungs().map(|(at, is)| at.far.used_milli(is.far, now));
    let used_milli = used_milli.max().unwrap_or_default();
    let longest = |added: &[Result<u64, u64>]| added.iter().filter_map(|one| one.err()).max();
    if let Some(wait_us) = longest(&far) {
        return Entry::TooMany { wait_us };
    }
    let over = longest(&free);
    let short = match shows {
        Shows::Claim => return Entry::Prove,
        Shows::Nothing => over,
        Shows::Wait => over.and_then(|_| longest(&wait)),
        Shows::Proof | Shows::Spent => None,
    };
    if let Some(wait_us) = short {
        return Entry::Challenge {
            wait_us,
            used_milli,
        };
    }
    *show = all;
    let added = far.into_iter().zip(wait).zip(free);
    for (count, ((far, wait), free)) in counts.iter_mut().zip(added) {
        count.far = far.unwrap_or(count.far);
        if over.is_none() {
            count.free = free.unwrap_or(count.free);
        } else if shows == Shows::Wait {
            count.wait = wait.unwrap_or(count.wait);
        }
    }
    let left = ladder.rungs.iter().zip(counts.iter());
    let left = left.map(|(at, is)| at.free.left(is.free, now));
    Entry::Pass {
        left: left.min().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn ladder() -> Ladder {
        let limit = |per_s, burst| Limit { per_s, burst };
        Ladder::of(&Settings {
            join: limit(1, 3),
            join_56: limit(2, 4),
            join_48: limit(4, 6),
            join_wait: 1,
            join_far: 2,
            show: limit(100, 100),
            ..Settings::default()
        })
    }

    /// Joins at this second, all of a kind, and what became of them.
    fn joins(at_s: u64, counts: &mut [Count], shows: Shows, n: usize) -> Vec<Entry> {
        let mut show = 0;
        let now = (1_000 + at_s) * SECOND;
        std::iter::repeat_with(|| decide(&ladder(), now, &mut show, counts, shows))
            .take(n)
            .collect()
    }

    fn passed(entries: &[Entry]) -> usize {
        let is_pass = |entry: &&Entry| matches!(entry, Entry::Pass { .. });
        entries.iter().filter(is_pass).count()
    }

    #[test]
    fn over_the_limit_a_proof_passes_and_far_above_nobody() {
        let mut counts = [Count::default()];
        let entries = joins(0, &mut counts, Shows::Nothing, 5);
        assert_eq!(passed(&entries), 3);
        assert_eq!(
            (entries[2], entries[3]),
            (
                Entry::Pass { left: 0 },
                Entry::Challenge {
                    wait_us: SECOND,
                    used_milli: 500
                }
            )
        );
        let entries = joins(0, &mut counts, Shows::Proof, 5);
        assert_eq!(passed(&entries), 3); // six is far, of which three were free
        assert_eq!(
            entries[3],
            Entry::TooMany {
                wait_us: SECOND / 2
            }
        );
        assert_eq!(joins(0, &mut counts, Shows::Spent, 1), [Entry::Spent]);
        // Proofs cost nobody else their free joins: those come back as if there had been none.
        assert_eq!(passed(&joins(1, &mut counts, Shows::Nothing, 2)), 1);
        assert_eq!(passed(&joins(60, &mut counts, Shows::Nothing, 9)), 3);
    }

    #[test]
    fn waits_reach_less_far_than_proofs() {
        let ladder = Ladder::of(&Settings {
            join: Limit { per_s: 1, burst: 3 },
            join_wait: 2,
            join_far: 10,
            ..Settings::default()
        });
        let (mut show, mut counts) = (0, [Count::default()]);
        let mut ask = |shows| decide(&ladder, 1_000 * SECOND, &mut show, &mut counts, shows);
        let waits: Vec<Entry> = (0..40).map(|_| ask(Shows::Wait)).collect();
        let proofs: Vec<Entry> = (0..40).map(|_| ask(Shows::Proof)).collect();
        // Three are free, six may have waited instead; of thirty all together, the rest need proofs.
        assert_eq!((passed(&waits), passed(&proofs)), (9, 21));
        let (wait_us, used_milli) = (SECOND / 2, 300);
        let challenged = Entry::Challenge {
            wait_us,
            used_milli,
        };
        assert_eq!(waits[9], challenged);
        assert!(
            matches!(proofs[39], Entry::TooMany { .. }),
            "{:?}",
            proofs[39]
        );
    }

    #[test]
    fn whoever_says_they_have_a_proof_is_told_the_limits_first_and_not_counted() {
        let mut counts = [Count::default()];
        let claims = joins(0, &mut counts, Shows::Claim, 9);
        assert_eq!(
            (claims, counts),
            (vec![Entry::Prove; 9], [Count::default()])
        );
        joins(0, &mut counts, Shows::Proof, 6);
        let claims = joins(0, &mut counts, Shows::Claim, 1);
        assert!(matches!(claims[..], [Entry::TooMany { .. }]), "{claims:?}");
    }

    #[test]
    fn a_wider_prefix_takes_more_and_what_is_refused_counts_nowhere() {
        let mut neighbour = [Count::default(); 3];
        assert_eq!(passed(&joins(0, &mut neighbour, Shows::Nothing, 9)), 3);
        // Another /64 of the same /56, then another /56 of the same /48.
        let mut counts = [Count::default(), neighbour[1], neighbour[2]];
        assert_eq!(passed(&joins(0, &mut counts, Shows::Nothing, 9)), 1);
        let mut counts = [Count::default(), Count::default(), counts[2]];
        assert_eq!(passed(&joins(0, &mut counts, Shows::Nothing, 9)), 2);
    }

    #[test]
    fn where_nothing_is_free_every_join_needs_a_proof() {
        let ladder = ladder().with_nothing_free();
        let (mut show, mut counts) = (0, [Count::default()]);
        let mut ask = |shows| decide(&ladder, SECOND, &mut show, &mut counts, shows);
        assert!(matches!(ask(Shows::Nothing), Entry::Challenge { .. }));
        assert_eq!(ask(Shows::Proof), Entry::Pass { left: 0 });
    }

    #[test]
    fn a_clock_that_is_put_back_keeps_nobody_out_for_longer_than_a_full_count() {
        let (mut show, mut counts) = (0, [Count::default(); 3]);
        let hours = 7_200 * SECOND;
        let mut ask = |now: u64| decide(&ladder(), now, &mut show, &mut counts, Shows::Nothing);
        for _ in 0..3 {
            assert!(matches!(ask(2 * hours), Entry::Pass { .. }));
        }
        // Full, and from then on as after any burst, whoever asks meanwhile.
        for (after_s, passes) in [(0, false), (0, false), (1, true), (1, false), (2, true)] {
            let entry = ask(hours + after_s * SECOND);
            let is_pass = matches!(entry, Entry::Pass { .. });
            assert_eq!(is_pass, passes, "{after_s} s: {entry:?}");
        }
    }

    #[test]
    fn a_show_takes_so_many_from_everywhere() {
        let mut show = 0;
        let mut ask = || {
            decide(
                &ladder(),
                SECOND,
                &mut show,
                &mut [Count::default()],
                Shows::Nothing,
            )
        };
        for _ in 0..100 {
            assert!(matches!(ask(), Entry::Pass { .. }));
        }
        assert_eq!(ask(), Entry::Busy { wait_us: 10_000 });
    }
}
