//! Part of promise 5: nobody is skipped. Every place up to `serving` has been accounted for.

use std::collections::BTreeSet;

use crate::base::ids::{FanId, Number, Place, ShowId};
use crate::check::facts::{Facts, Show};
use crate::check::numbers;
use crate::check::verdict::Verdict;

/// Numbers that a counter-example prints.
const EXAMPLES_MAX: usize = 5;

/// What a ledger says of the places up to serving.
#[derive(Debug)]
pub(super) struct Passed<'a> {
    pub(super) id: &'a ShowId,
    pub(super) serving: Place,
    /// Called, or passed over because their fans were absent.
    pub(super) numbers: BTreeSet<Number>,
    /// Fans whose turn ended before they were called.
    pub(super) gave_up: BTreeSet<FanId>,
    /// Whether nothing may be missing.
    pub(super) is_whole: bool,
}

/// Every place up to serving was called or passed over, or its fan gave up before.
pub(super) fn check(facts: &Facts, show: &Show, line: &Passed<'_>, verdict: &mut Verdict) {
    let told = numbers::of(facts, line.id, show).told();
    let mut gave_up = line.gave_up.clone();
    gave_up.extend(
        facts
            .operations(line.id)
            .filter(|told| told.op == "leave")
            .filter_map(|told| told.fan),
    );
    let mut skipped = Vec::new();
    let mut nameless = Vec::new();
    for place in (1..=line.serving.0).map(Place) {
        let number = show.draw.number(place);
        if line.numbers.contains(&number) {
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
    if line.is_whole {
        verdict.breaks(|| text);
    } else {
        verdict.cannot_prove(text);
    }
}
