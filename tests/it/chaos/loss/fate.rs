//! Stores behind which a mender dies, sleeps, or finds SQL away.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use catraca::base::ids::{Edition, Generation, Number, ShowId};
use catraca::event::money::Currency;
use catraca::room::model::command::{Command, Outcome};
use catraca::room::{self, StoreError as RoomError};
use catraca::show::draw::{DrawFact, Entered};
use catraca::show::settings::Settings;
use catraca::show::{Change, Checkpoint, Kept, LedgerRow, Loss, Put, Show, Store, StoreError};
use tokio::sync::Notify;

/// What becomes of a mender: after so many steps of a mend it takes no other.
#[derive(Debug)]
pub(crate) struct Fate {
    steps_left: AtomicUsize,
    /// Where it sleeps instead of dying: for so long.
    sleeps: Option<Duration>,
    pub(crate) has_come: Notify,
}

impl Fate {
    pub(crate) fn dies_after(steps: usize) -> Arc<Self> {
        Self::new(steps, None)
    }

    pub(crate) fn sleeps_after(steps: usize, sleeps: Duration) -> Arc<Self> {
        Self::new(steps, Some(sleeps))
    }

    fn new(steps: usize, sleeps: Option<Duration>) -> Arc<Self> {
        let steps_left = AtomicUsize::new(steps);
        let has_come = Notify::new();
        Arc::new(Self {
            steps_left,
            sleeps,
            has_come,
        })
    }

    async fn step(&self) {
        let left = self.steps_left.load(Ordering::SeqCst);
        if 0 < left {
            self.steps_left.store(left - 1, Ordering::SeqCst);
            return;
        }
        self.has_come.notify_one();
        match self.sleeps {
            // Whoever waits here is aborted.
            None => std::future::pending().await,
            Some(sleeps) => {
                self.steps_left.store(usize::MAX, Ordering::SeqCst);
                tokio::time::sleep(sleeps).await;
            }
        }
    }
}

/// Rooms, as somebody with this fate reaches them.
#[derive(Debug)]
pub(crate) struct FatedRooms {
    pub(crate) inner: Arc<dyn room::Store>,
    pub(crate) fate: Arc<Fate>,
}

#[async_trait]
impl room::Store for FatedRooms {
    async fn apply(&self, show: &ShowId, command: &Command) -> Result<Outcome, RoomError> {
        if matches!(command, Command::Mend(_)) {
            self.fate.step().await;
        }
        self.inner.apply(show, command).await
    }

    async fn shows(&self) -> Result<Vec<ShowId>, RoomError> {
        self.inner.shows().await
    }
}

/// SQL, which may be away.
#[derive(Debug)]
pub(crate) struct Sql {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) is_away: Arc<AtomicBool>,
    pub(crate) fate: Option<Arc<Fate>>,
}

impl Sql {
    fn there(&self) -> Result<&dyn Store, StoreError> {
        if self.is_away.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable(anyhow::anyhow!("stopped")));
        }
        Ok(&*self.inner)
    }

    async fn step(&self) {
        if let Some(fate) = &self.fate {
            fate.step().await;
        }
    }
}

#[async_trait]
impl Store for Sql {
    async fn list(&self) -> Result<Vec<Show>, StoreError> {
        self.there()?.list().await
    }

    async fn get(&self, show: &ShowId) -> Result<Option<Show>, StoreError> {
        self.there()?.get(show).await
    }

    async fn currencies(&self, show: &ShowId) -> Result<BTreeMap<String, Currency>, StoreError> {
        self.there()?.currencies(show).await
    }

    async fn put(
        &self,
        show: &ShowId,
        change: &Change,
        settings: &Settings,
        expected: Option<u64>,
    ) -> Result<Put, StoreError> {
        self.there()?.put(show, change, settings, expected).await
    }

    async fn verb(
        &self,
        show: &ShowId,
        change: &Change,
        verb: &str,
    ) -> Result<Option<Show>, StoreError> {
        self.there()?.verb(show, change, verb).await
    }

    async fn cancel(&self, show: &ShowId, change: &Change) -> Result<Option<Show>, StoreError> {
        self.there()?.cancel(show, change).await
    }

    async fn begin_mend(&self, seen: &Show, ceiling: Number) -> Result<bool, StoreError> {
        self.step().await;
        self.there()?.begin_mend(seen, ceiling).await
    }

    async fn keep_loss(&self, show: &ShowId, loss: &Loss) -> Result<Kept, StoreError> {
        self.step().await;
        self.there()?.keep_loss(show, loss).await
    }

    async fn end_mend(&self, show: &ShowId, generation: Generation) -> Result<(), StoreError> {
        self.step().await;
        self.there()?.end_mend(show, generation).await
    }

    async fn raise_ceiling(
        &self,
        show: &ShowId,
        generation: Generation,
        ceiling: Number,
    ) -> Result<bool, StoreError> {
        self.there()?.raise_ceiling(show, generation, ceiling).await
    }

    async fn checkpoint(&self, show: &ShowId, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        self.there()?.checkpoint(show, checkpoint).await
    }

    async fn append_ledger(
        &self,
        show: &ShowId,
        current: Generation,
        rows: &[LedgerRow],
    ) -> Result<bool, StoreError> {
        if rows.iter().any(|row| row.generation != current) {
            self.step().await;
        }
        self.there()?.append_ledger(show, current, rows).await
    }

    async fn ledger(
        &self,
        show: &ShowId,
        edition: Edition,
        after: (Generation, u64),
        max: usize,
    ) -> Result<Vec<LedgerRow>, StoreError> {
        self.step().await;
        self.there()?.ledger(show, edition, after, max).await
    }

    async fn keep_draw(
        &self,
        show: &ShowId,
        edition: Edition,
        fact: DrawFact,
    ) -> Result<(), StoreError> {
        self.there()?.keep_draw(show, edition, fact).await
    }

    async fn enter_beacon(
        &self,
        show: &ShowId,
        change: &Change,
        value: &str,
    ) -> Result<Option<Entered>, StoreError> {
        self.there()?.enter_beacon(show, change, value).await
    }

    async fn audit(&self, change: &Change) -> Result<(), StoreError> {
        self.there()?.audit(change).await
    }

    async fn try_write(&self) -> Result<(), StoreError> {
        self.there()?.try_write().await
    }
}
