//! One unit of work on SQLite: a transaction that carries out a decision, or nothing.

use std::sync::Arc;

use sqlx::{Sqlite, SqliteConnection, Transaction};

use crate::base::ids::{HoldId, IdSource, ShowId};
use crate::base::time::Timestamp;
use crate::event::{Envelope, Event};
use crate::log::outbox_in_sqlite as outbox;
use crate::orders::answer;
use crate::orders::idempotency::{Answer, Claimed};
use crate::orders::in_sqlite::keys;
use crate::orders::rows_in_sql as rows;
use crate::orders::rules::{Buyer, Decision, Hold, Order, Payment, Refusal, Taken, Write};
use crate::orders::store::{StoreError, Told};

/// A transaction with the time at which it began to write.
#[derive(Debug)]
pub(super) struct Unit {
    tx: Transaction<'static, Sqlite>,
    now: Timestamp,
    ids: Arc<IdSource>,
    trace: Option<String>,
    key: Option<Claimed>,
}

impl Unit {
    pub(super) fn new(
        tx: Transaction<'static, Sqlite>,
        now: Timestamp,
        ids: Arc<IdSource>,
    ) -> Self {
        Self {
            tx,
            now,
            ids,
            trace: None,
            key: None,
        }
    }

    /// The same on behalf of a buyer: events carry the request's trace, and the answer is kept for
    /// its idempotency key.
    pub(super) fn asked_by(self, buyer: &Buyer, key: Option<Claimed>) -> Self {
        let trace = buyer.trace.clone();
        Self { trace, key, ..self }
    }

    pub(super) fn tx(&mut self) -> &mut SqliteConnection {
        &mut self.tx
    }

    pub(super) const fn now(&self) -> Timestamp {
        self.now
    }

    pub(super) fn ids(&self) -> &IdSource {
        &self.ids
    }

    pub(super) async fn commit(self) -> Result<(), StoreError> {
        Ok(self.tx.commit().await?)
    }

    /// Carries a decision out.
    pub(super) async fn save_and_commit<T>(
        mut self,
        decision: Decision<T>,
    ) -> Result<T, StoreError> {
        self.save(decision.writes).await?;
        self.commit().await?;
        Ok(decision.answer)
    }

    /// Carries out what was decided for a request and keeps the answer, in the words of `render`,
    /// for its key. A refusal that may not last releases the key.
    pub(super) async fn finish<T>(
        mut self,
        decided: Result<Decision<T>, Refusal>,
        render: fn(&T) -> Answer,
    ) -> Told<T> {
        let (told, answer) = match decided {
            Ok(decision) => {
                self.save(decision.writes).await?;
                let answer = render(&decision.answer);
                (Ok(decision.answer), Some(answer))
            }
            Err(refusal) => {
                let answer = answer::refused(&refusal);
                (Err(refusal), answer)
            }
        };
        match (self.key.take(), answer) {
            (Some(key), Some(answer)) => keys::keep(&mut self.tx, &key, &answer).await?,
            (Some(key), None) => keys::release(&mut self.tx, &key).await?,
            (None, _) => {}
        }
        self.commit().await?;
        Ok(told)
    }

    /// Carries out the writes of a decision.
    pub(super) async fn save(&mut self, writes: Vec<Write>) -> Result<(), StoreError> {
        for write in writes {
            match write {
                Write::Take {
                    show,
                    seats,
                    hold,
                    to,
                } => take(&mut self.tx, &show, &seats, hold, to).await?,
                Write::Sell(hold, seats) => sell(&mut self.tx, hold, seats).await?,
                Write::Free(hold, seats) => free(&mut self.tx, (hold, "held"), seats).await?,
                Write::Return(hold, seats) => free(&mut self.tx, (hold, "sold"), seats).await?,
                Write::Hold(hold) => put_hold(&mut self.tx, &hold).await?,
                Write::Order(order) => put_order(&mut self.tx, &order).await?,
                Write::Payment(payment) => put_payment(&mut self.tx, &payment).await?,
                Write::Event(version, event) => self.publish(version, event).await?,
            }
        }
        Ok(())
    }

    async fn publish(&mut self, version: u64, event: Event) -> Result<(), StoreError> {
        let mut envelope = Envelope {
            id: self.ids.event(self.now),
            version,
            at: self.now,
            trace: self.trace.clone(),
            event,
        };
        if envelope.trace.is_none() {
            envelope.trace = first_trace(&mut self.tx, &envelope).await?;
        }
        Ok(outbox::append(&mut self.tx, &envelope).await?)
    }
}

/// The trace of the request that began it all, for what our own loops do later.
async fn first_trace(
    tx: &mut SqliteConnection,
    envelope: &Envelope,
) -> Result<Option<String>, StoreError> {
    let trace: Option<Option<String>> = sqlx::query_scalar(
        "select traceparent from outbox
         where aggregatetype = ? and aggregateid = ? and aggregate_version = 1",
    )
    .bind(envelope.event.aggregate())
    .bind(envelope.key())
    .fetch_optional(tx)
    .await?;
    Ok(trace.flatten())
}

async fn take(
    tx: &mut SqliteConnection,
    show: &ShowId,
    seats: &[String],
    hold: HoldId,
    to: Taken,
) -> Result<(), StoreError> {
    for seat in seats {
        let taken = sqlx::query(
            "update seats set state = ?, hold_id = ? where show = ? and seat = ? and state = 'free'",
        )
        .bind(rows::taken(to))
        .bind(hold.to_string())
        .bind(show.as_str())
        .bind(seat)
        .execute(&mut *tx)
        .await?;
        rows::expect_rows(taken.rows_affected(), 1)?;
    }
    Ok(())
}

async fn sell(tx: &mut SqliteConnection, hold: HoldId, seats: usize) -> Result<(), StoreError> {
    let sold = sqlx::query("update seats set state = 'sold' where hold_id = ? and state = 'held'")
        .bind(hold.to_string())
        .execute(tx)
        .await?;
    rows::expect_rows(sold.rows_affected(), seats)
}

/// Frees what a hold has in a state.
async fn free(
    tx: &mut SqliteConnection,
    (hold, state): (HoldId, &str),
    seats: usize,
) -> Result<(), StoreError> {
    let freed = sqlx::query(
        "update seats set state = 'free', hold_id = null where hold_id = ? and state = ?",
    )
    .bind(hold.to_string())
    .bind(state)
    .execute(tx)
    .await?;
    rows::expect_rows(freed.rows_affected(), seats)
}

async fn put_hold(tx: &mut SqliteConnection, hold: &Hold) -> Result<(), StoreError> {
    sqlx::query(
        "insert into holds (hold_id, show, fan, ticket_id, seats, total_minor, currency, state,
           expires_at_ms, created_at_ms, version, nth)
         values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         on conflict (hold_id) do update set state = excluded.state, version = excluded.version",
    )
    .bind(hold.id.to_string())
    .bind(hold.show.as_str())
    .bind(hold.fan.to_string())
    .bind(hold.ticket.to_string())
    .bind(rows::seats(&hold.seats))
    .bind(hold.total.minor)
    .bind(hold.total.currency.code())
    .bind(rows::hold_state(hold.state))
    .bind(hold.expires_at.as_millis())
    .bind(hold.created_at.as_millis())
    .bind(hold.version.cast_signed())
    .bind(hold.nth.cast_signed())
    .execute(tx)
    .await?;
    Ok(())
}

async fn put_order(tx: &mut SqliteConnection, order: &Order) -> Result<(), StoreError> {
    sqlx::query(
        "insert into orders (order_id, hold_id, show, fan, ticket_id, email, locale, seats,
           total_minor, currency, status, reason, placed_at_ms, payable_until_ms, updated_at_ms,
           version)
         values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         on conflict (order_id) do update set status = excluded.status, reason = excluded.reason,
           updated_at_ms = excluded.updated_at_ms, version = excluded.version",
    )
    .bind(order.id.to_string())
    .bind(order.hold.to_string())
    .bind(order.show.as_str())
    .bind(order.fan.to_string())
    .bind(order.ticket.to_string())
    .bind(&order.contact.email)
    .bind(&order.contact.locale)
    .bind(rows::seats(&order.seats))
    .bind(order.total.minor)
    .bind(order.total.currency.code())
    .bind(order.status.word())
    .bind(order.reason.map(|reason| reason.word()))
    .bind(order.placed_at.as_millis())
    .bind(order.payable_until.as_millis())
    .bind(order.updated_at.as_millis())
    .bind(order.version.cast_signed())
    .execute(tx)
    .await?;
    Ok(())
}

async fn put_payment(tx: &mut SqliteConnection, payment: &Payment) -> Result<(), StoreError> {
    sqlx::query(
        "insert into payments (order_id, attempt, state, token, provider_reference, at_ms)
         values (?, ?, ?, ?, ?, ?)
         on conflict (order_id, attempt) do update set state = excluded.state,
           provider_reference = excluded.provider_reference, at_ms = excluded.at_ms",
    )
    .bind(payment.id.order.to_string())
    .bind(i64::from(payment.id.attempt))
    .bind(rows::payment_state(payment.state))
    .bind(&payment.token)
    .bind(&payment.reference)
    .bind(payment.at.as_millis())
    .execute(tx)
    .await?;
    Ok(())
}
