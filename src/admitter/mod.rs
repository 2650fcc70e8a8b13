//! Lets people in: ticks every show it leads, and keeps SQL and the rooms in step.
//!
//! Any number of admitters may run. The room's lease decides who leads a show, and the quota inside
//! the room decides how many are called, so two admitters that both believe they lead do no harm.
//! The loop is a step and a rhythm: `step.rs` visits the shows that are due; here is how long to
//! rest. `archive.rs` writes to SQL beside it. Nothing is remembered that a successor would need.

mod archive;
pub mod ask;
mod draw;
pub mod ledger;
pub mod mend;
pub mod pace;
mod patience;
pub mod settings;
pub mod step;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admitter::archive::{Archive, Leading};
use crate::admitter::mend::MendError;
use crate::admitter::step::Led;
use crate::base::ids::{IdSource, ShowId};
use crate::base::time::Clock;
use crate::room::{Rooms, StoreError as RoomError};
use crate::show::{Show, Store, StoreError as ShowError};

/// How often the list of shows is read from SQL, and how long an admitter rests at most.
const LIST_EVERY: Duration = Duration::from_secs(1);

/// One admitter.
#[derive(Debug)]
pub struct Admitter {
    rooms: Rooms,
    shows: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    holder: String,
    /// The secrets of draws.
    ids: IdSource,
    split_brain_ms: u64,
    nudge: Arc<Notify>,
    listed_at: Option<Instant>,
    list: Vec<Show>,
    led: BTreeMap<ShowId, Led>,
    leading: Leading,
    archive: Archive,
}

/// Why a visit ended early.
#[derive(Debug, thiserror::Error)]
enum VisitError {
    #[error(transparent)]
    Room(#[from] RoomError),
    #[error(transparent)]
    Show(#[from] ShowError),
    #[error(transparent)]
    Mend(#[from] MendError),
    /// SQL knows of a later life of the room than the one that answered.
    #[error("the room's data is of an older life than SQL's")]
    Replaced,
}

impl Admitter {
    /// An admitter that goes by the name of `holder`, which must be unique to the process.
    pub fn new(
        rooms: Rooms,
        shows: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        holder: String,
        nudge: Arc<Notify>,
    ) -> Self {
        let leading = Leading::default();
        let archive = Archive::new(rooms.clone(), Arc::clone(&shows), leading.clone());
        Self {
            rooms,
            shows,
            clock,
            holder,
            ids: IdSource::random(),
            split_brain_ms: 0,
            nudge,
            listed_at: None,
            list: Vec::new(),
            led: BTreeMap::new(),
            leading,
            archive,
        }
    }

    /// The same, where a primary that was cut off may go on calling for so long beside its successor:
    /// a mended room calls nobody before.
    #[must_use]
    pub const fn beside_another_for(mut self, split_brain_ms: u64) -> Self {
        self.split_brain_ms = split_brain_ms;
        self
    }

    /// Ticks until it is stopped. A nudge (an operator changed something) ends the rest early.
    ///
    /// # Errors
    /// None: what fails is logged and tried again.
    pub async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut beside = self.archive.clone();
        tokio::join!(self.tick_until(&stop), beside.run(stop.clone()));
        self.finish().await;
        Ok(())
    }

    async fn tick_until(&mut self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let pause = self.visit_all().await;
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.nudge.notified() => self.listed_at = None,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Visits every show that is due and writes to SQL what is; says how long to rest. Each part may
    /// run twice: the room's quota, the versions and the generations in SQL bound what it does.
    pub async fn step(&mut self) -> Duration {
        let pause = self.visit_all().await;
        self.archive.step().await;
        pause
    }

    async fn visit_all(&mut self) -> Duration {
        let now = Instant::now();
        if self.listed_at.is_none_or(|at| LIST_EVERY <= now - at) {
            self.read_list(now).await;
        }
        let list = std::mem::take(&mut self.list);
        for show in &list {
            let mut led = self.led.remove(&show.id).unwrap_or_else(|| Led::new(now));
            if led.is_due(now, show) {
                self.visit(show, &mut led).await;
            }
            self.led.insert(show.id.clone(), led);
        }
        self.list = list;
        let now = Instant::now();
        let next = self.led.values().map(Led::due_at).min();
        next.map_or(LIST_EVERY, |at| at.saturating_duration_since(now))
            .min(LIST_EVERY)
    }

    async fn read_list(&mut self, now: Instant) {
        match self.shows.list().await {
            Ok(list) => {
                self.led
                    .retain(|id, _| list.iter().any(|show| show.id == *id));
                self.list = list;
            }
            Err(error) => tracing::warn!("cannot list shows: {:#}", anyhow::Error::from(error)),
        }
        self.listed_at = Some(now);
    }

    /// Copies what the ledgers still hold and resigns, so that a stopped process leaves nothing
    /// uncopied and nobody waits for its leases to run out.
    async fn finish(&mut self) {
        let list = std::mem::take(&mut self.list);
        for show in &list {
            if self.led.remove(&show.id).is_some_and(|led| led.leads()) {
                self.resign(show).await;
            }
        }
    }
}
