//! What the group does with one delivery.

use std::sync::Arc;

use async_trait::async_trait;

use crate::analytics::GROUP;
use crate::analytics::store::{Kind, Sale, Store};
use crate::analytics::window::Arrival;
use crate::event::{Event, codec};
use crate::log::patience::Failure;
use crate::log::{ApplyError, Consumer, Delivery};
use crate::telemetry::metrics;

/// Counts what is sold.
#[derive(Debug, Clone)]
pub struct Teller {
    store: Arc<dyn Store>,
}

impl Teller {
    /// A teller that keeps its counts here.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }
}

#[async_trait]
impl Consumer for Teller {
    fn group(&self) -> &'static str {
        GROUP
    }

    fn concerns(&self, delivery: &Delivery) -> bool {
        matches!(delivery.kind.as_str(), "OrderConfirmed" | "OrderRefunded")
    }

    async fn apply(&self, delivery: &Delivery) -> Result<(), ApplyError> {
        let sale = sale(delivery)?;
        match self.store.count(delivery, &sale).await? {
            Some(Arrival::Late) => metrics::late_sale(sale.kind.word()),
            Some(Arrival::InTime) | None => {}
        }
        Ok(())
    }
}

fn sale(delivery: &Delivery) -> Result<Sale, Failure> {
    let envelope = codec::from_json(&delivery.payload, delivery.version, None)
        .map_err(|error| Failure::Permanent(error.to_string()))?;
    let (kind, order) = match envelope.event {
        Event::OrderConfirmed(order) => (Kind::Sold, order),
        Event::OrderRefunded(order) => (Kind::Refunded, order),
        Event::HoldPlaced(_)
        | Event::HoldExpired(_)
        | Event::OrderPlaced(_)
        | Event::OrderDeclined(_)
        | Event::OrderCancelled(_)
        | Event::StockChanged(_)
        | Event::ShowSoldOut(_) => {
            let reason = "the payload is of another type than its delivery";
            return Err(Failure::Permanent(reason.to_owned()));
        }
    };
    Ok(Sale {
        show: order.event.id,
        kind,
        at: envelope.at,
        seats: u64::try_from(order.seats.len()).unwrap_or(u64::MAX),
        total: order.total,
    })
}
