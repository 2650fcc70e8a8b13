//! Where a ledger leaves every fan: what a mend writes back into a lost room.

use std::collections::BTreeMap;

use crate::base::ids::{FanId, Place};
use crate::base::time::Timestamp;
use crate::room::model::command::{Change, Folded, LedgerEntry};

/// A ledger read to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fold {
    /// Where the ledger left each fan it names.
    pub fans: BTreeMap<FanId, Folded>,
    /// The highest `serving` in it.
    pub serving: Place,
    /// The latest instant in it.
    pub at: Timestamp,
}

impl Fold {
    /// Reads the next entry, in the order of generation and number.
    pub fn read(&mut self, entry: &LedgerEntry) {
        self.serving = self.serving.max(entry.serving);
        self.at = self.at.max(entry.at);
        match &entry.change {
            Change::Called(called) => {
                for (fan, place) in &called.fans {
                    let (until, place) = (called.until, *place);
                    self.fans.insert(*fan, Folded::Called { until, place });
                }
            }
            // A slot that ended at the call.
            Change::Absent { fans } => {
                for (fan, place) in fans {
                    let (until, place) = (entry.at, *place);
                    self.fans.insert(*fan, Folded::Called { until, place });
                }
            }
            Change::Claimed { fan, until } | Change::Extended { fan, until } => {
                if let Some(place) = self.place(*fan) {
                    self.fans.insert(
                        *fan,
                        Folded::Claimed {
                            until: *until,
                            place,
                        },
                    );
                }
            }
            Change::Returned { fan, place } => {
                self.fans.insert(*fan, Folded::Returned { place: *place });
            }
            Change::Ended { fan, why } => {
                self.fans.insert(*fan, Folded::Ended(*why));
            }
        }
    }

    /// The place from which a fan was called. A claim whose call is missing (it fell into what a loss
    /// took) has none; the fan comes back with the pass.
    fn place(&self, fan: FanId) -> Option<Place> {
        match self.fans.get(&fan)? {
            Folded::Called { place, .. }
            | Folded::Claimed { place, .. }
            | Folded::Returned { place } => Some(*place),
            Folded::Ended(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{FencingToken, Generation};
    use crate::base::time::Timestamp;
    use crate::room::model::command::{Called, Ended, Why};

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_unix_ms(ms)
    }

    fn called(fan: FanId, place: u64) -> Change {
        Change::Called(Called {
            fans: vec![(fan, Place(place))],
            until: at(60),
            rate: 1,
            window_ms: 1_000,
            capacity: 1,
            live: 1,
            waiting: 0,
            why: Why::Enough,
        })
    }

    #[test]
    fn the_last_entry_says_where_a_fan_stands() {
        let (fan, place) = (FanId([1; 16]), Place(7));
        let until = at(90);
        let claimed = || Change::Claimed { fan, until };
        let returned = || Change::Returned { fan, place };
        let ended = |why| Change::Ended { fan, why };
        let slot = Folded::Called {
            until: at(60),
            place,
        };
        let again = vec![called(fan, 7), ended(Ended::Revoked), returned()];
        let rows: [(Vec<Change>, Option<Folded>); 6] = [
            (vec![called(fan, 7)], Some(slot)),
            (
                vec![called(fan, 7), claimed()],
                Some(Folded::Claimed { until, place }),
            ),
            (
                vec![called(fan, 7), returned()],
                Some(Folded::Returned { place }),
            ),
            (again, Some(Folded::Returned { place })),
            (
                vec![called(fan, 7), ended(Ended::Used)],
                Some(Folded::Ended(Ended::Used)),
            ),
            (vec![claimed()], None),
        ];
        for (changes, expected) in rows {
            let mut fold = Fold::default();
            for (seq, change) in (1..).zip(changes) {
                let (generation, token) = (Generation(1), FencingToken(1));
                let entry = LedgerEntry {
                    seq,
                    at: at(0),
                    generation,
                    token,
                    serving: place,
                    change,
                };
                fold.read(&entry);
            }
            assert_eq!(
                (fold.fans.get(&fan).copied(), fold.serving),
                (expected, place)
            );
        }
    }

    #[test]
    fn the_absent_stand_by_and_their_slot_is_over() {
        let (fan, place) = (FanId([1; 16]), Place(7));
        let mut fold = Fold::default();
        fold.read(&LedgerEntry {
            seq: 1,
            at: at(5),
            generation: Generation(1),
            token: FencingToken(1),
            serving: place,
            change: Change::Absent {
                fans: vec![(fan, place)],
            },
        });
        let until = at(5);
        assert_eq!(fold.fans[&fan], Folded::Called { until, place });
    }
}
