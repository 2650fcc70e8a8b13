//! What became of the joins that clients were answered, where no journal has them.

use std::collections::BTreeMap;

use crate::base::ids::{FanId, Number, ShowId};
use crate::check::facts::{Facts, Outcome, Person, Show};
use crate::check::ledger::Change;
use crate::check::turns::Turn;
use crate::check::verdict::Verdict;

/// What is known of joins where no journal has them, as in a room on Redis: the ledger names the fan,
/// or the fan asked again and was answered. Contradictions are found elsewhere.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// Fans in the ledger, and the number with which they were called, if they were.
    ledger: BTreeMap<FanId, Option<Number>>,
    /// Clients, and when they last asked in vain and were last answered, in microseconds.
    asked: BTreeMap<Person, (u64, u64)>,
    found_again: usize,
    silent: usize,
    unanswered: usize,
}

impl Evidence {
    /// Everything that a ledger and clients say of a show's fans.
    pub(super) fn of(facts: &Facts, id: &ShowId, show: &Show) -> Self {
        let mut evidence = Self::default();
        for entry in &show.ledger {
            match &entry.change {
                Change::Called(called) => evidence.ledger.extend(
                    called
                        .fans
                        .iter()
                        .map(|(fan, number)| (*fan, Some(*number))),
                ),
                Change::Absent { fans } => {
                    let fans = fans.iter().map(|(fan, number)| (*fan, Some(*number)));
                    evidence.ledger.extend(fans);
                }
                Change::Claimed { fan, .. }
                | Change::Extended { fan, .. }
                | Change::Returned { fan, .. }
                | Change::Ended { fan } => {
                    evidence.ledger.entry(*fan).or_default();
                }
            }
        }
        // A probe is meant to be refused: it asks about no place.
        for asked in facts.operations(id).filter(|asked| asked.op != "probe") {
            let (in_vain, answered) = evidence.asked.entry(asked.person).or_default();
            match asked.outcome {
                Outcome::Ok => *answered = asked.done_us.max(*answered),
                Outcome::Refused | Outcome::Unknown => *in_vain = asked.sent_us.max(*in_vain),
                Outcome::Failed => {}
            }
        }
        evidence
    }

    /// Looks for what became of this turn.
    pub(super) fn look_up(&mut self, turn: &Turn, fan: FanId, number: Number) {
        let is_in_ledger = match self.ledger.get(&fan) {
            Some(called) => called.is_none_or(|called| called == number),
            None => false,
        };
        let told_us = turn.done_us.unwrap_or(turn.sent_us);
        let (in_vain, answered) = self.asked.get(&turn.person).copied().unwrap_or_default();
        if is_in_ledger || told_us < answered && in_vain <= answered {
            self.found_again += 1;
        } else if told_us < in_vain {
            self.unanswered += 1;
        } else {
            self.silent += 1;
        }
    }

    /// Says what was found.
    pub(super) fn say(self, verdict: &mut Verdict) {
        if 0 < self.found_again + self.silent + self.unanswered {
            verdict.saw(self.found_again, "joins without a journal, found again");
            verdict.saw(self.silent, "that nobody asked about again");
        }
        let what = "joins without a journal were asked about again, and not answered";
        verdict.cannot_prove_some(self.unanswered, what);
    }
}

#[cfg(test)]
mod tests {
    use crate::check::facts::{Operation, Outcome};
    use crate::check::nothing_lost::judge;
    use crate::check::sample::{
        assert_clean, assert_unproved, ended, entry, facts, join, operation,
    };

    #[test]
    fn where_no_journal_is_fans_who_come_back_are_the_evidence() {
        let refused = Operation {
            outcome: Outcome::Refused,
            fan: None,
            ..operation("status", 7, 500, 510)
        };
        let rows = [
            (vec![], "0 joins without a journal, found again"),
            (
                vec![operation("status", 7, 500, 510)],
                "1 joins without a journal, found again",
            ),
            (
                vec![refused.clone(), operation("status", 7, 600, 610)],
                "1 joins without",
            ),
        ];
        for (then, says) in rows {
            let mut facts = facts(vec![entry(1, 10_000, ended(9))]);
            facts.history = Some([vec![join(7, 10, 20, 3)], then].concat());
            let verdict = judge(&facts);
            assert_clean(&verdict);
            assert!(
                verdict.looked_at.iter().any(|seen| seen.contains(says)),
                "{verdict:?}"
            );
        }
        let mut facts = facts(vec![entry(1, 10_000, ended(9))]);
        facts.history = Some(vec![join(7, 10, 20, 3), refused]);
        assert_unproved(
            &judge(&facts),
            "1 joins without a journal were asked about again",
        );
        let probe = Operation {
            outcome: Outcome::Refused,
            ..operation("probe", 7, 500, 510)
        };
        facts.history = Some(vec![join(7, 10, 20, 3), probe]);
        assert_clean(&judge(&facts));
        // The ledger knows fan 9, whatever the client heard.
        facts.history = Some(vec![join(9, 10, 20, 3)]);
        assert_clean(&judge(&facts));
    }
}
