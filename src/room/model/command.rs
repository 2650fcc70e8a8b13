//! What can be asked of a room, and the entries of its ledger. The answers stand in `outcome.rs`.
//!
//! Commands and ledger entries derive serde because they are also formats: the embedded room's
//! journal is the commands themselves, and the ledger is copied to SQL as it stands here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::ids::{Edition, FanId, FencingToken, Generation, Number, Place};
use crate::base::time::Timestamp;

pub use crate::room::draw::{Announced, Draw, Seed};
pub use crate::room::model::outcome::{
    Board, Checked, Claimed, Configured, Consumed, DrawOpened, Extended, Frozen, Gap, Gone, Joined,
    Left, Mended, Outcome, Restored, Revoked, Step, Ticked, Touched,
};

/// One request to a room. Applied atomically, at the room's own time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Fans ask for a number. At most `BATCH_MAX`; one answer a fan, in order.
    Join { joining: Vec<Joining> },
    /// An admitter asks to call the next fans.
    Tick(Tick),
    /// Called fans show up, or ask how they stand. At most `BATCH_MAX`.
    Claim { fans: Vec<FanId> },
    /// The gate asks which of these fans have a live, claimed admission. Changes nothing.
    Check { fans: Vec<FanId> },
    /// An answer of the upstream prolongs an admission.
    Extend { fan: FanId, until: Timestamp },
    /// The admission was used: an order is confirmed.
    Consume { fan: FanId },
    /// The fan gives up place or admission.
    Leave { fan: FanId },
    /// The operator ends the admissions of these fans. At most `BATCH_MAX`.
    Revoke { fans: Vec<FanId>, then: AfterRevoke },
    /// Fans unknown to the room show their passes. At most `BATCH_MAX`.
    Restore { restoring: Vec<Restoring> },
    /// With presence: fans near their turn show that they are there. At most `BATCH_MAX`.
    Touch { fans: Vec<FanId> },
    /// The draw is due: who has joined by now takes part, later ones queue behind.
    Freeze,
    /// SQL has size and seed: the draw gives the places, and the room opens.
    OpenDraw { size: u64, seed: Seed },
    /// The operator's settings and verb, as SQL has them.
    Configure(Configure),
    /// How many seats are left, as the shop says.
    Stock(Stock),
    /// SQL has raised the highest number that may be issued.
    RaiseCeiling { ceiling: Number },
    /// One step of rebuilding a room from SQL.
    Mend(Mend),
    /// What the board shows. Changes nothing.
    Board,
    /// The oldest entries of the ledger that are not yet trimmed. Changes nothing.
    Ledger { max: usize },
    /// Entries up to and including this one are copied to SQL and may go.
    Trim { through: u64 },
}

/// A fan at the door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joining {
    pub fan: FanId,
    pub origin: Origin,
}

/// Where a joining fan's id comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// Minted at random by this very request: nobody can have joined with it before.
    Minted,
    /// From an idempotency key or a pass: the room may know it.
    Known,
}

/// What an admitter asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    /// Who asks. Unique to a process.
    pub holder: String,
    /// How many fans to call at most.
    pub want: u64,
    /// How long the lease is to last from now; 0 resigns it.
    pub lease_ttl_ms: u64,
    /// What the leader has measured, for the board. A follower's is ignored.
    pub measured: Measured,
    /// Who is next, while a draw is not through; none calls only those who came back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn: Option<Drawn>,
}

/// What a draw says of the places that are next. The room has no table: it is told, and checks what
/// it can. Where it does not agree, the tick calls nobody and answers `Why::Moved`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawn {
    /// Of which draw.
    pub seed: Seed,
    /// The `serving` from which the numbers go on.
    pub serving: Place,
    /// The numbers of the places `serving` + 1, + 2, …; those beyond `TICK_PLACES_MAX` are ignored.
    pub numbers: Vec<Number>,
}

/// What the leading admitter measures and the board publishes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Places per 1,000 seconds that `serving` advances; 0 = not known yet.
    pub pace_milli: u64,
    /// Half the width of the pace's range, in thousandths of the pace.
    pub spread_milli: u64,
    /// Why the pace fell below what was promised, if it did.
    pub cause: Option<Cause>,
    /// Seats that a called fan takes on average, in thousandths; 0 = not known yet.
    pub seats_per_fan_milli: u64,
}

/// Why an ETA may rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Cause {
    /// The operator stopped the calling.
    Paused,
    /// The operator lowered the rate.
    Slowed,
    /// As many fans are inside as the shop can serve.
    Capacity,
    /// Fewer fans leave the line than before.
    Crowd,
    /// Few seats are left: fans are called only while one may be free.
    Stock,
    /// Every seat left is in somebody's cart.
    InCarts,
    /// The line is being put together again.
    Restoring,
}

/// Where the operator sends a revoked fan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AfterRevoke {
    /// Next to be called, by place.
    Returned,
    /// Out of the room.
    Out,
}

/// What a pass says of its fan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restoring {
    pub fan: FanId,
    pub number: Number,
    pub edition: Edition,
    pub generation: Generation,
    /// The place that the edition's draw gave the number; none where the asker knows no draw, and
    /// for numbers that came after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// The operator's word, with the versions SQL gave it. Older versions change nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configure {
    pub version: u64,
    pub settings: Settings,
    /// The last state an operator asked for, and the version at which they did.
    pub verb: Option<(u64, RoomState)>,
}

/// What a room needs to know of a show's settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The public name.
    pub name: String,
    /// Calls in any window; 0 = none.
    pub rate: u64,
    /// The window of `rate`.
    pub window_ms: u64,
    /// Admissions that may be live at once, the called included.
    pub capacity: u64,
    /// How long a called fan's slot is kept.
    pub claim_ms: u64,
    /// How long an admission runs from its first claim.
    pub ticket_ttl_ms: u64,
    /// How far from now an admission may be prolonged.
    pub ticket_ttl_max_ms: u64,
    /// Fans in line; beyond, joins are answered `full`.
    pub waiting_max: u64,
    /// Fans a second that may come back after a loss, and the poll budget.
    pub restore_per_s: u64,
    /// When joining begins.
    pub early_at: Option<Timestamp>,
    /// When calling begins.
    pub opens_at: Option<Timestamp>,
    /// When the sale ends.
    pub closes_at: Option<Timestamp>,
    /// Whether no more fans are called than there are seats for.
    pub stock_guard: bool,
    /// The draw among those who join before the opening; none: places are numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draw: Option<Announced>,
    /// Whether fans who have not shown up lately are passed over until they come back.
    #[serde(default)]
    pub require_presence: bool,
    /// Where an admitted fan buys.
    pub shop_url: Option<String>,
    /// A line from the operator to everybody, by language.
    pub message: BTreeMap<String, String>,
}

/// Whether a room takes and calls fans. In no state does an admission end before its time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RoomState {
    /// Announced: joins are refused with the time that is left.
    Scheduled,
    /// Fans join; nobody is called yet.
    #[default]
    Early,
    /// Fans join and are called.
    Open,
    /// Fans join; the operator has stopped the calling.
    Paused,
    /// Every seat is sold: no joins, no calls. Only the operator's `open` leads out.
    SoldOut,
    /// The sale is over: no joins, no calls.
    Closed,
    /// Open, paused or early, but nobody is called until those in line before a loss had time to
    /// come back.
    Restoring,
    /// There is no room: gated routes pass without a ticket, joins are refused.
    Off,
}

/// Seats of a show, as the shop says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stock {
    /// Rises with each change; an older one changes nothing.
    pub version: u64,
    /// Seats that anybody may hold.
    pub free: u64,
    /// Seats set aside, in carts and in orders that are not confirmed.
    pub held: u64,
    /// Seats of confirmed orders.
    pub sold: u64,
    /// When this was true. The same version at a later time says that nothing has changed since.
    pub as_of: Timestamp,
}

/// One step of a mend. Every step but the first names the generation that the first began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mend {
    /// Marks the room as being mended, and empties it. Queue and ledger stay where they are of the
    /// edition and of the generation `mended`, the last whose mend was finished, as SQL has it:
    /// anything else that a room still holds is too old to count.
    Begin {
        edition: Edition,
        generation: Generation,
        mended: Generation,
    },
    /// What of the room still counts: SQL has the ledger's entries up to and including `through`,
    /// which may go, and asks for the next `max`.
    Copy {
        generation: Generation,
        through: u64,
        max: usize,
    },
    /// Where the ledger left these fans. At most `BATCH_MAX`.
    Fold {
        generation: Generation,
        folded: Vec<(FanId, Folded)>,
    },
    /// Writes the rest and lets the room answer again.
    Finish(Box<Finish>),
}

/// Where the ledger left a fan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Folded {
    /// Called and not yet claimed: slot until, place.
    Called { until: Timestamp, place: Place },
    /// Claimed: admission until, and the place from which the fan was called.
    Claimed { until: Timestamp, place: Place },
    /// Came back after the slot had lapsed.
    Returned { place: Place },
    /// Used, left or revoked.
    Ended(Ended),
}

/// What makes a mended room whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finish {
    pub generation: Generation,
    pub configure: Configure,
    /// The state that SQL last knew.
    pub state: RoomState,
    /// The highest `serving` in the ledger.
    pub serving: Place,
    /// The last number that is known to have been issued (found in the room, else the checkpoint).
    pub known: Number,
    /// The first number to issue is this one's successor: SQL's old ceiling.
    pub issued: Number,
    /// SQL's new ceiling.
    pub ceiling: Number,
    /// Room time as SQL last saw it. The mended room's goes on from there, whatever a new server's
    /// clock says.
    #[serde(default)]
    pub not_before: Timestamp,
    /// How long nobody is called, so that fans can come back first; 0 for a new room.
    pub restoring_ms: u64,
    /// What the shop last said, if it has.
    pub stock: Option<Stock>,
    /// The draw as SQL has it, once it is frozen there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draw: Option<Draw>,
}

impl Finish {
    /// The state in which the room was before its loss. Where that was `Restoring`, a second loss
    /// came while the first was being mended: then it is the verb's, or the hours lead on. A room
    /// that was told to open and is still early waits for its draw.
    pub fn state_before(&self) -> RoomState {
        let verb = self.configure.verb.map(|(_, state)| state);
        match (self.state, verb) {
            (RoomState::Restoring, verb) => verb.unwrap_or(RoomState::Scheduled),
            (RoomState::Early, Some(RoomState::Open)) => RoomState::Open,
            (known, _) => known,
        }
    }
}

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
