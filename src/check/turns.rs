//! Turns: what a client was from its first join until its place was used or given up.
//!
//! A client knows its fan id from the first answer if it uses the API, and only from its ticket if it
//! has no script. So a turn belongs to a client; fan and number are filled in when an answer names
//! them. A client presents its pass or repeats its key, so until a turn is over every join of it must
//! give the same fan and number.

use std::collections::BTreeMap;

use crate::base::ids::{FanId, Number, ShowId};
use crate::base::time::Timestamp;
use crate::check::facts::{Facts, Operation, Outcome, Person, Show};
use crate::check::ledger::{self, Change};

/// One turn of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) person: Person,
    pub(super) fan: Option<FanId>,
    pub(super) number: Option<Number>,
    /// When an answer first named fan or number.
    pub(super) told_at: Timestamp,
    /// When it first asked to join, in microseconds.
    pub(super) sent_us: u64,
    /// When a join was first answered, in microseconds.
    pub(super) done_us: Option<u64>,
    /// Given up, or said to be gone.
    is_over: bool,
}

/// A client that was told something else while its turn was not over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) person: Person,
    pub(super) before: (Timestamp, String),
    pub(super) after: (Timestamp, String),
}

/// The turns of all clients of a show, and those that changed under way.
pub(super) fn of(facts: &Facts, id: &ShowId, show: &Show) -> (Vec<Turn>, Vec<Changed>) {
    let ends = ends(show);
    let mut current: BTreeMap<Person, Turn> = BTreeMap::new();
    let mut done = Vec::new();
    let mut changed = Vec::new();
    for operation in facts
        .operations(id)
        .filter(|operation| operation.is_about_the_line())
    {
        let turn = current
            .entry(operation.person)
            .or_insert_with(|| begin(operation));
        let is_over = turn.is_over || ends_before(&ends, turn, operation.done());
        if is_over && (operation.is_join() || turn.contradicts(operation)) {
            done.push(std::mem::replace(turn, begin(operation)));
        }
        if turn.contradicts(operation) {
            changed.push(Changed {
                person: turn.person,
                before: (turn.told_at, name(turn.fan, turn.number)),
                after: (operation.done(), name(operation.fan, operation.number)),
            });
            continue;
        }
        turn.learn(operation);
    }
    done.extend(current.into_values());
    (done, changed)
}

fn begin(operation: &Operation) -> Turn {
    Turn {
        person: operation.person,
        fan: None,
        number: None,
        told_at: operation.done(),
        sent_us: operation.sent_us,
        done_us: None,
        is_over: false,
    }
}

fn name(fan: Option<FanId>, number: Option<Number>) -> String {
    match (fan, number) {
        (Some(fan), Some(number)) => format!("fan {fan} with number {number}"),
        (Some(fan), None) => format!("fan {fan}"),
        (None, Some(number)) => format!("number {number}"),
        (None, None) => "nobody".to_owned(),
    }
}

impl Operation {
    /// Whether it asks for a number.
    pub(super) fn is_join(&self) -> bool {
        matches!(self.op.as_str(), "join" | "form")
    }

    fn is_about_the_line(&self) -> bool {
        self.outcome != Outcome::Failed
            && (self.is_join() || matches!(self.op.as_str(), "status" | "leave"))
    }
}

impl Turn {
    fn contradicts(&self, operation: &Operation) -> bool {
        let differs = |known: Option<u128>, told: Option<u128>| matches!((known, told), (Some(known), Some(told)) if known != told);
        let bits = |fan: FanId| u128::from_be_bytes(fan.0);
        operation.is_ok()
            && (differs(self.fan.map(bits), operation.fan.map(bits))
                || differs(
                    self.number.map(|number| number.0.into()),
                    operation.number.map(|number| number.0.into()),
                ))
    }

    fn learn(&mut self, operation: &Operation) {
        if operation.is_ok() {
            if self.fan.is_none() && self.number.is_none() {
                self.told_at = operation.done();
            }
            self.fan = self.fan.or(operation.fan);
            self.number = self.number.or(operation.number);
            if operation.is_join() {
                let done_us = self.done_us.unwrap_or(operation.done_us);
                self.done_us = Some(done_us.min(operation.done_us));
            }
        }
        // A leave without an answer may have been done.
        let is_gone = operation.state.as_deref() == Some("gone");
        self.is_over = self.is_over || is_gone || operation.op == "leave";
    }
}

fn ends_before(ends: &BTreeMap<FanId, Timestamp>, turn: &Turn, at: Timestamp) -> bool {
    let end = turn.fan.and_then(|fan| ends.get(&fan));
    end.is_some_and(|end| *end <= at)
}

/// When the turn of each fan was over, as the ledger has it: used, given up or run out.
fn ends(show: &Show) -> BTreeMap<FanId, Timestamp> {
    let mut ends: BTreeMap<FanId, Timestamp> = BTreeMap::new();
    for (fan, spans) in ledger::spans(&show.ledger) {
        if let Some(last) = spans.last() {
            ends.insert(fan, last.until);
        }
    }
    for entry in &show.ledger {
        if let Change::Ended { fan } = entry.change {
            let end = ends.entry(fan).or_insert(entry.at);
            *end = entry.at.min(*end);
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::sample::{at, claimed, ended, entry, facts, fan, join, operation, show};

    fn turns(facts: &Facts) -> (Vec<Turn>, Vec<Changed>) {
        of(facts, &show(), &facts.shows[&show()])
    }

    /// An operation of client 1.
    fn first(operation: Operation) -> Operation {
        Operation {
            person: join(1, 0, 0, 1).person,
            ..operation
        }
    }

    #[test]
    fn a_client_without_a_script_learns_number_and_fan_later() {
        let mut facts = facts(vec![]);
        let lost = Operation {
            outcome: Outcome::Unknown,
            fan: None,
            ..operation("form", 1, 5, 9)
        };
        let form = Operation {
            fan: None,
            ..operation("form", 1, 10, 20)
        };
        let page = Operation {
            fan: None,
            number: Some(Number(7)),
            ..operation("status", 1, 30, 40)
        };
        let called = operation("status", 1, 90, 95);
        facts.history = Some(vec![lost, form, page, called]);
        let (turns, changed) = turns(&facts);
        assert_eq!(changed, []);
        let turn = &turns[0];
        assert_eq!((turn.fan, turn.number), (Some(fan(1)), Some(Number(7))));
        assert_eq!((turn.sent_us, turn.done_us), (5_000, Some(20_000)));
        assert_eq!(turn.told_at, at(40));
    }

    #[test]
    fn a_second_turn_needs_the_first_to_be_over() {
        let again = || first(join(2, 900, 910, 2));
        let mut facts = facts(vec![]);
        facts.history = Some(vec![join(1, 10, 20, 1), again()]);
        assert_eq!(turns(&facts).1.len(), 1);
        let leave = operation("leave", 1, 30, 40);
        facts.history = Some(vec![join(1, 10, 20, 1), leave, again()]);
        let (both, changed) = turns(&facts);
        assert_eq!((both.len(), changed.len()), (2, 0));
        for change in [ended(1), claimed(1, 800)] {
            facts.shows.get_mut(&show()).unwrap().ledger = vec![entry(1, 300, change)];
            facts.history = Some(vec![join(1, 10, 20, 1), again()]);
            let (both, changed) = turns(&facts);
            assert_eq!((both.len(), changed.len()), (2, 0));
        }
    }

    #[test]
    fn a_number_that_changes_is_noticed_wherever_it_is_told() {
        let mut facts = facts(vec![]);
        let status = Operation {
            number: Some(Number(5)),
            ..operation("status", 1, 30, 40)
        };
        facts.history = Some(vec![join(1, 10, 20, 1), status]);
        let changed = &turns(&facts).1[0];
        assert_eq!(changed.before.0, at(20));
        assert!(changed.after.1.contains("number 5"), "{changed:?}");
    }
}
