//! From a hold to an order, and the attempts to pay it that a fan begins.

use crate::base::ids::{FanId, HoldId, OrderId, ShowId};
use crate::base::limits::PAYMENT_ATTEMPTS_MAX;
use crate::base::time::Timestamp;
use crate::event::Event;
use crate::orders::rules::{
    Buyer, Contact, Decision, Hold, HoldState, Order, Payment, PaymentId, PaymentState, Refusal,
    Status, Terms, Write,
};

/// A fan buys what they hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceOrder {
    /// Who buys.
    pub buyer: Buyer,
    /// What.
    pub hold: HoldId,
    /// Where messages go.
    pub contact: Contact,
    /// What they pay with; absent: the provider's default.
    pub token: Option<String>,
}

/// What an order depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// What the operator decided.
    pub terms: Terms,
    /// The hold.
    pub hold: Option<Hold>,
    /// The order that was made from the hold before.
    pub order: Option<Order>,
    /// Whether the ticket has an order that counts.
    pub ordered: bool,
}

/// An order and whether this request made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    /// It was made now.
    First(Order),
    /// It had been made before: the same facts, and no second event.
    Again(Order),
}

impl Placed {
    /// The order.
    pub const fn order(&self) -> &Order {
        match self {
            Self::First(order) | Self::Again(order) => order,
        }
    }
}

/// Decides an order. `id` is the new order's, if there will be one.
///
/// # Errors
/// The refusal.
pub fn place(
    facts: &Facts,
    request: &PlaceOrder,
    id: OrderId,
    now: Timestamp,
) -> Result<Decision<Placed>, Refusal> {
    let buyer = &request.buyer;
    let hold = facts
        .hold
        .as_ref()
        .filter(|hold| hold.fan == buyer.fan && hold.show == buyer.show)
        .ok_or(Refusal::NoSuchHold)?;
    if let Some(order) = &facts.order {
        return Ok(Decision::unchanged(Placed::Again(order.clone())));
    }
    if facts.terms.is_cancelled {
        return Err(Refusal::ShowCancelled);
    }
    if facts.ordered {
        return Err(Refusal::TurnOver);
    }
    if hold.state != HoldState::Live || hold.expires_at <= now {
        return Err(Refusal::HoldEnded);
    }
    let order = Order {
        id,
        hold: hold.id,
        show: hold.show.clone(),
        fan: hold.fan,
        ticket: hold.ticket,
        contact: request.contact.clone(),
        seats: hold.seats.clone(),
        total: hold.total,
        status: Status::Pending,
        reason: None,
        placed_at: now,
        payable_until: hold.expires_at,
        updated_at: now,
        version: 1,
    };
    let ordered = Hold {
        state: HoldState::Ordered,
        ..hold.clone()
    };
    let writes = vec![
        Write::Hold(ordered),
        Write::Order(order.clone()),
        Write::Payment(asked(&order, 1, request.token.clone(), now)),
        Write::Event(order.version, Event::OrderPlaced(order.facts(&facts.terms))),
    ];
    Ok(Decision {
        answer: Placed::First(order),
        writes,
    })
}

/// A fan tries again to pay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pay {
    /// Who pays.
    pub buyer: Buyer,
    /// What.
    pub order: OrderId,
    /// What they pay with; absent: the provider's default.
    pub token: Option<String>,
}

/// Decides another attempt to pay, given the order and its last attempt. An order that needs no
/// payment any more is answered as it stands.
///
/// # Errors
/// The refusal.
pub fn pay(
    order: Option<&Order>,
    last: Option<&Payment>,
    request: &Pay,
    now: Timestamp,
) -> Result<Decision<Order>, Refusal> {
    let order = of_fan(order, &request.buyer.show, request.buyer.fan)?;
    match order.status {
        Status::Pending => {}
        Status::Confirmed | Status::Cancelled | Status::Refunded => {
            return Ok(Decision::unchanged(order.clone()));
        }
        Status::Declined => return Err(Refusal::HoldEnded),
    }
    if last.is_some_and(|payment| payment.state == PaymentState::Asked) {
        return Err(Refusal::PaymentInProgress);
    }
    let attempt = last.map_or(0, |payment| payment.id.attempt) + 1;
    if PAYMENT_ATTEMPTS_MAX < attempt || order.payable_until <= now {
        return Err(Refusal::HoldEnded);
    }
    let payable = Order {
        reason: None,
        updated_at: now,
        ..order.clone()
    };
    let payment = asked(order, attempt, request.token.clone(), now);
    Ok(Decision {
        answer: payable.clone(),
        writes: vec![Write::Order(payable), Write::Payment(payment)],
    })
}

/// The order, if it is this fan's.
///
/// # Errors
/// [`Refusal::NoSuchOrder`], the same for an unknown order and for somebody else's.
pub fn of_fan<'a>(
    order: Option<&'a Order>,
    show: &ShowId,
    fan: FanId,
) -> Result<&'a Order, Refusal> {
    order
        .filter(|order| order.fan == fan && order.show == *show)
        .ok_or(Refusal::NoSuchOrder)
}

fn asked(order: &Order, attempt: u32, token: Option<String>, now: Timestamp) -> Payment {
    Payment {
        id: PaymentId {
            order: order.id,
            attempt,
        },
        state: PaymentState::Asked,
        token,
        reference: None,
        at: now,
    }
}
