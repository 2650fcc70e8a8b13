//! Sells: seats set aside for a while, orders made of them, payments for those.
//!
//! ```text
//! api.rs ──► keyed.rs ──► store.rs ◄── payment/settle.rs ──► payment/ (the provider)
//! operate.rs ──► ▲   ◄──── expire.rs, cancel.rs, reconcile.rs
//!  in_sqlite/ in_postgres/ ──► rules/ (decides)
//! ```
//!
//! A request touches the store only. The order and its first attempt to pay are one transaction; a
//! loop then asks the provider, another ends what nobody finished, and a third takes back what was
//! sold of a cancelled show. Each of them may die between any two lines: the next step finds what is
//! left to do.

pub mod answer;
mod api;
mod caller;
pub mod cancel;
pub mod expire;
pub mod idempotency;
pub mod in_postgres;
pub mod in_sqlite;
mod keyed;
mod operate;
pub mod payment;
pub mod reconcile;
mod rows_in_sql;
pub mod rules;
mod seats;
mod shares_in_sql;
pub mod store;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::base::secret::Secret;
use crate::base::time::Clock;
use crate::http::server::{ServerSettings, serve};
use crate::orders::caller::Nonces;
use crate::orders::cancel::Cancel;
use crate::orders::expire::Expire;
use crate::orders::payment::Payments;
use crate::orders::payment::settle::Settle;
use crate::orders::seats::Seats;
use crate::orders::store::Store;
use crate::show::Store as ShowStore;

/// How long a stop waits for requests that nobody waits for.
const FINISH_MAX: Duration = Duration::from_secs(2);

/// What an operator decides about the shop.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The secret that gateway and shop share.
    pub secret: Secret,
    /// How long one call of the payment provider may take.
    pub payment_call_ms: u64,
    /// The pause between steps that settle payments, when nothing hurries.
    pub settle_every_ms: u64,
    /// The pause between steps that end holds: how long seats may stay held beyond their time.
    pub expire_every_ms: u64,
}

impl Settings {
    /// The defaults, with a secret.
    pub const fn with_secret(secret: Secret) -> Self {
        Self {
            secret,
            payment_call_ms: 5_000,
            settle_every_ms: 1_000,
            expire_every_ms: 250,
        }
    }
}

/// The shop: a router and two loops over one store.
#[derive(Debug, Clone)]
pub struct Orders {
    store: Arc<dyn Store>,
    payments: Arc<dyn Payments>,
    clock: Arc<dyn Clock>,
    settings: Arc<Settings>,
    nonces: Arc<Nonces>,
    seats: Arc<Seats>,
    /// Requests that go on to their end.
    under_way: TaskTracker,
    /// There is something to settle.
    payable: Arc<Notify>,
    /// There are new events in the outbox.
    written: Arc<Notify>,
}

impl Orders {
    /// A shop over a store and a payment provider. `clock` is the wall clock that assertions are
    /// checked by.
    pub fn new(
        store: Arc<dyn Store>,
        payments: Arc<dyn Payments>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        Self {
            store,
            payments,
            clock,
            settings: Arc::new(settings),
            nonces: Arc::default(),
            seats: Arc::default(),
            under_way: TaskTracker::new(),
            payable: Arc::default(),
            written: Arc::default(),
        }
    }

    /// The routes, for a listener of their own.
    pub fn router(&self) -> Router {
        api::router(self.clone())
    }

    /// Serves the routes until `stop`, and waits a moment for what clients have begun and not waited for.
    ///
    /// # Errors
    /// As [`serve`].
    pub async fn serve(
        self,
        listener: TcpListener,
        settings: ServerSettings,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        serve(listener, self.router(), settings, stop).await?;
        self.under_way.close();
        drop(timeout(FINISH_MAX, self.under_way.wait()).await); // a mark that stays lapses by itself
        Ok(())
    }

    /// The loop that settles payments.
    pub fn settle(&self) -> Settle {
        Settle {
            store: Arc::clone(&self.store),
            payments: Arc::clone(&self.payments),
            call_max: Duration::from_millis(self.settings.payment_call_ms),
            every: Duration::from_millis(self.settings.settle_every_ms),
            nudge: Arc::clone(&self.payable),
            written: Arc::clone(&self.written),
        }
    }

    /// The loop that ends holds and orders whose time is over.
    pub fn expire(&self) -> Expire {
        Expire {
            store: Arc::clone(&self.store),
            every: Duration::from_millis(self.settings.expire_every_ms),
            written: Arc::clone(&self.written),
        }
    }

    /// The loop that takes back what is held and sold of cancelled shows.
    pub fn cancel(&self, shows: Arc<dyn ShowStore>) -> Cancel {
        Cancel {
            store: Arc::clone(&self.store),
            shows,
            payable: Arc::clone(&self.payable),
            written: Arc::clone(&self.written),
        }
    }

    /// What operators may do about orders, for their listener.
    pub fn operators_router(&self, shows: Arc<dyn ShowStore>) -> Router {
        operate::router(self.clone(), shows)
    }

    /// Notified when events were written, so that whoever sends them on need not wait for a timer.
    pub fn written(&self) -> Arc<Notify> {
        Arc::clone(&self.written)
    }
}
