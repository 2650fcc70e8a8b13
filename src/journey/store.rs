//! The port to what is known of an order's way.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::base::ids::{HoldId, OrderId};
use crate::journey::facts::{Facts, HoldFacts};

/// What is known of orders. Reads only.
#[async_trait]
pub trait Store: Send + Sync + Debug {
    /// Everything known of an order, of one moment; `None` where there is no such order.
    async fn facts(&self, order: OrderId) -> Result<Option<Facts>, StoreError>;

    /// What is known of a hold, and which order bought it; `None` where there is no such hold.
    async fn hold(&self, hold: HoldId) -> Result<Option<HoldFacts>, StoreError>;
}

/// Why the facts could not be read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is away or too slow. Ask again.
    #[error("journey store unavailable")]
    Unavailable(#[source] anyhow::Error),
}
