//! Who was seen with which number, and where that contradicts itself.
//!
//! The same contradiction breaks one of two promises: across a restart something that had been
//! answered was forgotten (promise 3), within a life of the process the room gave a number it should
//! not have given (promise 1).

use std::collections::BTreeMap;

use crate::base::ids::{Edition, FanId, Generation, Number, ShowId};
use crate::base::time::Timestamp;
use crate::check::facts::{Facts, Person, Show};
use crate::check::ledger::{self, Change, Restart};
use crate::check::turns::{self, Turn};

/// Two facts that cannot both hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) text: String,
    /// Whether the room may have been restarted between the two.
    pub(super) is_across_restart: bool,
}

/// Everything that is known of the numbers of a show.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    pub(super) conflicts: Vec<Conflict>,
    pub(super) turns: Vec<Turn>,
    /// Calls in the ledger.
    pub(super) calls: usize,
}

impl Numbers {
    /// The fan of each number, as clients were told.
    pub(super) fn told(&self) -> BTreeMap<Number, FanId> {
        self.turns
            .iter()
            .filter_map(|turn| Some((turn.number?, turn.fan?)))
            .collect()
    }
}

/// Where a number was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Client(Person),
    Call(Generation, u64),
}

/// Somebody with a number.
#[derive(Debug, Clone, Copy)]
struct Sighting {
    at: Timestamp,
    edition: Edition,
    /// None: a client that was never told its id.
    fan: Option<FanId>,
    number: Number,
    source: Source,
}

impl std::fmt::Display for Sighting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.fan {
            Some(fan) => write!(f, "fan {fan}")?,
            None => f.write_str("a fan")?,
        }
        write!(f, " had number {} at {} ", self.number, self.at)?;
        match self.source {
            Source::Client(person) => write!(f, "({person})"),
            Source::Call(generation, seq) => write!(f, "(ledger {generation}/{seq})"),
        }
    }
}

impl Sighting {
    /// Whether two who have the same number can be the same fan.
    fn may_be(&self, other: &Self) -> bool {
        match (self.fan, other.fan) {
            (Some(mine), Some(its)) => mine == its,
            (None, _) | (_, None) => match (self.source, other.source) {
                (Source::Client(mine), Source::Client(its)) => mine == its,
                (Source::Call(..), _) | (_, Source::Call(..)) => true,
            },
        }
    }
}

/// Collects the numbers of a show and finds what contradicts itself.
pub(super) fn of(facts: &Facts, id: &ShowId, show: &Show) -> Numbers {
    let restarts = ledger::restarts(&show.ledger);
    let (turns, changed) = turns::of(facts, id, show);
    let sightings = sightings(&turns, show);
    let mut numbers = Numbers {
        calls: sightings.len() - turns.iter().filter(|turn| turn.number.is_some()).count(),
        turns,
        conflicts: Vec::new(),
    };
    let mut fans: BTreeMap<FanId, Sighting> = BTreeMap::new();
    let mut owners: BTreeMap<(Edition, Number), Sighting> = BTreeMap::new();
    for sighting in &sightings {
        let owner = *owners
            .entry((sighting.edition, sighting.number))
            .and_modify(|owner| owner.fan = owner.fan.or(sighting.fan))
            .or_insert(*sighting);
        let mine = sighting
            .fan
            .map_or(*sighting, |fan| *fans.entry(fan).or_insert(*sighting));
        let other = if mine.number != sighting.number {
            mine
        } else if !owner.may_be(sighting) {
            owner
        } else {
            continue;
        };
        numbers.conflicts.push(Conflict {
            text: format!("{other}, but {sighting}"),
            is_across_restart: any_between(&restarts, other.at, sighting.at),
        });
    }
    numbers.conflicts.extend(changed.into_iter().map(|changed| {
        let (before, after) = (changed.before, changed.after);
        Conflict {
            text: format!(
                "{} was {} at {}, and {} at {}, though its turn was not over",
                changed.person, before.1, before.0, after.1, after.0
            ),
            is_across_restart: any_between(&restarts, before.0, after.0),
        }
    }));
    numbers
}

fn any_between(restarts: &[Restart], earlier: Timestamp, later: Timestamp) -> bool {
    restarts
        .iter()
        .any(|restart| restart.is_between(earlier, later))
}

fn sightings(turns: &[Turn], show: &Show) -> Vec<Sighting> {
    let mut sightings: Vec<Sighting> = turns
        .iter()
        .filter_map(|turn| {
            Some(Sighting {
                at: turn.told_at,
                edition: show.edition,
                fan: turn.fan,
                number: turn.number?,
                source: Source::Client(turn.person),
            })
        })
        .collect();
    for entry in &show.ledger {
        let Change::Called(called) = &entry.change else {
            continue;
        };
        // Whether a place is the one that the draw gave is judged where the order is.
        let by_number = called
            .fans
            .iter()
            .filter(|(_, number)| !show.draw.has(*number));
        sightings.extend(by_number.map(|(fan, number)| Sighting {
            at: entry.at,
            edition: entry.edition,
            fan: Some(*fan),
            number: *number,
            source: Source::Call(entry.generation, entry.seq),
        }));
    }
    sightings.sort_by_key(|sighting| sighting.at);
    sightings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::FencingToken;
    use crate::check::facts::Operation;
    use crate::check::sample::{called, ended, entry, facts, fan, join, operation, show};

    fn conflicts(facts: &Facts) -> Vec<Conflict> {
        of(facts, &show(), &facts.shows[&show()]).conflicts
    }

    #[test]
    fn answers_and_calls_must_agree() {
        let mut facts = facts(vec![entry(1, 500, called(&[1, 2]).change())]);
        facts.history = Some(vec![
            join(1, 10, 20, 1),
            join(1, 30, 40, 1),
            join(2, 30, 40, 2),
        ]);
        assert_eq!(conflicts(&facts), []);
        let numbers = of(&facts, &show(), &facts.shows[&show()]);
        assert_eq!(numbers.told()[&Number(2)], fan(2));
        assert_eq!((numbers.turns.len(), numbers.calls), (2, 2));
        facts.history = Some(vec![join(1, 10, 20, 1), join(1, 30, 40, 9)]);
        assert!(conflicts(&facts)[0].text.contains("number 9"));
        facts.history = Some(vec![join(1, 10, 20, 7)]);
        assert!(conflicts(&facts)[0].text.contains("ledger 1/1"));
        facts.history = Some(vec![join(8, 10, 20, 2)]);
        assert!(conflicts(&facts)[0].text.contains("number 2"));
    }

    #[test]
    fn clients_that_do_not_know_their_id_share_no_number_either() {
        let nameless = |n, number| Operation {
            fan: None,
            number: Some(Number(number)),
            ..operation("status", n, 30, 40)
        };
        let mut facts = facts(vec![entry(1, 500, called(&[1, 2]).change())]);
        facts.history = Some(vec![nameless(1, 1), nameless(2, 2)]);
        assert_eq!(conflicts(&facts), []);
        facts.history = Some(vec![nameless(1, 1), nameless(2, 1)]);
        assert!(conflicts(&facts)[0].text.contains("client 2"));
        facts.history = Some(vec![nameless(1, 1), join(2, 50, 60, 1)]);
        assert_eq!(
            conflicts(&facts).len(),
            2,
            "with the client and with the call"
        );
    }

    #[test]
    fn a_restart_in_between_is_noticed() {
        let mut ledger = vec![entry(1, 100, ended(50)), entry(2, 200, ended(51))];
        ledger[1].token = FencingToken(2);
        let mut facts = facts(ledger);
        facts.history = Some(vec![join(1, 10, 50, 1), join(1, 250, 260, 2)]);
        assert!(conflicts(&facts)[0].is_across_restart);
        facts.history = Some(vec![join(1, 210, 220, 1), join(1, 250, 260, 2)]);
        assert!(!conflicts(&facts)[0].is_across_restart);
    }
}
