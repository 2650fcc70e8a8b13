//! Promise 5: no one is called out of turn, none twice, none skipped.
//!
//! The ledger is read in order. Who came back after the slot had lapsed is next, by place; after them
//! numbers only rise; and up to `serving` every number was called or its fan gave up.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::ids::{FanId, Generation, Number, Place, ShowId};
use crate::check::facts::{Facts, Show, number_of};
use crate::check::ledger::{self, Called, Change, Doubt, Entry};
use crate::check::numbers;
use crate::check::verdict::{Promise, Verdict};

/// Numbers that a counter-example prints.
const EXAMPLES_MAX: usize = 5;

pub(super) fn judge(facts: &Facts) -> Verdict {
    let mut verdict = Verdict::on(Promise::InTurn);
    let (mut calls, mut returns) = (0, 0);
    for (id, show) in &facts.shows {
        for edition in show.editions() {
            let mut line = Line::new(id, show, edition);
            for entry in edition {
                line.pass(entry, &mut verdict);
            }
            calls += line.calls;
            returns += line.returns;
            verdict.cannot_prove_some(line.doubtful, "calls where entries may be missing");
            for doubt in &line.doubts {
                verdict.cannot_prove(format!("show {id}: {}", doubt.text));
            }
            check_skipped(facts, show, &line, &mut verdict);
        }
    }
    verdict.saw(calls, "calls");
    verdict.saw(returns, "of them to fans who had come back");
    if calls == 0 {
        verdict.cannot_prove("no calls in any ledger");
    }
    verdict
}

/// A line as its ledger tells it.
#[derive(Debug)]
struct Line<'a> {
    id: &'a ShowId,
    doubts: Vec<Doubt>,
    first_generation: Generation,
    returned: BTreeMap<Place, FanId>,
    called: BTreeMap<FanId, (Number, Generation)>,
    /// Fans whose turn ended before they were called.
    gave_up: BTreeSet<FanId>,
    /// The highest number called from the queue.
    highest: Number,
    serving: Place,
    calls: usize,
    returns: usize,
    doubtful: usize,
}

impl<'a> Line<'a> {
    fn new(id: &'a ShowId, show: &Show, edition: &[Entry]) -> Self {
        Self {
            id,
            doubts: ledger::doubts(show, edition),
            first_generation: edition
                .first()
                .map(|entry| entry.generation)
                .unwrap_or_default(),
            returned: BTreeMap::new(),
            called: BTreeMap::new(),
            gave_up: BTreeSet::new(),
            highest: Number(0),
            serving: Place(0),
            calls: 0,
            returns: 0,
            doubtful: 0,
        }
    }

    fn pass(&mut self, entry: &Entry, verdict: &mut Verdict) {
        if entry.serving < self.serving {
            let text = format!("serving fell from {} to {}", self.serving, entry.serving);
            self.breaks(entry, verdict, &text);
        }
        self.serving = self.serving.max(entry.serving);
        match &entry.change {
            Change::Called(called) => self.call(entry, called, verdict),
            Change::Claimed { fan, .. } => {
                if !self.called.contains_key(fan) {
                    self.breaks(
                        entry,
                        verdict,
                        &format!("fan {fan} was let in without a call"),
                    );
                }
            }
            Change::Extended { .. } => {}
            Change::Returned { fan, place } => {
                self.returned.insert(*place, *fan);
            }
            Change::Ended { fan } => {
                self.returned.retain(|_, returned| returned != fan);
                if !self.called.contains_key(fan) {
                    self.gave_up.insert(*fan);
                }
            }
        }
    }

    fn call(&mut self, entry: &Entry, called: &Called, verdict: &mut Verdict) {
        for (fan, number) in &called.fans {
            self.calls += 1;
            if let Some((_, next)) = self.returned.first_key_value()
                && next == fan
            {
                self.returned.pop_first();
                self.returns += 1;
            } else {
                self.call_from_queue(entry, *fan, *number, verdict);
            }
            self.called.insert(*fan, (*number, entry.generation));
        }
    }

    fn call_from_queue(
        &mut self,
        entry: &Entry,
        fan: FanId,
        number: Number,
        verdict: &mut Verdict,
    ) {
        if let Some((place, next)) = self.returned.first_key_value() {
            let text = format!(
                "fan {fan}, number {number}, was called before fan {next}, who had come back to place {place}"
            );
            self.breaks(entry, verdict, &text);
            self.returned.retain(|_, returned| *returned != fan);
        }
        match self.called.get(&fan) {
            Some((_, generation)) if *generation == entry.generation => {
                let text = format!("fan {fan}, number {number}, was called twice");
                self.breaks(entry, verdict, &text);
            }
            // A loss took the last moments; they are repeated, under the same ticket.
            Some(_) => self.doubtful += 1,
            None if self.highest < number => {}
            // Lost and restored after `serving` had passed.
            None if self.first_generation < entry.generation => self.doubtful += 1,
            None => {
                let highest = self.highest;
                let text = format!("fan {fan}, number {number}, was called after number {highest}");
                self.breaks(entry, verdict, &text);
            }
        }
        self.highest = self.highest.max(number);
    }

    /// A counter-example, where the ledger is whole up to here.
    fn breaks(&mut self, entry: &Entry, verdict: &mut Verdict, text: &str) {
        if ledger::is_doubtful(&self.doubts, entry.at) {
            self.doubtful += 1;
            return;
        }
        verdict.breaks(|| {
            format!(
                "show {}: {text} at {} (ledger {}/{})",
                self.id, entry.at, entry.generation, entry.seq
            )
        });
    }
}

/// Every number up to serving was called, or its fan gave up before.
fn check_skipped(facts: &Facts, show: &Show, line: &Line<'_>, verdict: &mut Verdict) {
    let told = numbers::of(facts, line.id, show).told();
    let called: BTreeSet<Number> = line.called.values().map(|(number, _)| *number).collect();
    let mut gave_up = line.gave_up.clone();
    gave_up.extend(
        facts
            .operations(line.id)
            .filter(|told| told.op == "leave")
            .filter_map(|told| told.fan),
    );
    let mut skipped = Vec::new();
    let mut nameless = Vec::new();
    for number in (1..=number_of(line.serving).0).map(Number) {
        if called.contains(&number) {
            continue;
        }
        match told.get(&number) {
            Some(fan) if gave_up.remove(fan) => {}
            Some(_) => skipped.push(number),
            None => nameless.push(number),
        }
    }
    // Who gave up without a call left no number in the ledger: each explains one of the nameless.
    let told_fans: BTreeSet<FanId> = told.values().copied().collect();
    let explained = line
        .gave_up
        .iter()
        .filter(|fan| !told_fans.contains(*fan))
        .count();
    if explained < nameless.len() {
        skipped.extend(nameless.drain(..).skip(explained));
    }
    if skipped.is_empty() {
        return;
    }
    let examples: Vec<String> = skipped
        .iter()
        .take(EXAMPLES_MAX)
        .map(|number| format!("{number}"))
        .collect();
    let text = format!(
        "show {}: {} numbers up to serving {} were never called, and their fans did not give up: {}",
        line.id,
        skipped.len(),
        line.serving,
        examples.join(", ")
    );
    if line.doubts.is_empty() {
        verdict.breaks(|| text);
    } else {
        verdict.cannot_prove(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::Edition;
    use crate::check::sample::{
        assert_broken, assert_clean, assert_unproved, called, claimed, ended, entry, facts, join,
        operation, returned,
    };

    /// A ledger whose last entry serves up to `serving`.
    fn ledger(serving: u64, changes: Vec<Change>) -> Facts {
        let mut entries: Vec<Entry> = changes
            .into_iter()
            .zip(1_i64..)
            .map(|(change, i)| entry(i.unsigned_abs(), i * 100, change))
            .collect();
        if let Some(last) = entries.last_mut() {
            last.serving = Place(serving);
        }
        facts(entries)
    }

    fn call(fans: &[u128]) -> Change {
        called(fans).change()
    }

    #[test]
    fn rising_numbers_and_those_who_came_back_first() {
        assert_clean(&judge(&ledger(4, vec![call(&[1, 2]), call(&[3, 4])])));
        let back = vec![call(&[1, 2]), returned(2), returned(1), call(&[1, 2, 3])];
        let verdict = judge(&ledger(3, back));
        assert_clean(&verdict);
        assert_eq!(verdict.looked_at[1], "2 of them to fans who had come back");
        assert_unproved(&judge(&ledger(0, vec![])), "no calls");
    }

    #[test]
    fn every_way_to_be_called_wrongly() {
        for (changes, says) in [
            (vec![call(&[2]), call(&[1])], "called after number 2"),
            (vec![call(&[1]), call(&[1])], "called twice"),
            (
                vec![call(&[1]), returned(1), call(&[2, 1])],
                "had come back to place 1",
            ),
            (
                vec![call(&[1, 2]), returned(2), returned(1), call(&[2, 1])],
                "come back to place 1",
            ),
            (vec![call(&[1]), claimed(2, 9_000)], "without a call"),
        ] {
            let last = changes.len();
            let mut facts = ledger(0, changes);
            assert_broken(&judge(&facts), says);
            // The same after a hole proves nothing.
            let show = facts.shows.values_mut().next().unwrap();
            show.ledger[last - 1].seq += 7;
            assert_unproved(&judge(&facts), "may be missing");
        }
    }

    #[test]
    fn who_is_skipped_is_found() {
        assert_broken(
            &judge(&ledger(3, vec![call(&[1, 3])])),
            "never called, and their fans did not give up: 2",
        );
        assert_clean(&judge(&ledger(3, vec![ended(2), call(&[1, 3])])));
        assert_broken(
            &judge(&ledger(4, vec![ended(2), call(&[1, 3])])),
            "1 numbers up to serving 4",
        );
        let mut known = ledger(3, vec![ended(9), call(&[1, 3])]);
        known.history = Some(vec![join(2, 10, 20, 2)]);
        assert_broken(&judge(&known), "give up: 2");
        known.history = Some(vec![join(2, 10, 20, 2), operation("leave", 2, 30, 40)]);
        assert_clean(&judge(&known));
    }

    #[test]
    fn serving_never_falls_within_an_edition() {
        let mut facts = ledger(1, vec![call(&[1]), call(&[2])]);
        facts.shows.values_mut().next().unwrap().ledger[0].serving = Place(2);
        assert_broken(&judge(&facts), "serving fell from 2 to 1");
        let second = &mut facts.shows.values_mut().next().unwrap().ledger[1];
        second.edition = Edition(2);
        second.seq = 1;
        second.change = call(&[1]);
        second.serving = Place(1);
        facts.shows.values_mut().next().unwrap().ledger[0].serving = Place(1);
        assert_clean(&judge(&facts));
    }

    #[test]
    fn a_loss_may_repeat_a_call() {
        let mut facts = ledger(2, vec![call(&[1]), call(&[1, 2])]);
        let second = &mut facts.shows.values_mut().next().unwrap().ledger[1];
        second.generation = Generation(2);
        second.seq = 1;
        assert_unproved(&judge(&facts), "generation 1 was lost");
    }
}
