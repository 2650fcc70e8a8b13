//! Promise 1: a fan has one number at a time, and a number has one fan.

use crate::check::facts::Facts;
use crate::check::numbers;
use crate::check::verdict::{Promise, Verdict};

pub(super) fn judge(facts: &Facts) -> Verdict {
    let mut verdict = Verdict::on(Promise::OnePlace);
    let (mut turns, mut calls) = (0, 0);
    for (id, show) in &facts.shows {
        let numbers = numbers::of(facts, id, show);
        turns += numbers.turns.len();
        calls += numbers.calls;
        for conflict in numbers.conflicts {
            if !conflict.is_across_restart {
                verdict.breaks(|| format!("show {id}: {}", conflict.text));
            }
        }
    }
    verdict.saw(turns, "turns of clients");
    verdict.saw(calls, "calls");
    if facts.history.is_none() {
        verdict.cannot_prove("no history: only calls were compared, not what joins were answered");
    }
    verdict.cannot_prove_some(facts.unplaced(), "operations name no show");
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::sample::{
        assert_broken, assert_clean, assert_unproved, called, entry, facts, join,
    };

    #[test]
    fn two_numbers_for_a_fan_break_it() {
        let mut facts = facts(vec![entry(1, 500, called(&[1]).change())]);
        assert_unproved(&judge(&facts), "no history");
        facts.history = Some(vec![join(1, 10, 20, 1)]);
        assert_clean(&judge(&facts));
        facts.history = Some(vec![join(1, 10, 20, 1), join(1, 30, 40, 2)]);
        assert_broken(&judge(&facts), "with number 2");
    }

    #[test]
    fn operations_of_no_show_prove_nothing() {
        let mut facts = facts(vec![]);
        let mut lost = join(1, 10, 20, 1);
        lost.show = None;
        facts.history = Some(vec![lost]);
        assert_unproved(&judge(&facts), "1 operations name no show");
    }
}
