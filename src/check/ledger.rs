//! The ledger of a room as rows of SQL, and what follows from it alone.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::base::ids::{Edition, FanId, FencingToken, Generation, Number, Place};
use crate::base::time::Timestamp;
use crate::check::draw::Draw;

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
    /// Passed over without a slot.
    Absent {
        fans: Vec<(FanId, Number)>,
    },
    Claimed {
        fan: FanId,
        until: Timestamp,
    },
    Extended {
        fan: FanId,
        until: Timestamp,
    },
    Returned {
        fan: FanId,
        place: Place,
    },
    Ended {
        fan: FanId,
    },
}

/// The calls of one tick.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Called {
    /// Each with the number that it was called from: the ledger has the place.
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

impl Change {
    /// Turns the places that the ledger has into the numbers that a draw gave them to.
    pub(super) fn by_number(&mut self, draw: &Draw) {
        if let Self::Called(Called { fans, .. }) | Self::Absent { fans } = self {
            for (_, number) in fans {
                *number = draw.number(Place(number.0));
            }
        }
    }
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
            Change::Called(_) | Change::Absent { .. } => {}
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::sample::{at, called, claimed, ended, entry, extended, fan};

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
