//! Every answer that a room can give.

use crate::base::ids::{Edition, FencingToken, Generation, Number, Place};
use crate::base::time::Timestamp;
use crate::room::model::command::{
    Draw, Ended, LedgerEntry, Measured, RoomState, Settings, Stock, Why,
};

/// Every answer of a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    // One a command, under the command's name in the past tense.
    Joined(Vec<Joined>),
    Ticked(Ticked),
    Claimed(Vec<Claimed>),
    Checked(Vec<Checked>),
    Extended(Extended),
    Consumed(Consumed),
    Left(Left),
    Revoked(Vec<Revoked>),
    Restored(Vec<Restored>),
    Touched(Vec<Touched>),
    Frozen(Frozen),
    DrawOpened(DrawOpened),
    Configured(Configured),
    Mended(Mended),
    Board(Box<Board>),
    Ledger(Vec<LedgerEntry>),
    /// Done, and there is nothing to say about it.
    Done,
    /// The room's data is missing or not whole: nothing was read and nothing was changed.
    Unfenced,
}

/// The answer to one joining fan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    /// In line with a new number.
    New { number: Number },
    /// In line already (queue, standby or returned), with the number of the first join.
    Kept { number: Number },
    /// The same, called or returned from a place of the draw: its table says the number.
    Drawn { place: Place },
    /// Has a live, claimed admission.
    Admitted { until: Timestamp },
    /// This fan's turn is over; another turn needs another fan id.
    Gone(Gone),
    /// No number below the ceiling is left: ask again in a second.
    Busy,
    /// As many fans wait as the operator allows.
    Full,
    /// The store has no memory for anybody new: ask again later. The definition never says it.
    OutOfMemory,
    /// Nobody may join yet. `opens_in_ms`: until fans may, if the schedule says when.
    Scheduled { opens_in_ms: Option<u64> },
    /// The room takes nobody: sold out, closed or off.
    Refused(RoomState),
}

/// The answer to a tick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ticked {
    /// Another admitter leads this show.
    Follower { holder: String },
    /// This admitter leads; `count` fans were called.
    Leader(Step),
}

/// What one tick of the leader did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Fans called.
    pub count: u64,
    /// `serving` after the step.
    pub serving: Place,
    /// The leader's token.
    pub token: FencingToken,
    /// The state after the hours that have come were passed.
    pub state: RoomState,
    /// Why not more were called.
    pub why: Why,
    /// When the quota next frees something, if it is what limits.
    pub free_in_ms: Option<u64>,
    /// Fans in the queue and returned.
    pub waiting: u64,
    /// Live admissions, the called included.
    pub live: u64,
    /// The last number issued.
    pub issued: Number,
    /// The highest number that may be issued.
    pub ceiling: Number,
    /// Ledger entries that SQL does not have yet.
    pub uncopied: usize,
    /// The hour or the operator has asked to open, and the draw comes first: freeze it, or go on.
    pub opening: bool,
    /// How far the draw is.
    pub draw: Option<Draw>,
}

/// How a fan stands who claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// The admission runs until then. `first` = it was this claim that started it.
    Admitted { until: Timestamp, first: bool },
    /// In the queue, not called yet.
    Waiting { number: Number },
    /// Came back after the slot had lapsed: next, by place.
    Returned { place: Place },
    /// The turn is over.
    Gone(Gone),
    /// The room does not know this fan: show the pass.
    Unknown,
}

/// Whether a fan may pass the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    /// A claimed admission runs until then.
    Live { until: Timestamp },
    /// There is none.
    NotLive,
}

/// Why a turn is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gone {
    /// An order was confirmed.
    Used,
    /// The claimed admission ran out.
    Expired,
    /// The fan gave it up.
    Left,
    /// The operator ended it.
    Revoked,
}

impl From<Ended> for Gone {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Used => Self::Used,
            Ended::Left => Self::Left,
            Ended::Revoked => Self::Revoked,
        }
    }
}

/// What became of an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extended {
    /// The admission now runs until then: never shorter than before.
    Until(Timestamp),
    /// No claimed admission of this fan is live.
    NotLive,
}

/// What became of a use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consumed {
    /// The turn is used from now on. An expired admission counts as used too.
    Now,
    /// The turn was used, left or revoked before; the reason stays.
    Before,
    /// The room does not know this fan.
    Unknown,
}

/// What became of a leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The place or the admission is given up.
    Now,
    /// The turn was over already.
    Before,
    /// The room does not know this fan.
    Unknown,
}

/// What became of a revocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revoked {
    /// The admission is ended; with `AfterRevoke::Out` a place in line is, too.
    Now,
    /// There was nothing to end: the turn is over, or the fan is in line and may stay there.
    Before,
    /// The room does not know this fan.
    Unknown,
}

/// The answer to one fan who showed a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// The room did not know the fan and has put them back into the queue.
    Waiting,
    /// The same, but serving has passed: next, by place.
    Returned,
    /// The room knows the fan; its word counts.
    Known(Claimed),
    /// The pass is of another edition.
    Void,
    /// The pass is of a later generation than the room, or of a draw that the room does not know:
    /// the room's data is old.
    Ahead,
    /// The number took part in a draw that the asker did not know: read the board, and ask again
    /// with the place.
    Placeless,
    /// The store has no memory for a fan whom it has lost: ask again later. The definition never says
    /// it.
    OutOfMemory,
}

/// What became of showing up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touched {
    /// The fan is in the queue and counts as there.
    Waiting,
    /// The fan is not in the queue: a claim says how they stand.
    Elsewhere,
}

/// What became of a freeze.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frozen {
    /// The numbers up to this one take part: by this command, or by an earlier one.
    At { size: u64 },
    /// No draw is due.
    NotDue,
}

/// What became of the opening of a draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrawOpened {
    /// Places are the draw's from now on.
    Now,
    /// They were already, by the same seed.
    Before,
    /// The draw is not frozen at this size, or open with another seed: nothing was changed.
    Refused,
}

/// What became of settings and verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Configured {
    /// They are in force.
    Now,
    /// The room already had this version or a later one.
    Before,
}

/// What became of a step of mending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mended {
    /// It is done, by this command or by an earlier one that was the same.
    Done,
    /// What of the room still counts.
    Found {
        /// Room time: whatever the lost room did, it did before.
        now: Timestamp,
        /// The last number it had issued; 0 where nothing counts.
        issued: Number,
        /// The oldest entries of its ledger that SQL may lack.
        entries: Vec<LedgerEntry>,
    },
    /// Another mend has overtaken this one, or the room was lost again: nothing was written.
    Stale,
}

/// The public snapshot of a room, and what gateways need beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Board {
    /// The version of the settings in force.
    pub version: u64,
    /// The version of the last operator's verb that the room has applied; 0 = none.
    pub verb_version: u64,
    pub settings: Settings,
    pub edition: Edition,
    pub generation: Generation,
    pub state: RoomState,
    pub serving: Place,
    /// The last number issued.
    pub issued: Number,
    pub ceiling: Number,
    /// Fans in the queue and returned.
    pub waiting: u64,
    /// Called and not yet claimed, the slot live or lapsed.
    pub standby: u64,
    /// Live admissions, the called included.
    pub live: u64,
    /// Numbers that nobody holds since a loss, ahead of later numbers.
    pub gaps: Vec<Gap>,
    /// As the leader measured it; the cause is the room's own where the room knows better (paused,
    /// restoring, all in carts).
    pub measured: Measured,
    pub stock: Option<Stock>,
    pub sold_out_at: Option<Timestamp>,
    /// While `state` is `Restoring`: until when nobody is called.
    pub restoring_until: Option<Timestamp>,
    /// Room time.
    pub now: Timestamp,
    pub uncopied: usize,
    /// The admitter that leads the show, while its lease lasts.
    pub leader: Option<String>,
    /// How far the draw is; none before it is frozen.
    pub draw: Option<Draw>,
    /// Places of an open draw, beyond `serving`, that nobody in the queue holds.
    pub empty: u64,
}

/// Numbers that were given up for lost: those from `first` to `last`, but for `restored` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    pub first: Number,
    pub last: Number,
    pub restored: u64,
}
