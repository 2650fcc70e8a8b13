//! What must never happen, and what was seen of it.
//!
//! Every judge compares answers with answers; none knows how the server works. A kind of fault is
//! counted, and its first example is kept, so that a report stays short whatever goes wrong.

pub mod eta;
pub mod line;
pub mod messages;
pub mod sales;
pub mod told;
pub mod turn;
pub mod window;

use std::collections::BTreeMap;

use serde::Serialize;

/// Something that must not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// A fan was given another number than before.
    NumberChanged,
    /// Two fans have the same number.
    NumberShared,
    /// A join answered before another was sent has the larger number.
    JoinsOutOfOrder,
    /// A position rose, and the answer did not say `restoring`.
    PositionRose,
    /// `serving` on the board fell within an edition and generation.
    ServingFell,
    /// A fan lost their place without having given it up.
    PlaceLost,

    /// A fan came back after the slot had lapsed and was let in or sent to the end.
    SleeperNotStoodBy,
    /// The ticket of an admission changed its id.
    TicketChanged,
    /// An admission now ends at another time, without a hold that prolonged it, or sooner.
    ExpiryChanged,
    /// An admission was over before its time.
    TicketLost,
    /// A gated route answered a request without a good ticket with something else than 401.
    GateOpen,
    /// A fan who asked no more than told was limited (429).
    HonestFanLimited,
    /// A seat is in two confirmed orders.
    SeatSoldTwice,
    /// More seats were sold than the show has.
    Oversold,
    /// An order that was answered is not there any more.
    OrderLost,
    /// A repeated order was answered with other facts.
    OrderChanged,
    /// An order with a good card was never confirmed.
    OrderStuck,
    /// A confirmed order has no message.
    MessageMissing,
    /// A confirmed order has more than one message.
    MessageTwice,
    /// A message is in another language than the order.
    MessageLanguage,
    /// The show ended and a fan in line was never told.
    NeverTold,
    /// An answer that the API does not have here.
    UnexpectedAnswer,
}

impl Fault {
    /// The name in reports and histories.
    pub fn name(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(name)) => name,
            Ok(_) | Err(_) => format!("{self:?}"),
        }
    }
}

/// How often, and the first example.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    pub count: u64,
    pub example: String,
}

/// All faults of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Faults {
    pub found: BTreeMap<Fault, Found>,
}

impl Faults {
    /// Counts a fault; the first of its kind is the example.
    pub fn add(&mut self, fault: Fault, example: &str) {
        let found = self.found.entry(fault).or_insert_with(|| Found {
            count: 0,
            example: example.to_owned(),
        });
        found.count += 1;
    }

    /// Counts the faults that a judge found at the end.
    pub fn extend(&mut self, faults: impl IntoIterator<Item = (Fault, String)>) {
        for (fault, example) in faults {
            self.add(fault, &example);
        }
    }

    /// How many were found in all.
    pub fn total(&self) -> u64 {
        self.found.values().map(|found| found.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_kind_is_the_example() {
        let mut faults = Faults::default();
        faults.add(Fault::Oversold, "one");
        faults.extend([
            (Fault::Oversold, "two".to_owned()),
            (Fault::GateOpen, "three".to_owned()),
        ]);
        assert_eq!(faults.total(), 3);
        assert_eq!(
            faults.found[&Fault::Oversold],
            Found {
                count: 2,
                example: "one".into()
            }
        );
        let json = serde_json::to_string(&faults).unwrap();
        assert!(
            json.contains(r#""gate-open":{"count":1,"example":"three"}"#),
            "{json}"
        );
        assert_eq!(Fault::SeatSoldTwice.name(), "seat-sold-twice");
    }
}
