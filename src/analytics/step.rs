//! What the group does with one delivery.

use std::sync::Arc;

use async_trait::async_trait;

use crate::analytics::GROUP;
use crate::analytics::store::{Kind, Sale, Store};
use crate::analytics::window::Arrival;
use crate::event::{Event, JoinsCounted};
use crate::log::patience::Failure;
use crate::log::{ApplyError, Consumer, Delivery};
use crate::telemetry::metrics;

/// Counts what is sold, and who came.
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
        let kind = delivery.kind.as_str();
        matches!(kind, "OrderConfirmed" | "OrderRefunded" | "JoinsCounted")
    }

    async fn apply(&self, delivery: &Delivery) -> Result<(), ApplyError> {
        match fact(delivery)? {
            Fact::Sale(sale) => {
                let arrival = self.store.count(delivery, &sale).await?;
                if arrival == Some(Arrival::Late) {
                    metrics::late_sale(sale.kind.word());
                }
            }
            Fact::Joins(counted) => {
                let arrival = self.store.count_joins(delivery, &counted).await?;
                if arrival == Some(Arrival::Late) {
                    metrics::late_joins(counted.joins);
                }
            }
        }
        Ok(())
    }
}

/// What a delivery says that is counted.
enum Fact {
    Sale(Sale),
    Joins(JoinsCounted),
}

fn fact(delivery: &Delivery) -> Result<Fact, Failure> {
    let envelope = delivery.read()?;
    let (kind, order) = match envelope.event {
        Event::OrderConfirmed(order) => (Kind::Sold, order),
        Event::OrderRefunded(order) => (Kind::Refunded, order),
        Event::JoinsCounted(counted) => return Ok(Fact::Joins(counted)),
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
    Ok(Fact::Sale(Sale {
        show: order.event.id,
        kind,
        at: envelope.at,
        seats: u64::try_from(order.seats.len()).unwrap_or(u64::MAX),
        total: order.total,
    }))
}
