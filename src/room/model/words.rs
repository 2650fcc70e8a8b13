//! The words that a room's answers go by in JSON, in SQL, in metrics and in logs.

use crate::room::model::command::{Cause, Ended, Gone, RoomState, Why};

impl RoomState {
    /// Every state, in the order of a sale.
    pub const ALL: [Self; 8] = [
        Self::Scheduled,
        Self::Early,
        Self::Open,
        Self::Paused,
        Self::SoldOut,
        Self::Closed,
        Self::Restoring,
        Self::Off,
    ];

    /// The state's word: `scheduled`, `early`, `open`, `paused`, `sold_out`, `closed`, `restoring`,
    /// `off`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Early => "early",
            Self::Open => "open",
            Self::Paused => "paused",
            Self::SoldOut => "sold_out",
            Self::Closed => "closed",
            Self::Restoring => "restoring",
            Self::Off => "off",
        }
    }

    /// The state that goes by this word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 7] = [
        Self::Paused,
        Self::Slowed,
        Self::Capacity,
        Self::Crowd,
        Self::Stock,
        Self::InCarts,
        Self::Restoring,
    ];

    /// The cause's word on the board.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Slowed => "slowed",
            Self::Capacity => "capacity",
            Self::Crowd => "crowd",
            Self::Stock => "stock",
            Self::InCarts => "in_carts",
            Self::Restoring => "restoring",
        }
    }

    /// The cause that goes by this word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.word() == word)
    }
}

impl Why {
    /// Every reason.
    pub const ALL: [Self; 9] = [
        Self::Enough,
        Self::Empty,
        Self::Rate,
        Self::Capacity,
        Self::Stock,
        Self::State,
        Self::Unarchived,
        Self::Moved,
        Self::Looked,
    ];

    /// The reason's word in metrics and logs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Enough => "enough",
            Self::Empty => "empty",
            Self::Rate => "rate",
            Self::Capacity => "capacity",
            Self::Stock => "stock",
            Self::State => "state",
            Self::Unarchived => "unarchived",
            Self::Moved => "moved",
            Self::Looked => "looked",
        }
    }

    /// The reason that goes by this word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|why| why.word() == word)
    }
}

impl Gone {
    /// The reason's word in `status`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Expired => "expired",
            Self::Left => "left",
            Self::Revoked => "revoked",
        }
    }
}

impl Ended {
    /// The reason's word in the ledger and in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Left => "left",
            Self::Revoked => "revoked",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_cause_and_reason_has_its_own_word() {
        for state in RoomState::ALL {
            assert_eq!(RoomState::of_word(state.word()), Some(state));
        }
        for cause in Cause::ALL {
            assert_eq!(Cause::of_word(cause.word()), Some(cause));
        }
        for why in Why::ALL {
            assert_eq!(Why::of_word(why.word()), Some(why));
        }
        assert_eq!(RoomState::of_word("shut"), None);
    }
}
