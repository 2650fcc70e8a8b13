//! What the group does with one delivery.

use std::sync::Arc;

use async_trait::async_trait;

use crate::event::Event;
use crate::log::patience::Failure;
use crate::log::{ApplyError, Consumer, Delivery};
use crate::search::GROUP;
use crate::search::store::{Said, Store, What};

/// Lists what is left of every show.
#[derive(Debug, Clone)]
pub struct Lister {
    store: Arc<dyn Store>,
}

impl Lister {
    /// A lister that keeps its listings here.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }
}

#[async_trait]
impl Consumer for Lister {
    fn group(&self) -> &'static str {
        GROUP
    }

    fn concerns(&self, delivery: &Delivery) -> bool {
        matches!(delivery.kind.as_str(), "StockChanged" | "ShowSoldOut")
    }

    async fn apply(&self, delivery: &Delivery) -> Result<(), ApplyError> {
        let said = said(delivery)?;
        Ok(self.store.list(delivery, &said).await?)
    }
}

fn said(delivery: &Delivery) -> Result<Said, Failure> {
    let envelope = delivery.read()?;
    let at = envelope.at;
    match envelope.event {
        Event::StockChanged(stock) => Ok(Said {
            show: stock.show_id,
            at,
            what: What::Left(stock.sections),
        }),
        Event::ShowSoldOut(sold_out) => Ok(Said {
            show: sold_out.show_id,
            at,
            what: What::SoldOut,
        }),
        Event::HoldPlaced(_)
        | Event::HoldExpired(_)
        | Event::OrderPlaced(_)
        | Event::OrderConfirmed(_)
        | Event::OrderDeclined(_)
        | Event::OrderCancelled(_)
        | Event::OrderRefunded(_)
        | Event::JoinsCounted(_) => {
            let reason = "the payload is of another type than its delivery";
            Err(Failure::Permanent(reason.to_owned()))
        }
    }
}
