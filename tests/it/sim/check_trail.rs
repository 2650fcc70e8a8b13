//! What the room leaves of a small sale: its ledger, and what clients were told of it.
//!
//! Thirty-six fans join; every 101 ms one is called, at a rate of one in 100 ms. Fan 6 sleeps through
//! the call and is called again, before whoever is next. Between the 15th and the 16th tick the
//! process is replaced.

use std::collections::BTreeMap;

use catraca::base::ids::{FanId, Place, TicketId};
use catraca::base::time::Timestamp;
use catraca::room::model::command::{Called, Change, Ended, Why};
use serde_json::{Value, json};

pub(crate) const FANS: u64 = 36;
/// The first tick, in Unix milliseconds.
pub(crate) const OPENING: i64 = 1_800_000_000_000;
/// Fans who claim their admission and may buy.
pub(crate) const INSIDE: [u64; 7] = [1, 2, 3, 4, 7, 8, 9];
const TICKS: u64 = 30;
pub(crate) const TICK_MS: u64 = 101;
const SLOT_MS: u64 = 1_000;
const TTL_MS: u64 = 300_000;

pub(crate) fn fan(n: u64) -> FanId {
    FanId(u128::from(n).to_be_bytes())
}

pub(crate) fn ticket(n: u64) -> TicketId {
    TicketId(u128::from(1_000 + n).to_be_bytes())
}

/// An instant `ms` after the opening.
pub(crate) fn at(ms: u64) -> Timestamp {
    Timestamp::from_unix_ms(OPENING).plus_ms(ms)
}

/// When a fan is called first.
pub(crate) fn called_ms(n: u64) -> u64 {
    let tick = if n < 17 { n - 1 } else { n };
    tick * TICK_MS
}

/// Until when the admission of a fan runs, as the claim says.
pub(crate) fn until(n: u64) -> Timestamp {
    at(called_ms(n) + 20 + TTL_MS)
}

/// One row of the ledger.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) ms: u64,
    pub(crate) token: u64,
    pub(crate) serving: u64,
    pub(crate) change: Change,
}

/// The whole ledger.
pub(crate) fn ledger() -> Vec<Row> {
    let mut changes: Vec<(u64, Change)> = Vec::new();
    for n in INSIDE {
        let claimed = Change::Claimed {
            fan: fan(n),
            until: until(n),
        };
        changes.push((called_ms(n) + 20, claimed));
    }
    changes.push((called_ms(5) + 30, end(5, Ended::Left)));
    changes.push((
        1_600,
        Change::Returned {
            fan: fan(6),
            place: Place(6),
        },
    ));
    changes.push((
        4_050,
        Change::Extended {
            fan: fan(4),
            until: at(600_000),
        },
    ));
    changes.extend([1, 2, 8].map(|n| (5_600, end(n, Ended::Used))));
    changes.push((20_000, end(FANS, Ended::Left)));
    for tick in 0..TICKS {
        let n = match tick {
            0..16 => tick + 1,
            16 => 6,
            17.. => tick,
        };
        changes.push((tick * TICK_MS, call(n, tick)));
    }
    changes.sort_by_key(|(ms, _)| *ms);

    let mut live: BTreeMap<FanId, Timestamp> = BTreeMap::new();
    let mut serving = 0;
    let mut rows = Vec::new();
    for (ms, mut change) in changes {
        live.retain(|_, until| at(ms) < *until);
        match &mut change {
            Change::Called(called) => {
                let (fan, place) = called.fans[0];
                live.insert(fan, called.until);
                called.live = live.len() as u64;
                serving = serving.max(place.0);
                called.waiting = FANS - serving;
            }
            Change::Claimed { fan, until } | Change::Extended { fan, until } => {
                live.insert(*fan, *until);
            }
            Change::Returned { fan, .. } | Change::Ended { fan, .. } => drop(live.remove(fan)),
            Change::Absent { .. } => {}
        }
        let token = if ms < 15 * TICK_MS { 1 } else { 2 };
        rows.push(Row {
            ms,
            token,
            serving,
            change,
        });
    }
    rows
}

fn call(n: u64, tick: u64) -> Change {
    Change::Called(Called {
        fans: vec![(fan(n), Place(n))],
        until: at(tick * TICK_MS + SLOT_MS),
        rate: 1,
        window_ms: 100,
        capacity: 20,
        live: 0,
        waiting: 0,
        why: Why::Rate,
    })
}

fn end(n: u64, why: Ended) -> Change {
    Change::Ended { fan: fan(n), why }
}

/// A line of a history: what client `n` did `ms` after the opening, and what it was told.
pub(crate) fn line(op: &str, n: u64, ms: i64, told: Value) -> Value {
    let sent_us = (OPENING + ms) * 1_000;
    let mut line = json!({"op": op, "fan_no": n, "sent_us": sent_us, "done_us": sent_us + 5_000,
        "outcome": "ok", "status": 200, "js": n % 2 == 1, "fan": fan(n)});
    for (member, value) in told.as_object().unwrap() {
        line[member] = value.clone();
    }
    line
}

/// The join of a client, and every repeat of it.
pub(crate) fn join(n: u64, ms: i64) -> Value {
    line("join", n, ms, json!({"number": n}))
}

/// What a fan with an admission is told.
pub(crate) fn admitted(n: u64, ms: i64, until: Timestamp) -> Value {
    let expires_at = until.as_millis();
    let told = json!({"state": "admitted", "ticket_id": ticket(n), "expires_at": expires_at});
    line("status", n, ms, told)
}

/// What clients wrote down of the line.
pub(crate) fn history() -> Vec<Value> {
    let ms = |n: u64| i64::try_from(n).unwrap();
    let mut history: Vec<Value> = (1..=FANS).map(|n| join(n, ms(n) * 10 - 10_000)).collect();
    // Client 34 has no script: the form's answer names nobody, the page after it a number.
    let form = &mut history[33];
    form["op"] = json!("form");
    form.as_object_mut()
        .unwrap()
        .retain(|member, _| member != "fan" && member != "number");
    let mut page = line(
        "status",
        34,
        -9_000,
        json!({"state": "waiting", "number": 34}),
    );
    page.as_object_mut()
        .unwrap()
        .retain(|member, _| member != "fan");
    history.extend([page, join(1, -5_000), join(33, 2_900)]);
    for n in INSIDE {
        history.push(admitted(n, ms(called_ms(n)) + 20, until(n)));
        history.push(admitted(n, 3_000, until(n)));
    }
    history.push(admitted(4, 6_000, at(600_000)));
    history.push(line(
        "probe",
        30,
        1_000,
        json!({"outcome": "refused", "status": 401}),
    ));
    history
}
