//! Everything that a room keeps, laid open: what a store that does not keep the room's own state is
//! compared with.

use crate::base::ids::{Edition, FanId, FencingToken, Generation, Number, Place};
use crate::base::time::Timestamp;
use crate::room::model::command::{Draw, Gap, LedgerEntry, Measured, RoomState, Settings, Stock};
use crate::room::model::state::Fence;
use crate::room::model::{Standing, State};

/// A room's whole state, in plain values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The mend under way, if there is one.
    pub mending: Option<(Edition, Generation)>,
    /// How far the store's clock has fallen behind room time, in milliseconds.
    pub offset_ms: u64,
    /// Room time at the last command.
    pub last: Timestamp,
    pub edition: Edition,
    pub generation: Generation,
    /// The last number issued.
    pub issued: Number,
    pub ceiling: Number,
    pub serving: Place,
    pub gaps: Vec<Gap>,
    /// Every fan, in the order of their ids.
    pub fans: Vec<(FanId, Standing)>,
    /// Who showed up and when, in the order of their ids.
    pub seen: Vec<(FanId, Timestamp)>,
    pub draw: Option<Draw>,
    /// Opening waits for the draw.
    pub opening: bool,
    pub open_since: Option<Timestamp>,
    pub version: u64,
    pub settings: Settings,
    pub state: RoomState,
    /// The state that follows `Restoring`.
    pub state_after: RoomState,
    pub restoring_until: Option<Timestamp>,
    pub verb_version: u64,
    pub verb_at: Option<Timestamp>,
    pub stock: Option<Stock>,
    /// The version of the stock that the operator overruled.
    pub overruled_stock: Option<u64>,
    pub sold_out_at: Option<Timestamp>,
    pub holder: String,
    pub lease_until: Timestamp,
    pub token: FencingToken,
    pub measured: Measured,
    /// Stamps and calls, oldest first; `u64::MAX` where the window was burned.
    pub quota: Vec<(Timestamp, u64)>,
    pub ledger: Vec<LedgerEntry>,
    /// The number of the last entry, trimmed or not.
    pub ledger_seq: u64,
}

impl State {
    /// Everything that the room keeps. Looks at every fan.
    pub fn facts(&self) -> Facts {
        Facts {
            mending: match self.fence {
                Fence::Mending {
                    edition,
                    generation,
                } => Some((edition, generation)),
                Fence::Missing | Fence::Whole => None,
            },
            offset_ms: self.clock.offset_ms,
            last: self.clock.last,
            edition: self.edition,
            generation: self.generation,
            issued: self.seq,
            ceiling: self.ceiling,
            serving: self.serving,
            gaps: self.gaps.clone(),
            fans: self.fans().collect(),
            seen: self.seen.fans().collect(),
            draw: self.draw,
            opening: self.opening,
            open_since: self.open_since,
            version: self.version,
            settings: self.settings.clone(),
            state: self.state,
            state_after: self.state_after,
            restoring_until: self.restoring_until,
            verb_version: self.verb_version,
            verb_at: self.verb_at,
            stock: self.stock,
            overruled_stock: self.overruled_stock,
            sold_out_at: self.sold_out_at,
            holder: self.lease.holder.clone(),
            lease_until: self.lease.until,
            token: self.lease.token,
            measured: self.measured,
            quota: self.quota.calls().collect(),
            ledger: self.ledger.entries().cloned().collect(),
            ledger_seq: self.ledger.last(),
        }
    }
}
