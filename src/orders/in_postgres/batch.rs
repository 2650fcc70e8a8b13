//! The writes of decisions, carried out by one statement.
//!
//! A statement is all or nothing by itself and one trip to the server, however many rows it writes: an
//! order, its payment, its hold and its event; or a hundred holds that end, with their events. It first
//! locks what the decision took for granted (each hold that ends or is ordered is live) and writes nothing
//! where that has changed.

use serde_json::{Value, json};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::base::ids::{HoldId, ShowId};
use crate::driver::sql::SqlError;
use crate::event::{Envelope, codec, partition};
use crate::orders::in_postgres::sale::{self, Ground, Held, Placed};
use crate::orders::rows_in_sql::{self as rows, Columns};
use crate::orders::rules::{Hold, HoldState, Order, Payment, PaymentState, Status, Taken, Write};
use crate::orders::store::StoreError;

const CARRY_OUT: &str = include_str!("sql/carry_out.sql");

/// Rows to write, and what they take for granted.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// What a new hold was decided by.
    ground: Option<Ground>,
    /// No decision takes seats for more than one hold.
    taken: Option<Take>,
    turned: Turned,
    holds: Vec<Hold>,
    orders: Vec<Order>,
    payments: Vec<Payment>,
    events: Vec<Envelope>,
}

/// Free seats that become a hold's.
#[derive(Debug)]
struct Take {
    show: ShowId,
    seats: Vec<String>,
    hold: HoldId,
    to: Taken,
}

/// Holds, all of whose seats go from one state into another, and how many seats that are.
#[derive(Debug, Default)]
struct Turned {
    freed: Vec<String>,
    sold: Vec<String>,
    returned: Vec<String>,
    seats: usize,
}

impl Batch {
    /// Nothing yet, where this must still be so for a new hold.
    pub(super) fn on(ground: Option<Ground>) -> Self {
        Self {
            ground,
            ..Self::default()
        }
    }

    /// The writes of a decision. Events come through [`Self::publish`], for they need an id and a time.
    pub(super) fn add(&mut self, write: Write) {
        match write {
            Write::Take {
                show,
                seats,
                hold,
                to,
            } => {
                let take = Take {
                    show,
                    seats,
                    hold,
                    to,
                };
                assert!(self.taken.replace(take).is_none(), "two holds at once");
            }
            Write::Free(hold, seats) => self.turned.add(hold, seats, |of| &mut of.freed),
            Write::Sell(hold, seats) => self.turned.add(hold, seats, |of| &mut of.sold),
            Write::Return(hold, seats) => self.turned.add(hold, seats, |of| &mut of.returned),
            Write::Hold(hold) => self.holds.push(hold),
            Write::Order(order) => self.orders.push(order),
            Write::Payment(payment) => self.payments.push(payment),
            Write::Event(..) => {}
        }
    }

    /// Adds an event. One without a trace gets that of the request that began it all.
    pub(super) fn publish(&mut self, envelope: Envelope) {
        self.events.push(envelope);
    }

    /// Writes all of it or nothing. Where some of it was written and this fails, the transaction must
    /// not commit.
    pub(super) async fn carry_out(self, conn: &mut PgConnection) -> Result<(), StoreError> {
        if self.is_empty() {
            return Ok(());
        }
        let row = self.write(conn).await?;
        let taken = self.taken.as_ref().map_or(0, |take| take.seats.len());
        let taken_now: i64 = row.try_get("taken")?;
        if !row.is("is_live")? || usize::try_from(taken_now) != Ok(taken) {
            return Err(SqlError::Moved.into());
        }
        let turned: i64 = row.try_get("turned")?;
        rows::expect_rows(turned.cast_unsigned(), self.turned.seats)
    }

    fn is_empty(&self) -> bool {
        let rows = self.holds.len() + self.orders.len() + self.payments.len() + self.events.len();
        rows + self.turned.seats == 0 && self.taken.is_none()
    }

    async fn write(&self, conn: &mut PgConnection) -> Result<PgRow, StoreError> {
        let rows = (&self.taken, &self.holds[..], &self.orders[..]);
        match (rows, &self.payments[..], &self.events[..], &self.ground) {
            ((Some(_), [hold], []), [], [event], Some(ground)) => {
                let held = Held {
                    hold,
                    event,
                    ground,
                };
                sale::hold(conn, &held).await
            }
            ((None, [hold], [order]), [payment], [event], None)
                if order.status == Status::Pending && payment.state == PaymentState::Asked =>
            {
                let placed = Placed {
                    hold,
                    order,
                    payment,
                    event,
                };
                sale::place(conn, &placed).await
            }
            _ => self.write_any(conn).await,
        }
    }

    async fn write_any(&self, conn: &mut PgConnection) -> Result<PgRow, StoreError> {
        let ends = self
            .holds
            .iter()
            .filter(|hold| hold.state != HoldState::Live);
        let ends: Vec<String> = ends.map(|hold| hold.id.to_string()).collect();
        let take = self.taken.as_ref();
        let statement = sqlx::query(CARRY_OUT)
            .bind(ends)
            .bind(take.map(|take| take.show.as_str()))
            .bind(take.map_or(&[][..], |take| &take.seats[..]))
            .bind(take.map(|take| take.hold.to_string()))
            .bind(take.map(|take| rows::taken(take.to)))
            .bind(&self.turned.freed)
            .bind(&self.turned.sold)
            .bind(&self.turned.returned)
            .bind(list(self.holds.iter().map(hold_row)))
            .bind(list(self.orders.iter().map(order_row)))
            .bind(list(self.payments.iter().map(payment_row)))
            .bind(list(self.events.iter().map(event_row)));
        Ok(statement.fetch_one(conn).await?)
    }
}

impl Turned {
    fn add(&mut self, hold: HoldId, seats: usize, of: fn(&mut Self) -> &mut Vec<String>) {
        of(self).push(hold.to_string());
        self.seats += seats;
    }
}

fn hold_row(hold: &Hold) -> Value {
    json!({
        "hold_id": hold.id.to_string(),
        "show": hold.show.as_str(),
        "fan": hold.fan.to_string(),
        "ticket_id": hold.ticket.to_string(),
        "nth": hold.nth,
        "seats": rows::seats(&hold.seats),
        "total_minor": hold.total.minor,
        "currency": hold.total.currency.code(),
        "state": rows::hold_state(hold.state),
        "expires_at_ms": hold.expires_at.as_millis(),
        "created_at_ms": hold.created_at.as_millis(),
        "version": hold.version,
    })
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

fn event_row(envelope: &Envelope) -> Value {
    let key = envelope.key();
    json!({
        "id": envelope.id.to_string(),
        "aggregatetype": envelope.event.aggregate(),
        "aggregateid": key,
        "aggregate_version": envelope.version,
        "type": envelope.event.kind(),
        "payload": codec::to_json(envelope),
        "partition": partition::of_key(&key),
        "traceparent": envelope.trace,
        "occurred_at_ms": envelope.at.as_millis(),
    })
}

fn list(rows: impl Iterator<Item = Value>) -> String {
    Value::Array(rows.collect()).to_string()
}
