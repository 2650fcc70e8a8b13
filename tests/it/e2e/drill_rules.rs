//! `catraca check` names the promise, and no other, when one rule is taken out of the running system.
//!
//! Each drill is a small sale of its own, with real sockets and files; all run at the same time. Their
//! windows are long, so the lower bound of promise 4 stays unproved where its upper bound holds.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use catraca::app::backends::Backends;
use futures_util::future::{BoxFuture, join_all};
use serde_json::{Value, json};

use crate::support::bent_log::{MarksFirst, repeat, repeat_without_inbox};
use crate::support::bent_room::{
    Forgetful, Greed, LastFirst, NoCapacity, NoCheck, NoDedup, NoQuota, bent,
};
use crate::support::bent_shop::Blind;
use crate::support::sale::{Running, expect};
use crate::support::visitor::Visitor;

/// A gate may let a ticket through for so long after its end (promise 7 gives it a second, clocks
/// and ways another).
const SLACK: Duration = Duration::from_millis(2_100);

/// One rule taken out.
struct Drill {
    name: &'static str,
    /// What is done to the system before it starts.
    bend: fn(&mut Backends, &Path),
    /// The promises that the checker must name as broken.
    broken: &'static [u8],
    /// And those that it must say it cannot prove.
    unproved: &'static [u8],
    /// Members of the show's settings.
    settings: Value,
    /// Flags of the crowd.
    crowd: &'static str,
    /// Somebody who does what the crowd does not.
    visit: fn(&Running) -> BoxFuture<'_, ()>,
}

impl Default for Drill {
    fn default() -> Self {
        Self {
            name: "nothing",
            bend: |_, _| {},
            broken: &[],
            unproved: &[4],
            settings: json!({}),
            crowd: "",
            visit: |_| Box::pin(async {}),
        }
    }
}

impl Drill {
    /// Sells, and says what was not as expected.
    async fn run(self) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let running = Running::start(folder.path(), &self.settings, self.bend).await;
        let ((), report) = tokio::join!((self.visit)(&running), running.crowd(self.crowd));
        let expected = expect(folder.path(), self.broken, self.unproved).await;
        running.stop().await;
        let faults = format!("the crowd saw: {:#?}", report.faults);
        if self.broken.is_empty() && !report.is_clean() {
            return Err(format!("without {}: {faults}", self.name));
        }
        expected.map_err(|found| format!("without {}: {found}\n{faults}", self.name))
    }
}

/// Runs drills at the same time and fails with all that was not as expected.
async fn run(drills: Vec<Drill>) {
    let outcomes = join_all(drills.into_iter().map(|drill| tokio::spawn(drill.run()))).await;
    let failures: Vec<String> = outcomes
        .into_iter()
        .filter_map(|outcome| outcome.unwrap().err())
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_is_taken_out_is_named_and_no_other() {
    // A sale is mostly waiting: all of them together take hardly longer than one.
    let mut drills = rules_of_the_room();
    drills.extend(rules_of_the_shop());
    run(drills).await;
}

fn rules_of_the_room() -> Vec<Drill> {
    vec![
        // Asking for more than there is breaks nothing while the room has its rules.
        Drill {
            name: "a modest admitter",
            bend: |backends, _| bent(&mut backends.rooms, Greed),
            ..Drill::default()
        },
        Drill {
            name: "the quota",
            bend: |backends, _| bent(&mut backends.rooms, NoQuota),
            settings: json!({ "rate": 12, "capacity": 60 }),
            broken: &[4],
            unproved: &[],
            ..Drill::default()
        },
        Drill {
            name: "capacity",
            bend: |backends, _| bent(&mut backends.rooms, NoCapacity),
            settings: json!({ "capacity": 3 }),
            broken: &[6],
            ..Drill::default()
        },
        Drill {
            name: "the look-up at join",
            bend: |backends, _| bent(&mut backends.rooms, NoDedup::new()),
            crowd: "--retry 0.1 --twice 0.1",
            broken: &[1],
            ..Drill::default()
        },
        Drill {
            name: "the order of the line",
            bend: |backends, _| bent(&mut backends.rooms, LastFirst),
            broken: &[5],
            ..Drill::default()
        },
        Drill {
            name: "memory of who stands in line",
            bend: |backends, _| bent(&mut backends.rooms, Forgetful::default()),
            // Who is forgotten and joins again is given a second number: promise 1 breaks as well.
            crowd: "--refresh 0 --retry 0 --twice 0 --lose 0",
            broken: &[5],
            ..Drill::default()
        },
        Drill {
            name: "the check of liveness at the gate",
            bend: |backends, _| bent(&mut backends.rooms, NoCheck),
            settings: json!({ "capacity": 200, "sections": [
                { "name": "Floor", "seats": 300, "price": { "amount": 9, "currency": "BRL" } },
                { "name": "Stand", "seats": 300, "price": { "amount": 9, "currency": "BRL" } },
            ] }),
            crowd: "--for-s 10", // there is more than they can buy
            visit: |running| Box::pin(holds_after_leaving(running)),
            broken: &[7],
            ..Drill::default()
        },
    ]
}

/// And of what stands behind it.
fn rules_of_the_shop() -> Vec<Drill> {
    vec![
        Drill::default(),
        // What stands behind a rule keeps the promise without it, and the other way round.
        Drill {
            name: "the rule of one order a ticket, but with its index",
            bend: |backends, _| {
                backends.orders = Arc::new(Blind::new(Arc::clone(&backends.orders)));
            },
            settings: json!({ "holds_per_ticket": 2 }),
            visit: |running| Box::pin(orders_twice(running, false)),
            ..Drill::default()
        },
        Drill {
            name: "a log that hands over once, and a provider that knows its messages",
            bend: repeat,
            ..Drill::default()
        },
        Drill {
            name: "one order a ticket",
            bend: |backends, _| {
                backends.orders = Arc::new(Blind::new(Arc::clone(&backends.orders)));
            },
            settings: json!({ "holds_per_ticket": 2 }),
            visit: |running| Box::pin(orders_twice(running, true)),
            broken: &[10],
            ..Drill::default()
        },
        Drill {
            name: "the inbox",
            bend: repeat_without_inbox,
            crowd: "--mail-wait-s 3",
            broken: &[12],
            ..Drill::default()
        },
        Drill {
            name: "marking after the log has it",
            bend: |backends, _| {
                backends.relay = Arc::new(MarksFirst::new(Arc::clone(&backends.relay)));
            },
            crowd: "--mail-wait-s 3",
            broken: &[12],
            ..Drill::default()
        },
    ]
}

/// Orders two holds with one ticket, before either order can be confirmed.
async fn orders_twice(running: &Running, is_sold_twice: bool) {
    if is_sold_twice {
        running.sql("drop index orders_ticket_id").await;
    }
    let visitor = Visitor::join(running).await.inside().await;
    let (first, second) = (visitor.hold().await, visitor.hold().await);
    let (status, placed) = visitor.order(&first, "slow").await;
    assert_eq!(status, 201, "{placed}");
    let (status, again) = visitor.order(&second, "slow").await;
    assert_eq!(status == 201, is_sold_twice, "{status} {again}");
    visitor.confirmed(&placed).await;
}

/// Holds seats with the ticket of an admission that was given up.
async fn holds_after_leaving(running: &Running) {
    let visitor = Visitor::join(running).await.inside().await;
    visitor.leave().await;
    tokio::time::sleep(SLACK).await; // until no slack explains it
    visitor.hold().await;
    // The checker believes a ledger up to its last entry.
    Visitor::join(running).await.inside().await;
}
