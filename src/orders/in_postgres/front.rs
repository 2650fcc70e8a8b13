//! Where buyers of the best seats begin to look: not at the first seat of a section, for in front of
//! those that are left lie the traces of all that were sold, and an index keeps them until it is
//! vacuumed. Without this a section would sell the slower, the more of it is sold.
//!
//! What is remembered may be wrong, and costs nothing but a worse seat: it is forgotten every second,
//! and before anybody is told "no" all of the section is looked at.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::base::ids::ShowId;
use crate::base::time::Timestamp;

/// How long seats that came back may be passed over, in milliseconds.
const KEPT_MS: u64 = 1_000;
/// Seats among which `best_facts.sql` looks for neighbours.
const LOOKED_AT: i64 = 64 * 32;

/// So many seats together in a section of a show.
pub(super) type Wanted = (ShowId, String, u32);

/// What one look for neighbours came to. The ordinals are before all free seats that were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// There were some, and they are the buyer's to take.
    Some(i64),
    /// There were some, and others were quicker: they may yet come free.
    Lost(i64),
    /// There were none.
    None(i64),
    /// There is no free seat from there on.
    End,
}

/// A front, and when it was last looked for from the first seat on.
#[derive(Debug, Clone, Copy)]
struct Front {
    after: i64,
    since: Timestamp,
}

/// The fronts of the sections that this process sells. Only sections that exist have one.
#[derive(Debug, Default)]
pub(super) struct Fronts(Mutex<BTreeMap<Wanted, Front>>);

impl Fronts {
    /// The ordinal after which to look.
    pub(super) fn of(&self, wanted: &Wanted, now: Timestamp) -> i64 {
        let fronts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let front = fronts.get(wanted);
        let fresh = front.filter(|front| now < front.since.plus_ms(KEPT_MS));
        fresh.map_or(0, |front| front.after)
    }

    /// Remembers what was seen by somebody who looked `after` an ordinal, and answers after which one to
    /// look on, if that may help. Who began elsewhere than the others do now tells them nothing.
    pub(super) fn saw(
        &self,
        wanted: &Wanted,
        after: i64,
        seen: Seen,
        now: Timestamp,
    ) -> Option<i64> {
        let beyond = |first: i64| first.saturating_add(LOOKED_AT);
        let (next, look_on) = match seen {
            Seen::Some(first) => (Some(first), None),
            Seen::Lost(first) => (Some(first), Some(beyond(first))),
            Seen::None(first) => (Some(beyond(first)), Some(beyond(first))),
            Seen::End => (None, None),
        };
        let mut fronts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = fronts.get(wanted).filter(|_| 0 < after);
        if known.is_some_and(|front| front.after != after) {
            return look_on;
        }
        let since = known.map_or(now, |front| front.since);
        match next {
            Some(after) => drop(fronts.insert(wanted.clone(), Front { after, since })),
            None => drop(fronts.remove(wanted)),
        }
        look_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_moves_on_and_is_forgotten() {
        let (fronts, start) = (Fronts::default(), Timestamp::from_unix_ms(1_000));
        let wanted: Wanted = ("show".parse().unwrap(), "B".to_owned(), 2);
        let far = 96 + LOOKED_AT;
        // after what was looked, what was seen, where to look on, where the next one begins
        let looks = [
            (0, Seen::Some(64), None, 64),
            (64, Seen::Some(96), None, 96),
            (64, Seen::Some(128), None, 96),
            (96, Seen::Lost(96), Some(far), 96),
            (far, Seen::End, None, 96),
            (96, Seen::None(96), Some(far), far),
            (0, Seen::Some(32), None, 32),
            (32, Seen::End, None, 0),
            (96, Seen::Some(160), None, 160),
        ];
        for (after, seen, on, next) in looks {
            assert_eq!(fronts.saw(&wanted, after, seen, start), on, "{seen:?}");
            assert_eq!(fronts.of(&wanted, start), next, "{seen:?}");
        }
        let (kept, gone) = (start.plus_ms(KEPT_MS - 1), start.plus_ms(KEPT_MS));
        assert_eq!(
            (fronts.of(&wanted, kept), fronts.of(&wanted, gone)),
            (160, 0)
        );
        let other: Wanted = ("show".parse().unwrap(), "B".to_owned(), 3);
        assert_eq!(fronts.of(&other, start), 0);
    }
}
