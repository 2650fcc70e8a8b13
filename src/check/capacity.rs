//! Promise 6: nobody is called while as many fans are inside as may be.
//!
//! Who is inside is counted anew from the ledger: from the call on, until the admission runs out or
//! is ended. What the room itself counted must be the same.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::ids::FanId;
use crate::base::time::Timestamp;
use crate::check::doubts;
use crate::check::facts::Facts;
use crate::check::ledger::{Change, Entry};
use crate::check::verdict::{Promise, Verdict};

pub(super) fn judge(facts: &Facts) -> Verdict {
    let mut verdict = Verdict::on(Promise::Capacity);
    let (mut ticks, mut doubtful) = (0, 0);
    for (id, show) in &facts.shows {
        for edition in show.editions() {
            let doubts = doubts::of(show, edition);
            let mut inside = Inside::default();
            for entry in edition {
                let wrong = inside.pass(entry);
                ticks += usize::from(matches!(entry.change, Change::Called(_)));
                match wrong {
                    None => {}
                    Some(_) if doubts::is_doubtful(&doubts, entry.at) => doubtful += 1,
                    Some(text) => verdict.breaks(|| {
                        format!(
                            "show {id}: {text} at {} (ledger {}/{})",
                            entry.at, entry.generation, entry.seq
                        )
                    }),
                }
            }
            for doubt in doubts {
                verdict.cannot_prove(format!("show {id}: {}", doubt.text));
            }
        }
    }
    verdict.cannot_prove_some(doubtful, "ticks do not add up where entries may be missing");
    verdict.saw(ticks, "ticks with calls");
    if ticks == 0 {
        verdict.cannot_prove("no calls in any ledger");
    }
    verdict
}

/// Who is inside, and until when.
#[derive(Debug, Default)]
struct Inside {
    until: BTreeMap<FanId, Timestamp>,
    by_end: BTreeSet<(Timestamp, FanId)>,
}

impl Inside {
    /// What is wrong with an entry, if something is.
    fn pass(&mut self, entry: &Entry) -> Option<String> {
        while self
            .by_end
            .first()
            .is_some_and(|(until, _)| *until <= entry.at)
        {
            if let Some((_, fan)) = self.by_end.pop_first() {
                self.until.remove(&fan);
            }
        }
        match &entry.change {
            Change::Called(called) => {
                for (fan, _) in &called.fans {
                    self.set(*fan, called.until);
                }
                let live = self.by_end.len();
                if called.capacity < live {
                    return Some(format!(
                        "{} fans were called and then {live} were inside, where {} may be",
                        called.fans.len(),
                        called.capacity
                    ));
                }
                (live != called.live).then(|| {
                    format!(
                        "the room counted {} inside and the ledger has {live}",
                        called.live
                    )
                })
            }
            // Passed over without a slot.
            Change::Absent { .. } => None,
            Change::Claimed { fan, until } | Change::Extended { fan, until } => {
                self.set(*fan, *until);
                None
            }
            Change::Returned { fan, .. } | Change::Ended { fan } => {
                self.remove(*fan);
                None
            }
        }
    }

    fn set(&mut self, fan: FanId, until: Timestamp) {
        self.remove(fan);
        self.until.insert(fan, until);
        self.by_end.insert((until, fan));
    }

    fn remove(&mut self, fan: FanId) {
        if let Some(until) = self.until.remove(&fan) {
            self.by_end.remove(&(until, fan));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::sample::{
        assert_broken, assert_clean, assert_unproved, called, claimed, ended, entry, extended,
        facts, returned,
    };

    fn tick(fans: &[u128], live: usize) -> Change {
        called(fans).capacity(2).until(1_000).live(live).change()
    }

    #[test]
    fn a_full_room_calls_nobody() {
        assert_clean(&judge(&facts(vec![entry(1, 100, tick(&[1, 2], 2))])));
        let third = vec![
            entry(1, 100, tick(&[1, 2], 2)),
            entry(2, 200, tick(&[3], 3)),
        ];
        assert_broken(&judge(&facts(third)), "then 3 were inside, where 2 may be");
        assert_unproved(&judge(&facts(vec![])), "no calls");
    }

    #[test]
    fn room_is_made_by_the_clock_and_by_every_end() {
        for (ms, change) in [
            (1_000, claimed(1, 5_000)),
            (300, ended(1)),
            (300, returned(1)),
        ] {
            let third = vec![
                entry(1, 100, tick(&[1, 2], 2)),
                entry(2, ms, change),
                entry(3, ms, tick(&[3], 2)),
            ];
            assert_clean(&judge(&facts(third)));
        }
    }

    #[test]
    fn an_extension_counts() {
        let ledger = vec![
            entry(1, 100, tick(&[1, 2], 2)),
            entry(2, 200, claimed(1, 900)),
            entry(3, 300, extended(1, 9_000)),
            entry(4, 1_100, tick(&[3, 4], 3)),
        ];
        assert_broken(&judge(&facts(ledger)), "then 3 were inside");
    }

    #[test]
    fn the_rooms_own_count_must_be_the_ledgers() {
        let miscounted = entry(1, 100, tick(&[1], 2));
        assert_broken(
            &judge(&facts(vec![miscounted])),
            "counted 2 inside and the ledger has 1",
        );
        let hole = vec![entry(1, 100, tick(&[1], 1)), entry(4, 200, tick(&[2], 1))];
        assert_unproved(&judge(&facts(hole)), "2 ledger entries");
    }
}
