//! A payment provider for demos and tests. It takes no money, and forgets with the process.
//!
//! The token says what it does: none or `approve`, `decline`, `slow` (approves after a while, whether or
//! not anybody still listens), `lost` (approves, and the answer is lost). Any other token is declined.
//! It keeps a record of every attempt, no more than a shop can sell: what it was asked and what it did.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep_until};

use crate::orders::payment::{Charge, PaymentError, Payments};
use crate::orders::rules::PaymentId;
use crate::orders::rules::payment::Verdict;

/// The provider.
#[derive(Debug)]
pub struct ViaSandbox {
    slow: Duration,
    attempts: Mutex<BTreeMap<PaymentId, Attempt>>,
}

/// What the sandbox was asked about one attempt, and what it did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    /// How often it was asked to take the money.
    pub charges: u32,
    /// How often it was asked to give it back.
    pub refunds: u32,
    /// Whether the money was taken.
    pub is_taken: bool,
    /// Whether it was given back.
    pub is_returned: bool,
}

#[derive(Debug, Clone, Copy)]
struct Attempt {
    record: Record,
    /// Before that it is being thought about.
    decided_at: Instant,
}

impl ViaSandbox {
    /// A provider whose `slow` answers take so long.
    pub fn new(slow: Duration) -> Self {
        Self {
            slow,
            attempts: Mutex::default(),
        }
    }

    /// What it was asked and what it did, by idempotency key.
    pub fn records(&self) -> BTreeMap<PaymentId, Record> {
        let attempts = self.attempts();
        let record = |(id, attempt): (&PaymentId, &Attempt)| (*id, attempt.record);
        attempts.iter().map(record).collect()
    }

    fn attempts(&self) -> MutexGuard<'_, BTreeMap<PaymentId, Attempt>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an attempt, or finds the one that was begun before.
    fn begin(&self, charge: &Charge) -> Attempt {
        let token = charge.token.as_deref().unwrap_or("approve");
        let wait = match token {
            "slow" => self.slow,
            _ => Duration::ZERO,
        };
        let mut attempts = self.attempts();
        let attempt = attempts.entry(charge.id).or_insert_with(|| Attempt {
            record: Record {
                is_taken: matches!(token, "approve" | "slow" | "lost"),
                ..Record::default()
            },
            decided_at: Instant::now() + wait,
        });
        attempt.record.charges += 1;
        *attempt
    }
}

impl Attempt {
    /// An attempt that was taken back before anything was known of it.
    fn void() -> Self {
        Self {
            record: Record::default(),
            decided_at: Instant::now(),
        }
    }

    fn verdict(&self, id: PaymentId) -> Result<Verdict, PaymentError> {
        if Instant::now() < self.decided_at {
            let why = anyhow::anyhow!("the sandbox is still thinking about it");
            return Err(PaymentError::NoAnswer(why));
        }
        if self.record.is_taken {
            let reference = format!("sandbox-{}-{}", id.order, id.attempt);
            return Ok(Verdict::Approved { reference });
        }
        Ok(Verdict::Declined)
    }
}

#[async_trait]
impl Payments for ViaSandbox {
    async fn charge(&self, charge: &Charge) -> Result<Verdict, PaymentError> {
        let attempt = self.begin(charge);
        sleep_until(attempt.decided_at).await;
        if charge.token.as_deref() == Some("lost") {
            let why = anyhow::anyhow!("the sandbox lost its answer, as it was told to");
            return Err(PaymentError::NoAnswer(why));
        }
        attempt.verdict(charge.id)
    }

    async fn look_up(&self, id: PaymentId) -> Result<Option<Verdict>, PaymentError> {
        let attempt = self.attempts().get(&id).copied();
        attempt.map(|attempt| attempt.verdict(id)).transpose()
    }

    async fn void(&self, id: PaymentId) -> Result<Verdict, PaymentError> {
        let attempt = *self.attempts().entry(id).or_insert_with(Attempt::void);
        attempt.verdict(id)
    }

    async fn refund(&self, id: PaymentId) -> Result<(), PaymentError> {
        if let Some(attempt) = self.attempts().get_mut(&id) {
            attempt.record.refunds += 1;
            attempt.record.is_returned |= attempt.record.is_taken;
        }
        Ok(())
    }
}
