//! The loop that gets every payment answered: new ones, and those that a crash left in doubt.
//!
//! Both take the same way. The provider is asked what it knows of the attempt; only if it has never
//! heard of it and the order still waits is it asked to take the money. So there is no recovery to
//! write or test: a step that died anywhere is repeated by the next one, and the provider's
//! idempotency key makes one charge of it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::base::limits::PAYMENTS_AT_ONCE;
use crate::orders::payment::{Charge, PaymentError, Payments};
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
    /// Settles until it is told to stop; the current step completes.
    ///
    /// # Errors
    /// None: a step that fails is logged and repeated.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        while !stop.is_cancelled() {
            let pause = match self.step().await {
                Ok(step) if step.settled == PAYMENTS_AT_ONCE => Duration::ZERO,
                Ok(_) => self.every,
                Err(error) => {
                    let error = anyhow::Error::from(error);
                    tracing::warn!("payments were not settled: {error:#}");
                    self.every
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.nudge.notified() => {}
                () = sleep(pause) => {}
            }
        }
        Ok(())
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
        metrics::payments_in_doubt(step.in_doubt);
        if 0 < step.settled {
            self.written.notify_one();
        }
        Ok(step)
    }

    async fn settle(&self, due: &Due) -> Result<Ended, StoreError> {
        let answer = match due.need {
            Need::Charge | Need::Answer => self.verdict(due).await.map(Some),
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

    async fn verdict(&self, due: &Due) -> Result<Verdict, PaymentError> {
        if let Some(verdict) = self.in_time(self.payments.look_up(due.id)).await? {
            return Ok(verdict);
        }
        match due.need {
            Need::Charge => {
                let charge = Charge {
                    id: due.id,
                    amount: due.amount,
                    token: due.token.clone(),
                };
                self.in_time(self.payments.charge(&charge)).await
            }
            // The order is over and the provider never heard of the attempt: nothing was taken.
            Need::Answer | Need::Refund => Ok(Verdict::Declined),
        }
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
