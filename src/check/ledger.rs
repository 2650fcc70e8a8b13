//! The ledger of a room as rows of SQL, and what follows from it alone.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::base::ids::{Edition, FanId, FencingToken, Generation, Number, Place};
use crate::base::time::Timestamp;
use crate::check::facts::Show;

/// One change of a room after joining.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) edition: Edition,
    pub(super) generation: Generation,
    /// 1, 2, 3… within a generation.
    pub(super) seq: u64,
    pub(super) at: Timestamp,
    pub(super) token: FencingToken,
    /// Serving after the change.
    pub(super) serving: Place,
    pub(super) change: Change,
}

/// What changed; the body of a row.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) enum Change {
    Called(Called),
    Claimed { fan: FanId, until: Timestamp },
    Extended { fan: FanId, until: Timestamp },
    Returned { fan: FanId, place: Place },
    Ended { fan: FanId },
}

/// The calls of one tick.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Called {
    pub(super) fans: Vec<(FanId, Number)>,
    pub(super) until: Timestamp,
    pub(super) rate: u64,
    pub(super) window_ms: u64,
    pub(super) capacity: usize,
    /// Live admissions after the tick.
    pub(super) live: usize,
    /// Fans still in line after the tick.
    pub(super) waiting: usize,
    pub(super) why: Why,
}

/// Why a tick called no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Why {
    Enough,
    Rate,
    /// Something else than the rate.
    #[serde(other)]
    Other,
}

/// A stretch of a ledger in which entries are missing or may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Doubt {
    /// What the ledger says of later times may lack something.
    pub(super) since: Timestamp,
    pub(super) text: String,
}

/// Where a show's ledger has holes, and where a loss may have taken what was not copied.
pub(super) fn all_doubts(show: &Show) -> Vec<Doubt> {
    if show.ledger.is_empty() && Generation(1) < show.generation {
        return vec![lost_before(show.generation, show.checkpoint_at)];
    }
    let editions = show.editions();
    editions.flat_map(|edition| doubts(show, edition)).collect()
}

/// The same of one edition's ledger. A room that was lost before its first entry was copied, or after
/// its last, has left no entry of its own: the generation of the next, or of the show, tells of it.
pub(super) fn doubts(show: &Show, edition: &[Entry]) -> Vec<Doubt> {
    let (Some(first), Some(last)) = (edition.first(), edition.last()) else {
        return Vec::new();
    };
    let mut doubts = Vec::new();
    if first.edition == Edition(1) && Generation(1) < first.generation {
        doubts.push(lost_before(first.generation, first.at));
    }
    doubts.extend(doubts_between(edition));
    if last.edition == show.edition && last.generation < show.generation {
        doubts.push(lost_after(last, show.checkpoint_at));
    }
    doubts
}

fn lost_before(generation: Generation, at: Timestamp) -> Doubt {
    let text = format!(
        "the room was lost before its first entry of generation {generation}: all entries until {at} may be missing"
    );
    let since = Timestamp::default();
    Doubt { since, text }
}

fn lost_after(last: &Entry, until: Timestamp) -> Doubt {
    let text = format!(
        "generation {} was lost after its entry {}: entries of the {} ms until {until} may be missing",
        last.generation,
        last.seq,
        until.ms_since(last.at),
    );
    let since = last.at;
    Doubt { since, text }
}

fn doubts_between(edition: &[Entry]) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let mut before: Option<&Entry> = None;
    for entry in edition {
        let since = before.map_or(entry.at, |before| before.at);
        let same = before.filter(|before| before.generation == entry.generation);
        if let Some(lost) = before.filter(|before| before.generation != entry.generation) {
            doubts.push(lost_after(lost, entry.at));
        }
        let expected = same.map_or(1, |before| before.seq + 1);
        if expected < entry.seq {
            doubts.push(Doubt {
                since,
                text: format!(
                    "{} ledger entries of generation {} are missing before entry {}",
                    entry.seq - expected,
                    entry.generation,
                    entry.seq
                ),
            });
        }
        before = Some(entry);
    }
    doubts
}

/// Whether something that the ledger should say about this time may be missing.
pub(super) fn is_doubtful(doubts: &[Doubt], at: Timestamp) -> bool {
    doubts.iter().any(|doubt| doubt.since <= at)
}

/// A time in which the process that leads a show was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Restart {
    pub(super) after: Timestamp,
    pub(super) before: Timestamp,
}

impl Restart {
    /// Whether it may lie between these two moments.
    pub(super) fn is_between(&self, earlier: Timestamp, later: Timestamp) -> bool {
        earlier <= self.before && self.after <= later
    }
}

/// Each process that leads takes a new token, so a changed token is a restart.
pub(super) fn restarts(ledger: &[Entry]) -> Vec<Restart> {
    let mut restarts = Vec::new();
    if let Some(first) = ledger.first().filter(|first| 1 < first.token.0) {
        restarts.push(Restart {
            after: Timestamp::default(),
            before: first.at,
        });
    }
    for pair in ledger.windows(2) {
        if pair[0].token != pair[1].token {
            restarts.push(Restart {
                after: pair[0].at,
                before: pair[1].at,
            });
        }
    }
    restarts
}

/// A claimed admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: Timestamp,
    /// When it ran out or was ended.
    pub(super) until: Timestamp,
}

/// The claimed admissions of every fan, in order.
pub(super) fn spans(ledger: &[Entry]) -> BTreeMap<FanId, Vec<Span>> {
    let mut spans: BTreeMap<FanId, Vec<Span>> = BTreeMap::new();
    for entry in ledger {
        match &entry.change {
            Change::Claimed { fan, until } => {
                spans.entry(*fan).or_default().push(Span {
                    from: entry.at,
                    until: *until,
                });
            }
            Change::Extended { fan, until } => {
                if let Some(last) = spans.entry(*fan).or_default().last_mut() {
                    last.until = *until;
                }
            }
            Change::Returned { fan, .. } | Change::Ended { fan } => {
                if let Some(last) = spans.entry(*fan).or_default().last_mut() {
                    last.until = last.until.min(entry.at);
                }
            }
            Change::Called(_) => {}
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::sample::{at, called, claimed, ended, entry, extended, facts, fan, show};

    #[test]
    fn bodies_read_as_the_room_writes_them() {
        let fan = "00000000000000000000000000000007";
        for (body, expected) in [
            (
                format!(r#"{{"Claimed":{{"fan":"{fan}","until":"1970-01-01T00:00:09Z"}}}}"#),
                claimed(7, 9_000),
            ),
            (
                format!(r#"{{"Ended":{{"fan":"{fan}","why":"Used"}}}}"#),
                ended(7),
            ),
            (
                format!(
                    r#"{{"Called":{{"fans":[["{fan}",7]],"until":"1970-01-01T00:01:00Z","rate":10,
                    "window_ms":1000,"capacity":100,"live":1,"waiting":5,"why":"Rate"}}}}"#
                ),
                called(&[7]).until(60_000).live(1).waiting(5).change(),
            ),
        ] {
            assert_eq!(serde_json::from_str::<Change>(&body).unwrap(), expected);
        }
        let stock: Why = serde_json::from_str(r#""Stock""#).unwrap();
        assert_eq!(stock, Why::Other);
    }

    #[test]
    fn what_is_missing_is_said_with_its_length() {
        let mut ledger = vec![entry(1, 100, ended(1)), entry(2, 200, ended(2))];
        let mut sample = facts(Vec::new());
        let show = sample.shows.get_mut(&show()).unwrap();
        assert_eq!(all_doubts(show), []);
        assert_eq!(doubts(show, &ledger), []);
        ledger.push(entry(5, 300, ended(3)));
        let mut next = entry(1, 900, ended(4));
        next.generation = Generation(2);
        ledger.push(next);
        show.generation = Generation(2);
        let doubts = doubts(show, &ledger);
        assert_eq!(doubts.len(), 2);
        assert!(doubts[0].text.starts_with("2 ledger entries"), "{doubts:?}");
        assert!(doubts[1].text.contains("600 ms"), "{doubts:?}");
        assert!(is_doubtful(&doubts, at(200)) && !is_doubtful(&doubts, at(199)));
    }

    #[test]
    fn a_loss_that_left_no_entry_is_told_by_the_shows_generation() {
        let mut sample = facts(Vec::new());
        let show = sample.shows.get_mut(&show()).unwrap();
        show.checkpoint_at = at(1_500);
        let ledger = vec![entry(1, 100, ended(1)), entry(2, 200, ended(2))];
        for (generation, first, says) in [
            (1, 1, &[][..]),
            (
                2,
                1,
                &["1 was lost after its entry 2: entries of the 1300 ms"],
            ),
            (2, 2, &["before its first entry of generation 2"]),
            (
                3,
                2,
                &["before its first entry of generation 2", "2 was lost after"],
            ),
        ] {
            show.generation = Generation(generation);
            show.ledger.clone_from(&ledger);
            for entry in &mut show.ledger {
                entry.generation = Generation(first);
            }
            let doubts = all_doubts(show);
            assert_eq!(doubts.len(), says.len(), "{doubts:?}");
            for (doubt, says) in doubts.iter().zip(says) {
                assert!(doubt.text.contains(says), "{doubt:?}");
            }
        }
        show.ledger.clear();
        assert_eq!(all_doubts(show).len(), 1);
    }

    #[test]
    fn a_new_token_is_a_restart() {
        let mut ledger = vec![entry(1, 100, ended(1)), entry(2, 200, ended(2))];
        assert_eq!(restarts(&ledger), []);
        ledger[1].token = FencingToken(2);
        let restart = restarts(&ledger)[0];
        assert!(restart.is_between(at(50), at(300)) && restart.is_between(at(150), at(160)));
        assert!(!restart.is_between(at(10), at(99)) && !restart.is_between(at(201), at(300)));
        ledger[0].token = FencingToken(2);
        assert_eq!(
            restarts(&ledger),
            [Restart {
                after: at(0),
                before: at(100)
            }]
        );
    }

    #[test]
    fn admissions_run_from_the_claim_to_their_end() {
        let ledger = [
            entry(1, 100, claimed(1, 400)),
            entry(2, 150, claimed(2, 400)),
            entry(3, 200, extended(1, 900)),
            entry(4, 300, ended(2)),
        ];
        let spans = spans(&ledger);
        assert_eq!(
            spans[&fan(1)],
            [Span {
                from: at(100),
                until: at(900)
            }]
        );
        assert_eq!(
            spans[&fan(2)],
            [Span {
                from: at(150),
                until: at(300)
            }]
        );
    }
}
