//! Promise 7: no request reaches a gated route without a live ticket of that show, bound to that fan.
//!
//! Every hold and order is held against the ledger: its fan had a claimed admission at that time, and
//! its ticket is that fan's and nobody else's. Requests that clients sent without a good ticket, to
//! see what happens, must all have been answered 401.

use std::collections::BTreeMap;

use crate::base::ids::{FanId, ShowId, TicketId};
use crate::check::doubts::{self, Doubt};
use crate::check::facts::{Facts, Purchase, Show};
use crate::check::ledger::{self, Span};
use crate::check::verdict::{Promise, Verdict};

/// A gate may reuse a good answer for half a second, and the request travels on after it.
const SLACK_MS: u64 = 2_000;

pub(super) fn judge(facts: &Facts) -> Verdict {
    let mut verdict = Verdict::on(Promise::Gate);
    let mut tickets = Tickets::told(facts);
    for (id, show) in &facts.shows {
        let judge = Admissions {
            spans: ledger::spans(&show.ledger),
            doubts: doubts::all(show),
            show,
        };
        let mut doubtful = 0;
        for (what, purchase) in purchases(facts, id) {
            tickets.check(&what, purchase, &mut verdict);
            match judge.look_up(purchase) {
                Admitted::Live => {}
                Admitted::CannotTell => doubtful += 1,
                Admitted::No(why) => {
                    verdict.breaks(|| {
                        format!("{what} of fan {} at {}: {why}", purchase.fan, purchase.at)
                    });
                }
            }
        }
        verdict.cannot_prove_some(
            doubtful,
            &format!("holds and orders of show {id} are not covered by its ledger"),
        );
    }
    verdict.saw(facts.shop.holds.len(), "holds");
    verdict.saw(facts.shop.orders.len(), "orders");
    check_probes(facts, &mut verdict);
    verdict
}

fn purchases<'a>(
    facts: &'a Facts,
    id: &'a ShowId,
) -> impl Iterator<Item = (String, &'a Purchase)> + 'a {
    let holds = facts
        .shop
        .holds
        .iter()
        .map(|(id, hold)| (format!("hold {id}"), &hold.what));
    let orders = facts
        .shop
        .orders
        .iter()
        .map(|(id, order)| (format!("order {id}"), &order.what));
    holds
        .chain(orders)
        .filter(move |(_, what)| what.show == *id)
}

/// The admissions of one show.
struct Admissions<'a> {
    spans: BTreeMap<FanId, Vec<Span>>,
    doubts: Vec<Doubt>,
    show: &'a Show,
}

enum Admitted {
    Live,
    CannotTell,
    No(String),
}

impl Admissions<'_> {
    fn look_up(&self, purchase: &Purchase) -> Admitted {
        let spans = self.spans.get(&purchase.fan).map_or(&[][..], Vec::as_slice);
        let is_live = spans.iter().any(|span| {
            span.from.minus_ms(SLACK_MS) <= purchase.at
                && purchase.at <= span.until.plus_ms(SLACK_MS)
        });
        if is_live {
            return Admitted::Live;
        }
        let is_copied = self.show.ledger_end().is_some_and(|end| purchase.at <= end);
        if !is_copied || doubts::is_doubtful(&self.doubts, purchase.at) {
            return Admitted::CannotTell;
        }
        Admitted::No(match spans.last() {
            None => "the ledger never let this fan in".to_owned(),
            Some(last) => format!("the admission was from {} to {}", last.from, last.until),
        })
    }
}

/// Whose ticket is whose.
#[derive(Default)]
struct Tickets {
    of_fan: BTreeMap<FanId, TicketId>,
    owners: BTreeMap<TicketId, FanId>,
}

impl Tickets {
    /// The tickets that clients were given.
    fn told(facts: &Facts) -> Self {
        let mut tickets = Self::default();
        for told in facts.history.iter().flatten().filter(|told| told.is_ok()) {
            if let (Some(fan), Some(ticket)) = (told.fan, told.ticket) {
                tickets.of_fan.entry(fan).or_insert(ticket);
                tickets.owners.entry(ticket).or_insert(fan);
            }
        }
        tickets
    }

    fn check(&mut self, what: &str, purchase: &Purchase, verdict: &mut Verdict) {
        let (fan, ticket) = (purchase.fan, purchase.ticket);
        let owner = *self.owners.entry(ticket).or_insert(fan);
        let own = *self.of_fan.entry(fan).or_insert(ticket);
        if owner != fan {
            verdict.breaks(|| {
                format!("{what} of fan {fan} has ticket {ticket}, which is fan {owner}'s")
            });
        } else if own != ticket {
            verdict.breaks(|| {
                format!("{what} of fan {fan} has ticket {ticket}; the fan's own is {own}")
            });
        }
    }
}

/// Answers that say nothing about the gate: limits, overload, no answer, and requests refused before.
const fn is_beside_the_gate(status: Option<u16>) -> bool {
    matches!(status, None | Some(400 | 429 | 500..=599))
}

fn check_probes(facts: &Facts, verdict: &mut Verdict) {
    let mut refused = 0;
    for probe in facts
        .history
        .iter()
        .flatten()
        .filter(|operation| operation.op == "probe")
    {
        match probe.status {
            Some(401) => refused += 1,
            status if is_beside_the_gate(status) => {}
            status => verdict.breaks(|| {
                format!(
                    "{} asked at {} without a good ticket and was answered {}, not 401",
                    probe.person,
                    probe.sent(),
                    status.unwrap_or_default()
                )
            }),
        }
    }
    verdict.saw(refused, "requests without a good ticket refused");
    if refused == 0 {
        verdict.cannot_prove(
            "no history of requests without a good ticket: only what got through was looked at",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::facts::Operation;
    use crate::check::sample::{
        assert_broken, assert_clean, assert_unproved, claimed, ended, entry, facts, fan, hold,
        hold_id, operation, order, order_id, ticket,
    };

    fn probe(status: Option<u16>) -> Operation {
        Operation {
            status,
            ..operation("probe", 7, 100, 110)
        }
    }

    /// Fan 1 is inside from 10 s to 60 s and holds and orders; the ledger goes on to 500 s.
    fn sale() -> Facts {
        let mut facts = facts(vec![
            entry(1, 10_000, claimed(1, 90_000)),
            entry(2, 60_000, ended(1)),
            entry(3, 500_000, ended(9)),
        ]);
        facts.history = Some(vec![probe(Some(401))]);
        facts.shop.holds.insert(hold_id(1), hold(1, 20_000));
        facts.shop.orders.insert(order_id(1), order(1, 30_000));
        facts
    }

    #[test]
    fn whoever_holds_or_orders_is_inside() {
        assert_clean(&judge(&sale()));
        for (n, ms, says) in [
            (2, 20_000, "never let this fan in"),
            (1, 7_000, "the admission was from"),
            (1, 63_000, "the admission was from"),
        ] {
            let mut facts = sale();
            facts.shop.holds.insert(hold_id(2), hold(n, ms));
            assert_broken(&judge(&facts), says);
        }
        let mut late = sale();
        late.shop.holds.insert(hold_id(2), hold(2, 600_000));
        assert_unproved(&judge(&late), "not covered by its ledger");
    }

    #[test]
    fn a_ticket_is_bound_to_its_fan() {
        let mut facts = sale();
        let told = Operation {
            ticket: Some(ticket(1)),
            ..operation("status", 5, 10, 20)
        };
        facts.history.as_mut().unwrap().push(told);
        assert_broken(&judge(&facts), &format!("which is fan {}'s", fan(5)));
        let mut facts = sale();
        facts.shop.orders.get_mut(&order_id(1)).unwrap().what.ticket = ticket(8);
        assert_broken(&judge(&facts), "the fan's own is");
    }

    #[test]
    fn probes_are_all_refused() {
        for (status, is_beside) in [
            (Some(503), true),
            (None, true),
            (Some(409), false),
            (Some(201), false),
        ] {
            let mut facts = sale();
            facts.history.as_mut().unwrap().push(probe(status));
            if is_beside {
                assert_clean(&judge(&facts));
            } else {
                assert_broken(&judge(&facts), "not 401");
            }
        }
        let mut facts = sale();
        facts.history = None;
        assert_unproved(&judge(&facts), "no history of requests");
    }
}
