//! Who is next: the port to the shared state of waiting rooms, and the typed way to use it.
//!
//! `model/` is the definition of a room. `in_memory.rs` is that definition behind a lock, with a
//! journal. `batch.rs` gathers what many requests ask at once into one command. `draw.rs` gives
//! numbers their places where a show draws; `position.rs` and `estimate.rs` turn a board and a place
//! into a position and an ETA, without asking the room at all. `fold.rs` reads a ledger back into
//! standings, for a mend.

pub mod draw;
pub mod estimate;
pub mod fold;
pub mod in_memory;
pub mod in_redis;
pub mod keys;
pub mod model;
pub mod position;
pub mod quota;

mod batch;

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use crate::base::ids::{FanId, Number, ShowId};
use crate::base::limits::BATCHED_SHOWS_MAX;
use crate::base::outage::Outage;
use crate::base::time::Timestamp;
use crate::batch::Batch;
use crate::room::batch::{Checking, Claiming, Touching};
use crate::room::draw::Seed;
use crate::room::model::command::{
    AfterRevoke, Board, Checked, Claimed, Command, Configure, Configured, Consumed, DrawOpened,
    Extended, Frozen, Joined, Joining, LedgerEntry, Left, Mend, Mended, Outcome, Restored,
    Restoring, Revoked, Stock, Tick, Ticked, Touched,
};

/// The shared state of waiting rooms.
#[async_trait]
pub trait Store: Send + Sync + Debug {
    /// Applies one command to one show's room, atomically, at the store's own time. What was
    /// answered survives the death of the process. Repeating a command is harmless.
    ///
    /// # Errors
    /// See [`StoreError`].
    async fn apply(&self, show: &ShowId, command: &Command) -> Result<Outcome, StoreError>;

    /// The shows that have a room, in order.
    ///
    /// # Errors
    /// See [`StoreError`].
    async fn shows(&self) -> Result<Vec<ShowId>, StoreError>;

    /// How long a server of the store that was cut off and replaced may go on, in milliseconds: a
    /// mended room calls nobody before. 0 where nothing can take its place.
    fn split_brain_ms(&self) -> u64 {
        0
    }
}

/// Why a room could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The room's data is missing or being mended. Ask again in a second.
    #[error("room is not fenced")]
    Unfenced,
    /// More fans ask at once than the next batch can take. Ask again in a second.
    #[error("room batch queue is full")]
    Overloaded,
    /// The store is away or too slow; the command may or may not have been applied. Ask again.
    #[error("room store unavailable")]
    Unavailable(#[source] Away),
    /// The store answered something that no build of ours writes.
    #[error("room store holds foreign data")]
    Corrupt(#[source] anyhow::Error),
}

impl StoreError {
    /// The word for clients.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Unfenced => "mending",
            Self::Overloaded => "busy",
            Self::Unavailable(away) => away.outage.word(),
            Self::Corrupt(_) => "corrupt",
        }
    }

    /// The store has no memory for anybody new.
    pub(crate) fn out_of_memory() -> Self {
        Self::Unavailable(Away {
            outage: Outage::OutOfMemory,
            failure: anyhow::anyhow!("no memory for anybody new"),
        })
    }
}

/// What keeps a store, and what shows it. As an error it reads like the failure itself.
#[derive(Debug)]
pub struct Away {
    /// The word for clients, operators and metrics.
    pub outage: Outage,
    /// The failure, for the log.
    pub failure: anyhow::Error,
}

impl fmt::Display for Away {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.failure, f)
    }
}

impl std::error::Error for Away {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.failure.source()
    }
}

impl From<anyhow::Error> for Away {
    fn from(failure: anyhow::Error) -> Self {
        let outage = Outage::Away;
        Self { outage, failure }
    }
}

/// An outcome that does not answer its command.
fn foreign() -> StoreError {
    StoreError::Corrupt(anyhow::anyhow!("the outcome is not of the command's kind"))
}

/// How the rest of the crate talks to rooms. Clones share their batches: give every part of a
/// process a clone of the same one.
#[derive(Clone)]
pub struct Rooms {
    store: Arc<dyn Store>,
    batches: Arc<Mutex<BTreeMap<ShowId, Arc<Batches>>>>,
}

/// The five questions that many fans of a show ask at once.
#[derive(Default)]
struct Batches {
    join: Arc<Batch<Joining>>,
    claim: Arc<Batch<Claiming>>,
    check: Arc<Batch<Checking>>,
    restore: Arc<Batch<Restoring>>,
    touch: Arc<Batch<Touching>>,
}

impl Debug for Rooms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rooms")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

/// Every method answers what the command of its name answers (`model/command.rs`), and fails as
/// [`StoreError`] says.
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
impl Rooms {
    /// Rooms in this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            batches: Arc::default(),
        }
    }

    /// A fan asks for a number. Batched.
    pub async fn join(&self, show: &ShowId, joining: Joining) -> Result<Joined, StoreError> {
        let batches = self.batches(show);
        batch::ask(&batches.join, joining, |command| self.send(show, command)).await
    }

    /// A called fan shows up, or asks how they stand. Batched.
    pub async fn claim(&self, show: &ShowId, fan: FanId) -> Result<Claimed, StoreError> {
        let batches = self.batches(show);
        batch::ask(&batches.claim, Claiming(fan), |command| {
            self.send(show, command)
        })
        .await
    }

    /// Whether a fan has a live, claimed admission. Batched.
    pub async fn check(&self, show: &ShowId, fan: FanId) -> Result<Checked, StoreError> {
        let batches = self.batches(show);
        batch::ask(&batches.check, Checking(fan), |command| {
            self.send(show, command)
        })
        .await
    }

    /// A fan whom the room does not know shows a pass. Batched.
    pub async fn restore(
        &self,
        show: &ShowId,
        restoring: Restoring,
    ) -> Result<Restored, StoreError> {
        let batches = self.batches(show);
        batch::ask(&batches.restore, restoring, |command| {
            self.send(show, command)
        })
        .await
    }

    /// With presence: a fan near their turn shows that they are there. Batched.
    pub async fn touch(&self, show: &ShowId, fan: FanId) -> Result<Touched, StoreError> {
        let batches = self.batches(show);
        batch::ask(&batches.touch, Touching(fan), |command| {
            self.send(show, command)
        })
        .await
    }

    /// The draw is due: settles who takes part.
    pub async fn freeze(&self, show: &ShowId) -> Result<Frozen, StoreError> {
        let Outcome::Frozen(frozen) = self.send(show, Command::Freeze).await? else {
            return Err(foreign());
        };
        Ok(frozen)
    }

    /// Opens the draw, and with it the room. SQL must have size and seed first.
    pub async fn open_draw(
        &self,
        show: &ShowId,
        size: u64,
        seed: Seed,
    ) -> Result<DrawOpened, StoreError> {
        let command = Command::OpenDraw { size, seed };
        let Outcome::DrawOpened(opened) = self.send(show, command).await? else {
            return Err(foreign());
        };
        Ok(opened)
    }

    /// An admitter asks to call the next fans.
    pub async fn tick(&self, show: &ShowId, tick: Tick) -> Result<Ticked, StoreError> {
        let Outcome::Ticked(ticked) = self.send(show, Command::Tick(tick)).await? else {
            return Err(foreign());
        };
        Ok(ticked)
    }

    /// Prolongs an admission.
    pub async fn extend(
        &self,
        show: &ShowId,
        fan: FanId,
        until: Timestamp,
    ) -> Result<Extended, StoreError> {
        let Outcome::Extended(extended) = self.send(show, Command::Extend { fan, until }).await?
        else {
            return Err(foreign());
        };
        Ok(extended)
    }

    /// The admission was used.
    pub async fn consume(&self, show: &ShowId, fan: FanId) -> Result<Consumed, StoreError> {
        let Outcome::Consumed(consumed) = self.send(show, Command::Consume { fan }).await? else {
            return Err(foreign());
        };
        Ok(consumed)
    }

    /// The fan gives up place or admission.
    pub async fn leave(&self, show: &ShowId, fan: FanId) -> Result<Left, StoreError> {
        let Outcome::Left(left) = self.send(show, Command::Leave { fan }).await? else {
            return Err(foreign());
        };
        Ok(left)
    }

    /// The operator ends the admissions of these fans; at most `BATCH_MAX` at once.
    pub async fn revoke(
        &self,
        show: &ShowId,
        fans: Vec<FanId>,
        then: AfterRevoke,
    ) -> Result<Vec<Revoked>, StoreError> {
        let Outcome::Revoked(revoked) = self.send(show, Command::Revoke { fans, then }).await?
        else {
            return Err(foreign());
        };
        Ok(revoked)
    }

    /// Puts the operator's settings and verb in force.
    pub async fn configure(
        &self,
        show: &ShowId,
        configure: Configure,
    ) -> Result<Configured, StoreError> {
        let Outcome::Configured(configured) =
            self.send(show, Command::Configure(configure)).await?
        else {
            return Err(foreign());
        };
        Ok(configured)
    }

    /// Tells the room what the shop has left.
    pub async fn stock(&self, show: &ShowId, stock: Stock) -> Result<(), StoreError> {
        let Outcome::Done = self.send(show, Command::Stock(stock)).await? else {
            return Err(foreign());
        };
        Ok(())
    }

    /// Raises the highest number that may be issued. SQL must have it first.
    pub async fn raise_ceiling(&self, show: &ShowId, ceiling: Number) -> Result<(), StoreError> {
        let Outcome::Done = self.send(show, Command::RaiseCeiling { ceiling }).await? else {
            return Err(foreign());
        };
        Ok(())
    }

    /// Takes one step of rebuilding a room.
    pub async fn mend(&self, show: &ShowId, step: Mend) -> Result<Mended, StoreError> {
        let Outcome::Mended(mended) = self.send(show, Command::Mend(step)).await? else {
            return Err(foreign());
        };
        Ok(mended)
    }

    /// The public snapshot of a room.
    pub async fn board(&self, show: &ShowId) -> Result<Board, StoreError> {
        let Outcome::Board(board) = self.send(show, Command::Board).await? else {
            return Err(foreign());
        };
        Ok(*board)
    }

    /// The oldest ledger entries that are not yet trimmed.
    pub async fn ledger(&self, show: &ShowId, max: usize) -> Result<Vec<LedgerEntry>, StoreError> {
        let Outcome::Ledger(entries) = self.send(show, Command::Ledger { max }).await? else {
            return Err(foreign());
        };
        Ok(entries)
    }

    /// Lets go of the ledger entries up to and including this one.
    pub async fn trim(&self, show: &ShowId, through: u64) -> Result<(), StoreError> {
        let Outcome::Done = self.send(show, Command::Trim { through }).await? else {
            return Err(foreign());
        };
        Ok(())
    }

    /// The shows that have a room, in order.
    pub async fn shows(&self) -> Result<Vec<ShowId>, StoreError> {
        self.store.shows().await
    }

    /// Whether every room can be asked and written just now. A room that is being mended is no
    /// reason to send fans elsewhere: there, too, it is being mended.
    pub async fn ready(&self) -> Result<(), StoreError> {
        for show in self.shows().await? {
            match self.board(&show).await {
                Err(error @ StoreError::Unavailable(_)) => return Err(error),
                Ok(_)
                | Err(StoreError::Unfenced | StoreError::Overloaded | StoreError::Corrupt(_)) => {}
            }
        }
        Ok(())
    }

    /// How long, after a primary of the store was replaced, another may go on beside it.
    pub fn split_brain_ms(&self) -> u64 {
        self.store.split_brain_ms()
    }

    async fn send(&self, show: &ShowId, command: Command) -> Result<Outcome, StoreError> {
        match self.store.apply(show, &command).await? {
            Outcome::Unfenced => Err(StoreError::Unfenced),
            outcome => Ok(outcome),
        }
    }

    fn batches(&self, show: &ShowId) -> Arc<Batches> {
        // Nothing panics under this lock; if it did, the map would still be whole.
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = batches.get(show) {
            return Arc::clone(known);
        }
        if BATCHED_SHOWS_MAX <= batches.len() {
            // Whoever asks holds a clone, so what nobody else holds is idle.
            batches.retain(|_, idle| 1 < Arc::strong_count(idle));
        }
        Arc::clone(batches.entry(show.clone()).or_default())
    }
}
