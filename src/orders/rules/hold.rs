//! Setting seats aside: all that was asked for or nothing, until a time.

use std::collections::BTreeMap;

use crate::base::ids::HoldId;
use crate::base::time::Timestamp;
use crate::event::money::Money;
use crate::event::{Event, HoldPlaced};
use crate::orders::rules::{
    Buyer, Carts, Decision, Hold, HoldState, Refusal, SeatsTaken, Section, Taken, Terms, Write,
    seats,
};

/// A fan asks for seats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceHold {
    /// Who asks.
    pub buyer: Buyer,
    /// Which seats.
    pub wish: Wish,
}

/// Which seats a fan asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// The best so many together in a section.
    Best {
        /// The section.
        section: String,
        /// How many seats; at least one.
        quantity: u32,
    },
    /// These, by name; at least one, none twice.
    Named(Vec<String>),
}

/// What a hold depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// What the operator decided.
    pub terms: Terms,
    /// The ticket's live holds whose time is not over.
    pub live: Carts,
    /// How many holds the ticket ever had.
    pub had: u64,
    /// Whether the ticket has an order that counts.
    pub ordered: bool,
    /// Whether any seat of the show is free or held.
    pub left: bool,
    /// The seats that come into question.
    pub offer: Offer,
}

/// The seats that come into question for a wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offer {
    /// The show has no such section.
    Nothing,
    /// A section's free seats.
    Section {
        /// The section.
        section: Section,
        /// Ordinals of free seats, ascending: all of them, or at least as many as decide the wish.
        free: Vec<u32>,
        /// Whether any seat of the section is held.
        in_carts: bool,
    },
    /// Those of the seats asked for that exist, by name.
    Seats(BTreeMap<String, NamedSeat>),
}

/// A seat asked for by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSeat {
    /// The section it is in.
    pub section: Section,
    /// Whether nobody has it.
    pub is_free: bool,
    /// Whether somebody holds it.
    pub is_held: bool,
}

/// Decides a hold. `id` is the new hold's, if there will be one.
///
/// # Errors
/// The refusal.
pub fn decide(
    facts: &Facts,
    request: &PlaceHold,
    id: HoldId,
    now: Timestamp,
) -> Result<Decision<Hold>, Refusal> {
    let buyer = &request.buyer;
    if facts.terms.is_cancelled {
        return Err(Refusal::ShowCancelled);
    }
    if facts.ordered {
        return Err(Refusal::TurnOver);
    }
    if facts.terms.holds_per_ticket as usize <= facts.live.holds.len() {
        return Err(Refusal::TooManyHolds(facts.live.clone()));
    }
    let (seats, total) = choose(facts, &request.wish)?;
    let hold = Hold {
        id,
        show: buyer.show.clone(),
        fan: buyer.fan,
        ticket: buyer.ticket,
        nth: facts.had + 1,
        seats,
        total,
        state: HoldState::Live,
        created_at: now,
        expires_at: now.plus_ms(facts.terms.hold_ms),
        version: 1,
    };
    let placed = HoldPlaced {
        hold_id: id,
        show_id: hold.show.clone(),
        seats: hold.seats.clone(),
        total,
        expires_at: hold.expires_at,
        fan_id: Some(hold.fan),
    };
    let writes = vec![
        Write::Take {
            show: hold.show.clone(),
            seats: hold.seats.clone(),
            hold: id,
            to: Taken::Held,
        },
        Write::Hold(hold.clone()),
        Write::Event(hold.version, Event::HoldPlaced(placed)),
    ];
    Ok(Decision {
        answer: hold,
        writes,
    })
}

fn choose(facts: &Facts, wish: &Wish) -> Result<(Vec<String>, Money), Refusal> {
    match (wish, &facts.offer) {
        (
            Wish::Best { quantity, .. },
            Offer::Section {
                section,
                free,
                in_carts,
            },
        ) if facts.terms.sells(section) => {
            let n = *quantity as usize;
            let chosen = if section.numbered {
                seats::best(free, n)
            } else {
                free.get(..n).map(<[u32]>::to_vec)
            };
            let Some(chosen) = chosen else {
                return Err(refuse(
                    facts,
                    SeatsTaken {
                        taken: Vec::new(),
                        free: u32::try_from(free.len()).ok(),
                        in_carts: *in_carts,
                    },
                ));
            };
            let total = section.price.times(*quantity).ok_or(Refusal::NotOnSale)?;
            let names = chosen.iter().map(|i| seat_name(&section.name, *i));
            Ok((names.collect(), total))
        }
        (Wish::Named(names), Offer::Seats(found)) => named(facts, names, found),
        (Wish::Best { .. } | Wish::Named(_), _) => Err(Refusal::NotOnSale),
    }
}

fn named(
    facts: &Facts,
    names: &[String],
    found: &BTreeMap<String, NamedSeat>,
) -> Result<(Vec<String>, Money), Refusal> {
    let mut total: Option<Money> = None;
    for name in names {
        let seat = found.get(name).ok_or(Refusal::NotOnSale)?;
        if !seat.section.numbered || !facts.terms.sells(&seat.section) {
            return Err(Refusal::NotOnSale);
        }
        let price = seat.section.price;
        total = match total {
            None => Some(price),
            Some(sum) => Some(sum.plus(price).ok_or(Refusal::NotOnSale)?),
        };
    }
    let is_taken = |name: &&String| found.get(*name).is_some_and(|seat| !seat.is_free);
    let taken: Vec<String> = names.iter().filter(is_taken).cloned().collect();
    if !taken.is_empty() {
        let in_carts = taken
            .iter()
            .all(|name| found.get(name).is_some_and(|seat| seat.is_held));
        return Err(refuse(
            facts,
            SeatsTaken {
                taken,
                free: None,
                in_carts,
            },
        ));
    }
    Ok((names.to_vec(), total.ok_or(Refusal::NotOnSale)?))
}

/// "Sold out" only when it is true: while anything is free or in a cart, somebody may still buy.
fn refuse(facts: &Facts, taken: SeatsTaken) -> Refusal {
    if facts.left {
        Refusal::SeatsTaken(taken)
    } else {
        Refusal::SoldOut
    }
}

/// The name of a section's seat: `B-12`.
pub fn seat_name(section: &str, ordinal: u32) -> String {
    format!("{section}-{ordinal}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{FanId, IdSource, TicketId};
    use crate::event::ShowFacts;

    const NOW: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);

    fn section(numbered: bool) -> Section {
        Section {
            name: "B".to_owned(),
            numbered,
            price: Money::parse("390", "BRL".parse().unwrap()).unwrap(),
        }
    }

    fn facts(offer: Offer) -> Facts {
        let show = ShowFacts {
            id: "show".parse().unwrap(),
            name: "Show".to_owned(),
            starts_at: None,
        };
        Facts {
            terms: Terms {
                show,
                hold_ms: 240_000,
                holds_per_ticket: 1,
                sections: ["B".to_owned()].into(),
                is_cancelled: false,
            },
            live: Carts::default(),
            had: 0,
            ordered: false,
            left: true,
            offer,
        }
    }

    fn best(numbered: bool, free: &[u32]) -> Facts {
        facts(Offer::Section {
            section: section(numbered),
            free: free.to_vec(),
            in_carts: true,
        })
    }

    fn named(seats: &[(&str, bool, bool)]) -> Facts {
        let seat = |is_free, is_held| NamedSeat {
            section: section(true),
            is_free,
            is_held,
        };
        let seats = seats
            .iter()
            .map(|(name, free, held)| ((*name).to_owned(), seat(*free, *held)));
        facts(Offer::Seats(seats.collect()))
    }

    fn ask(facts: &Facts, wish: Wish) -> Result<Decision<Hold>, Refusal> {
        let buyer = Buyer {
            show: "show".parse().unwrap(),
            fan: FanId([1; 16]),
            ticket: TicketId([2; 16]),
            trace: None,
        };
        let request = PlaceHold { buyer, wish };
        decide(facts, &request, IdSource::seeded(1).hold(NOW), NOW)
    }

    fn two() -> Wish {
        Wish::Best {
            section: "B".to_owned(),
            quantity: 2,
        }
    }

    fn names(names: &[&str]) -> Wish {
        Wish::Named(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn a_hold_takes_neighbours_and_general_admission_the_lowest() {
        for (numbered, seats) in [(true, ["B-4", "B-5"]), (false, ["B-1", "B-4"])] {
            let decision = ask(&best(numbered, &[1, 4, 5]), two()).unwrap();
            assert_eq!(decision.answer.seats, seats);
            assert_eq!(decision.answer.total.decimal(), "780.00");
            assert_eq!(decision.answer.expires_at, NOW.plus_ms(240_000));
            assert_eq!(decision.writes.len(), 3);
        }
    }

    #[test]
    fn sold_out_is_said_only_when_it_is_true() {
        let taken = |taken: &[&str], free, in_carts| {
            Err(Refusal::SeatsTaken(SeatsTaken {
                taken: taken.iter().map(|name| (*name).to_owned()).collect(),
                free,
                in_carts,
            }))
        };
        let (b1, b2) = (("B-1", true, false), ("B-2", false, true));
        let sold = ("B-3", false, false);
        for (mut facts, wish, left, expected) in [
            (best(true, &[]), two(), true, taken(&[], Some(0), true)),
            (best(true, &[7]), two(), true, taken(&[], Some(1), true)),
            (best(true, &[]), two(), false, Err(Refusal::SoldOut)),
            (
                named(&[b1, b2]),
                names(&["B-1", "B-2"]),
                true,
                taken(&["B-2"], None, true),
            ),
            (
                named(&[b1, sold]),
                names(&["B-1", "B-3"]),
                true,
                taken(&["B-3"], None, false),
            ),
            (
                named(&[sold]),
                names(&["B-3"]),
                false,
                Err(Refusal::SoldOut),
            ),
            (
                named(&[b1]),
                names(&["B-1", "Z-9"]),
                true,
                Err(Refusal::NotOnSale),
            ),
            (
                named(&[]),
                Wish::Named(Vec::new()),
                true,
                Err(Refusal::NotOnSale),
            ),
            (facts(Offer::Nothing), two(), true, Err(Refusal::NotOnSale)),
        ] {
            facts.left = left;
            assert_eq!(
                ask(&facts, wish).map(|decision| decision.answer.seats),
                expected
            );
        }
    }

    #[test]
    fn what_is_not_for_sale_any_more_is_sold_to_nobody() {
        for (mut facts, wish) in [
            (best(true, &[1, 2]), two()),
            (named(&[("B-1", true, false)]), names(&["B-1"])),
        ] {
            assert!(ask(&facts, wish.clone()).is_ok());
            facts.terms.sections = ["C".to_owned()].into();
            assert_eq!(ask(&facts, wish), Err(Refusal::NotOnSale));
        }
    }

    #[test]
    fn a_ticket_has_so_many_holds_and_one_order() {
        let hold = IdSource::seeded(2).hold(NOW);
        let mut facts = best(true, &[1, 2]);
        facts.live = Carts {
            holds: vec![hold],
            until: NOW,
        };
        let live = facts.live.clone();
        assert_eq!(ask(&facts, two()), Err(Refusal::TooManyHolds(live)));
        facts.ordered = true;
        assert_eq!(ask(&facts, two()), Err(Refusal::TurnOver));
    }
}
