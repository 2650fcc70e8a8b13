//! Where did my order stop?
//!
//! Every stage of an order leaves a fact in SQL: the order's row, its outbox rows, their places in the
//! log, what each group has done, what the provider answered. Before it there is only the hold that it
//! is to buy. `store.rs` is the port that gathers these `facts.rs`, `fold.rs` makes stages of them and
//! names the one where it stopped, `text.rs` writes that down for a person. Any process that can read
//! the database can answer, whoever else stands still.

pub mod api;
pub mod facts;
pub mod fold;
pub mod in_postgres;
pub mod in_sqlite;
pub mod store;
pub mod text;

mod in_sql;

use std::sync::Arc;

use crate::base::ids::{HoldId, OrderId};
use crate::base::time::Clock;
use crate::journey::fold::{Journey, fold, fold_hold};
use crate::journey::store::{Store, StoreError};

/// Answers where orders are.
#[derive(Debug, Clone)]
pub struct Journeys {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl Journeys {
    /// Journeys over these facts.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// The journey of an order; `None` where there is no such order.
    ///
    /// # Errors
    /// [`StoreError`] where the facts could not be read.
    pub async fn of(&self, order: OrderId) -> Result<Option<Journey>, StoreError> {
        let facts = self.store.facts(order).await?;
        Ok(facts.map(|facts| fold(&facts, self.clock.now())))
    }

    /// The journey of the order that bought a hold, as far as there is one; `None` where there is no such
    /// hold.
    ///
    /// # Errors
    /// As [`Journeys::of`].
    pub async fn of_hold(&self, hold: HoldId) -> Result<Option<Journey>, StoreError> {
        let Some(facts) = self.store.hold(hold).await? else {
            return Ok(None);
        };
        match facts.order {
            Some(order) => self.of(order).await,
            None => Ok(Some(fold_hold(&facts, self.clock.now()))),
        }
    }
}
