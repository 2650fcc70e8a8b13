//! Key names in Redis; one hash tag a show, so that a show lives on one node of a cluster.
//!
//! `lua/README.md` says what each key holds.

use crate::base::ids::ShowId;

/// The shows that have a room. It has no hash tag: no script touches it.
pub const SHOWS: &str = "catraca:shows";

/// One key of a show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Everything about a room that is one value.
    Room,
    /// The last number issued.
    Seq,
    /// Who waits, by number.
    Queue,
    /// Who came back after the slot had lapsed, by place.
    Returned,
    /// Who was called and is not there yet: the place.
    Standby,
    /// Slots and admissions by their end, and the turns that are over.
    Admissions,
    /// Who has claimed: the place.
    Claimed,
    /// Calls that still count.
    Quota,
    /// Entries that SQL does not have yet.
    Ledger,
    /// With presence: when fans of the queue last showed up.
    Seen,
}

impl Key {
    /// Every key that a show may have.
    pub const ALL: [Self; 10] = [
        Self::Room,
        Self::Seq,
        Self::Queue,
        Self::Returned,
        Self::Standby,
        Self::Admissions,
        Self::Claimed,
        Self::Quota,
        Self::Ledger,
        Self::Seen,
    ];

    /// The key's last part, which is also its name in the head of a script.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Room => "room",
            Self::Seq => "seq",
            Self::Queue => "queue",
            Self::Returned => "returned",
            Self::Standby => "standby",
            Self::Admissions => "admissions",
            Self::Claimed => "claimed",
            Self::Quota => "quota",
            Self::Ledger => "ledger",
            Self::Seen => "seen",
        }
    }

    /// What Redis calls the type of what it holds.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Room | Self::Quota => "hash",
            Self::Seq => "string",
            Self::Queue
            | Self::Returned
            | Self::Standby
            | Self::Admissions
            | Self::Claimed
            | Self::Seen => "zset",
            Self::Ledger => "stream",
        }
    }

    /// The key of this show.
    pub fn of(self, show: &ShowId) -> String {
        format!("catraca:{{{show}}}:{}", self.word())
    }
}
