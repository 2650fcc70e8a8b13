//! A payment provider for demos and tests. It takes no money, and forgets with the process.
//!
//! The token says what it does: none or `approve`, `decline`, `slow` (approves after a while), `lost`
//! (approves, and the answer is lost). Any other token is declined. It keeps one word an attempt:
//! no more than a shop can sell.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::orders::payment::{Charge, PaymentError, Payments};
use crate::orders::rules::PaymentId;
use crate::orders::rules::payment::Verdict;

/// The provider.
#[derive(Debug)]
pub struct ViaSandbox {
    slow: Duration,
    attempts: Mutex<BTreeMap<PaymentId, Attempt>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Approved,
    Declined,
    Refunded,
}

impl ViaSandbox {
    /// A provider whose `slow` answers take so long.
    pub fn new(slow: Duration) -> Self {
        Self {
            slow,
            attempts: Mutex::default(),
        }
    }

    fn attempts(&self) -> MutexGuard<'_, BTreeMap<PaymentId, Attempt>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Payments for ViaSandbox {
    async fn charge(&self, charge: &Charge) -> Result<Verdict, PaymentError> {
        let token = charge.token.as_deref().unwrap_or("approve");
        if token == "slow" {
            tokio::time::sleep(self.slow).await;
        }
        let first = match token {
            "approve" | "slow" | "lost" => Attempt::Approved,
            _ => Attempt::Declined,
        };
        let attempt = *self.attempts().entry(charge.id).or_insert(first);
        if token == "lost" {
            let why = anyhow::anyhow!("the sandbox lost its answer, as it was told to");
            return Err(PaymentError::NoAnswer(why));
        }
        Ok(verdict(charge.id, attempt))
    }

    async fn look_up(&self, id: PaymentId) -> Result<Option<Verdict>, PaymentError> {
        let attempt = self.attempts().get(&id).copied();
        Ok(attempt.map(|attempt| verdict(id, attempt)))
    }

    async fn refund(&self, id: PaymentId) -> Result<(), PaymentError> {
        self.attempts().insert(id, Attempt::Refunded);
        Ok(())
    }
}

fn verdict(id: PaymentId, attempt: Attempt) -> Verdict {
    match attempt {
        Attempt::Approved | Attempt::Refunded => Verdict::Approved {
            reference: format!("sandbox-{}-{}", id.order, id.attempt),
        },
        Attempt::Declined => Verdict::Declined,
    }
}
