//! The port to everything that selling keeps: one method per unit of work.
//!
//! Each method is one transaction: it loads facts, lets `rules/` decide and writes all of the
//! decision, its events included, or nothing. Repeating any of them is harmless.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::base::ids::{FanId, HoldId, OrderId, ShowId};
use crate::base::time::Timestamp;
use crate::event::SectionStock;
use crate::event::money::Money;
use crate::orders::idempotency::{Begun, Claimed, Key};
use crate::orders::rules::hold::PlaceHold;
use crate::orders::rules::order::{Pay, PlaceOrder, Placed};
use crate::orders::rules::payment::{Settled, Verdict};
use crate::orders::rules::{Buyer, Hold, Order, PaymentId, Refusal};
use crate::show::settings::Section;

/// What a request is told: done, or refused and why.
pub type Told<T> = Result<Result<T, Refusal>, StoreError>;

/// What selling keeps. Methods with a `key` write the answer to it in the same transaction.
#[async_trait]
pub trait Store: Send + Sync + Debug {
    /// Makes sections and seats what a show's settings say, if they still have this version: somebody
    /// else may have followed a later one. Of a cancelled show there are none, whatever they say. Seats
    /// that somebody has stay, even where the settings have fewer.
    async fn reconcile(
        &self,
        show: &ShowId,
        version: u64,
        sections: &[Section],
    ) -> Result<Reconciled, StoreError>;

    /// How many seats are free, held and sold. `None`: no such show.
    async fn availability(&self, show: &ShowId) -> Result<Option<Availability>, StoreError>;

    /// Asks whether a request with an idempotency key may proceed, and marks the key if it may.
    async fn begin(&self, key: &Key) -> Result<Begun, StoreError>;

    /// Takes the mark back: the request failed, and the same one may succeed later.
    async fn release_key(&self, claimed: &Claimed) -> Result<(), StoreError>;

    /// Sets seats aside.
    async fn hold(&self, request: &PlaceHold, key: Option<&Claimed>) -> Told<Hold>;

    /// Gives a hold back.
    async fn release(&self, buyer: &Buyer, hold: HoldId) -> Told<()>;

    /// Makes a hold an order.
    async fn place(&self, request: &PlaceOrder, key: Option<&Claimed>) -> Told<Placed>;

    /// Begins another attempt to pay.
    async fn pay(&self, request: &Pay, key: Option<&Claimed>) -> Told<Order>;

    /// A fan's order.
    async fn order(&self, show: &ShowId, fan: FanId, order: OrderId) -> Told<Order>;

    /// A fan's orders, the latest first, at most `FAN_ORDERS_MAX`: how a fan whose answer was lost
    /// learns what became of it.
    async fn orders_of(&self, show: &ShowId, fan: FanId) -> Result<Vec<Order>, StoreError>;

    /// Payments that need the provider, those not asked about for longest first.
    async fn due(&self, max: usize) -> Result<Vec<Due>, StoreError>;

    /// What the provider says of an attempt.
    async fn answered(&self, id: PaymentId, verdict: &Verdict) -> Result<Settled, StoreError>;

    /// The provider has paid an attempt back. `false`: that was known, or never due.
    async fn refunded(&self, id: PaymentId) -> Result<bool, StoreError>;

    /// The provider could not be asked about an attempt: others go first next time.
    async fn postpone(&self, id: PaymentId) -> Result<(), StoreError>;

    /// Takes an order back for an operator, whoever's it is.
    async fn cancel(&self, order: OrderId) -> Told<Order>;

    /// Takes back what has seats of a cancelled show, at most `max` holds and orders. Of a show that
    /// is not cancelled, nothing.
    async fn cancel_show(&self, show: &ShowId, max: u32) -> Result<Swept, StoreError>;

    /// How far the cancellation of a show has come. The rows themselves tell: nothing else keeps it.
    async fn cancellation(&self, show: &ShowId) -> Result<Cancellation, StoreError>;

    /// Ends holds whose time is over, at most `max`. Answers how many.
    async fn expire_holds(&self, max: u32) -> Result<u32, StoreError>;

    /// Ends pending orders whose time is over, at most `max`. Answers how many.
    async fn expire_orders(&self, max: u32) -> Result<u32, StoreError>;

    /// Forgets answers that were kept long enough, at most `max`. Answers how many.
    async fn forget_keys(&self, max: u32) -> Result<u32, StoreError>;
}

/// What a reconciliation led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconciled {
    /// Seats of the show.
    pub seats: u64,
    /// Seats beyond the settings, which somebody has.
    pub kept: u64,
}

/// How many seats a show has left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Availability {
    /// The sections, in the order of the settings.
    pub sections: Vec<SectionStock>,
    /// When that was true.
    pub as_of: Timestamp,
}

/// What was taken back of a cancelled show in one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Holds released.
    pub holds: u32,
    /// Orders cancelled.
    pub orders: u32,
}

/// How far the cancellation of a show has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancellation {
    /// Seats that are not withdrawn yet: a hold that began before the show was cancelled may take them.
    pub seats_free: u64,
    /// Seats that holds and unpaid orders still have.
    pub seats_held: u64,
    /// Seats that paid orders still have.
    pub seats_sold: u64,
    /// Orders taken back, their money not gone back, or never taken.
    pub orders_cancelled: u64,
    /// Orders paid back.
    pub orders_refunded: u64,
    /// Attempts to pay that the provider still has to answer or to pay back.
    pub payments_open: u64,
}

impl Cancellation {
    /// Whether nobody has a seat or can get one any more, and nobody is owed money. It stays so: what
    /// is still under way needs a seat that is there.
    pub const fn is_done(&self) -> bool {
        let seats = self.seats_free + self.seats_held + self.seats_sold;
        seats == 0 && self.payments_open == 0
    }
}

/// A payment that needs the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Which attempt.
    pub id: PaymentId,
    /// How much.
    pub amount: Money,
    /// What the fan pays with.
    pub token: Option<String>,
    /// What is needed.
    pub need: Need,
}

/// What a payment needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The answer; and to be charged, if the provider does not know it yet.
    Charge,
    /// The answer only: the order is over, and nobody must be charged for it any more.
    Answer,
    /// To be paid back.
    Refund,
}

/// Why the store did not do a unit of work. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is away or too slow. Ask again.
    #[error("order store unavailable")]
    Unavailable(#[source] anyhow::Error),
    /// Another request with the same idempotency key has taken over.
    #[error("idempotency key was taken over")]
    Overtaken,
    /// A row holds something that no build of ours writes.
    #[error("order store holds foreign data")]
    Corrupt(#[source] anyhow::Error),
}
