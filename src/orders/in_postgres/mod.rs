//! Selling on PostgreSQL: the store's units of work, each atomic.
//!
//! Every unit has the same shape: load facts, let `rules/` decide, save the decision with one statement.
//! Many units run at once, so what a decision depends on is either locked by the statement that reads
//! it or checked by the statement that writes; where it has changed, the unit runs again from its facts.
//! Locks are taken in one order (ticket, section, hold or order, seats by section and ordinal), and no
//! unit locks the row of a show: it would be everybody's.
//!
//! A buyer who wants the best seats is given some that nobody else of this process was given (`shelf.rs`), and
//! takes them with one statement. Only who keeps losing them, or finds that others are about to have the
//! last, waits for everybody else and looks at all (`hold.rs`): a refusal tells of seats that are taken, not
//! of seats that are locked.
//!
//! Buyers, and payments, work on connections out of a share (`shares_in_sql.rs` beside this folder), so that no
//! crowd has all that there are. Loops take one each as they need it.
//!
//! `batch.rs` and `sale.rs` carry out decisions, `facts.rs` and `seats.rs` load what they depend on;
//! `rows_in_sql.rs` beside this folder is the form of the rows; `keys.rs` and `stock.rs` keep idempotency keys and seats,
//! and `sweep.rs` takes back what was sold of a cancelled show.

mod batch;
mod facts;
mod hold;
mod keys;
mod sale;
mod seats;
mod shelf;
mod stock;
mod sweep;
mod unit;

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgPool;

use crate::base::ids::{FanId, HoldId, IdSource, OrderId, ShowId};
use crate::base::limits::{DOUBT_MS_MAX, FAN_ORDERS_MAX, KEY_KEPT_MS};
use crate::base::time::Clock;
use crate::driver::postgres::{ACQUIRE_MAX, Postgres};
use crate::orders::answer;
use crate::orders::idempotency::{Begun, Claimed, Key};
use crate::orders::in_postgres::shelf::Shelves;
use crate::orders::in_postgres::unit::{Conn, Unit};
use crate::orders::rows_in_sql as rows;
use crate::orders::rules::hold::PlaceHold;
use crate::orders::rules::order::{Pay, PlaceOrder, Placed};
use crate::orders::rules::payment::{Settled, Verdict};
use crate::orders::rules::{
    Buyer, Hold, Order, PaymentId, Refusal, cancel, hold_end, order, payment,
};
use crate::orders::shares_in_sql::{Shares, Whose};
use crate::orders::store::{
    Availability, Cancellation, Due, Reconciled, Store, StoreError, Swept, Told,
};
use crate::show::settings::Section;

/// The store in a PostgreSQL database.
#[derive(Debug, Clone)]
pub struct InPostgres {
    postgres: Postgres,
    clock: Arc<dyn Clock>,
    ids: Arc<IdSource>,
    shelves: Arc<Shelves>,
    shares: Arc<Shares>,
}

impl InPostgres {
    /// The store in a database that has the schema `driver::schema::POSTGRES`.
    pub fn new(postgres: Postgres, clock: Arc<dyn Clock>, ids: Arc<IdSource>) -> Self {
        Self {
            postgres,
            clock,
            ids,
            shelves: Arc::default(),
            shares: Arc::default(),
        }
    }

    /// Runs a unit of work in a transaction to its end, also when the caller is dropped.
    async fn unit<T, I, W, F>(&self, input: I, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        I: Clone + Send + Sync + 'static,
        W: Fn(Unit, I) -> F + Send + Sync + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let this = self.clone();
        let run = move |tx| {
            let conn = Conn::Transaction(tx);
            let unit = Unit::new(conn, this.clock.now(), Arc::clone(&this.ids));
            work(unit, input.clone())
        };
        self.postgres.unit(run).await
    }

    /// The same for what comes in crowds: on a connection out of a share, and without a transaction unless it
    /// begins one, for often one statement writes all there is to write.
    async fn shared<T, I, W, F>(&self, whose: Whose, input: I, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        I: Clone + Send + Sync + 'static,
        W: Fn(Unit, I) -> F + Copy + Send + Sync + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let this = self.clone();
        let run = move |pool: PgPool| {
            let (this, whose, input) = (this.clone(), whose.clone(), input.clone());
            async move {
                let waiting = async { (this.shares.take(&whose).await, pool.acquire().await) };
                let waited = tokio::time::timeout(ACQUIRE_MAX, waiting).await;
                let (_share, conn) = waited.map_err(|_| sqlx::Error::PoolTimedOut)?;
                work(
                    Unit::new(Conn::Plain(conn?), this.clock.now(), this.ids),
                    input,
                )
                .await
            }
        };
        self.postgres.outlive(run).await
    }
}

#[async_trait]
impl Store for InPostgres {
    async fn reconcile(
        &self,
        show: &ShowId,
        version: u64,
        sections: &[Section],
    ) -> Result<Reconciled, StoreError> {
        let input = (show.clone(), sections.to_vec());
        self.unit(input, move |mut unit, (show, sections)| async move {
            let reconciled = stock::reconcile(unit.tx(), (&show, version), &sections).await?;
            unit.commit().await?;
            Ok(reconciled)
        })
        .await
    }

    async fn availability(&self, show: &ShowId) -> Result<Option<Availability>, StoreError> {
        self.postgres
            .within(async {
                let as_of = self.clock.now();
                let sections = stock::by_section(&self.postgres.pool, show).await?;
                let is_there =
                    !sections.is_empty() || stock::is_there(&self.postgres.pool, show).await?;
                Ok(is_there.then_some(Availability { sections, as_of }))
            })
            .await
    }

    async fn begin(&self, key: &Key) -> Result<Begun, StoreError> {
        self.shared(
            Whose::Show(key.show.clone()),
            key.clone(),
            |mut unit, key| async move {
                let now = unit.now();
                keys::begin(unit.tx(), &key, now).await
            },
        )
        .await
    }

    async fn release_key(&self, claimed: &Claimed) -> Result<(), StoreError> {
        let whose = Whose::Show(claimed.key.show.clone());
        self.shared(whose, claimed.clone(), |mut unit, claimed| async move {
            keys::release(unit.tx(), &claimed).await
        })
        .await
    }

    async fn hold(&self, request: &PlaceHold, key: Option<&Claimed>) -> Told<Hold> {
        let input = (request.clone(), key.cloned(), Arc::clone(&self.shelves));
        self.shared(
            Whose::holding(request),
            input,
            |unit, (request, key, shelves)| async move {
                hold::place(unit.asked_by(&request.buyer, key), &request, &shelves).await
            },
        )
        .await
    }

    async fn release(&self, buyer: &Buyer, id: HoldId) -> Told<()> {
        let (whose, input) = (Whose::Show(buyer.show.clone()), (buyer.clone(), id));
        self.shared(whose, input, |unit, (buyer, id)| async move {
            let mut unit = unit.asked_by(&buyer, None).begin().await?;
            let found = facts::hold(unit.tx(), id).await?;
            let decided = hold_end::release(found.as_ref(), buyer.fan, &buyer.show);
            unit.finish(decided, answer::released).await
        })
        .await
    }

    async fn place(&self, request: &PlaceOrder, key: Option<&Claimed>) -> Told<Placed> {
        let whose = Whose::Show(request.buyer.show.clone());
        let input = (request.clone(), key.cloned());
        self.shared(whose, input, |unit, (request, key)| async move {
            let mut unit = unit.asked_by(&request.buyer, key);
            let facts = facts::for_order(unit.tx(), &request).await?;
            let (id, now) = (unit.ids().order(unit.now()), unit.now());
            let decided = facts.and_then(|facts| order::place(&facts, &request, id, now));
            unit.finish(decided, answer::placed).await
        })
        .await
    }

    async fn pay(&self, request: &Pay, key: Option<&Claimed>) -> Told<Order> {
        let whose = Whose::Show(request.buyer.show.clone());
        let input = (request.clone(), key.cloned());
        self.shared(whose, input, |unit, (request, key)| async move {
            let mut unit = unit.asked_by(&request.buyer, key).begin().await?;
            let found = facts::order_to_change(unit.tx(), request.order).await?;
            let last = facts::last_payment(unit.tx(), request.order).await?;
            let decided = order::pay(found.as_ref(), last.as_ref(), &request, unit.now());
            unit.finish(decided, answer::paying).await
        })
        .await
    }

    async fn order(&self, show: &ShowId, fan: FanId, id: OrderId) -> Told<Order> {
        self.postgres
            .within(async {
                let mut reader = self.postgres.pool.acquire().await?;
                let found = facts::order(&mut reader, id).await?;
                Ok(order::of_fan(found.as_ref(), show, fan).cloned())
            })
            .await
    }

    async fn orders_of(&self, show: &ShowId, fan: FanId) -> Result<Vec<Order>, StoreError> {
        self.postgres
            .within(async {
                let found = sqlx::query(
                    "select * from orders where show = $1 and fan = $2
                 order by placed_at_ms desc, order_id desc limit $3",
                )
                .bind(show.as_str())
                .bind(fan.to_string())
                .bind(i64::from(FAN_ORDERS_MAX))
                .fetch_all(&self.postgres.pool)
                .await?;
                found.iter().map(rows::order).collect()
            })
            .await
    }

    async fn due(&self, max: usize) -> Result<Vec<Due>, StoreError> {
        self.postgres
            .within(async {
                let found = sqlx::query(
                "select p.order_id, p.attempt, p.state, p.token, o.total_minor, o.currency, o.status
                 from payments p join orders o on o.order_id = p.order_id
                 where p.state in ('asked', 'refunding') order by p.at_ms, p.order_id limit $1",
            )
            .bind(i64::try_from(max).unwrap_or(i64::MAX))
            .fetch_all(&self.postgres.pool)
            .await?;
                found.iter().map(rows::due).collect()
            })
            .await
    }

    async fn answered(&self, id: PaymentId, verdict: &Verdict) -> Result<Settled, StoreError> {
        let input = (id, verdict.clone());
        self.shared(Whose::Payments, input, |unit, (id, verdict)| async move {
            let mut unit = unit.begin().await?;
            let facts = facts::for_payment(unit.tx(), id).await?;
            let decision = payment::answered(&facts, &verdict, unit.now());
            unit.save_and_commit(decision).await
        })
        .await
    }

    async fn refunded(&self, id: PaymentId) -> Result<bool, StoreError> {
        self.shared(Whose::Payments, id, |unit, id| async move {
            let mut unit = unit.begin().await?;
            let facts = facts::for_payment(unit.tx(), id).await?;
            let decision = payment::refunded(&facts, unit.now());
            unit.save_and_commit(decision).await
        })
        .await
    }

    async fn postpone(&self, id: PaymentId) -> Result<(), StoreError> {
        self.shared(Whose::Payments, id, |mut unit, id| async move {
            let now = unit.now();
            sqlx::query(
                "update payments set at_ms = $1 where order_id = $2 and attempt = $3
                 and state in ('asked', 'refunding')",
            )
            .bind(now.as_millis())
            .bind(id.order.to_string())
            .bind(i64::from(id.attempt))
            .execute(unit.tx())
            .await?;
            Ok(())
        })
        .await
    }

    async fn cancel(&self, id: OrderId) -> Told<Order> {
        self.unit(id, |mut unit, id| async move {
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
        let input = (show.clone(), max);
        self.unit(input, |mut unit, (show, max)| async move {
            let terms = facts::show_terms(unit.tx(), &show).await?;
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
        self.postgres
            .within(async { sweep::progress(&self.postgres.pool, show).await })
            .await
    }

    async fn expire_holds(&self, max: u32) -> Result<u32, StoreError> {
        self.unit(max, |mut unit, max| async move {
            let now = unit.now();
            let lapsed = facts::lapsed_holds(unit.tx(), now, max).await?;
            let ends = lapsed.iter().map(|lapsed| hold_end::expire(lapsed, now));
            unit.save(ends.flat_map(|end| end.writes).collect()).await?;
            unit.commit().await?;
            Ok(count(&lapsed))
        })
        .await
    }

    async fn expire_orders(&self, max: u32) -> Result<u32, StoreError> {
        self.unit(max, |mut unit, max| async move {
            let now = unit.now();
            let doubted_since = now.minus_ms(DOUBT_MS_MAX);
            let lapsed = facts::lapsed_orders(unit.tx(), now, doubted_since, max).await?;
            let mut writes = Vec::new();
            for lapsed in &lapsed {
                let facts = facts::for_payment(unit.tx(), *lapsed).await?;
                writes.extend(payment::expire(&facts, now).writes);
            }
            unit.save(writes).await?;
            unit.commit().await?;
            Ok(count(&lapsed))
        })
        .await
    }

    async fn forget_keys(&self, max: u32) -> Result<u32, StoreError> {
        self.unit(max, |mut unit, max| async move {
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
