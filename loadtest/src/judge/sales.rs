//! Promises 9 and 10 as buyers see them: no seat twice, no more than there are, an order keeps its facts. [pure]

use std::collections::HashMap;

use crate::judge::Fault;

/// Every confirmed sale so far.
#[derive(Debug, Default)]
pub struct Sales {
    owners: HashMap<Box<str>, Box<str>>,
    /// Confirmed orders.
    pub orders: u64,
    /// Seats of confirmed orders, counted with repetition.
    pub seats: u64,
}

impl Sales {
    /// An order was seen confirmed, once.
    pub fn confirmed(&mut self, order: &str, seats: &[Box<str>]) -> Vec<(Fault, String)> {
        let mut faults = Vec::new();
        self.orders += 1;
        for seat in seats {
            self.seats += 1;
            if let Some(other) = self.owners.insert(seat.clone(), order.into()) {
                let text = format!("seat {seat} is in order {other} and in order {order}");
                faults.push((Fault::SeatSoldTwice, text));
            }
        }
        faults
    }

    /// Whether more was sold than the show has.
    pub fn within(&self, capacity: u64) -> Option<(Fault, String)> {
        if self.seats <= capacity {
            return None;
        }
        Some((
            Fault::Oversold,
            format!("{} seats sold of {capacity}", self.seats),
        ))
    }
}

/// What the answer to an order says and must always say.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    pub order_id: Box<str>,
    pub hold_id: Box<str>,
    pub seats: Vec<Box<str>>,
    pub total: serde_json::Value,
    pub placed_at: Box<str>,
}

/// A repeated order, answered again.
pub fn repeated(before: &Facts, now: &Facts) -> Option<(Fault, String)> {
    if before == now {
        return None;
    }
    Some((
        Fault::OrderChanged,
        format!("was {before:?}, repeated {now:?}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(names: &[&str]) -> Vec<Box<str>> {
        names.iter().map(|name| (*name).into()).collect()
    }

    #[test]
    fn a_seat_in_two_orders_is_found() {
        let mut sales = Sales::default();
        assert!(sales.confirmed("a", &seats(&["1", "2"])).is_empty());
        let found = sales.confirmed("b", &seats(&["2", "3"]));
        assert_eq!(found.len(), 1);
        assert!(
            found[0].1.contains("seat 2 is in order a and in order b"),
            "{found:?}"
        );
    }

    #[test]
    fn more_seats_than_there_are_is_found() {
        let mut sales = Sales::default();
        sales.confirmed("a", &seats(&["1", "2"]));
        assert_eq!(sales.within(2), None);
        assert_eq!(sales.within(1).unwrap().0, Fault::Oversold);
    }

    #[test]
    fn a_repeat_with_other_facts_is_found() {
        let facts = Facts {
            order_id: "o".into(),
            hold_id: "h".into(),
            seats: seats(&["1"]),
            total: serde_json::json!({"amount": 78.0, "currency": "BRL"}),
            placed_at: "2027-03-14T10:00:07Z".into(),
        };
        assert_eq!(repeated(&facts, &facts.clone()), None);
        let other = Facts {
            seats: seats(&["2"]),
            ..facts.clone()
        };
        assert_eq!(repeated(&facts, &other).unwrap().0, Fault::OrderChanged);
    }
}
