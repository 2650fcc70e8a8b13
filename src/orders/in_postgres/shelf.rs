//! What a process remembers of the sections that it sells: which seats were free a moment ago, and which of
//! them it has handed out since. A hold of the best seats is decided by that, so that buyers of one process
//! never ask for the same seat, and most of them need no look into the database.
//!
//! What is remembered may be wrong: the statement that writes checks all of it, and whoever finds it wrong
//! looks. Of two processes that walk along the same seats one loses, and goes on from somewhere else. Nothing
//! is refused by what is remembered, and a seat that came back is passed over for a second at most.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::ids::ShowId;
use crate::base::time::Timestamp;
use crate::orders::in_postgres::sale::Ground;
use crate::orders::rules::hold::{self, Offer};
use crate::orders::rules::{Carts, Section, Terms, seats};

/// How long a look is remembered, and who lost a seat keeps away from the others, in milliseconds.
const KEPT_MS: u64 = 1_000;
/// Those who begin elsewhere leave so many seats before them, or a multiple: groups of 2, 3, 4 and 6 fill them.
const APART: usize = 12;

/// A section of a show.
pub(super) type Named = (ShowId, String);

/// What a hold of the best seats is decided by, but for the seats: as the statement that writes checks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offered {
    /// The version of the show's settings.
    pub(super) version: i64,
    pub(super) terms: Terms,
    pub(super) section: Section,
}

/// A section as it was when it was looked at.
#[derive(Debug)]
struct Shelf {
    offered: Offered,
    /// Free seats that nobody here was given.
    free: Vec<u32>,
    /// Where buyers begin among them.
    from: usize,
    /// Seats that buyers here were given, and when those were done with them, if after the look.
    given: BTreeMap<u32, Option<u64>>,
    /// When the look began: the moment it tells of is not before.
    look: u64,
    at: Timestamp,
    /// When a buyer last found a seat taken.
    lost: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct Known {
    /// Rises with whatever happens: before and after.
    count: u64,
    sections: BTreeMap<Named, Shelf>,
}

/// The shelves of one process. Only sections that exist have one.
#[derive(Debug, Default)]
pub(super) struct Shelves(Mutex<Known>);

/// Seats that nobody else in this process is given until this value goes.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) offered: Offered,
    /// Ordinals, ascending.
    pub(super) seats: Vec<u32>,
    shelves: Arc<Shelves>,
    named: Named,
    look: u64,
}

impl Shelves {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A look begins; the answer is for [`Self::saw`].
    pub(super) fn look(&self) -> u64 {
        let mut known = self.known();
        known.count += 1;
        known.count
    }

    /// What a look at a section saw. `free` is ascending; `random` says where to begin if others walk along
    /// the same seats.
    pub(super) fn saw(
        &self,
        named: &Named,
        look: u64,
        (offered, free): (Offered, &[u32]),
        (now, random): (Timestamp, usize),
    ) {
        let mut known = self.known();
        let old = known.sections.get(named);
        if old.is_some_and(|shelf| look < shelf.look) {
            return;
        }
        let (mut given, lost) = match known.sections.remove(named) {
            Some(shelf) => (shelf.given, shelf.lost),
            None => (BTreeMap::new(), None),
        };
        given.retain(|_, done| done.is_none_or(|done| look < done));
        let lost = lost.filter(|lost| now < lost.plus_ms(KEPT_MS));
        let free: Vec<u32> = free
            .iter()
            .copied()
            .filter(|seat| !given.contains_key(seat))
            .collect();
        let shelf = Shelf {
            offered,
            from: lost.map_or(0, |_| random % free.len().max(1) / APART * APART),
            free,
            given,
            look,
            at: now,
            lost,
        };
        known.sections.insert(named.clone(), shelf);
    }

    /// The best seats that are remembered as free and that nobody else was given; neighbours, where seats
    /// are numbered.
    pub(super) fn give(
        self: &Arc<Self>,
        (named, n): &(Named, usize),
        now: Timestamp,
    ) -> Option<Given> {
        let n = *n;
        let mut known = self.known();
        let shelf = known.sections.get_mut(named)?;
        if shelf.at.plus_ms(KEPT_MS) <= now {
            return None;
        }
        let range = shelf.first(shelf.from, n).or_else(|| shelf.first(0, n))?;
        let seats: Vec<u32> = shelf.free.drain(range).collect();
        shelf.given.extend(seats.iter().map(|seat| (*seat, None)));
        Some(Given {
            offered: shelf.offered.clone(),
            seats,
            shelves: Arc::clone(self),
            named: named.clone(),
            look: shelf.look,
        })
    }
}

impl Shelf {
    /// Where the first `n` lie that will do, from an index on.
    fn first(&self, from: usize, n: usize) -> Option<Range<usize>> {
        let free = self.free.get(from..)?;
        let start = if self.offered.section.numbered {
            seats::run(free, n)?
        } else {
            (n <= free.len()).then_some(0)?
        };
        Some(from + start..from + start + n)
    }
}

impl Given {
    /// What a hold depends on of somebody whose first it is, as far as that is remembered.
    pub(super) fn facts(&self) -> hold::Facts {
        hold::Facts {
            terms: self.offered.terms.clone(),
            live: Carts::default(),
            had: 0,
            ordered: false,
            left: true,
            offer: self.offer(),
        }
    }

    /// The seats as those that come into question.
    pub(super) fn offer(&self) -> Offer {
        Offer::Section {
            section: self.offered.section.clone(),
            free: self.seats.clone(),
            in_carts: false,
        }
    }

    /// What the statement that writes asks for again.
    pub(super) fn ground(&self) -> Ground {
        Ground {
            version: self.offered.version,
            section: Some(self.offered.section.clone()),
        }
    }

    /// Somebody else has one of them, or what they were given by is not so any more: what was seen with them
    /// is forgotten.
    pub(super) fn lose(self, now: Timestamp) {
        let mut known = self.shelves.known();
        if let Some(shelf) = known.sections.get_mut(&self.named)
            && shelf.look == self.look
        {
            shelf.free.clear();
            shelf.lost = Some(now);
        }
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        let mut known = self.shelves.known();
        known.count += 1;
        let count = known.count;
        if let Some(shelf) = known.sections.get_mut(&self.named) {
            for seat in &self.seats {
                shelf.given.insert(*seat, Some(count));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ShowFacts;
    use crate::event::money::Money;

    const T0: Timestamp = Timestamp::from_unix_ms(1_000);

    fn offered(numbered: bool) -> Offered {
        Offered {
            version: 1,
            terms: Terms {
                show: ShowFacts {
                    id: "show".parse().unwrap(),
                    name: "Show".to_owned(),
                    starts_at: None,
                },
                hold_ms: 1,
                holds_per_ticket: 1,
                sections: ["B".to_owned()].into(),
                is_cancelled: false,
            },
            section: Section {
                name: "B".to_owned(),
                numbered,
                price: Money::parse("390", "BRL".parse().unwrap()).unwrap(),
            },
        }
    }

    fn named() -> Named {
        ("show".parse().unwrap(), "B".to_owned())
    }

    /// The seats that somebody is given who wants so many, at a time.
    fn give(shelves: &Arc<Shelves>, n: usize, now: Timestamp) -> Option<Given> {
        shelves.give(&(named(), n), now)
    }

    /// A look begins and ends.
    fn see(shelves: &Shelves, free: &[u32], random: usize) {
        let look = shelves.look();
        shelves.saw(&named(), look, (offered(true), free), (T0, random));
    }

    #[test]
    fn neighbours_are_given_once_and_not_for_longer_than_they_are_remembered() {
        let shelves = Arc::new(Shelves::default());
        assert!(give(&shelves, 1, T0).is_none(), "nothing was seen");
        see(&shelves, &[1, 3, 4, 5, 8, 9], 7);
        let given: Vec<Given> = [2, 1, 2, 1]
            .iter()
            .filter_map(|n| give(&shelves, *n, T0))
            .collect();
        let seats: Vec<&[u32]> = given.iter().map(|given| &given.seats[..]).collect();
        assert_eq!(seats, [&[3, 4][..], &[1], &[8, 9], &[5]]);
        assert!(give(&shelves, 1, T0).is_none());
        see(&shelves, &[20], 0);
        assert!(give(&shelves, 1, T0.plus_ms(KEPT_MS)).is_none(), "too old");
        assert!(give(&shelves, 1, T0.plus_ms(KEPT_MS - 1)).is_some());

        let look = shelves.look();
        shelves.saw(&named(), look, (offered(false), &[30, 32]), (T0, 0));
        assert_eq!(
            give(&shelves, 2, T0).unwrap().seats,
            [30, 32],
            "no neighbours needed"
        );
    }

    #[test]
    fn a_look_never_brings_back_what_was_given_since() {
        let shelves = Arc::new(Shelves::default());
        see(&shelves, &[1, 2, 3, 4], 0);
        let (early, late) = (shelves.look(), shelves.look());
        let first = give(&shelves, 1, T0).unwrap();
        let second = give(&shelves, 1, T0).unwrap();
        drop(first);
        shelves.saw(&named(), late, (offered(true), &[1, 2, 3, 4, 5]), (T0, 0));
        shelves.saw(&named(), early, (offered(true), &[1]), (T0, 0));
        assert_eq!(give(&shelves, 1, T0).unwrap().seats, [3], "neither 1 nor 2");
        see(&shelves, &[1, 2, 3], 0);
        assert_eq!(give(&shelves, 3, T0).map(|given| given.seats.clone()), None);
        assert_eq!(give(&shelves, 1, T0).unwrap().seats, [1], "it came back");
        drop(second);
    }

    #[test]
    fn whoever_loses_begins_elsewhere() {
        let shelves = Arc::new(Shelves::default());
        let all: Vec<u32> = (1..=100).collect();
        see(&shelves, &all, 50);
        let (lost, other) = (
            give(&shelves, 2, T0).unwrap(),
            give(&shelves, 2, T0).unwrap(),
        );
        lost.lose(T0);
        assert!(give(&shelves, 1, T0).is_none(), "it is forgotten");
        see(&shelves, &all, 50);
        other.lose(T0);
        let seats = give(&shelves, 2, T0).unwrap().seats.clone();
        assert_eq!(seats, [51, 52], "that was seen before; 48 lie before these");
        assert_eq!(give(&shelves, 60, T0).map(|given| given.seats[0]), None);
        assert_eq!(give(&shelves, 40, T0).unwrap().seats[0], 53);
        assert_eq!(
            give(&shelves, 40, T0).unwrap().seats[0],
            5,
            "what lies before"
        );
    }
}
