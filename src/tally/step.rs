//! The loop that tells how many joined.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::base::ids::{IdSource, ShowId};
use crate::base::limits::{JOINS_TOLD_MAX, TALLY_EVERY_MS};
use crate::base::time::Clock;
use crate::event::{JoinsCounted, NetworkJoins};
use crate::limit::tally::{Counted, MINUTE_MS};
use crate::limit::{Joins, Silence};
use crate::show;
use crate::tally::store::{Said, Store, StoreError, Told};
use crate::telemetry::metrics;

/// What the loop works with.
#[derive(Debug)]
pub struct Tallier {
    /// Which shows there are.
    pub shows: Arc<dyn show::Store>,
    /// Who counts joins.
    pub joins: Arc<dyn Joins>,
    /// What was told of them.
    pub store: Arc<dyn Store>,
    /// For the ids of events.
    pub clock: Arc<dyn Clock>,
    /// See `clock`.
    pub ids: Arc<IdSource>,
}

/// Why a step ended early.
#[derive(Debug, thiserror::Error)]
pub enum TallyError {
    /// The shows are not to be had.
    #[error(transparent)]
    Shows(#[from] show::StoreError),
    /// The counts are not to be had.
    #[error(transparent)]
    Joins(#[from] Silence),
    /// Nothing can be told.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Tallier {
    /// Tells every minute that is over, of every show, and answers how many events that made. Running it twice
    /// is harmless: a minute is told once, and then let go of.
    ///
    /// # Errors
    /// [`TallyError`], the last where several shows had one; what was not told stays counted.
    pub async fn step(&self) -> Result<u64, TallyError> {
        let (mut told, mut failure) = (0, None);
        for show in self.shows.list().await? {
            match self.tell(&show.id).await {
                Ok(events) => told += events,
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(told), Err)
    }

    /// The same of one show.
    ///
    /// # Errors
    /// As [`Tallier::step`].
    pub async fn tell(&self, show: &ShowId) -> Result<u64, TallyError> {
        let mut told = 0;
        for counted in self.joins.closed(show).await? {
            let said = Said {
                id: self.ids.event(self.clock.now()),
                at: counted.minute.plus_ms(MINUTE_MS),
                counted: said(show, &counted),
            };
            let joins = said.counted.joins;
            match self.store.tell(&said).await? {
                Told::Now => {
                    metrics::joins_told("told", joins);
                    told += 1;
                }
                Told::Before => {}
                Told::Overtaken => {
                    metrics::joins_told("overtaken", joins);
                    tracing::warn!(
                        show.id = %show,
                        joins,
                        "joins are in no event: a later minute was told before, so the clock of the room's store \
                         has gone back"
                    );
                }
            }
            self.joins.forget(show, &counted).await?;
        }
        Ok(told)
    }

    /// Steps until asked to stop, and wakes the relay when there is something to send.
    ///
    /// # Errors
    /// None at present: a failed step is logged and repeated.
    pub async fn run(self, relay: Arc<Notify>, stop: CancellationToken) -> anyhow::Result<()> {
        while !stop.is_cancelled() {
            match self.step().await {
                Ok(0) => {}
                Ok(_) => relay.notify_one(),
                Err(error) => {
                    let error = anyhow::Error::from(error);
                    tracing::warn!("joins are told later: {error:#}");
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = sleep(Duration::from_millis(TALLY_EVERY_MS)) => {}
            }
        }
        Ok(())
    }
}

fn said(show: &ShowId, counted: &Counted) -> JoinsCounted {
    let most = counted.most(JOINS_TOLD_MAX).into_iter();
    JoinsCounted {
        show_id: show.clone(),
        minute: counted.minute,
        joins: counted.joins(),
        networks: most
            .map(|(network, joins)| NetworkJoins {
                network: network.0.clone(),
                joins,
            })
            .collect(),
    }
}
