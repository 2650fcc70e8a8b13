//! Promise 3: what was answered survives every restart.
//!
//! Numbers keep their fans across restarts; a fan's ticket is one for ever, and its end is the one
//! that the ledger has for that time; every hold and order that was answered is in the shop. Clients
//! with and without JavaScript are counted apart, for their answers come by different pages.

use std::collections::BTreeMap;

use crate::base::ids::{FanId, OrderId, ShowId, TicketId};
use crate::base::time::Timestamp;
use crate::check::doubts::{self, Doubt};
use crate::check::facts::{Facts, Operation, OrderStatus, Show};
use crate::check::joins::Evidence;
use crate::check::ledger::{self, Change};
use crate::check::numbers;
use crate::check::turns::Turn;
use crate::check::verdict::{Promise, Verdict};

/// Between an answer and the clock of the machine that wrote it down.
const SKEW_MS: u64 = 1_000;
/// A checkpoint is written once a second; one this much younger than an answer must know of it.
const CHECKPOINT_MS: u64 = 5_000;

pub(super) fn judge(facts: &Facts) -> Verdict {
    let mut verdict = Verdict::on(Promise::NothingLost);
    let mut restarts = 0;
    for (id, show) in &facts.shows {
        restarts += ledger::restarts(&show.ledger).len();
        let numbers = numbers::of(facts, id, show);
        check_numbers(facts, id, show, &numbers.turns, &mut verdict);
        for conflict in numbers.conflicts {
            if conflict.is_across_restart {
                verdict.breaks(|| format!("show {id}: {} after a restart", conflict.text));
            }
        }
        for doubt in doubts::all(show) {
            verdict.cannot_prove(format!("show {id}: {}", doubt.text));
        }
        check_tickets(facts, id, &mut verdict);
        check_ends(facts, id, show, &mut verdict);
    }
    let answered = || {
        facts
            .history
            .iter()
            .flatten()
            .filter(|operation| operation.is_ok())
    };
    verdict.saw(restarts, "restarts");
    let with = answered()
        .filter(|operation| operation.js != Some(false))
        .count();
    verdict.saw(with, "answers with JavaScript");
    verdict.saw(answered().count() - with, "answers without");
    check_purchases(facts, &mut verdict);
    if facts.history.is_none() {
        verdict.cannot_prove("no history: nobody knows what was answered");
    }
    verdict.cannot_prove_some(facts.unplaced(), "operations name no show");
    verdict
}

/// Every number that was answered is below the last checkpoint's, and its join is in the journal.
fn check_numbers(facts: &Facts, id: &ShowId, show: &Show, turns: &[Turn], verdict: &mut Verdict) {
    let journal = facts
        .journals
        .as_ref()
        .and_then(|journals| journals.get(id));
    let journal = journal.filter(|journal| journal.first <= 1);
    let mut evidence = Evidence::of(facts, id, show);
    for turn in turns {
        let Some(number) = turn.number else { continue };
        let at = turn.told_at;
        let is_known = at.plus_ms(CHECKPOINT_MS) < show.checkpoint_at;
        if show.ceiling < number || (is_known && show.issued < number) {
            verdict.breaks(|| {
                format!(
                    "show {id}: {} was told number {number} at {at}, but at {} the last number was {} (ceiling {})",
                    turn.person, show.checkpoint_at, show.issued, show.ceiling
                )
            });
        }
        let Some(fan) = turn.fan else { continue };
        match journal {
            None => evidence.look_up(turn, fan, number),
            Some(journal) if journal.joined.contains(&fan) => {}
            Some(_) => verdict.breaks(|| {
                format!("show {id}: fan {fan} was told number {number} at {at}, but the journal has no such join")
            }),
        }
    }
    evidence.say(verdict);
}

/// A fan's ticket is the same whenever and wherever they ask.
fn check_tickets(facts: &Facts, id: &ShowId, verdict: &mut Verdict) {
    let mut tickets: BTreeMap<FanId, (TicketId, &Operation)> = BTreeMap::new();
    for told in facts.operations(id).filter(|told| told.is_ok()) {
        let (Some(fan), Some(ticket)) = (told.fan, told.ticket) else {
            continue;
        };
        let (first, then) = *tickets.entry(fan).or_insert((ticket, told));
        if first != ticket {
            verdict.breaks(|| {
                format!(
                    "show {id}: fan {fan} had ticket {first} at {} and ticket {ticket} at {}",
                    then.done(),
                    told.done()
                )
            });
        }
    }
}

/// A change of a fan's end, as the ledger has it.
#[derive(Debug, Clone, Copy)]
struct End {
    since: Timestamp,
    until: Timestamp,
}

/// Every end that a fan was told is the one that held when they were told.
fn check_ends(facts: &Facts, id: &ShowId, show: &Show, verdict: &mut Verdict) {
    let ends = ends(show);
    let doubts: Vec<Doubt> = doubts::all(show);
    let ledger_end = show.ledger_end();
    let mut untold = 0;
    for told in facts.operations(id).filter(|told| told.is_ok()) {
        let (Some(fan), Some(expires_at)) = (told.fan, told.expires_at) else {
            continue;
        };
        let known = ends.get(&fan).map_or(&[][..], Vec::as_slice);
        if is_told_rightly(known, told, expires_at) {
            continue;
        }
        let is_copied = ledger_end.is_some_and(|end| told.done() < end.minus_ms(SKEW_MS));
        if !is_copied || doubts::is_doubtful(&doubts, told.done()) {
            untold += 1;
            continue;
        }
        verdict.breaks(|| {
            let ends: Vec<String> =
                known.iter().map(|end| format!("{} from {}", end.until, end.since)).collect();
            format!(
                "show {id}: fan {fan} was told at {} that the ticket ends at {expires_at}; the ledger has: {}",
                told.done(), if ends.is_empty() { "no claim".to_owned() } else { ends.join(", ") }
            )
        });
    }
    verdict.cannot_prove_some(
        untold,
        "ticket ends were told where the ledger may lack entries",
    );
}

fn ends(show: &Show) -> BTreeMap<FanId, Vec<End>> {
    let mut ends: BTreeMap<FanId, Vec<End>> = BTreeMap::new();
    for entry in &show.ledger {
        let (Change::Claimed { fan, until } | Change::Extended { fan, until }) = &entry.change
        else {
            continue;
        };
        ends.entry(*fan).or_default().push(End {
            since: entry.at,
            until: *until,
        });
    }
    ends
}

fn is_told_rightly(ends: &[End], told: &Operation, expires_at: Timestamp) -> bool {
    let from = told.sent().minus_ms(SKEW_MS);
    let to = told.done().plus_ms(SKEW_MS);
    ends.iter().enumerate().any(|(i, end)| {
        let is_replaced = ends.get(i + 1).is_some_and(|next| next.since < from);
        is_same_end(end.until, expires_at) && end.since <= to && !is_replaced
    })
}

/// Tokens count in whole seconds, answers in milliseconds.
fn is_same_end(until: Timestamp, told: Timestamp) -> bool {
    until == told || Timestamp::from_unix_seconds(until.unix_seconds()) == told
}

/// Every hold and order that was answered is there, and as far as it was.
fn check_purchases(facts: &Facts, verdict: &mut Verdict) {
    let mut count = 0;
    for told in facts.history.iter().flatten() {
        let is_lost = told.order_status.as_deref() == Some("lost");
        if !told.is_ok() && !is_lost {
            continue;
        }
        count += usize::from(told.hold.is_some() || told.order.is_some());
        let at = told.done();
        if let Some(hold) = told.hold
            && !facts.shop.holds.contains_key(&hold)
        {
            verdict.breaks(|| format!("hold {hold} was answered at {at}, and is gone"));
        }
        let Some(order) = told.order else { continue };
        match facts.shop.orders.get(&order) {
            None => verdict.breaks(|| format!("order {order} was answered at {at}, and is gone")),
            Some(_) if is_lost => {
                verdict.breaks(|| format!("order {order} was not found at {at}, and is there"));
            }
            Some(row) => check_status(order, row.status, told, verdict),
        }
    }
    verdict.saw(count, "answers about holds and orders");
}

/// What is paid stays paid.
fn check_status(order: OrderId, status: OrderStatus, told: &Operation, verdict: &mut Verdict) {
    let said = told.order_status.as_deref().unwrap_or_default();
    let was_paid = matches!(said, "confirmed" | "refunded" | "cancelled");
    if was_paid && matches!(status, OrderStatus::Pending | OrderStatus::Declined) {
        verdict.breaks(|| {
            format!(
                "order {order} was {said} at {}, and is {status} now",
                told.done()
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{FencingToken, Number};
    use crate::check::facts::{Journal, Order};
    use crate::check::sample::{
        assert_broken, assert_clean, assert_unproved, at, claimed, ended, entry, extended, facts,
        fan, hold_id, join, operation, order, order_id, show, ticket,
    };

    /// A ledger in which fan 1 claims, is extended, and much happens afterwards.
    fn sale() -> Facts {
        let mut facts = facts(vec![
            entry(1, 10_000, claimed(1, 310_000)),
            entry(2, 20_000, extended(1, 400_000)),
            entry(3, 90_000, ended(9)),
        ]);
        let journal = Journal {
            first: 1,
            joined: [fan(1), fan(2)].into(),
        };
        facts.journals = Some(BTreeMap::from([(show(), journal)]));
        facts.history = Some(vec![]);
        facts
    }

    fn status(sent_ms: u64, ticket_no: u128, expires_ms: i64) -> Operation {
        Operation {
            ticket: Some(ticket(ticket_no)),
            expires_at: Some(at(expires_ms)),
            ..operation("status", 1, sent_ms, sent_ms + 10)
        }
    }

    fn verdict(history: Vec<Operation>) -> Verdict {
        judge(&Facts {
            history: Some(history),
            ..sale()
        })
    }

    #[test]
    fn the_end_of_a_ticket_is_the_ledgers() {
        assert_clean(&verdict(vec![
            status(10_100, 1, 310_000),
            status(20_100, 1, 400_000),
        ]));
        assert_clean(&verdict(vec![
            status(19_990, 1, 310_000),
            status(20_100, 1, 400_000),
        ]));
        assert_broken(&verdict(vec![status(30_000, 1, 310_000)]), "ends at");
        assert_broken(&verdict(vec![status(30_000, 1, 555_000)]), "ends at");
        assert_broken(
            &verdict(vec![status(10_100, 1, 310_000), status(20_100, 2, 400_000)]),
            "ticket",
        );
        assert_unproved(&verdict(vec![status(90_000, 1, 555_000)]), "ticket ends");
    }

    #[test]
    fn answered_numbers_are_known_ever_after() {
        let mut facts = sale();
        facts.history = Some(vec![join(1, 10, 20, 1)]);
        assert_clean(&judge(&facts));
        facts.history = Some(vec![join(7, 10, 20, 1)]);
        assert_broken(&judge(&facts), "no such join");
        facts
            .journals
            .as_mut()
            .unwrap()
            .get_mut(&show())
            .unwrap()
            .first = 100;
        assert_clean(&judge(&facts));
        facts.journals = None;
        assert_clean(&judge(&facts));

        let mut facts = sale();
        facts.history = Some(vec![join(1, 10, 20, 8)]);
        let row = facts.shows.get_mut(&show()).unwrap();
        row.issued = Number(7);
        row.checkpoint_at = at(60_000);
        assert_broken(&judge(&facts), "the last number was 7");
        facts.shows.get_mut(&show()).unwrap().checkpoint_at = at(1_000);
        assert_clean(&judge(&facts));
    }

    #[test]
    fn a_number_that_changed_over_a_restart_was_lost() {
        let mut facts = sale();
        facts.history = Some(vec![join(1, 10, 20, 1), join(1, 30_000, 30_010, 2)]);
        assert_clean(&judge(&facts));
        facts.shows.get_mut(&show()).unwrap().ledger[1].token = FencingToken(2);
        facts.shows.get_mut(&show()).unwrap().ledger[2].token = FencingToken(2);
        assert_broken(&judge(&facts), "after a restart");
    }

    #[test]
    fn answered_holds_and_orders_are_there() {
        let placed = Operation {
            order: Some(order_id(1)),
            ..operation("order", 1, 30_000, 30_010)
        };
        assert_broken(&verdict(vec![placed]), "is gone");
        let hold = Operation {
            hold: Some(hold_id(1)),
            ..operation("hold", 1, 30_000, 30_010)
        };
        assert_broken(&verdict(vec![hold]), "is gone");
        let read = |status: &str| {
            let order_status = Some(status.to_owned());
            Operation {
                order: Some(order_id(1)),
                order_status,
                ..operation("read", 1, 30, 40)
            }
        };
        for (status, says) in [("lost", "was not found"), ("confirmed", "is pending now")] {
            let mut facts = sale();
            let pending = Order {
                status: OrderStatus::Pending,
                ..order(1, 30_000)
            };
            facts.shop.orders.insert(order_id(1), pending);
            facts.history = Some(vec![read(status)]);
            assert_broken(&judge(&facts), says);
        }
    }

    #[test]
    fn without_a_history_nothing_is_proved() {
        assert_unproved(&judge(&facts(vec![])), "no history");
    }
}
