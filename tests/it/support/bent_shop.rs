//! A shop that lacks one rule, to see whether the checker notices.

use std::sync::Arc;

use async_trait::async_trait;
use catraca::base::ids::{FanId, HoldId, IdSource, OrderId, ShowId, TicketId};
use catraca::orders::idempotency::{Begun, Claimed, Key};
use catraca::orders::rules::hold::PlaceHold;
use catraca::orders::rules::order::{Pay, PlaceOrder, Placed};
use catraca::orders::rules::payment::{Settled, Verdict};
use catraca::orders::rules::{Buyer, Hold, Order, PaymentId};
use catraca::orders::store::{
    Availability, Cancellation, Due, Reconciled, Store, StoreError, Swept, Told,
};
use catraca::show::settings::Section;

/// A shop whose rule looks for the orders of another ticket than the one it sells to.
#[derive(Debug)]
pub(crate) struct Blind {
    inner: Arc<dyn Store>,
    ids: IdSource,
}

impl Blind {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            ids: IdSource::random(),
        }
    }
}

#[async_trait]
impl Store for Blind {
    async fn place(&self, request: &PlaceOrder, key: Option<&Claimed>) -> Told<Placed> {
        let mut request = request.clone();
        request.buyer.ticket = TicketId(self.ids.fan().0); // the order takes its ticket from the hold
        self.inner.place(&request, key).await
    }

    async fn reconcile(
        &self,
        show: &ShowId,
        version: u64,
        sections: &[Section],
    ) -> Result<Reconciled, StoreError> {
        self.inner.reconcile(show, version, sections).await
    }

    async fn availability(&self, show: &ShowId) -> Result<Option<Availability>, StoreError> {
        self.inner.availability(show).await
    }

    async fn begin(&self, key: &Key) -> Result<Begun, StoreError> {
        self.inner.begin(key).await
    }

    async fn release_key(&self, claimed: &Claimed) -> Result<(), StoreError> {
        self.inner.release_key(claimed).await
    }

    async fn hold(&self, request: &PlaceHold, key: Option<&Claimed>) -> Told<Hold> {
        self.inner.hold(request, key).await
    }

    async fn release(&self, buyer: &Buyer, hold: HoldId) -> Told<()> {
        self.inner.release(buyer, hold).await
    }

    async fn pay(&self, request: &Pay, key: Option<&Claimed>) -> Told<Order> {
        self.inner.pay(request, key).await
    }

    async fn order(&self, show: &ShowId, fan: FanId, order: OrderId) -> Told<Order> {
        self.inner.order(show, fan, order).await
    }

    async fn orders_of(&self, show: &ShowId, fan: FanId) -> Result<Vec<Order>, StoreError> {
        self.inner.orders_of(show, fan).await
    }

    async fn due(&self, max: usize) -> Result<Vec<Due>, StoreError> {
        self.inner.due(max).await
    }

    async fn answered(&self, id: PaymentId, verdict: &Verdict) -> Result<Settled, StoreError> {
        self.inner.answered(id, verdict).await
    }

    async fn refunded(&self, id: PaymentId) -> Result<bool, StoreError> {
        self.inner.refunded(id).await
    }

    async fn postpone(&self, id: PaymentId) -> Result<(), StoreError> {
        self.inner.postpone(id).await
    }

    async fn cancel(&self, order: OrderId) -> Told<Order> {
        self.inner.cancel(order).await
    }

    async fn cancel_show(&self, show: &ShowId, max: u32) -> Result<Swept, StoreError> {
        self.inner.cancel_show(show, max).await
    }

    async fn cancellation(&self, show: &ShowId) -> Result<Cancellation, StoreError> {
        self.inner.cancellation(show).await
    }

    async fn expire_holds(&self, max: u32) -> Result<u32, StoreError> {
        self.inner.expire_holds(max).await
    }

    async fn expire_orders(&self, max: u32) -> Result<u32, StoreError> {
        self.inner.expire_orders(max).await
    }

    async fn forget_keys(&self, max: u32) -> Result<u32, StoreError> {
        self.inner.forget_keys(max).await
    }
}
