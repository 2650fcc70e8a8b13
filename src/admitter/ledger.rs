//! The ledger between room and SQL: an entry as a row, and back.

use crate::base::ids::{Edition, FencingToken};
use crate::room::model::command::{Change, LedgerEntry};
use crate::show::LedgerRow;

/// An entry as SQL keeps it.
pub fn row_of(edition: Edition, entry: &LedgerEntry) -> LedgerRow {
    let kind = match &entry.change {
        Change::Called(_) => "called",
        Change::Absent { .. } => "absent",
        Change::Claimed { .. } => "claimed",
        Change::Extended { .. } => "extended",
        Change::Returned { .. } => "returned",
        Change::Ended { .. } => "ended",
    };
    LedgerRow {
        edition,
        generation: entry.generation,
        seq: entry.seq,
        at: entry.at,
        token: entry.token.0,
        serving: entry.serving,
        kind: kind.to_owned(),
        body: serde_json::to_string(&entry.change).expect("plain enums always serialize"),
    }
}

/// The entry that a row was made of.
///
/// # Errors
/// The body is not one that [`row_of`] wrote.
pub fn entry_of(row: &LedgerRow) -> Result<LedgerEntry, serde_json::Error> {
    Ok(LedgerEntry {
        seq: row.seq,
        at: row.at,
        generation: row.generation,
        token: FencingToken(row.token),
        serving: row.serving,
        change: serde_json::from_str(&row.body)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{FanId, Generation, Place};
    use crate::base::time::Timestamp;
    use crate::room::model::command::{Called, Ended, Why};

    #[test]
    fn rows_read_back() {
        let (fan, until) = (FanId([1; 16]), Timestamp::from_unix_ms(9));
        let called = Called {
            fans: vec![(fan, Place(1))],
            until,
            rate: 3,
            window_ms: 1_000,
            capacity: 9,
            live: 3,
            waiting: 0,
            why: Why::Enough,
        };
        for (kind, change) in [
            ("called", Change::Called(called)),
            (
                "absent",
                Change::Absent {
                    fans: vec![(fan, Place(3))],
                },
            ),
            ("claimed", Change::Claimed { fan, until }),
            ("extended", Change::Extended { fan, until }),
            (
                "returned",
                Change::Returned {
                    fan,
                    place: Place(2),
                },
            ),
            (
                "ended",
                Change::Ended {
                    fan,
                    why: Ended::Used,
                },
            ),
        ] {
            let entry = LedgerEntry {
                seq: 7,
                at: until,
                generation: Generation(2),
                token: FencingToken(3),
                serving: Place(4),
                change,
            };
            let row = row_of(Edition(1), &entry);
            assert_eq!(row.kind, kind);
            assert_eq!(entry_of(&row).unwrap(), entry);
        }
    }
}
