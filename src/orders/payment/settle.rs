//! The loop that gets every payment answered: new ones, and those that a crash left in doubt.
//!
//! Both take the same way. The provider is asked what it knows of the attempt; only if it has never
//! heard of it is it asked to take the money. Where the order is over meanwhile, the attempt is taken
//! back instead. So there is no recovery to write: a step that died anywhere is repeated by the next
//! one, and the provider's idempotency key makes one charge of it.
//!
//! Many are under way at once, and each ends by itself: a payment that takes its time keeps nobody
//! else waiting.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::base::limits::{PAYMENTS_AT_ONCE, PAYMENTS_UNDER_WAY_MAX};
use crate::orders::payment::{Charge, PaymentError, Payments};
use crate::orders::rules::PaymentId;
use crate::orders::rules::payment::{Settled, Verdict};
use crate::orders::store::{Due, Need, Store, StoreError};
use crate::telemetry::metrics;

/// The loop.
#[derive(Debug)]
pub struct Settle {
    /// What selling keeps.
    pub store: Arc<dyn Store>,
    /// Whoever takes the money.
    pub payments: Arc<dyn Payments>,
    /// How long one call of the provider may take.
    pub call_max: Duration,
    /// The pause between steps when nothing hurries.
    pub every: Duration,
    /// Makes the next step sooner.
    pub nudge: Arc<Notify>,
    /// Told when events were written.
    pub written: Arc<Notify>,
}

/// What a step did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    /// Payments that were answered or paid back.
    pub settled: usize,
    /// Payments of which nothing is known yet.
    pub in_doubt: usize,
}

impl Settle {
    /// Settles until it is told to stop; what is under way then completes.
    ///
    /// # Errors
    /// None: what fails is logged and repeated.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut under_way = FuturesUnordered::new();
        let mut ids = BTreeSet::new();
        while !stop.is_cancelled() {
            let looked_for = PAYMENTS_AT_ONCE + ids.len(); // those under way are due, too
            let due = self.look(looked_for).await;
            let is_all = due.len() < looked_for;
            for due in due {
                if ids.len() < PAYMENTS_UNDER_WAY_MAX && ids.insert(due.id) {
                    under_way.push(self.settle_one(due));
                }
            }
            let mut room = PAYMENTS_UNDER_WAY_MAX;
            let rest = sleep(self.every);
            tokio::pin!(rest);
            while is_all || room <= ids.len() {
                room = PAYMENTS_UNDER_WAY_MAX / 2; // not for each one that ends
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    Some(id) = under_way.next() => drop(ids.remove(&id)),
                    () = self.nudge.notified() => break,
                    () = &mut rest => break,
                }
            }
        }
        while under_way.next().await.is_some() {}
        Ok(())
    }

    async fn look(&self, max: usize) -> Vec<Due> {
        match self.store.due(max).await {
            Ok(due) => due,
            Err(error) => {
                let error = anyhow::Error::from(error);
                tracing::warn!("payments cannot be looked for: {error:#}");
                Vec::new()
            }
        }
    }

    /// Settles a payment; one that stays in doubt is not asked about again before a pause.
    async fn settle_one(&self, due: Due) -> PaymentId {
        match self.settle(&due).await {
            Ok(Ended::Settled) => self.written.notify_one(),
            Ok(Ended::InDoubt) => {
                metrics::payments_in_doubt(1);
                sleep(self.every).await;
                metrics::payments_in_doubt(-1);
            }
            Err(error) => {
                let error = anyhow::Error::from(error);
                tracing::warn!(order.id = %due.id.order, "a payment was not settled: {error:#}");
            }
        }
        due.id
    }

    /// Settles a bounded number of payments, at once. Running it twice, also at the same time, is
    /// harmless: provider and store both know an attempt again.
    ///
    /// # Errors
    /// The store's; what was settled before stays settled.
    pub async fn step(&self) -> Result<Step, StoreError> {
        let due = self.store.due(PAYMENTS_AT_ONCE).await?;
        let mut step = Step::default();
        for settled in join_all(due.iter().map(|due| self.settle(due))).await {
            match settled? {
                Ended::Settled => step.settled += 1,
                Ended::InDoubt => step.in_doubt += 1,
            }
        }
        if 0 < step.settled {
            self.written.notify_one();
        }
        Ok(step)
    }

    async fn settle(&self, due: &Due) -> Result<Ended, StoreError> {
        let answer = match due.need {
            Need::Charge => self.charged(due).await.map(Some),
            Need::Answer => self.in_time(self.payments.void(due.id)).await.map(Some),
            Need::Refund => self
                .in_time(self.payments.refund(due.id))
                .await
                .map(|()| None),
        };
        match answer {
            Ok(Some(verdict)) => {
                let settled = self.store.answered(due.id, &verdict).await?;
                metrics::payment(outcome(settled));
            }
            Ok(None) => {
                self.store.refunded(due.id).await?;
                metrics::payment("refunded");
            }
            Err(error) => {
                self.store.postpone(due.id).await?;
                metrics::payment("no_answer");
                let (order, attempt) = (due.id.order, due.id.attempt);
                let error = anyhow::Error::from(error);
                tracing::warn!(order.id = %order, attempt, "payment is in doubt: {error:#}");
                return Ok(Ended::InDoubt);
            }
        }
        Ok(Ended::Settled)
    }

    async fn charged(&self, due: &Due) -> Result<Verdict, PaymentError> {
        if let Some(verdict) = self.in_time(self.payments.look_up(due.id)).await? {
            return Ok(verdict);
        }
        let charge = Charge {
            id: due.id,
            amount: due.amount,
            token: due.token.clone(),
        };
        self.in_time(self.payments.charge(&charge)).await
    }

    async fn in_time<T>(
        &self,
        call: impl Future<Output = Result<T, PaymentError>>,
    ) -> Result<T, PaymentError> {
        match timeout(self.call_max, call).await {
            Ok(answer) => answer,
            Err(late) => Err(PaymentError::NoAnswer(late.into())),
        }
    }
}

enum Ended {
    Settled,
    InDoubt,
}

const fn outcome(settled: Settled) -> &'static str {
    match settled {
        Settled::Confirmed => "confirmed",
        Settled::MayRetry => "may_retry",
        Settled::Declined => "declined",
        Settled::Refunding => "refunding",
        Settled::Before => "before",
    }
}
