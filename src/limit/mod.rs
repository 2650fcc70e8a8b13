//! How often somebody may ask: the port, the rules and who a rule counts.

pub mod gcra;
pub mod in_memory;
pub mod joins_in_memory;
pub mod joins_in_redis;
pub mod prefix;
pub mod settings;
pub mod tally;

use std::fmt::Debug;

use async_trait::async_trait;

use crate::base::ids::{FanId, ShowId, TicketId};
use crate::limit::gcra::Entry;
use crate::limit::prefix::{Prefix, Prefixes};
use crate::limit::tally::Counted;

pub use crate::limit::settings::{Limit, Settings};

/// Who asks for what, but for joins. One count each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asking {
    /// Anything, from a client's narrowest prefix.
    Anything(Prefix),
    /// Anything of their own: place, status, leaving.
    Fan(FanId),
    /// Something behind the gate, with this ticket.
    Gated(TicketId),
}

impl Asking {
    /// The limit's name, in settings, headers and metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Anything(_) => "anything",
            Self::Fan(_) => "fan",
            Self::Gated(_) => "gated",
        }
    }
}

/// What a limit says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Pass,
    /// Too often: ask again after so many seconds, at least one.
    TooMany {
        /// Seconds, rounded up.
        retry_after_s: u64,
    },
}

/// Counts who asks for what, in this process.
pub trait Limiter: Send + Sync + Debug {
    /// Counts one request and says whether it is one too many. A refused one is not counted.
    fn ask(&self, asking: Asking) -> Verdict;

    /// What counts for those who ask for this.
    fn limit(&self, asking: Asking) -> Limit;
}

/// Somebody who wants a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joiner {
    /// Where they come from.
    pub from: Prefixes,
    /// What they show for themselves.
    pub shows: Showing,
}

/// What a join shows, and which one it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Showing {
    /// Nothing.
    Nothing,
    /// A proof that is verified only where the limits leave room for it: verifying costs.
    Claim,
    /// That it has waited, already verified.
    Wait(Proof),
    /// The answer to a challenge, already verified.
    Proof(Proof),
}

impl Showing {
    /// What counts once of it.
    pub fn once(self) -> Option<Proof> {
        match self {
            Self::Nothing | Self::Claim => None,
            Self::Wait(proof) | Self::Proof(proof) => Some(proof),
        }
    }
}

/// A wait or an answer that counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// Which one it is.
    pub id: [u8; 16],
    /// How long it must be remembered: until it would not be accepted any more.
    pub ttl_ms: u64,
}

/// Counts joins, across gateways where these share a store.
#[async_trait]
pub trait Joins: Send + Sync + Debug {
    /// Counts one join of a show, and says what becomes of it; spends what it shows if it passes. It
    /// always answers: where the store is away, this process counts by itself. A claim is told the
    /// limits, or [`Entry::Prove`], and is not counted.
    async fn ask(&self, show: &ShowId, joiner: Joiner) -> Entry;

    /// How many passed in the minutes that are over and were not forgotten, by network, the oldest minute
    /// first. Those that one process counted by itself are not among them.
    async fn closed(&self, show: &ShowId) -> Result<Vec<Counted>, Silence>;

    /// Lets go of a minute. Where that was said before, nothing changes.
    async fn forget(&self, show: &ShowId, counted: &Counted) -> Result<(), Silence>;
}

/// Whoever counts joins does not say how many there were. Ask again.
#[derive(Debug, thiserror::Error)]
#[error("joins cannot be told")]
pub struct Silence(#[source] pub anyhow::Error);

/// A wait in seconds, rounded up; at least one.
pub fn seconds_of(wait_us: u64) -> u64 {
    wait_us.div_ceil(1_000_000).max(1)
}
