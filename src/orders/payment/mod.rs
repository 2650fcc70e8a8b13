//! The port to whoever takes the money, and the loop that gets every payment answered.
//!
//! A provider is asked after the transaction that recorded the attempt and before the one that
//! records the answer, never inside one. Order and attempt are the idempotency key of every call.

pub mod settle;
pub mod via_sandbox;

use std::fmt::Debug;

use async_trait::async_trait;

use crate::event::money::Money;
use crate::orders::rules::PaymentId;
use crate::orders::rules::payment::Verdict;

/// Whoever takes the money. Repeating a call with the same id does not repeat its effect.
#[async_trait]
pub trait Payments: Send + Sync + Debug {
    /// Takes the money of an attempt, once, however often it is called.
    async fn charge(&self, charge: &Charge) -> Result<Verdict, PaymentError>;

    /// What became of an attempt; `None`: the provider has never heard of it.
    async fn look_up(&self, id: PaymentId) -> Result<Option<Verdict>, PaymentError>;

    /// Takes back an attempt that nobody waits for any more, and says what became of it. Where that is
    /// nothing, it stays so: a charge that is still on its way is declined.
    async fn void(&self, id: PaymentId) -> Result<Verdict, PaymentError>;

    /// Gives the money of an attempt back, once, however often it is called.
    async fn refund(&self, id: PaymentId) -> Result<(), PaymentError>;
}

/// What a provider is asked to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The attempt: the provider's idempotency key.
    pub id: PaymentId,
    /// How much.
    pub amount: Money,
    /// What the fan pays with; absent: the provider's default.
    pub token: Option<String>,
}

/// Why a provider gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum PaymentError {
    /// No answer came, or not in time; the effect may or may not have happened. Look it up.
    #[error("payment provider did not answer")]
    NoAnswer(#[source] anyhow::Error),
}
