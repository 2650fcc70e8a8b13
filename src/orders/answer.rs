//! What buyers are told, as it goes over the wire and as it is kept for an idempotency key.
//!
//! Pure, so that the store can keep an answer in the transaction that makes it true. Answers to acts
//! tell distances from the moment of the act, not of the telling: then a replay is the same bytes.

use serde::Serialize;

use crate::base::ids::{HoldId, OrderId};
use crate::base::limits::HOLD_GRACE_MS;
use crate::base::time::Timestamp;
use crate::event::money::Money;
use crate::orders::idempotency::Answer;
use crate::orders::rules::order::Placed;
use crate::orders::rules::{Hold, Order, Refusal, Status};

#[derive(Serialize)]
struct HoldBody<'a> {
    hold_id: HoldId,
    seats: &'a [String],
    total: Money,
    expires_at: Timestamp,
    expires_in_ms: u64,
}

/// The facts of an order that never change, so that every repeat of `POST` is answered alike.
#[derive(Serialize)]
struct OrderBody<'a> {
    order_id: OrderId,
    hold_id: HoldId,
    seats: &'a [String],
    total: Money,
    placed_at: Timestamp,
}

#[derive(Serialize)]
struct StatusBody<'a> {
    #[serde(flatten)]
    order: OrderBody<'a>,
    status: &'static str,
    /// Why the order stands so; of a pending one, why its last attempt to pay failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// While the order is pending: until when another attempt to pay may begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    payable_until: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payable_in_ms: Option<u64>,
}

#[derive(Serialize)]
struct OrdersBody<'a> {
    orders: Vec<StatusBody<'a>>,
}

/// 201: the hold that was placed.
pub fn held(hold: &Hold) -> Answer {
    Answer {
        status: 201,
        admission: Some(until(hold.expires_at)),
        body: json(&HoldBody {
            hold_id: hold.id,
            seats: &hold.seats,
            total: hold.total,
            expires_at: hold.expires_at,
            expires_in_ms: hold.expires_at.ms_since(hold.created_at),
        }),
    }
}

/// 204: a hold is given back.
pub const fn released((): &()) -> Answer {
    Answer {
        status: 204,
        admission: None,
        body: String::new(),
    }
}

/// 201 for the order that was placed, 200 for one that had been placed before.
pub fn placed(placed: &Placed) -> Answer {
    let status = match placed {
        Placed::First(_) => 201,
        Placed::Again(_) => 200,
    };
    let order = placed.order();
    Answer {
        status,
        admission: admission(order),
        body: json(&facts(order)),
    }
}

/// 202: an attempt to pay has begun. 200: none is needed any more.
pub fn paying(order: &Order) -> Answer {
    let status = match order.status {
        Status::Pending => 202,
        Status::Confirmed | Status::Declined | Status::Cancelled | Status::Refunded => 200,
    };
    Answer {
        status,
        ..shown(order, order.updated_at)
    }
}

/// 200: an order as it stands.
pub fn shown(order: &Order, now: Timestamp) -> Answer {
    Answer {
        status: 200,
        admission: admission(order),
        body: json(&status(order, now)),
    }
}

/// 200: all of a fan's orders as they stand.
pub fn listed(orders: &[Order], now: Timestamp) -> Answer {
    let orders = orders.iter().map(|order| status(order, now)).collect();
    Answer {
        status: 200,
        admission: None,
        body: json(&OrdersBody { orders }),
    }
}

fn status(order: &Order, now: Timestamp) -> StatusBody<'_> {
    let payable = (order.status == Status::Pending).then_some(order.payable_until);
    StatusBody {
        order: facts(order),
        status: order.status.word(),
        reason: order.reason.map(|reason| reason.word()),
        payable_until: payable,
        payable_in_ms: payable.map(|until| until.ms_since(now)),
    }
}

/// Refusals that the same request will always meet, and what is kept of them.
const LASTING: [(Refusal, u16, &str); 3] = [
    (Refusal::NoSuchHold, 404, "no-such-hold"),
    (Refusal::NoSuchOrder, 404, "no-such-order"),
    (Refusal::HoldEnded, 409, "hold-ended"),
];

/// A lasting refusal as it is kept; `None` for one that time may lift.
pub fn refused(refusal: &Refusal) -> Option<Answer> {
    let (_, status, word) = LASTING.iter().find(|(lasting, ..)| lasting == refusal)?;
    Some(Answer {
        status: *status,
        admission: None,
        body: (*word).to_owned(),
    })
}

/// The refusal that an answer keeps, if it keeps one.
pub fn kept_refusal(answer: &Answer) -> Option<Refusal> {
    let (refusal, ..) = LASTING
        .iter()
        .find(|(_, status, word)| *status == answer.status && *word == answer.body)?;
    Some(refusal.clone())
}

/// What to do with the buyer's admission: it is used once the order is paid, and outlives the time
/// in which it can be paid.
fn admission(order: &Order) -> Option<String> {
    match order.status {
        Status::Confirmed => Some("consumed".to_owned()),
        Status::Pending => Some(until(order.payable_until)),
        Status::Declined | Status::Cancelled | Status::Refunded => None,
    }
}

/// An admission that outlives what ends then.
pub(super) fn until(end: Timestamp) -> String {
    format!("until={}", end.plus_ms(HOLD_GRACE_MS).unix_ms())
}

fn facts(order: &Order) -> OrderBody<'_> {
    OrderBody {
        order_id: order.id,
        hold_id: order.hold,
        seats: &order.seats,
        total: order.total,
        placed_at: order.placed_at,
    }
}

fn json(body: &impl Serialize) -> String {
    serde_json::to_string(body).expect("plain structs with text keys always serialize")
}
