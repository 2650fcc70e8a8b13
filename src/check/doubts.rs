//! What a ledger may lack: entries that are missing in between, and the end of each life of a room that
//! was lost before everything was copied.

use crate::base::ids::{Edition, Generation};
use crate::base::time::Timestamp;
use crate::check::facts::Show;
use crate::check::ledger::Entry;

/// A stretch of a ledger in which entries are missing or may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Doubt {
    /// What the ledger says of later times may lack something.
    pub(super) since: Timestamp,
    pub(super) text: String,
}

/// Where a show's ledger has holes, and where a loss may have taken what was not copied.
pub(super) fn all(show: &Show) -> Vec<Doubt> {
    if show.ledger.is_empty() {
        let first = Life {
            edition: show.edition,
            generation: Generation(1),
            last: None,
        };
        return first.lost_before(show, show.generation, show.checkpoint_at);
    }
    let editions = show.editions();
    editions.flat_map(|edition| of(show, edition)).collect()
}

/// The same of one edition's ledger. A room that was lost before its first entry was copied, or after
/// its last, has left no entry of its own: the generation of the next, or of the show, tells of it.
pub(super) fn of(show: &Show, edition: &[Entry]) -> Vec<Doubt> {
    let (Some(first), Some(last)) = (edition.first(), edition.last()) else {
        return Vec::new();
    };
    let mut doubts = Vec::new();
    if first.edition == Edition(1) {
        let before = Life {
            edition: first.edition,
            generation: Generation(1),
            last: None,
        };
        doubts.extend(before.lost_before(show, first.generation, first.at));
    }
    doubts.extend(doubts_between(show, edition));
    if last.edition == show.edition {
        let after = Life::ending_with(last);
        doubts.extend(after.lost_before(show, show.generation, show.checkpoint_at));
    }
    doubts
}

/// A generation of a room, as far as its ledger is known.
#[derive(Debug, Clone, Copy)]
struct Life<'a> {
    edition: Edition,
    generation: Generation,
    /// Its last entry, if it has one.
    last: Option<&'a Entry>,
}

impl<'a> Life<'a> {
    const fn ending_with(last: &'a Entry) -> Self {
        Self {
            edition: last.edition,
            generation: last.generation,
            last: Some(last),
        }
    }

    /// What was lost from this life on, until the next that is known began at `next_at` or earlier:
    /// the end of each life that a mend came after. A mend that came to its last step may have begun one,
    /// even where nobody could say so; of one that did not nobody knows anything.
    fn lost_before(self, show: &Show, next: Generation, next_at: Timestamp) -> Vec<Doubt> {
        let mends = show.mends.iter().filter(|mend| {
            mend.edition == self.edition
                && self.generation < mend.generation
                && mend.generation <= next
        });
        let mut doubts = Vec::new();
        let mut life = self;
        for mend in mends {
            // Before the first life of all nothing was.
            let is_birth = life.last.is_none() && mend.copied_at == mend.found_at;
            if !is_birth {
                doubts.push(life.lost_between(mend.copied_at, mend.found_at));
            }
            life = Self {
                generation: mend.generation,
                last: None,
                ..life
            };
        }
        if life.generation < next {
            // The last mend has not come so far, or the show is older than the table.
            let since = life.last.map(|last| last.at).unwrap_or_default();
            doubts.push(life.lost_between(since, next_at));
        }
        doubts
    }

    fn lost_between(self, copied_at: Timestamp, found_at: Timestamp) -> Doubt {
        let since = self.last.map_or(copied_at, |last| last.at.max(copied_at));
        let after = match self.last {
            Some(last) => format!("after its entry {}", last.seq),
            None => "before an entry was copied".to_owned(),
        };
        let missing = if since == Timestamp::default() {
            format!("all entries until {found_at}")
        } else if since <= found_at {
            format!(
                "entries of the {} ms until {found_at}",
                found_at.ms_since(since)
            )
        } else {
            format!("entries from {since} on, for as long as nobody knows: clocks differ,")
        };
        let text = format!(
            "generation {} was lost {after}: {missing} may be missing",
            self.generation
        );
        Doubt { since, text }
    }
}

fn doubts_between(show: &Show, edition: &[Entry]) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let mut before: Option<&Entry> = None;
    for entry in edition {
        let since = before.map_or(entry.at, |before| before.at);
        let same = before.filter(|before| before.generation == entry.generation);
        if let Some(lost) = before.filter(|before| before.generation != entry.generation) {
            let life = Life::ending_with(lost);
            doubts.extend(life.lost_before(show, entry.generation, entry.at));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::facts::Mend;
    use crate::check::sample::{at, ended, entry, facts, show};

    #[test]
    fn what_is_missing_is_said_with_its_length() {
        let mut ledger = vec![entry(1, 100, ended(1)), entry(2, 200, ended(2))];
        let mut sample = facts(Vec::new());
        let show = sample.shows.get_mut(&show()).unwrap();
        assert_eq!(all(show), []);
        assert_eq!(of(show, &ledger), []);
        ledger.push(entry(5, 300, ended(3)));
        let mut next = entry(1, 900, ended(4));
        next.generation = Generation(2);
        ledger.push(next);
        show.generation = Generation(2);
        let doubts = of(show, &ledger);
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
            (
                2,
                2,
                &["1 was lost before an entry was copied: all entries until"],
            ),
            (
                3,
                2,
                &["1 was lost before an entry", "2 was lost after its entry 2"],
            ),
        ] {
            show.generation = Generation(generation);
            show.ledger.clone_from(&ledger);
            for entry in &mut show.ledger {
                entry.generation = Generation(first);
            }
            let doubts = all(show);
            assert_eq!(doubts.len(), says.len(), "{doubts:?}");
            for (doubt, says) in doubts.iter().zip(says) {
                assert!(doubt.text.contains(says), "{doubt:?}");
            }
        }
        show.ledger.clear();
        assert_eq!(all(show).len(), 1);
        // Whoever was to open the first life died before, and another did.
        show.generation = Generation(2);
        show.mends = vec![Mend {
            edition: Edition(1),
            generation: Generation(2),
            copied_at: at(40),
            found_at: at(40),
        }];
        assert_eq!(all(show), []);
    }

    #[test]
    fn a_mend_says_how_much_may_be_missing() {
        let mend = |generation, copied_at, found_at| Mend {
            edition: Edition(1),
            generation: Generation(generation),
            copied_at: at(copied_at),
            found_at: at(found_at),
        };
        let mut next = entry(1, 90_000, ended(4));
        next.generation = Generation(4);
        let ledger = vec![entry(1, 100, ended(1)), entry(2, 1_200, ended(2)), next];
        let whole = mend(1, 10, 10);
        for (mends, says) in [
            // The entry is later than the checkpoint, or the checkpoint than the entry.
            (
                vec![whole, mend(4, 1_000, 2_000)],
                &["entries of the 800 ms"][..],
            ),
            (
                vec![whole, mend(4, 1_500, 2_000)],
                &["entries of the 500 ms"],
            ),
            // Generation 2 may have been whole for a moment; the mender of 3 did not come so far.
            (
                vec![whole, mend(2, 1_500, 2_000), mend(4, 60_000, 60_700)],
                &[
                    "1 was lost after its entry 2: entries of the 500 ms",
                    "2 was lost before an entry was copied: entries of the 700 ms",
                ],
            ),
            // The clock of the server that took over is behind.
            (vec![whole, mend(4, 1_500, 900)], &["nobody knows"]),
            // Whoever mends has not come so far, or died.
            (vec![whole], &["entries of the 88800 ms"]),
            (
                vec![whole, mend(2, 1_500, 2_000)],
                &[
                    "entries of the 500 ms",
                    "2 was lost before an entry was copied: all entries until",
                ],
            ),
        ] {
            let mut sample = facts(Vec::new());
            let show = sample.shows.get_mut(&show()).unwrap();
            show.generation = Generation(4);
            show.mends = mends;
            let doubts = of(show, &ledger);
            assert_eq!(doubts.len(), says.len(), "{doubts:?}");
            for (doubt, says) in doubts.iter().zip(says) {
                assert!(doubt.text.contains(says), "{says}: {doubt:?}");
            }
        }
    }
}
