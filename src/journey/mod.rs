//! Where did my order stop?
//!
//! Every stage of an order leaves a fact in SQL: the order's row, its outbox rows, their places in the
//! log, what each group has done, what the provider answered. `store.rs` is the port that gathers
//! them, `fold.rs` makes stages of them and names the one where it stopped, `text.rs` writes that
//! down for a person. Any process that can read the database can answer.

pub mod api;
pub mod fold;
pub mod in_postgres;
pub mod in_sqlite;
pub mod store;
pub mod text;

mod in_sql;

use std::sync::Arc;

use crate::base::ids::OrderId;
use crate::journey::fold::{Journey, fold};
use crate::journey::store::{Store, StoreError};

/// Answers where orders are.
#[derive(Debug, Clone)]
pub struct Journeys {
    store: Arc<dyn Store>,
}

impl Journeys {
    /// Journeys over these facts.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// The journey of an order; `None` where there is no such order.
    ///
    /// # Errors
    /// [`StoreError`] where the facts could not be read.
    pub async fn of(&self, order: OrderId) -> Result<Option<Journey>, StoreError> {
        Ok(self.store.facts(order).await?.as_ref().map(fold))
    }
}
