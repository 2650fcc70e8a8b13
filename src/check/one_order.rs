//! Promise 10: one hold makes one order, one ticket makes one order that counts, and asking again
//! gives the same answer.

use std::collections::BTreeMap;

use crate::base::ids::{HoldId, OrderId, TicketId};
use crate::check::facts::{Facts, HoldState, Operation, Order, PaymentState};
use crate::check::verdict::{Promise, Verdict};

pub(super) fn judge(facts: &Facts) -> Verdict {
    let mut verdict = Verdict::on(Promise::OneOrder);
    let mut by_hold: BTreeMap<HoldId, OrderId> = BTreeMap::new();
    let mut by_ticket: BTreeMap<TicketId, OrderId> = BTreeMap::new();
    for (id, order) in &facts.shop.orders {
        let other = *by_hold.entry(order.hold).or_insert(*id);
        if other != *id {
            verdict.breaks(|| format!("hold {} made orders {other} and {id}", order.hold));
        }
        let ticket = order.what.ticket;
        if order.status.counts() {
            let other = *by_ticket.entry(ticket).or_insert(*id);
            if other != *id {
                verdict.breaks(|| {
                    format!("ticket {ticket} has orders {other} and {id}, and both count")
                });
            }
        }
        check_hold(facts, *id, order, &mut verdict);
    }
    for (id, hold) in &facts.shop.holds {
        if hold.state == HoldState::Ordered && !by_hold.contains_key(id) {
            verdict.breaks(|| format!("hold {id} is ordered, and no order has it"));
        }
    }
    check_payments(facts, &mut verdict);
    let repeats = check_answers(facts, &mut verdict);
    verdict.saw(facts.shop.orders.len(), "orders");
    verdict.saw(by_ticket.len(), "tickets with an order that counts");
    verdict.saw(repeats, "repeated answers");
    if facts.history.is_none() {
        verdict.cannot_prove("no history: repeated answers were not compared");
    }
    verdict
}

/// An order says what its hold says.
fn check_hold(facts: &Facts, id: OrderId, order: &Order, verdict: &mut Verdict) {
    let Some(hold) = facts.shop.holds.get(&order.hold) else {
        verdict.breaks(|| format!("order {id} is for hold {}, which is none", order.hold));
        return;
    };
    if order.status.counts() && hold.state != HoldState::Ordered {
        verdict.breaks(|| {
            format!(
                "order {id} is {} and its hold {} is {}",
                order.status, order.hold, hold.state
            )
        });
    }
    let (mine, its) = (&order.what, &hold.what);
    let rows = [
        ("fan", mine.fan.to_string(), its.fan.to_string()),
        ("show", mine.show.to_string(), its.show.to_string()),
        ("seats", mine.seats.join(" "), its.seats.join(" ")),
        (
            "total",
            mine.total_minor.to_string(),
            its.total_minor.to_string(),
        ),
    ];
    for (what, mine, its) in rows {
        if mine != its {
            verdict.breaks(|| {
                format!(
                    "order {id} has {what} {mine}, its hold {} has {its}",
                    order.hold
                )
            });
        }
    }
}

/// Nobody is charged twice, and an order that is over keeps nobody's money.
fn check_payments(facts: &Facts, verdict: &mut Verdict) {
    let mut paid: BTreeMap<OrderId, u64> = BTreeMap::new();
    for payment in facts
        .shop
        .payments
        .iter()
        .filter(|payment| payment.state == PaymentState::Approved)
    {
        let first = *paid.entry(payment.order).or_insert(payment.attempt);
        if first != payment.attempt {
            verdict.breaks(|| {
                format!(
                    "order {} is charged twice: by attempts {first} and {}",
                    payment.order, payment.attempt
                )
            });
        }
        let order = facts.shop.orders.get(&payment.order);
        if let Some(order) = order.filter(|order| !order.status.counts()) {
            verdict.breaks(|| {
                format!(
                    "order {} is {}, and the money of attempt {} is not to go back",
                    payment.order, order.status, payment.attempt
                )
            });
        }
    }
}

/// What an order was answered to be, the first time.
struct Answer<'a> {
    first: &'a Operation,
    seats: Option<&'a [String]>,
    hold: Option<HoldId>,
}

/// Every answer about an order has the same facts, and they are the shop's. The number of repeats.
fn check_answers(facts: &Facts, verdict: &mut Verdict) -> usize {
    let mut answers: BTreeMap<OrderId, Answer<'_>> = BTreeMap::new();
    let mut orders: BTreeMap<HoldId, OrderId> = BTreeMap::new();
    let mut repeats = 0;
    for told in facts.history.iter().flatten().filter(|told| told.is_ok()) {
        let Some(order) = told.order else { continue };
        if let Some(hold) = told.hold {
            let other = *orders.entry(hold).or_insert(order);
            if other != order {
                verdict.breaks(|| {
                    format!(
                        "hold {hold} was answered order {other}, and at {} order {order}",
                        told.done()
                    )
                });
            }
        }
        let row = facts.shop.orders.get(&order);
        let answer = answers.entry(order).or_insert(Answer {
            first: told,
            seats: row.map(|row| row.what.seats.as_slice()),
            hold: row.map(|row| row.hold),
        });
        repeats += usize::from(!std::ptr::eq(answer.first, told));
        let seats = told.seats.as_deref();
        if answer.seats.is_some() && seats.is_some() && seats != answer.seats {
            verdict.breaks(|| {
                format!(
                    "order {order} was answered seats {:?} at {}, and has {:?}",
                    seats.unwrap_or_default(),
                    told.done(),
                    answer.seats.unwrap_or_default()
                )
            });
        }
        if answer.hold.is_some() && told.hold.is_some() && told.hold != answer.hold {
            verdict.breaks(|| {
                format!(
                    "order {order} was answered for another hold at {}",
                    told.done()
                )
            });
        }
        answer.seats = answer.seats.or(seats);
        answer.hold = answer.hold.or(told.hold);
    }
    repeats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::facts::{OrderStatus, Payment};
    use crate::check::sample::{
        assert_broken, assert_clean, assert_unproved, facts, hold, hold_id, operation, order,
        order_id, ticket,
    };

    fn told(n: u128, seat: &str) -> Operation {
        Operation {
            order: Some(order_id(n)),
            hold: Some(hold_id(n)),
            seats: Some(vec![seat.to_owned()]),
            ..operation("order", 1, 10, 20)
        }
    }

    fn shop() -> Facts {
        let mut facts = facts(vec![]);
        for n in 1..=2 {
            let mut ordered = hold(n, 0);
            ordered.state = HoldState::Ordered;
            facts.shop.holds.insert(hold_id(n), ordered);
            facts.shop.orders.insert(order_id(n), order(n, 0));
            let order = order_id(n);
            facts.shop.payments.push(Payment {
                order,
                attempt: 1,
                state: PaymentState::Approved,
            });
        }
        facts.history = Some(vec![told(1, "A-1"), told(1, "A-1")]);
        facts
    }

    #[test]
    fn repeats_are_the_same() {
        let verdict = judge(&shop());
        assert_clean(&verdict);
        assert_eq!(verdict.looked_at[2], "1 repeated answers");
        let mut facts = shop();
        facts.history = None;
        assert_unproved(&judge(&facts), "no history");
        for (again, says) in [
            (told(1, "A-9"), "was answered seats"),
            (
                Operation {
                    hold: Some(hold_id(2)),
                    ..told(1, "A-1")
                },
                "for another hold",
            ),
            (
                Operation {
                    order: Some(order_id(2)),
                    seats: None,
                    ..told(1, "")
                },
                "was answered order",
            ),
        ] {
            let mut facts = shop();
            facts.history.as_mut().unwrap().push(again);
            assert_broken(&judge(&facts), says);
        }
    }

    #[test]
    fn every_way_to_order_twice() {
        type Break = fn(&mut Facts);
        fn second(facts: &mut Facts) -> &mut Order {
            facts.shop.orders.get_mut(&order_id(2)).unwrap()
        }
        let rows: [(Break, &str); 9] = [
            (
                |facts| second(facts).status = OrderStatus::Cancelled,
                "is not to go back",
            ),
            (|facts| second(facts).hold = hold_id(1), "made orders"),
            (|facts| second(facts).what.ticket = ticket(1), "both count"),
            (
                |facts| second(facts).what.seats = vec!["A-7".into()],
                "has seats A-7",
            ),
            (|facts| second(facts).what.total_minor = 1, "has total 1"),
            (|facts| second(facts).hold = hold_id(9), "which is none"),
            (
                |facts| drop(facts.shop.orders.remove(&order_id(2))),
                "no order has it",
            ),
            (
                |facts| facts.shop.holds.get_mut(&hold_id(2)).unwrap().state = HoldState::Expired,
                "is expired",
            ),
            (
                |facts| {
                    facts.shop.payments[1].order = order_id(1);
                    facts.shop.payments[1].attempt = 2;
                },
                "charged twice",
            ),
        ];
        for (breaks, says) in rows {
            let mut facts = shop();
            breaks(&mut facts);
            assert_broken(&judge(&facts), says);
        }
    }

    #[test]
    fn an_ended_order_lets_the_ticket_try_again() {
        let mut facts = shop();
        let second = facts.shop.orders.get_mut(&order_id(2)).unwrap();
        second.what.ticket = ticket(1);
        second.status = OrderStatus::Declined;
        facts.shop.payments[1].state = PaymentState::Refunding;
        assert_clean(&judge(&facts));
    }
}
