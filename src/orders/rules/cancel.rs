//! How an operator takes an order back.
//!
//! Its seats are free again at once, and what was paid goes back. An attempt that is still in doubt
//! stays so: should the provider have taken the money, the answer leads to a refund.

use crate::base::time::Timestamp;
use crate::event::Event;
use crate::orders::rules::{
    Decision, Order, Payment, PaymentState, Reason, Refusal, Status, Terms, Write,
};

/// What a cancellation depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// What the operator decided.
    pub terms: Terms,
    /// The order.
    pub order: Order,
    /// All its attempts to pay.
    pub payments: Vec<Payment>,
}

/// Decides a cancellation. An order that was cancelled or paid back before is answered as it stands.
///
/// # Errors
/// [`Refusal::OrderOver`]: it was declined, so that nothing can be taken back.
pub fn cancel(facts: &Facts, now: Timestamp) -> Result<Decision<Order>, Refusal> {
    let order = &facts.order;
    let seats = match order.status {
        Status::Pending => Write::Free(order.hold, order.seats.len()),
        Status::Confirmed => Write::Return(order.hold, order.seats.len()),
        Status::Cancelled | Status::Refunded => return Ok(Decision::unchanged(order.clone())),
        Status::Declined => return Err(Refusal::OrderOver),
    };
    let reason = if facts.terms.is_cancelled {
        Reason::ShowCancelled
    } else {
        Reason::CancelledByOperator
    };
    let cancelled = order.turned(Status::Cancelled, Some(reason), now);
    let event = Event::OrderCancelled(cancelled.facts(&facts.terms));
    let mut writes = vec![seats];
    writes.extend(paid(&facts.payments).map(|payment| {
        Write::Payment(Payment {
            state: PaymentState::Refunding,
            at: now,
            ..payment.clone()
        })
    }));
    writes.push(Write::Event(cancelled.version, event));
    writes.push(Write::Order(cancelled.clone()));
    Ok(Decision {
        answer: cancelled,
        writes,
    })
}

/// The attempts whose money we have.
fn paid(payments: &[Payment]) -> impl Iterator<Item = &Payment> {
    let is_paid = |payment: &&Payment| payment.state == PaymentState::Approved;
    payments.iter().filter(is_paid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{FanId, IdSource, TicketId};
    use crate::event::ShowFacts;
    use crate::event::money::Money;
    use crate::orders::rules::{Contact, PaymentId};

    const NOW: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);

    fn facts(status: Status, attempts: &[PaymentState]) -> Facts {
        let ids = IdSource::seeded(1);
        let show = ShowFacts {
            id: "show".parse().unwrap(),
            name: "Show".to_owned(),
            starts_at: None,
        };
        let order = Order {
            id: ids.order(NOW),
            hold: ids.hold(NOW),
            show: show.id.clone(),
            fan: FanId([1; 16]),
            ticket: TicketId([2; 16]),
            contact: Contact {
                email: "ana@example.com".to_owned(),
                locale: "en".to_owned(),
            },
            seats: vec!["B-1".to_owned(), "B-2".to_owned()],
            total: Money::parse("780", "BRL".parse().unwrap()).unwrap(),
            status,
            reason: None,
            placed_at: NOW,
            payable_until: NOW.plus_ms(1_000),
            updated_at: NOW,
            version: 2,
        };
        let payment = |(attempt, state): (u32, &PaymentState)| Payment {
            id: PaymentId {
                order: order.id,
                attempt,
            },
            state: *state,
            token: None,
            reference: None,
            at: NOW,
        };
        Facts {
            terms: Terms {
                show,
                hold_ms: 1_000,
                holds_per_ticket: 1,
                sections: [].into(),
                is_cancelled: false,
            },
            payments: (1..).zip(attempts).map(payment).collect(),
            order,
        }
    }

    /// The attempts that are to be paid back.
    fn refunds(decision: &Decision<Order>) -> Vec<u32> {
        let refund = |write: &Write| match write {
            Write::Payment(payment) if payment.state == PaymentState::Refunding => {
                Some(payment.id.attempt)
            }
            _ => None,
        };
        decision.writes.iter().filter_map(refund).collect()
    }

    #[test]
    fn seats_come_back_and_what_was_paid_goes_back() {
        use PaymentState::{Approved, Asked, Declined};
        for (status, attempts, back) in [
            (Status::Pending, &[Asked][..], vec![]),
            (Status::Pending, &[Declined], vec![]),
            (Status::Confirmed, &[Approved], vec![1]),
            (Status::Confirmed, &[Declined, Approved], vec![2]),
        ] {
            let facts = facts(status, attempts);
            let decision = cancel(&facts, NOW).unwrap();
            assert_eq!(refunds(&decision), back, "{status:?} {attempts:?}");
            let expected = match status {
                Status::Pending => Write::Free(facts.order.hold, 2),
                _ => Write::Return(facts.order.hold, 2),
            };
            assert_eq!(decision.writes[0], expected);
            let order = &decision.answer;
            assert_eq!((order.status, order.version), (Status::Cancelled, 3));
            assert_eq!(order.reason, Some(Reason::CancelledByOperator));
            assert!(matches!(
                &decision.writes[decision.writes.len() - 2..],
                [Write::Event(3, Event::OrderCancelled(_)), Write::Order(told)] if told == order
            ));
        }
    }

    #[test]
    fn it_is_done_once_and_says_why() {
        for status in [Status::Cancelled, Status::Refunded] {
            let facts = facts(status, &[PaymentState::Refunding]);
            let as_it_stands = Decision::unchanged(facts.order.clone());
            assert_eq!(cancel(&facts, NOW), Ok(as_it_stands));
        }
        let over = facts(Status::Declined, &[PaymentState::Declined]);
        assert_eq!(cancel(&over, NOW), Err(Refusal::OrderOver));
        let mut with_its_show = facts(Status::Pending, &[]);
        with_its_show.terms.is_cancelled = true;
        let decision = cancel(&with_its_show, NOW).unwrap();
        assert_eq!(decision.answer.reason, Some(Reason::ShowCancelled));
    }
}
