//! What the provider's answers make of an order, and what happens when time runs out.
//!
//! While an answer is in doubt the order keeps its seats, past the end of its hold if need be: money
//! may have been taken. Only after [`DOUBT_MS_MAX`] are the seats given up. An approval that comes
//! even later takes the seats again if all are free, else the money goes back, once.

use crate::base::limits::{DOUBT_MS_MAX, PAYMENT_ATTEMPTS_MAX};
use crate::base::time::Timestamp;
use crate::event::Event;
use crate::orders::rules::{
    Decision, Order, Payment, PaymentState, Reason, Status, Taken, Terms, Write,
};

/// What a provider says about an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The money was taken.
    Approved {
        /// The provider's name for the charge.
        reference: String,
    },
    /// It was not, and will not be for this attempt.
    Declined,
}

/// What the consequences of an answer depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// What the operator decided.
    pub terms: Terms,
    /// The order.
    pub order: Order,
    /// The attempt that was answered.
    pub payment: Payment,
    /// Whether the order could still be served if it has lost its seats: all of them are free, and
    /// the ticket has no other order that counts.
    pub retakable: bool,
}

/// What an answer led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Settled {
    /// The order is paid.
    Confirmed,
    /// The fan may try again.
    MayRetry,
    /// The order is over.
    Declined,
    /// The money has to go back.
    Refunding,
    /// The answer was known before.
    Before,
}

/// Decides what a provider's answer leads to. Repeating it changes nothing.
pub fn answered(facts: &Facts, verdict: &Verdict, now: Timestamp) -> Decision<Settled> {
    match (facts.payment.state, verdict) {
        (PaymentState::Asked, Verdict::Approved { reference }) => approved(facts, reference, now),
        (PaymentState::Asked, Verdict::Declined) => declined(facts, now),
        // The provider took back its no. The fan may have paid in another way since.
        (PaymentState::Declined, Verdict::Approved { reference }) => Decision {
            answer: Settled::Refunding,
            writes: vec![turned(facts, PaymentState::Refunding, reference, now)],
        },
        (PaymentState::Declined, Verdict::Declined)
        | (PaymentState::Approved | PaymentState::Refunding | PaymentState::Refunded, _) => {
            Decision::unchanged(Settled::Before)
        }
    }
}

fn approved(facts: &Facts, reference: &str, now: Timestamp) -> Decision<Settled> {
    let order = &facts.order;
    let seats = match order.status {
        Status::Pending => Some(Write::Sell(order.hold, order.seats.len())),
        Status::Declined if facts.retakable => Some(Write::Take {
            show: order.show.clone(),
            seats: order.seats.clone(),
            hold: order.hold,
            to: Taken::Sold,
        }),
        // Confirmed: a second attempt of a paid order cannot begin, but no fan pays twice.
        Status::Declined | Status::Confirmed | Status::Cancelled | Status::Refunded => None,
    };
    let payment = |state| turned(facts, state, reference, now);
    let Some(seats) = seats else {
        return Decision {
            answer: Settled::Refunding,
            writes: vec![payment(PaymentState::Refunding)],
        };
    };
    let confirmed = order.turned(Status::Confirmed, None, now);
    let event = Event::OrderConfirmed(confirmed.facts(&facts.terms));
    Decision {
        answer: Settled::Confirmed,
        writes: vec![
            seats,
            payment(PaymentState::Approved),
            Write::Event(confirmed.version, event),
            Write::Order(confirmed),
        ],
    }
}

/// The attempt, which took money, in another state.
fn turned(facts: &Facts, state: PaymentState, reference: &str, now: Timestamp) -> Write {
    Write::Payment(Payment {
        state,
        reference: Some(reference.to_owned()),
        at: now,
        ..facts.payment.clone()
    })
}

fn declined(facts: &Facts, now: Timestamp) -> Decision<Settled> {
    let order = &facts.order;
    let payment = Write::Payment(Payment {
        state: PaymentState::Declined,
        at: now,
        ..facts.payment.clone()
    });
    if order.status != Status::Pending {
        return Decision {
            answer: Settled::Declined,
            writes: vec![payment],
        };
    }
    if facts.payment.id.attempt < PAYMENT_ATTEMPTS_MAX && now < order.payable_until {
        let waiting = Order {
            reason: Some(Reason::PaymentDeclined),
            updated_at: now,
            ..order.clone()
        };
        return Decision {
            answer: Settled::MayRetry,
            writes: vec![payment, Write::Order(waiting)],
        };
    }
    let mut writes = give_up(facts, Reason::PaymentDeclined, now);
    writes.push(payment);
    Decision {
        answer: Settled::Declined,
        writes,
    }
}

/// Ends a pending order whose time is over, given its last attempt to pay. Repeating it changes
/// nothing.
pub fn expire(facts: &Facts, now: Timestamp) -> Decision<bool> {
    let order = &facts.order;
    if order.status != Status::Pending || now < order.payable_until {
        return Decision::unchanged(false);
    }
    let reason = match facts.payment.state {
        PaymentState::Asked if now < order.payable_until.plus_ms(DOUBT_MS_MAX) => {
            return Decision::unchanged(false);
        }
        PaymentState::Asked => Reason::PaymentUnknown,
        PaymentState::Approved
        | PaymentState::Declined
        | PaymentState::Refunding
        | PaymentState::Refunded => Reason::PaymentDeclined,
    };
    Decision {
        answer: true,
        writes: give_up(facts, reason, now),
    }
}

fn give_up(facts: &Facts, reason: Reason, now: Timestamp) -> Vec<Write> {
    let declined = facts.order.turned(Status::Declined, Some(reason), now);
    let event = Event::OrderDeclined(declined.facts(&facts.terms));
    vec![
        Write::Free(declined.hold, declined.seats.len()),
        Write::Event(declined.version, event),
        Write::Order(declined),
    ]
}

/// The provider has paid the attempt back. Repeating it changes nothing.
pub fn refunded(facts: &Facts, now: Timestamp) -> Decision<bool> {
    if facts.payment.state != PaymentState::Refunding {
        return Decision::unchanged(false);
    }
    let mut writes = vec![Write::Payment(Payment {
        state: PaymentState::Refunded,
        at: now,
        ..facts.payment.clone()
    })];
    let order = &facts.order;
    let reason = match order.status {
        Status::Declined => Some(Reason::ApprovedTooLate),
        Status::Cancelled => order.reason,
        // A second charge of a paid order goes back without a word about the order.
        Status::Pending | Status::Confirmed | Status::Refunded => None,
    };
    if reason.is_some() {
        let refunded = order.turned(Status::Refunded, reason, now);
        let event = Event::OrderRefunded(refunded.facts(&facts.terms));
        writes.push(Write::Event(refunded.version, event));
        writes.push(Write::Order(refunded));
    }
    Decision {
        answer: true,
        writes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{FanId, IdSource, TicketId};
    use crate::event::ShowFacts;
    use crate::event::money::Money;
    use crate::orders::rules::{Contact, PaymentId};

    const NOW: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);
    const UNTIL: Timestamp = Timestamp::from_unix_ms(1_800_000_001_000);

    const fn approved() -> Verdict {
        Verdict::Approved {
            reference: String::new(),
        }
    }

    fn facts(status: Status, state: PaymentState, attempt: u32) -> Facts {
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
            seats: vec!["B-1".to_owned()],
            total: Money::parse("390", "BRL".parse().unwrap()).unwrap(),
            status,
            reason: None,
            placed_at: NOW,
            payable_until: UNTIL,
            updated_at: NOW,
            version: 1,
        };
        Facts {
            terms: Terms {
                show,
                hold_ms: 1_000,
                holds_per_ticket: 1,
                sections: [].into(),
                is_cancelled: false,
            },
            payment: Payment {
                id: PaymentId {
                    order: order.id,
                    attempt,
                },
                state,
                token: None,
                reference: None,
                at: NOW,
            },
            order,
            retakable: false,
        }
    }

    /// The status that the writes leave the order in, why, and the events they tell of it.
    fn outcome(facts: &Facts, writes: &[Write]) -> (Status, Option<Reason>, Vec<&'static str>) {
        let mut order = facts.order.clone();
        let mut events = Vec::new();
        for write in writes {
            if let Write::Order(changed) = write {
                order = changed.clone();
            }
            if let Write::Event(version, event) = write {
                events.push(event.kind());
                assert_eq!(*version, 1 + events.len() as u64);
            }
        }
        assert_eq!(order.version, 1 + events.len() as u64);
        (order.status, order.reason, events)
    }

    #[test]
    fn each_answer_leads_where_it_should() {
        use Status::{Cancelled, Confirmed, Declined, Pending, Refunded};
        let (yes, no, late) = (approved(), Verdict::Declined, UNTIL);
        for (status, attempt, verdict, now, settled, events) in [
            (
                Pending,
                1,
                &yes,
                NOW,
                Settled::Confirmed,
                vec!["OrderConfirmed"],
            ),
            (
                Pending,
                1,
                &yes,
                late,
                Settled::Confirmed,
                vec!["OrderConfirmed"],
            ),
            (Pending, 2, &no, NOW, Settled::MayRetry, vec![]),
            (
                Pending,
                3,
                &no,
                NOW,
                Settled::Declined,
                vec!["OrderDeclined"],
            ),
            (
                Pending,
                1,
                &no,
                late,
                Settled::Declined,
                vec!["OrderDeclined"],
            ),
            (Declined, 1, &yes, late, Settled::Refunding, vec![]),
            (Declined, 1, &no, late, Settled::Declined, vec![]),
            (Confirmed, 2, &yes, NOW, Settled::Refunding, vec![]),
            (Cancelled, 1, &yes, NOW, Settled::Refunding, vec![]),
            (Cancelled, 1, &no, NOW, Settled::Declined, vec![]),
            (Refunded, 2, &no, NOW, Settled::Declined, vec![]),
        ] {
            let facts = facts(status, PaymentState::Asked, attempt);
            let decision = answered(&facts, verdict, now);
            assert_eq!(decision.answer, settled, "{status:?} {verdict:?}");
            assert_eq!(outcome(&facts, &decision.writes).2, events);
        }
        let known = facts(Confirmed, PaymentState::Approved, 1);
        let before = Decision::unchanged(Settled::Before);
        assert_eq!(answered(&known, &yes, NOW), before);
        let taken_back = self::facts(Pending, PaymentState::Declined, 1);
        assert_eq!(answered(&taken_back, &no, NOW), before);
        let money = answered(&taken_back, &yes, NOW);
        assert_eq!(money.answer, Settled::Refunding);
        let retakable = Facts {
            retakable: true,
            ..facts(Declined, PaymentState::Asked, 1)
        };
        let writes = answered(&retakable, &yes, late).writes;
        assert!(matches!(writes[0], Write::Take { .. }));
        assert_eq!(outcome(&retakable, &writes).0, Confirmed);
    }

    #[test]
    fn an_order_ends_with_its_time_unless_it_is_in_doubt() {
        use PaymentState::{Approved, Asked, Declined};
        let doubt = UNTIL.plus_ms(DOUBT_MS_MAX);
        for (status, state, now, reason) in [
            (Status::Pending, Declined, UNTIL.minus_ms(1), None),
            (
                Status::Pending,
                Declined,
                UNTIL,
                Some(Reason::PaymentDeclined),
            ),
            (Status::Pending, Asked, UNTIL, None),
            (Status::Pending, Asked, doubt.minus_ms(1), None),
            (Status::Pending, Asked, doubt, Some(Reason::PaymentUnknown)),
            (Status::Confirmed, Approved, doubt, None),
            (Status::Declined, Declined, doubt, None),
        ] {
            let facts = facts(status, state, 1);
            let decision = expire(&facts, now);
            assert_eq!(decision.answer, reason.is_some(), "{status:?} {state:?}");
            assert_eq!(outcome(&facts, &decision.writes).1, reason);
        }
    }

    #[test]
    fn money_goes_back_once() {
        let due = facts(Status::Declined, PaymentState::Refunding, 1);
        let told = outcome(&due, &refunded(&due, NOW).writes);
        assert_eq!((told.0, told.2), (Status::Refunded, vec!["OrderRefunded"]));
        let mut cancelled = facts(Status::Cancelled, PaymentState::Refunding, 1);
        cancelled.order.reason = Some(Reason::ShowCancelled);
        let told = outcome(&cancelled, &refunded(&cancelled, NOW).writes);
        assert_eq!(told.1, Some(Reason::ShowCancelled), "why it was cancelled");
        assert_eq!((told.0, told.2), (Status::Refunded, vec!["OrderRefunded"]));
        let done = facts(Status::Refunded, PaymentState::Refunded, 1);
        assert_eq!(refunded(&done, NOW), Decision::unchanged(false));
        // A second charge of a paid order goes back without a word about the order.
        let twice = facts(Status::Confirmed, PaymentState::Refunding, 2);
        assert!(outcome(&twice, &refunded(&twice, NOW).writes).2.is_empty());
    }
}
