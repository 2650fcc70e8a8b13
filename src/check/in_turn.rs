//! Promise 5: no one is called out of turn, none twice, none skipped.
//!
//! The ledger is read in order. Who came back after the slot had lapsed is next, by place; after them
//! places only rise; and up to `serving` every place was called, or passed over because its fan was
//! absent, or its fan gave up. Places are numbers, or what the revealed seed of a draw makes of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::ids::{FanId, Generation, Number, Place, ShowId};
use crate::check::doubts::{self, Doubt};
use crate::check::facts::{Facts, Show};
use crate::check::ledger::{Called, Change, Entry};
use crate::check::numbers;
use crate::check::skipped::{self, Passed};
use crate::check::verdict::{Promise, Verdict};

pub(super) fn judge(facts: &Facts) -> Verdict {
    let mut verdict = Verdict::on(Promise::InTurn);
    let (mut calls, mut returns) = (0, 0);
    for (id, show) in &facts.shows {
        let told = numbers::of(facts, id, show).told();
        let told: BTreeMap<FanId, Number> = told
            .into_iter()
            .map(|(number, fan)| (fan, number))
            .collect();
        for edition in show.editions() {
            let mut line = Line::new(id, show, edition);
            line.told = told.clone();
            for entry in edition {
                line.pass(entry, &mut verdict);
            }
            calls += line.calls;
            returns += line.returns;
            verdict.cannot_prove_some(line.doubtful, "calls where entries may be missing");
            for doubt in &line.doubts {
                verdict.cannot_prove(format!("show {id}: {}", doubt.text));
            }
            skipped::check(facts, show, &line.passed(), &mut verdict);
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
    show: &'a Show,
    /// The numbers that clients were told, for places that a draw gave.
    told: BTreeMap<FanId, Number>,
    doubts: Vec<Doubt>,
    first_generation: Generation,
    returned: BTreeMap<Place, FanId>,
    called: BTreeMap<FanId, (Number, Generation)>,
    /// Fans whose turn ended before they were called.
    gave_up: BTreeSet<FanId>,
    /// Numbers passed over because their fans were absent.
    absent: BTreeSet<Number>,
    /// The highest place called from the queue, and its number.
    highest: (Place, Number),
    serving: Place,
    calls: usize,
    returns: usize,
    doubtful: usize,
}

impl<'a> Line<'a> {
    fn new(id: &'a ShowId, show: &'a Show, edition: &[Entry]) -> Self {
        Self {
            id,
            show,
            told: BTreeMap::new(),
            doubts: doubts::of(show, edition),
            first_generation: edition
                .first()
                .map(|entry| entry.generation)
                .unwrap_or_default(),
            returned: BTreeMap::new(),
            called: BTreeMap::new(),
            gave_up: BTreeSet::new(),
            absent: BTreeSet::new(),
            highest: (Place(0), Number(0)),
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
            Change::Absent { fans } => self.pass_over(entry, fans, verdict),
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

    /// Fans who were absent: their places had come, and they may be called once they are back.
    fn pass_over(&mut self, entry: &Entry, fans: &[(FanId, Number)], verdict: &mut Verdict) {
        for (fan, number) in fans {
            let place = self.check_place(entry, *fan, *number, verdict);
            if entry.serving < place {
                let text = format!("fan {fan} was passed over before place {place} had come");
                self.breaks(entry, verdict, &text);
            }
            if self.called.contains_key(fan) {
                let text = format!("fan {fan} was passed over after the call");
                self.breaks(entry, verdict, &text);
            }
            self.absent.insert(*number);
        }
    }

    /// The place of a number, which must be the one that its fan was told.
    fn check_place(
        &mut self,
        entry: &Entry,
        fan: FanId,
        number: Number,
        verdict: &mut Verdict,
    ) -> Place {
        let place = self.show.draw.place(number);
        let told = self.told.get(&fan).copied();
        if let Some(told) = told.filter(|told| *told != number && self.show.draw.has(number)) {
            let drew = self.show.draw.place(told);
            let text = format!("fan {fan} stood in place {place}, and number {told} drew {drew}");
            self.breaks(entry, verdict, &text);
        }
        place
    }

    fn call(&mut self, entry: &Entry, called: &Called, verdict: &mut Verdict) {
        for (fan, number) in &called.fans {
            self.calls += 1;
            self.check_place(entry, *fan, *number, verdict);
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
        let place = self.show.draw.place(number);
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
            None if self.highest.0 < place => {}
            // Lost and restored after `serving` had passed.
            None if self.first_generation < entry.generation => self.doubtful += 1,
            None => {
                let highest = self.highest.1;
                let text = format!("fan {fan}, number {number}, was called after number {highest}");
                self.breaks(entry, verdict, &text);
            }
        }
        self.highest = self.highest.max((place, number));
    }

    /// What the ledger says of the places up to serving.
    fn passed(&self) -> Passed<'a> {
        let called = self.called.values().map(|(number, _)| *number);
        Passed {
            id: self.id,
            serving: self.serving,
            numbers: called.chain(self.absent.iter().copied()).collect(),
            gave_up: self.gave_up.clone(),
            is_whole: self.doubts.is_empty(),
        }
    }

    /// A counter-example, where the ledger is whole up to here.
    fn breaks(&mut self, entry: &Entry, verdict: &mut Verdict, text: &str) {
        if doubts::is_doubtful(&self.doubts, entry.at) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{Edition, Seed};
    use crate::check::draw::Draw;
    use crate::check::sample::{
        assert_broken, assert_clean, assert_unproved, called, claimed, ended, entry, facts, fan,
        join, operation, returned,
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
    fn a_draw_says_who_is_next_and_the_absent_are_passed_over() {
        let draw = Draw::of(&Seed([1; 32]), 6);
        let by_place: Vec<u128> = (1..=6)
            .map(|place| u128::from(draw.number(Place(place)).0))
            .collect();
        let told = |facts: &mut Facts| {
            facts.history = Some((1..=6).map(|n| join(n, 10, 20, n)).collect());
            facts.shows.values_mut().next().unwrap().draw = draw.clone();
        };
        let mut fair = ledger(6, vec![call(&by_place[..4]), call(&by_place[4..])]);
        told(&mut fair);
        assert_clean(&judge(&fair));
        let mut bent = ledger(6, vec![call(&[1, 2, 3, 4, 5, 6])]);
        told(&mut bent);
        assert_broken(&judge(&bent), "was called after number");

        let absent = |n: u128| Change::Absent {
            fans: vec![(fan(n), Number(u64::try_from(n).unwrap()))],
        };
        let [first, second, ..] = by_place[..] else {
            unreachable!("six places")
        };
        let back = vec![
            call(&[first]),
            absent(second),
            returned(second),
            call(&[second]),
        ];
        let mut passed = ledger(2, back);
        for entry in &mut passed.shows.values_mut().next().unwrap().ledger {
            entry.serving = Place(2);
        }
        told(&mut passed);
        assert_clean(&judge(&passed));
        let mut early = ledger(1, vec![absent(second), call(&[first])]);
        told(&mut early);
        assert_broken(&judge(&early), "before place 2 had come");
        let mut twice = ledger(2, vec![call(&[first, second]), absent(second)]);
        told(&mut twice);
        assert_broken(&judge(&twice), "after the call");
        // Somebody else stood in the place that a fan drew.
        let swap = Change::Called(Called {
            fans: vec![(fan(second), Number(u64::try_from(first).unwrap()))],
            ..match called(&[]).change() {
                Change::Called(called) => called,
                _ => unreachable!("a call"),
            }
        });
        let mut other = ledger(1, vec![swap]);
        told(&mut other);
        assert_broken(&judge(&other), "stood in place 1, and number");
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
