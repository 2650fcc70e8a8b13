//! The entries of a room's ledger. They derive serde because they are also a format: the ledger is copied
//! to SQL as it stands here.

use serde::{Deserialize, Serialize};

use crate::base::ids::{FanId, FencingToken, Generation, Place};
use crate::base::time::Timestamp;

/// Why an admission or a place was ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Ended {
    /// An order was confirmed.
    Used,
    /// The fan gave it up.
    Left,
    /// The operator ended it.
    Revoked,
}

/// One change after joining: the proof of what the room did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// 1, 2, 3… within a generation.
    pub seq: u64,
    /// Room time.
    pub at: Timestamp,
    /// The generation of the room that wrote it.
    pub generation: Generation,
    /// The admitter that led.
    pub token: FencingToken,
    /// `serving` after the change.
    pub serving: Place,
    /// What changed.
    pub change: Change,
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A tick called these fans, in this order.
    Called(Called),
    /// A tick found these fans not there: they are in standby without a slot, and next on return.
    Absent { fans: Vec<(FanId, Place)> },
    /// The fan showed up, and the admission runs until then.
    Claimed { fan: FanId, until: Timestamp },
    /// The admission now runs until then.
    Extended { fan: FanId, until: Timestamp },
    /// The fan came back after the slot had lapsed, or was sent back, and is next by place.
    Returned { fan: FanId, place: Place },
    /// Place or admission ended before its time.
    Ended { fan: FanId, why: Ended },
}

/// The fans of one tick, and what bounded it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Called {
    /// Who was called and from which place, in the order of the calls.
    pub fans: Vec<(FanId, Place)>,
    /// Until when their slots are kept.
    pub until: Timestamp,
    /// The rate in force.
    pub rate: u64,
    /// The window in force.
    pub window_ms: u64,
    /// The capacity in force.
    pub capacity: u64,
    /// Live admissions after the tick, these included.
    pub live: u64,
    /// Fans still waiting after the tick.
    pub waiting: u64,
    /// Why not more were called.
    pub why: Why,
}

/// Why a tick called no more fans than it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Why {
    /// As many as were asked for, or as one tick may call.
    Enough,
    /// Nobody waits.
    Empty,
    /// The quota of the window is used up.
    Rate,
    /// As many fans are inside as may be.
    Capacity,
    /// Not enough seats for more.
    Stock,
    /// The room is not open.
    State,
    /// Too much of the ledger is not yet copied.
    Unarchived,
    /// The tick went by another draw or another `serving` than the room's: nobody was looked at.
    Moved,
    /// As many places or fans were looked at as were named or as one tick may: tick again.
    Looked,
}
