//! The ledger: one entry per change after joining, kept until it is copied.

use std::collections::VecDeque;

use crate::base::time::Timestamp;
use crate::room::model::State;
use crate::room::model::command::{Change, LedgerEntry};

/// The entries that SQL does not have yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    entries: VecDeque<LedgerEntry>,
    /// The number of the last entry, trimmed or not.
    last: u64,
}

impl Ledger {
    pub(super) fn uncopied(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.entries.iter()
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }
}

/// Writes down what has just changed. `serving` must have its new value already.
pub(super) fn write(room: &mut State, now: Timestamp, change: Change) {
    room.ledger.last += 1;
    room.ledger.entries.push_back(LedgerEntry {
        seq: room.ledger.last,
        at: now,
        generation: room.generation,
        token: room.lease.token,
        serving: room.serving,
        change,
    });
    room.changed();
}

/// The oldest entries.
pub(super) fn read(room: &State, max: usize) -> Vec<LedgerEntry> {
    room.ledger.entries.iter().take(max).cloned().collect()
}

/// Forgets the entries up to and including `through`. Asking again changes nothing.
pub(super) fn trim(room: &mut State, through: u64) {
    let before = room.ledger.entries.len();
    while room
        .ledger
        .entries
        .front()
        .is_some_and(|entry| entry.seq <= through)
    {
        room.ledger.entries.pop_front();
    }
    if room.ledger.entries.len() < before {
        room.changed();
    }
}
