//! Selling on SQLite: the store's units of work, each one transaction.
//!
//! Every unit has the same shape: load facts, let `rules/` decide, save the decision. A transaction
//! begins as the file's one writer, so what a unit has read stays true until it commits. It runs in
//! a task that outlives the request, so a request that is dropped leaves no transaction behind.
//!
//! `unit.rs` carries out decisions, `facts.rs` loads what they depend on, `rows_in_sql.rs` beside this
//! folder is the form of the rows; `keys.rs` and `stock.rs` keep idempotency keys and seats, and
//! `sweep.rs` takes back what was sold of a cancelled show.

mod facts;
mod keys;
mod stock;
mod sweep;
mod unit;

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;

use crate::base::ids::{FanId, HoldId, IdSource, OrderId, ShowId};
use crate::base::limits::{DOUBT_MS_MAX, FAN_ORDERS_MAX, KEY_KEPT_MS};
use crate::base::time::Clock;
use crate::driver::sqlite::{BUSY_MAX, Sqlite};
use crate::orders::answer;
use crate::orders::idempotency::{Begun, Claimed, Key};
use crate::orders::in_sqlite::unit::Unit;
use crate::orders::rows_in_sql as rows;
use crate::orders::rules::hold::PlaceHold;
use crate::orders::rules::order::{Pay, PlaceOrder, Placed};
use crate::orders::rules::payment::{Settled, Verdict};
use crate::orders::rules::{
    Buyer, Hold, Order, PaymentId, Refusal, cancel, hold, hold_end, order, payment,
};
use crate::orders::shares_in_sql::{Shares, Whose};
use crate::orders::store::{
    Availability, Cancellation, Due, Reconciled, Store, StoreError, Swept, Told,
};
use crate::show::settings::Section;

/// The store in an SQLite file.
#[derive(Debug, Clone)]
pub struct InSqlite {
    sqlite: Sqlite,
    clock: Arc<dyn Clock>,
    ids: Arc<IdSource>,
    shares: Arc<Shares>,
}

impl InSqlite {
    /// The store in a file that has the schema `driver::schema::CATRACA`.
    pub fn new(sqlite: Sqlite, clock: Arc<dyn Clock>, ids: Arc<IdSource>) -> Self {
        Self {
            sqlite,
            clock,
            ids,
            shares: Arc::default(),
        }
    }

    /// Runs a unit of work to its end, also when the caller is dropped.
    async fn unit<T, W, F>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: FnOnce(Unit) -> F + Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send,
    {
        let this = self.clone();
        let unit = async move {
            let tx = this.sqlite.write.begin_with("begin immediate").await?;
            // The time is read as the one writer: who waited in line is judged by the end of it.
            let now = this.clock.now();
            work(Unit::new(tx, now, this.ids)).await
        };
        self.sqlite.outlive(unit).await
    }

    /// The same for what comes in crowds: of those who wait for the one writer, each crowd is a few.
    async fn shared<T, W, F>(&self, whose: Whose, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: FnOnce(Unit) -> F + Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send,
    {
        let waited = tokio::time::timeout(BUSY_MAX, self.shares.take(&whose)).await;
        let share = waited.map_err(|_| sqlx::Error::PoolTimedOut)?;
        self.unit(move |unit| async move {
            let _share = share;
            work(unit).await
        })
        .await
    }
}

#[async_trait]
impl Store for InSqlite {
    async fn reconcile(
        &self,
        show: &ShowId,
        version: u64,
        sections: &[Section],
    ) -> Result<Reconciled, StoreError> {
        let (show, sections) = (show.clone(), sections.to_vec());
        self.unit(move |mut unit| async move {
            let reconciled = stock::reconcile(unit.tx(), (&show, version), &sections).await?;
            unit.commit().await?;
            Ok(reconciled)
        })
        .await
    }

    async fn availability(&self, show: &ShowId) -> Result<Option<Availability>, StoreError> {
        let as_of = self.clock.now();
        let sections = stock::by_section(&self.sqlite.read, show).await?;
        let is_there = !sections.is_empty() || stock::is_there(&self.sqlite.read, show).await?;
        Ok(is_there.then_some(Availability { sections, as_of }))
    }

    async fn begin(&self, key: &Key) -> Result<Begun, StoreError> {
        let key = key.clone();
        self.shared(Whose::Show(key.show.clone()), move |mut unit| async move {
            let now = unit.now();
            let begun = keys::begin(unit.tx(), &key, now).await?;
            unit.commit().await?;
            Ok(begun)
        })
        .await
    }

    async fn release_key(&self, claimed: &Claimed) -> Result<(), StoreError> {
        let claimed = claimed.clone();
        self.shared(
            Whose::Show(claimed.key.show.clone()),
            move |mut unit| async move {
                keys::release(unit.tx(), &claimed).await?;
                unit.commit().await
            },
        )
        .await
    }

    async fn hold(&self, request: &PlaceHold, key: Option<&Claimed>) -> Told<Hold> {
        let (request, key) = (request.clone(), key.cloned());
        self.shared(Whose::holding(&request), move |unit| async move {
            let mut unit = unit.asked_by(&request.buyer, key);
            let (id, now) = (unit.ids().hold(unit.now()), unit.now());
            let facts = facts::for_hold(unit.tx(), &request, now).await?;
            let decided = facts.and_then(|facts| hold::decide(&facts, &request, id, now));
            unit.finish(decided, answer::held).await
        })
        .await
    }

    async fn release(&self, buyer: &Buyer, id: HoldId) -> Told<()> {
        let buyer = buyer.clone();
        self.shared(Whose::Show(buyer.show.clone()), move |unit| async move {
            let mut unit = unit.asked_by(&buyer, None);
            let found = facts::hold(unit.tx(), id).await?;
            let decided = hold_end::release(found.as_ref(), buyer.fan, &buyer.show);
            unit.finish(decided, answer::released).await
        })
        .await
    }

    async fn place(&self, request: &PlaceOrder, key: Option<&Claimed>) -> Told<Placed> {
        let (request, key) = (request.clone(), key.cloned());
        self.shared(
            Whose::Show(request.buyer.show.clone()),
            move |unit| async move {
                let mut unit = unit.asked_by(&request.buyer, key);
                let facts = facts::for_order(unit.tx(), &request).await?;
                let (id, now) = (unit.ids().order(unit.now()), unit.now());
                let decided = facts.and_then(|facts| order::place(&facts, &request, id, now));
                unit.finish(decided, answer::placed).await
            },
        )
        .await
    }

    async fn pay(&self, request: &Pay, key: Option<&Claimed>) -> Told<Order> {
        let (request, key) = (request.clone(), key.cloned());
        self.shared(
            Whose::Show(request.buyer.show.clone()),
            move |unit| async move {
                let mut unit = unit.asked_by(&request.buyer, key);
                let found = facts::order(unit.tx(), request.order).await?;
                let last = facts::last_payment(unit.tx(), request.order).await?;
                let decided = order::pay(found.as_ref(), last.as_ref(), &request, unit.now());
                unit.finish(decided, answer::paying).await
            },
        )
        .await
    }

    async fn order(&self, show: &ShowId, fan: FanId, id: OrderId) -> Told<Order> {
        let mut reader = self.sqlite.read.acquire().await?;
        let found = facts::order(&mut reader, id).await?;
        Ok(order::of_fan(found.as_ref(), show, fan).cloned())
    }

    async fn orders_of(&self, show: &ShowId, fan: FanId) -> Result<Vec<Order>, StoreError> {
        let found = sqlx::query(
            "select * from orders where show = ? and fan = ?
             order by placed_at_ms desc, order_id desc limit ?",
        )
        .bind(show.as_str())
        .bind(fan.to_string())
        .bind(i64::from(FAN_ORDERS_MAX))
        .fetch_all(&self.sqlite.read)
        .await?;
        found.iter().map(rows::order).collect()
    }

    async fn due(&self, max: usize) -> Result<Vec<Due>, StoreError> {
        let found = sqlx::query(
            "select p.order_id, p.attempt, p.state, p.token, o.total_minor, o.currency, o.status
             from payments p join orders o on o.order_id = p.order_id
             where p.state in ('asked', 'refunding') order by p.at_ms, p.order_id limit ?",
        )
        .bind(i64::try_from(max).unwrap_or(i64::MAX))
        .fetch_all(&self.sqlite.read)
        .await?;
        found.iter().map(rows::due).collect()
    }

    async fn answered(&self, id: PaymentId, verdict: &Verdict) -> Result<Settled, StoreError> {
        let verdict = verdict.clone();
        self.shared(Whose::Payments, move |mut unit| async move {
            let facts = facts::for_payment(unit.tx(), id).await?;
            let decision = payment::answered(&facts, &verdict, unit.now());
            unit.save_and_commit(decision).await
        })
        .await
    }

    async fn refunded(&self, id: PaymentId) -> Result<bool, StoreError> {
        self.shared(Whose::Payments, move |mut unit| async move {
            let facts = facts::for_payment(unit.tx(), id).await?;
            let decision = payment::refunded(&facts, unit.now());
            unit.save_and_commit(decision).await
        })
        .await
    }

    async fn postpone(&self, id: PaymentId) -> Result<(), StoreError> {
        self.shared(Whose::Payments, move |mut unit| async move {
            sqlx::query(
                "update payments set at_ms = ? where order_id = ? and attempt = ?
                 and state in ('asked', 'refunding')",
            )
            .bind(unit.now().as_millis())
            .bind(id.order.to_string())
            .bind(i64::from(id.attempt))
            .execute(unit.tx())
            .await?;
            unit.commit().await
        })
        .await
    }

    async fn cancel(&self, id: OrderId) -> Told<Order> {
        self.unit(move |mut unit| async move {
            let Some(facts) = sweep::for_cancel(unit.tx(), id).await? else {
                return Ok(Err(Refusal::NoSuchOrder));
            };
            match cancel::cancel(&facts, unit.now()) {
                Ok(decision) => unit.save_and_commit(decision).await.map(Ok),
                Err(refusal) => Ok(Err(refusal)),
            }
        })
        .await
    }

    async fn cancel_show(&self, show: &ShowId, max: u32) -> Result<Swept, StoreError> {
        let show = show.clone();
        self.unit(move |mut unit| async move {
            let terms = facts::terms(unit.tx(), &show).await?;
            if !terms.is_some_and(|terms| terms.is_cancelled) {
                return Ok(Swept::default());
            }
            let now = unit.now();
            let (swept, writes) = sweep::sweep(unit.tx(), &show, now, max).await?;
            unit.save(writes).await?;
            unit.commit().await?;
            Ok(swept)
        })
        .await
    }

    async fn cancellation(&self, show: &ShowId) -> Result<Cancellation, StoreError> {
        sweep::progress(&self.sqlite.read, show).await
    }

    async fn expire_holds(&self, max: u32) -> Result<u32, StoreError> {
        self.unit(move |mut unit| async move {
            let now = unit.now();
            let lapsed = facts::lapsed_holds(unit.tx(), now, max).await?;
            for lapsed in &lapsed {
                unit.save(hold_end::expire(lapsed, now).writes).await?;
            }
            unit.commit().await?;
            Ok(count(&lapsed))
        })
        .await
    }

    async fn expire_orders(&self, max: u32) -> Result<u32, StoreError> {
        self.unit(move |mut unit| async move {
            let now = unit.now();
            let doubted_since = now.minus_ms(DOUBT_MS_MAX);
            let lapsed = facts::lapsed_orders(unit.tx(), now, doubted_since, max).await?;
            for lapsed in &lapsed {
                let facts = facts::for_payment(unit.tx(), *lapsed).await?;
                unit.save(payment::expire(&facts, now).writes).await?;
            }
            unit.commit().await?;
            Ok(count(&lapsed))
        })
        .await
    }

    async fn forget_keys(&self, max: u32) -> Result<u32, StoreError> {
        self.unit(move |mut unit| async move {
            let before = unit.now().minus_ms(KEY_KEPT_MS);
            let forgotten = keys::forget(unit.tx(), before, max).await?;
            unit.commit().await?;
            Ok(forgotten)
        })
        .await
    }
}

fn count<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}
