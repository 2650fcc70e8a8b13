//! Promise 9: free, held and sold seats add up to what the show has, and no seat is taken twice.
//!
//! Who has a seat is told twice: by the seat's row, and by the hold or order that lists it. The two
//! must agree in both directions.

use std::collections::BTreeMap;

use crate::base::ids::{HoldId, ShowId};
use crate::check::facts::{Facts, HoldState, OrderStatus, Seat, SeatState, Show};
use crate::check::verdict::{Promise, Verdict};

pub(super) fn judge(facts: &Facts) -> Verdict {
    let mut verdict = Verdict::on(Promise::NoOversell);
    let takers = takers(facts);
    for (id, show) in &facts.shows {
        check_sums(facts, id, show, &mut verdict);
    }
    let mut seats: BTreeMap<(&ShowId, &str), &Seat> = BTreeMap::new();
    for seat in &facts.shop.seats {
        seats.insert((&seat.show, &seat.name), seat);
        check_seat(seat, &takers, &mut verdict);
    }
    for ((show, name), holders) in &takers {
        if !seats.contains_key(&(*show, *name)) {
            let taker = &holders[0];
            verdict.breaks(|| {
                format!(
                    "{} has seat {name} of show {show}, which is none",
                    taker.what
                )
            });
        }
    }
    let count = |state| {
        facts
            .shop
            .seats
            .iter()
            .filter(|seat| seat.state == state)
            .count()
    };
    verdict.saw(count(SeatState::Free), "seats free");
    verdict.saw(count(SeatState::Held), "held");
    verdict.saw(count(SeatState::Sold), "sold");
    verdict
}

/// A hold or order that has a seat.
#[derive(Debug)]
struct Taker {
    what: String,
    hold: HoldId,
    state: SeatState,
}

/// Everybody who has a seat, by seat: live holds, and orders that count, with their hold.
fn takers(facts: &Facts) -> BTreeMap<(&ShowId, &str), Vec<Taker>> {
    let mut takers: BTreeMap<(&ShowId, &str), Vec<Taker>> = BTreeMap::new();
    for (id, hold) in &facts.shop.holds {
        if hold.state != HoldState::Live {
            continue;
        }
        for seat in &hold.what.seats {
            takers
                .entry((&hold.what.show, seat))
                .or_default()
                .push(Taker {
                    what: format!("hold {id}"),
                    hold: *id,
                    state: SeatState::Held,
                });
        }
    }
    for (id, order) in &facts.shop.orders {
        let state = match order.status {
            OrderStatus::Pending => SeatState::Held,
            OrderStatus::Confirmed => SeatState::Sold,
            OrderStatus::Declined | OrderStatus::Cancelled | OrderStatus::Refunded => continue,
        };
        for seat in &order.what.seats {
            takers
                .entry((&order.what.show, seat))
                .or_default()
                .push(Taker {
                    what: format!("{} order {id}", order.status),
                    hold: order.hold,
                    state,
                });
        }
    }
    takers
}

fn check_seat(seat: &Seat, takers: &BTreeMap<(&ShowId, &str), Vec<Taker>>, verdict: &mut Verdict) {
    let name = format!("seat {} of show {}", seat.name, seat.show);
    let state = seat.state;
    match takers
        .get(&(&seat.show, seat.name.as_str()))
        .map(Vec::as_slice)
    {
        None | Some([]) => {
            if seat.state != SeatState::Free {
                let hold = seat
                    .hold
                    .map_or("nobody".to_owned(), |hold| format!("hold {hold}"));
                verdict.breaks(|| {
                    format!("{name} is {state} by {hold}, but no live hold and no order has it")
                });
            }
        }
        Some([taker]) => {
            if seat.state != taker.state || seat.hold != Some(taker.hold) {
                let hold = seat
                    .hold
                    .map_or("nobody".to_owned(), |hold| format!("hold {hold}"));
                verdict.breaks(|| {
                    format!(
                        "{name} is {state} by {hold}, but {} has it (hold {})",
                        taker.what, taker.hold
                    )
                });
            }
        }
        Some([first, second, ..]) => {
            verdict.breaks(|| {
                format!(
                    "{name} is taken twice: by {} and {}",
                    first.what, second.what
                )
            });
        }
    }
}

fn check_sums(facts: &Facts, id: &ShowId, show: &Show, verdict: &mut Verdict) {
    let mut sections: BTreeMap<&str, usize> = BTreeMap::new();
    for seat in facts.shop.seats.iter().filter(|seat| seat.show == *id) {
        *sections.entry(&seat.section).or_default() += 1;
    }
    let capacity: usize = sections.values().sum();
    if show.is_cancelled {
        // Seats go as they come back: who has which was compared above.
        let kept = facts.shop.seats.iter().filter(|seat| seat.show == *id);
        let kept = kept.filter(|seat| seat.state != SeatState::Free).count();
        verdict.cannot_prove_some(kept, "seats of cancelled shows are still to be taken back");
        return;
    }
    if capacity == 0 && !show.sections.is_empty() {
        verdict.cannot_prove(format!("show {id} has no seats in the shop yet"));
        return;
    }
    for (name, seats) in &show.sections {
        let rows = sections.get(name.as_str()).copied().unwrap_or(0);
        let free = |seat: &&Seat| seat.section == *name && seat.state == SeatState::Free;
        let has_free = (facts.shop.seats.iter()).any(|seat| seat.show == *id && free(&seat));
        // Seats that the operator withdrew and somebody has stay until they are free.
        if rows < *seats || (*seats < rows && has_free) {
            verdict.breaks(|| {
                format!("section {name} of show {id} has {rows} seats free, held and sold together, of {seats}")
            });
        }
    }
    for stock in facts.shop.stock.iter().filter(|stock| stock.show == *id) {
        let sum = stock.free + stock.held + stock.sold;
        if sum != capacity {
            verdict.breaks(|| {
                format!(
                    "the stock of show {id} says {} free, {} held and {} sold: {sum} of {capacity}",
                    stock.free, stock.held, stock.sold
                )
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::facts::Stock;
    use crate::check::sample::{
        assert_broken, assert_clean, assert_unproved, facts, hold, hold_id, order, order_id, show,
    };

    fn seat(n: u128, state: SeatState) -> Seat {
        Seat {
            show: show(),
            section: "A".to_owned(),
            name: format!("A-{n}"),
            state,
            hold: (state != SeatState::Free).then(|| hold_id(n)),
        }
    }

    /// Seat 1 is held, seat 2 is sold, seat 3 is free.
    fn shop() -> Facts {
        let mut facts = facts(vec![]);
        facts.shows.get_mut(&show()).unwrap().sections = BTreeMap::from([("A".to_owned(), 3)]);
        let shop = &mut facts.shop;
        shop.seats = vec![
            seat(1, SeatState::Held),
            seat(2, SeatState::Sold),
            seat(3, SeatState::Free),
        ];
        shop.holds.insert(hold_id(1), hold(1, 0));
        let mut ordered = hold(2, 0);
        ordered.state = HoldState::Ordered;
        shop.holds.insert(hold_id(2), ordered);
        shop.orders.insert(order_id(2), order(2, 0));
        shop.stock = vec![Stock {
            show: show(),
            free: 1,
            held: 1,
            sold: 1,
        }];
        facts
    }

    #[test]
    fn rows_and_takers_agree() {
        assert_clean(&judge(&shop()));
        let mut pending = shop();
        pending.shop.orders.get_mut(&order_id(2)).unwrap().status = OrderStatus::Pending;
        assert_broken(&judge(&pending), "is sold by");
        pending.shop.seats[1].state = SeatState::Held;
        assert_clean(&judge(&pending));
    }

    #[test]
    fn every_way_to_lose_count() {
        type Break = fn(&mut Facts);
        let rows: [(Break, &str); 8] = [
            (
                |facts| facts.shop.seats[0] = seat(1, SeatState::Free),
                "is free by nobody, but hold",
            ),
            (
                |facts| facts.shop.seats[2] = seat(3, SeatState::Sold),
                "no live hold and no order",
            ),
            (
                |facts| facts.shop.seats[0].hold = Some(hold_id(9)),
                "is held by hold",
            ),
            (
                |facts| drop(facts.shop.seats.pop()),
                "has 2 seats free, held and sold",
            ),
            (|facts| facts.shop.stock[0].sold = 2, "4 of 3"),
            (
                |facts| {
                    facts
                        .shop
                        .holds
                        .get_mut(&hold_id(1))
                        .unwrap()
                        .what
                        .seats
                        .push("A-2".into())
                },
                "taken twice",
            ),
            (
                |facts| {
                    facts
                        .shop
                        .holds
                        .get_mut(&hold_id(1))
                        .unwrap()
                        .what
                        .seats
                        .push("B-1".into())
                },
                "which is none",
            ),
            (
                |facts| facts.shop.holds.get_mut(&hold_id(1)).unwrap().state = HoldState::Expired,
                "no live hold",
            ),
        ];
        for (breaks, says) in rows {
            let mut facts = shop();
            breaks(&mut facts);
            assert_broken(&judge(&facts), says);
        }
    }

    #[test]
    fn a_show_without_rows_is_not_judged() {
        let mut facts = shop();
        facts.shop = crate::check::facts::Shop::default();
        assert_unproved(&judge(&facts), "no seats in the shop yet");
    }
}
