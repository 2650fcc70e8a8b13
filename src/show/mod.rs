//! What an operator decides, and what must survive the loss of a room: settings, verbs, edition,
//! generation, number ceiling, draw, checkpoint and ledger.

pub mod draw;
pub mod in_postgres;
pub mod in_sqlite;
pub mod revise;
pub mod settings;

mod draws_in_postgres;
mod draws_in_sqlite;
mod in_sql;
mod ledger_in_postgres;
mod ledger_in_sqlite;

use std::collections::BTreeMap;
use std::fmt::Debug;

use async_trait::async_trait;

use crate::base::ids::{Edition, Generation, Number, Place, ShowId};
use crate::base::time::Timestamp;
use crate::event::money::Currency;
use crate::show::draw::{Draw, DrawFact, Entered};
use crate::show::settings::Settings;

/// Shows in SQL. Every method is one transaction, and repeating it is harmless.
#[async_trait]
pub trait Store: Send + Sync + Debug {
    /// Every show, by id.
    async fn list(&self) -> Result<Vec<Show>, StoreError>;

    /// One show.
    async fn get(&self, show: &ShowId) -> Result<Option<Show>, StoreError>;

    /// The currency of each section in which there are seats, also of those that the settings no longer have:
    /// somebody has a seat there. None comes back by itself.
    async fn currencies(&self, show: &ShowId) -> Result<BTreeMap<String, Currency>, StoreError>;

    /// Creates a show (`expected` = `None`) or replaces its settings (`expected` = the version they
    /// were read at), together with its audit row.
    async fn put(
        &self,
        show: &ShowId,
        change: &Change,
        settings: &Settings,
        expected: Option<u64>,
    ) -> Result<Put, StoreError>;

    /// Writes an operator's verb and its audit row. `Ok(None)`: no such show. A cancelled show stays
    /// as it is.
    async fn verb(
        &self,
        show: &ShowId,
        change: &Change,
        verb: &str,
    ) -> Result<Option<Show>, StoreError>;

    /// Cancels a show, once and for good, together with its audit row: its room is closed, and later
    /// verbs change nothing. `Ok(None)`: no such show.
    async fn cancel(&self, show: &ShowId, change: &Change) -> Result<Option<Show>, StoreError>;

    /// Begins a mend: generation + 1 and a new ceiling, where generation and ceiling still are what
    /// was `seen`: the mended room issues the numbers between the two. `Ok(false)`: somebody else has
    /// begun a mend, or the ceiling was raised meanwhile.
    async fn begin_mend(&self, seen: &Show, ceiling: Number) -> Result<bool, StoreError>;

    /// Keeps what a mender has found, before it opens the room: from then on some server may be whole in
    /// this generation, whether or not anybody comes to say so. The first word of a generation stays.
    /// With the first life of a room begins the time up to which its ledger is copied.
    async fn keep_loss(&self, show: &ShowId, loss: &Loss) -> Result<Kept, StoreError>;

    /// A mend is finished; ignored where its generation is not the show's.
    async fn end_mend(&self, show: &ShowId, generation: Generation) -> Result<(), StoreError>;

    /// Raises the number ceiling of a room of this generation; it never falls. `Ok(false)`: the
    /// generation is no longer the show's. Its room was given up for lost, and the numbers above its
    /// ceiling are another room's.
    async fn raise_ceiling(
        &self,
        show: &ShowId,
        generation: Generation,
        ceiling: Number,
    ) -> Result<bool, StoreError>;

    /// Keeps what a room looked like, and that its ledger is copied up to then. Ignored where the generation is not the show's. A room that has a
    /// checkpoint is whole, so its generation counts as mended, too, should the mender have died before
    /// it could say so. The state is ignored where an operator's verb is newer than `verb_version`.
    async fn checkpoint(&self, show: &ShowId, checkpoint: &Checkpoint) -> Result<(), StoreError>;

    /// Copies ledger entries while the show's generation is `current`; those that are there already
    /// stay as they are. The entries are of that generation or, when its mender copies what a lost
    /// room still held, of the mended one. `Ok(false)`: they are not, or the generation is no longer
    /// `current`, and nothing was written.
    async fn append_ledger(
        &self,
        show: &ShowId,
        current: Generation,
        rows: &[LedgerRow],
    ) -> Result<bool, StoreError>;

    /// The ledger of an edition after (`generation`, `seq`), oldest first, at most `max` rows.
    async fn ledger(
        &self,
        show: &ShowId,
        edition: Edition,
        after: (Generation, u64),
        max: usize,
    ) -> Result<Vec<LedgerRow>, StoreError>;

    /// Keeps a fact of an edition's draw. The first word stays: whoever was second goes by that. With
    /// the seed the show's version rises, for the room is to be told what was revealed.
    async fn keep_draw(
        &self,
        show: &ShowId,
        edition: Edition,
        fact: DrawFact,
    ) -> Result<(), StoreError>;

    /// Keeps the value of the beacon that the show's draw waits for, and its audit row, where
    /// [`draw::enter`] lets it. `Ok(None)`: no such show.
    async fn enter_beacon(
        &self,
        show: &ShowId,
        change: &Change,
        value: &str,
    ) -> Result<Option<Entered>, StoreError>;

    /// Writes an audit row for an act that changes no show.
    async fn audit(&self, change: &Change) -> Result<(), StoreError>;

    /// Writes something that changes nothing, to learn whether writing is possible at all.
    async fn try_write(&self) -> Result<(), StoreError>;
}

/// An operator's act: who does what, for the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The name of the operator's token.
    pub who: String,
    /// Their role: `viewer`, `operator`, `admin`.
    pub role: String,
    /// The act, as in the command line: `create`, `set`, `open`…
    pub action: String,
    /// What was asked, JSON.
    pub detail: String,
    /// When.
    pub at: Timestamp,
}

/// A show as SQL has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Show {
    /// The show.
    pub id: ShowId,
    /// Rises with every act of an operator.
    pub version: u64,
    /// What the operator decided.
    pub settings: Settings,
    /// The last state an operator asked for, and the version at which they did.
    pub verb: Option<(u64, String)>,
    /// When an operator cancelled the show.
    pub cancelled_at: Option<Timestamp>,
    /// The room's state at the last checkpoint, or the verb where that is newer.
    pub state: String,
    /// The edition of the room.
    pub edition: Edition,
    /// The generation of the room's data.
    pub generation: Generation,
    /// The last generation whose mend was finished.
    pub mended: Generation,
    /// The highest number the room may issue.
    pub ceiling: Number,
    /// The draw of the edition; none where it has not been sealed, or the show has none.
    pub draw: Option<Draw>,
    /// The last checkpoint's last number.
    pub issued: Number,
    /// The last checkpoint's serving.
    pub serving: Place,
    /// The last checkpoint's fans in line.
    pub waiting: u64,
    /// The last checkpoint's room time, up to which the ledger is copied; before the first, when the
    /// room was born, and before that, when the show was created.
    pub checkpoint_at: Timestamp,
}

/// The answer to a `put`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    /// It was created.
    Created(Box<Show>),
    /// It was changed.
    Changed(Box<Show>),
    /// It is not at the expected version (or exists, or does not exist).
    Mismatch(Option<u64>),
}

/// What the leading admitter keeps of a room, once a second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The room's generation.
    pub generation: Generation,
    /// The room's state.
    pub state: String,
    /// The version of the last verb that the room has applied; 0 = none.
    pub verb_version: u64,
    /// The last number issued.
    pub issued: Number,
    /// Serving.
    pub serving: Place,
    /// Fans in line.
    pub waiting: u64,
    /// Room time.
    pub at: Timestamp,
}

/// What a mender has found out about the room that was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// The edition of the room.
    pub edition: Edition,
    /// The generation that the mend began.
    pub generation: Generation,
    /// It had been lost by then, by the time of the room that follows.
    pub found_at: Timestamp,
}

/// Which life of a room a mender is about to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The first: no server was ever opened, so nothing was lost.
    First,
    /// Another: one was, or may have been.
    Later,
    /// None: another mend has begun, and this one must not go on.
    Overtaken,
}

/// One copied ledger entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerRow {
    /// The edition of the room.
    pub edition: Edition,
    /// The generation that wrote it.
    pub generation: Generation,
    /// 1, 2, 3… within the generation.
    pub seq: u64,
    /// Room time.
    pub at: Timestamp,
    /// The fencing token of the tick, or of the leader at that time.
    pub token: u64,
    /// Serving after the change.
    pub serving: Place,
    /// `called`, `claimed`, `extended`, `returned` or `ended`.
    pub kind: String,
    /// The facts of the change, JSON.
    pub body: String,
}

/// Why the show store could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is away or too slow. Ask again.
    #[error("show store unavailable")]
    Unavailable(#[source] anyhow::Error),
    /// A row holds something that no build of ours writes.
    #[error("show store holds foreign data")]
    Corrupt(#[source] anyhow::Error),
}
