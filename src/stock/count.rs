//! What a count of a show's seats means: what is said, and which events it causes.

use crate::base::ids::ShowId;
use crate::base::time::Timestamp;
use crate::event::{Event, SectionStock, ShowSoldOut, StockChanged};

/// The consumer group that counts seats.
pub const GROUP: &str = "stock";

/// Whether a show still sells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sale {
    /// It does, as far as it has seats.
    On,
    /// It was cancelled: seats go without being sold, so none of them can be the last one.
    Cancelled,
}

/// What a show has left, as it was last said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stock {
    /// Rises with each change.
    pub version: u64,
    /// Seats nobody has.
    pub free: u64,
    /// Seats set aside in holds.
    pub held: u64,
    /// Seats sold.
    pub sold: u64,
    /// When the last seat was first found sold.
    pub sold_out_at: Option<Timestamp>,
    /// The version of the show's last event.
    pub event_version: u64,
}

/// What follows from a count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// What the show has left now.
    pub stock: Stock,
    /// What became true, in order, with the version of each; empty where nothing changed.
    pub events: Vec<(u64, Event)>,
}

/// Compares a count with what was said before. `None`: it never was, and the show is new.
pub fn compare(
    show: &ShowId,
    before: Option<&Stock>,
    sections: &[SectionStock],
    sale: Sale,
    now: Timestamp,
) -> Counted {
    let sum = |of: fn(&SectionStock) -> u64| sections.iter().map(of).sum();
    let (free, held, sold): (u64, u64, u64) = (sum(|s| s.free), sum(|s| s.held), sum(|s| s.sold));
    let mut stock = before.cloned().unwrap_or_default();
    let same = (stock.free, stock.held, stock.sold) == (free, held, sold);
    if before.is_some() && same {
        return Counted {
            stock,
            events: Vec::new(),
        };
    }
    stock.version += 1;
    (stock.free, stock.held, stock.sold) = (free, held, sold);
    stock.event_version += 1;
    let changed = StockChanged {
        show_id: show.clone(),
        free,
        held,
        sold,
        sections: sections.to_vec(),
    };
    let mut events = vec![(stock.event_version, Event::StockChanged(changed))];
    // Said once for ever: seats that come back and are sold again make no second last seat.
    let is_last = sale == Sale::On && free + held == 0 && 0 < sold;
    if is_last && stock.sold_out_at.is_none() {
        stock.sold_out_at = Some(now);
        stock.event_version += 1;
        let sold_out = ShowSoldOut {
            show_id: show.clone(),
            sold,
        };
        events.push((stock.event_version, Event::ShowSoldOut(sold_out)));
    }
    Counted { stock, events }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Timestamp = Timestamp::from_unix_ms(1_000);

    fn section(name: &str, free: u64, held: u64, sold: u64) -> SectionStock {
        SectionStock {
            name: name.to_owned(),
            free,
            held,
            sold,
        }
    }

    fn kinds(counted: &Counted) -> Vec<(u64, &'static str)> {
        let events = counted.events.iter();
        events
            .map(|(version, event)| (*version, event.kind()))
            .collect()
    }

    #[test]
    fn changes_are_said_and_the_last_seat_once() {
        let show: ShowId = "a".parse().unwrap();
        let mut before = None;
        let mut version = 0;
        for ((free, held, sold), said) in [
            ((2, 0, 0), vec!["StockChanged"]),
            ((2, 0, 0), vec![]),
            ((0, 2, 0), vec!["StockChanged"]),
            ((0, 1, 1), vec!["StockChanged"]),
            ((0, 0, 2), vec!["StockChanged", "ShowSoldOut"]),
            ((0, 0, 2), vec![]),
            ((1, 0, 1), vec!["StockChanged"]),
            ((0, 0, 2), vec!["StockChanged"]),
        ] {
            let sections = [section("A", free, 0, sold), section("B", 0, held, 0)];
            let counted = compare(&show, before.as_ref(), &sections, Sale::On, T0);
            let expected: Vec<_> = (version + 1..).zip(said).collect();
            version += expected.len() as u64;
            assert_eq!(kinds(&counted), expected);
            assert_eq!(counted.stock.event_version, version);
            before = Some(counted.stock);
        }
        assert_eq!(before.unwrap().sold_out_at, Some(T0));
    }

    #[test]
    fn a_show_without_seats_is_not_sold_out() {
        let show: ShowId = "a".parse().unwrap();
        let counted = compare(&show, None, &[], Sale::On, T0);
        assert_eq!(kinds(&counted), [(1, "StockChanged")]);
    }

    #[test]
    fn a_cancelled_show_is_not_sold_out() {
        let show: ShowId = "a".parse().unwrap();
        let sections = [section("A", 0, 0, 2)];
        let counted = compare(&show, None, &sections, Sale::Cancelled, T0);
        assert_eq!(kinds(&counted), [(1, "StockChanged")]);
    }
}
