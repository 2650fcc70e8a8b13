//! How joins are counted: the definition. `lua/limit/join.lua` says the same for many gateways at once.
//!
//! A count is one instant, the time at which it will be empty again (GCRA): each join moves it one
//! interval further, and may not move it further ahead of now than the tolerance. So a burst passes
//! after a pause, and in the long run one join an interval.
//!
//! ```text
//! free ─── passes
//!   over ─ a challenge; whoever answers it passes
//! far ──── refused, whatever they show
//! ```
//!
//! A prefix has two counts: the free one, which joins without a proof fill, and the far one, which
//! all fill and which bounds what proofs can buy. How full the far one is makes challenges harder.
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
    /// Up to here a proof is.
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
            far: Rate::of(limit, settings.join_far),
        };
        Self {
            show: Rate::of(settings.show, 1),
            rungs: [settings.join, settings.join_56, settings.join_48].map(rung),
        }
    }

    /// The same where every join needs a proof.
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
    /// Joins without a proof.
    pub free: u64,
    /// All joins.
    pub far: u64,
}

/// What a join shows for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// Nothing.
    Nothing,
    /// A proof that nobody has shown before.
    Proof,
    /// A proof that has been used.
    SpentProof,
}

/// What becomes of a join. Waits are in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// It may be; so many more could follow without a proof.
    Pass {
        /// Joins.
        left: u64,
    },
    /// It needs a proof, or that much patience.
    Challenge {
        /// Until one would pass without.
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
    /// The proof has been used.
    Spent,
}

/// Counts one join against the show's count and those of its prefixes, the narrowest first. Only one
/// that passes is counted.
pub fn decide(
    ladder: &Ladder,
    now: u64,
    show: &mut u64,
    counts: &mut [Count],
    shows: Shows,
) -> Entry {
    if shows == Shows::SpentProof {
        return Entry::Spent;
    }
    let all = match ladder.show.add(*show, now) {
        Ok(all) => all,
        Err(wait_us) => return Entry::Busy { wait_us },
    };
    let rungs = || ladder.rungs.iter().zip(counts.iter());
    let far: Vec<_> = rungs().map(|(at, is)| at.far.add(is.far, now)).collect();
    let free: Vec<_> = rungs().map(|(at, is)| at.free.add(is.free, now)).collect();
    let used_milli = rungs().map(|(at, is)| at.far.used_milli(is.far, now));
    let used_milli = used_milli.max().unwrap_or_default();
    let longest = |added: &[Result<u64, u64>]| added.iter().filter_map(|one| one.err()).max();
    if let Some(wait_us) = longest(&far) {
        return Entry::TooMany { wait_us };
    }
    let wait_us = longest(&free);
    if let (Some(wait_us), Shows::Nothing) = (wait_us, shows) {
        return Entry::Challenge {
            wait_us,
            used_milli,
        };
    }
    *show = all;
    for (count, (far, free)) in counts.iter_mut().zip(far.into_iter().zip(free)) {
        count.far = far.unwrap_or(count.far);
        if wait_us.is_none() {
            count.free = free.unwrap_or(count.free);
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
        assert_eq!(joins(0, &mut counts, Shows::SpentProof, 1), [Entry::Spent]);
        // Proofs cost nobody else their free joins: those come back as if there had been none.
        assert_eq!(passed(&joins(1, &mut counts, Shows::Nothing, 2)), 1);
        assert_eq!(passed(&joins(60, &mut counts, Shows::Nothing, 9)), 3);
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
