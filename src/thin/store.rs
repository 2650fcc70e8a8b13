//! The port to where thin events go.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::log::{Delivery, LogError};

/// Where thin events go. A second copy of one is harmless: it has the same event id.
#[async_trait]
pub trait Sink: Send + Sync + Debug {
    /// Sends what is left of these deliveries, in this order within a partition. One answer a delivery:
    /// whether it is there now, for good.
    ///
    /// # Errors
    /// [`LogError`] where nothing was sent.
    async fn send(&self, deliveries: &[&Delivery]) -> Result<Vec<Result<(), LogError>>, LogError>;
}
