//! Whether the promises were kept: reads what a sale left behind, and proves it or says what broke.
//!
//! `load` reads databases, mailbox and the histories that clients wrote; `judge` holds each promise
//! of the README against them, one pure file a promise; `render` prints the verdicts. Nothing here
//! calls the code that is judged: what the two share is words and file formats.
//!
//! A verdict is *clean*, *broken* with a counter-example, or *unproved*: what is missing, or may be,
//! never counts as kept.

mod capacity;
mod delivery;
mod doubts;
mod draw;
mod exact_rate;
mod facts;
mod files;
mod gate;
mod in_sql;
mod in_turn;
mod joins;
mod journal;
mod ledger;
mod load;
mod nothing_lost;
mod notices;
mod numbers;
mod one_order;
mod one_place;
mod order_event;
mod poison;
mod real_time_order;
mod render;
#[cfg(test)]
mod sample;
mod skipped;
mod snapshot;
mod stock;
mod turns;
mod verdict;

pub use crate::check::facts::Facts;
pub use crate::check::load::{CheckError, Paths, load};
pub use crate::check::render::{render, to_json};
pub use crate::check::verdict::{Finding, Promise, Verdict, worst};

/// Holds every promise that leaves traces against the facts: promises 1 to 7 and 9 to 13, in order.
pub fn judge(facts: &Facts) -> Vec<Verdict> {
    vec![
        one_place::judge(facts),
        real_time_order::judge(facts),
        nothing_lost::judge(facts),
        exact_rate::judge(facts),
        in_turn::judge(facts),
        capacity::judge(facts),
        gate::judge(facts),
        stock::judge(facts),
        one_order::judge(facts),
        order_event::judge(facts),
        delivery::judge(facts),
        poison::judge(facts),
    ]
}
