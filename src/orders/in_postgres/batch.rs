//! The writes of decisions, carried out by one statement.
//!
//! A statement is all or nothing by itself and one trip to the server, however many rows it writes: an
//! order, its payment, its hold and its event; or a hundred holds that end, with their events. It first
//! locks what the decision took for granted (each hold that ends or is ordered is live; the request
//! still has its idempotency key) and writes nothing where that has changed.

use serde_json::{Value, json};
use sqlx::{PgConnection, Row};

use crate::base::ids::HoldId;
use crate::driver::sql::SqlError;
use crate::event::{Envelope, codec, partition};
use crate::orders::idempotency::{Answer, Claimed};
use crate::orders::rows_in_sql::{self as rows, Columns};
use crate::orders::rules::{Hold, HoldState, Order, Payment, Write};
use crate::orders::store::StoreError;

/// Seats are locked in one order, whoever takes them, so that two buyers wait at most for each other's
/// end and never for each other.
const CARRY_OUT: &str = "
with
  mine as materialized (
    select $1::text is null or exists (select from idempotency_keys
      where fan = $1 and route = $2 and key = $3 and in_flight_until_ms = $4 and status is null
      for update) as yes),
  live as materialized (
    select count(*) = cardinality($8::text[]) as yes from (select from holds
      where hold_id = any($8) and state = 'live' order by hold_id for update) locked),
  stands as materialized (select mine.yes and live.yes as yes from mine, live),
  chosen as materialized (
    select s.show, s.seat, t.hold_id, t.state from seats s
    join jsonb_to_recordset($9::jsonb) as t (show text, seat text, hold_id text, state text)
      on s.show = t.show and s.seat = t.seat
    where s.state = 'free' and (select yes from stands)
    order by s.show, s.section, s.ordinal for update of s),
  taken as (
    update seats s set state = c.state, hold_id = c.hold_id from chosen c
    where s.show = c.show and s.seat = c.seat returning 1),
  turned as (
    update seats s set state = t.state, hold_id = case t.state when 'sold' then s.hold_id end
    from jsonb_to_recordset($10::jsonb) as t (hold_id text, was text, state text)
    where s.hold_id = t.hold_id and s.state = t.was and (select yes from stands) returning 1),
  put_holds as (
    insert into holds select r.* from jsonb_populate_recordset(null::holds, $11::jsonb) r
    where (select yes from stands)
    on conflict (hold_id) do update set state = excluded.state, version = excluded.version),
  put_orders as (
    insert into orders select r.* from jsonb_populate_recordset(null::orders, $12::jsonb) r
    where (select yes from stands)
    on conflict (order_id) do update set status = excluded.status, reason = excluded.reason,
      updated_at_ms = excluded.updated_at_ms, version = excluded.version),
  put_payments as (
    insert into payments select r.* from jsonb_populate_recordset(null::payments, $13::jsonb) r
    where (select yes from stands)
    on conflict (order_id, attempt) do update set state = excluded.state,
      provider_reference = excluded.provider_reference, at_ms = excluded.at_ms),
  put_events as (
    insert into outbox (id, aggregatetype, aggregateid, aggregate_version, type, payload, partition,
      traceparent, occurred_at_ms)
    select r.id, r.aggregatetype, r.aggregateid, r.aggregate_version, r.type, r.payload, r.partition,
      coalesce(r.traceparent, (select o.traceparent from outbox o
        where o.aggregatetype = r.aggregatetype and o.aggregateid = r.aggregateid
          and o.aggregate_version = 1)),
      r.occurred_at_ms
    from jsonb_populate_recordset(null::outbox, $14::jsonb) r where (select yes from stands)),
  kept as (
    update idempotency_keys set status = $5, admission = $6, body = $7
    where fan = $1 and route = $2 and key = $3 and (select yes from stands))
select mine.yes as is_mine, live.yes as is_live,
  (select count(*) from taken) as taken, (select count(*) from turned) as turned from mine, live";

/// Rows to write, and what they take for granted.
#[derive(Debug, Default)]
pub(super) struct Batch {
    key: Option<(Claimed, Answer)>,
    live: Vec<String>,
    taken: Vec<Value>,
    turned: Vec<Value>,
    seats_turned: usize,
    holds: Vec<Value>,
    orders: Vec<Value>,
    payments: Vec<Value>,
    events: Vec<Value>,
}

impl Batch {
    /// Adds a write. Events come through [`Self::publish`], for they need an id and a time.
    pub(super) fn add(&mut self, write: &Write) {
        match write {
            Write::Take {
                show,
                seats,
                hold,
                to,
            } => self.taken.extend(seats.iter().map(|seat| {
                json!({ "show": show.as_str(), "seat": seat, "hold_id": hold.to_string(),
                    "state": rows::taken(*to) })
            })),
            Write::Sell(hold, seats) => self.turn(*hold, *seats, ("held", "sold")),
            Write::Free(hold, seats) => self.turn(*hold, *seats, ("held", "free")),
            Write::Return(hold, seats) => self.turn(*hold, *seats, ("sold", "free")),
            Write::Hold(hold) => self.put_hold(hold),
            Write::Order(order) => self.orders.push(order_row(order)),
            Write::Payment(payment) => self.payments.push(payment_row(payment)),
            Write::Event(..) => {}
        }
    }

    /// Adds an event. One without a trace gets that of the request that began it all.
    pub(super) fn publish(&mut self, envelope: &Envelope) {
        let key = envelope.key();
        self.events.push(json!({
            "id": envelope.id.to_string(),
            "aggregatetype": envelope.event.aggregate(),
            "aggregateid": key,
            "aggregate_version": envelope.version,
            "type": envelope.event.kind(),
            "payload": codec::to_json(envelope),
            "partition": partition::of_key(&key),
            "traceparent": envelope.trace,
            "occurred_at_ms": envelope.at.as_millis(),
        }));
    }

    /// Adds the answer to keep for a request's idempotency key.
    pub(super) fn keep(&mut self, claimed: Claimed, answer: Answer) {
        self.key = Some((claimed, answer));
    }

    /// Writes all of it or nothing. Where some of it was written and this fails, the transaction must
    /// not commit.
    pub(super) async fn carry_out(self, conn: &mut PgConnection) -> Result<(), StoreError> {
        let taken = self.taken.len();
        let (key, answer) = self.key.as_ref().map_or((None, None), |(claimed, answer)| {
            (Some(claimed), Some(answer))
        });
        let row = sqlx::query(CARRY_OUT)
            .bind(key.map(|claimed| claimed.key.fan.to_string()))
            .bind(key.map(|claimed| claimed.key.route))
            .bind(key.map(|claimed| &claimed.key.key))
            .bind(key.map(|claimed| claimed.until.as_millis()))
            .bind(answer.map(|answer| i64::from(answer.status)))
            .bind(answer.and_then(|answer| answer.admission.as_deref()))
            .bind(answer.map(|answer| &answer.body))
            .bind(&self.live)
            .bind(text(self.taken))
            .bind(text(self.turned))
            .bind(text(self.holds))
            .bind(text(self.orders))
            .bind(text(self.payments))
            .bind(text(self.events))
            .fetch_one(conn)
            .await?;
        if !row.is("is_mine")? {
            return Err(StoreError::Overtaken);
        }
        let taken_now: i64 = row.try_get("taken")?;
        if !row.is("is_live")? || usize::try_from(taken_now) != Ok(taken) {
            return Err(SqlError::Moved.into());
        }
        let turned: i64 = row.try_get("turned")?;
        rows::expect_rows(turned.cast_unsigned(), self.seats_turned)
    }

    /// Adds a hold's seats, which are in one state, to those that go into another.
    fn turn(&mut self, hold: HoldId, seats: usize, (was, state): (&str, &str)) {
        let hold = hold.to_string();
        self.turned
            .push(json!({ "hold_id": hold, "was": was, "state": state }));
        self.seats_turned += seats;
    }

    fn put_hold(&mut self, hold: &Hold) {
        match hold.state {
            HoldState::Live => {}
            HoldState::Ordered | HoldState::Expired | HoldState::Released => {
                self.live.push(hold.id.to_string());
            }
        }
        self.holds.push(json!({
            "hold_id": hold.id.to_string(),
            "show": hold.show.as_str(),
            "fan": hold.fan.to_string(),
            "ticket_id": hold.ticket.to_string(),
            "seats": rows::seats(&hold.seats),
            "total_minor": hold.total.minor,
            "currency": hold.total.currency.code(),
            "state": rows::hold_state(hold.state),
            "expires_at_ms": hold.expires_at.as_millis(),
            "created_at_ms": hold.created_at.as_millis(),
            "version": hold.version,
        }));
    }
}

fn order_row(order: &Order) -> Value {
    json!({
        "order_id": order.id.to_string(),
        "hold_id": order.hold.to_string(),
        "show": order.show.as_str(),
        "fan": order.fan.to_string(),
        "ticket_id": order.ticket.to_string(),
        "email": order.contact.email,
        "locale": order.contact.locale,
        "seats": rows::seats(&order.seats),
        "total_minor": order.total.minor,
        "currency": order.total.currency.code(),
        "status": order.status.word(),
        "reason": order.reason.map(|reason| reason.word()),
        "placed_at_ms": order.placed_at.as_millis(),
        "payable_until_ms": order.payable_until.as_millis(),
        "updated_at_ms": order.updated_at.as_millis(),
        "version": order.version,
    })
}

fn payment_row(payment: &Payment) -> Value {
    json!({
        "order_id": payment.id.order.to_string(),
        "attempt": payment.id.attempt,
        "state": rows::payment_state(payment.state),
        "token": payment.token,
        "provider_reference": payment.reference,
        "at_ms": payment.at.as_millis(),
    })
}

fn text(rows: Vec<Value>) -> String {
    Value::Array(rows).to_string()
}
