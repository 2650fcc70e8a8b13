//! Small facts made by hand, for the unit tests of the checkers.

use std::collections::BTreeMap;

use crate::base::ids::{
    Edition, EventId, FanId, FencingToken, Generation, HoldId, Number, OrderId, Place, ShowId,
    TicketId,
};
use crate::base::time::Timestamp;
use crate::check::facts::{
    DeadLetter, Facts, Hold, HoldState, Mail, Mark, Notice, Operation, Order, OrderStatus, Outcome,
    Outgoing, Person, Progress, Purchase, Show,
};
use crate::check::ledger::{Called, Change, Entry, Why};
use crate::check::verdict::{Finding, Verdict};
use crate::event::money::Money;
use crate::event::partition::of_key;
use crate::event::{Customer, Envelope, Event, HoldPlaced, ShowFacts, StockChanged};

pub(super) fn show() -> ShowId {
    "sample".parse().expect("a show id")
}

pub(super) fn at(ms: i64) -> Timestamp {
    Timestamp::from_unix_ms(ms)
}

pub(super) fn fan(n: u128) -> FanId {
    FanId(n.to_be_bytes())
}

pub(super) fn ticket(n: u128) -> TicketId {
    TicketId(n.to_be_bytes())
}

pub(super) fn hold_id(n: u128) -> HoldId {
    HoldId(uuid::Uuid::from_u128(n))
}

pub(super) fn order_id(n: u128) -> OrderId {
    OrderId(uuid::Uuid::from_u128(n))
}

pub(super) fn event_id(n: u128) -> EventId {
    EventId(uuid::Uuid::from_u128(n))
}

pub(super) fn entry(seq: u64, ms: i64, change: Change) -> Entry {
    Entry {
        edition: Edition(1),
        generation: Generation(1),
        seq,
        at: at(ms),
        token: FencingToken(1),
        serving: Place(0),
        change,
    }
}

pub(super) fn claimed(n: u128, until_ms: i64) -> Change {
    Change::Claimed {
        fan: fan(n),
        until: at(until_ms),
    }
}

pub(super) fn extended(n: u128, until_ms: i64) -> Change {
    Change::Extended {
        fan: fan(n),
        until: at(until_ms),
    }
}

pub(super) fn returned(n: u128) -> Change {
    Change::Returned {
        fan: fan(n),
        place: Place(u64::try_from(n).expect("a small number")),
    }
}

pub(super) fn ended(n: u128) -> Change {
    Change::Ended { fan: fan(n) }
}

/// A tick that called these fans, whose numbers are their own.
pub(super) fn called(fans: &[u128]) -> Tick {
    Tick(Called {
        fans: fans
            .iter()
            .map(|n| (fan(*n), Number(u64::try_from(*n).expect("a small number"))))
            .collect(),
        until: at(1_000_000),
        rate: 10,
        window_ms: 1_000,
        capacity: 100,
        live: 0,
        waiting: 1,
        why: Why::Rate,
    })
}

pub(super) struct Tick(Called);

impl Tick {
    pub(super) fn until(mut self, ms: i64) -> Self {
        self.0.until = at(ms);
        self
    }

    pub(super) fn rate(mut self, rate: u64) -> Self {
        self.0.rate = rate;
        self
    }

    pub(super) fn capacity(mut self, capacity: usize) -> Self {
        self.0.capacity = capacity;
        self
    }

    pub(super) fn live(mut self, live: usize) -> Self {
        self.0.live = live;
        self
    }

    pub(super) fn waiting(mut self, waiting: usize) -> Self {
        self.0.waiting = waiting;
        self
    }

    pub(super) fn because(mut self, why: Why) -> Self {
        self.0.why = why;
        self
    }

    pub(super) fn change(self) -> Change {
        Change::Called(self.0)
    }
}

/// One show with this ledger; every entry serves up to `serving`.
pub(super) fn facts(ledger: Vec<Entry>) -> Facts {
    let sample = Show {
        edition: Edition(1),
        generation: Generation(1),
        issued: Number(1_000),
        ceiling: Number(1_000_000),
        checkpoint_at: at(0),
        is_cancelled: false,
        stock_guard: false,
        sections: BTreeMap::new(),
        ledger,
        mends: Vec::new(),
        draw: Default::default(),
        acts: Vec::new(),
    };
    Facts {
        shows: BTreeMap::from([(show(), sample)]),
        ..Facts::default()
    }
}

/// An operation of client `n`, as fan `n`, that was done.
pub(super) fn operation(op: &str, n: u64, sent_ms: u64, done_ms: u64) -> Operation {
    Operation {
        show: Some(show()),
        person: Person { file: 0, number: n },
        op: op.to_owned(),
        sent_us: sent_ms * 1_000,
        done_us: done_ms * 1_000,
        outcome: Outcome::Ok,
        status: Some(200),
        fan: Some(fan(n.into())),
        number: None,
        state: None,
        ticket: None,
        expires_at: None,
        hold: None,
        order: None,
        order_status: None,
        seats: None,
        js: Some(true),
    }
}

/// A join of client `n` as fan `n` that was answered with a number.
pub(super) fn join(n: u64, sent_ms: u64, done_ms: u64, number: u64) -> Operation {
    Operation {
        number: Some(Number(number)),
        ..operation("join", n, sent_ms, done_ms)
    }
}

/// Fails unless the verdict is broken, and its example says this.
pub(super) fn assert_broken(verdict: &Verdict, says: &str) {
    let example = verdict.broken.as_deref().unwrap_or("nothing");
    assert!(example.contains(says), "{verdict:?} should say {says:?}");
}

/// Fails unless the verdict is clean.
pub(super) fn assert_clean(verdict: &Verdict) {
    assert_eq!(verdict.finding(), Finding::Clean, "{verdict:?}");
}

/// Fails unless the verdict is unproved, and says why.
pub(super) fn assert_unproved(verdict: &Verdict, says: &str) {
    assert_eq!(verdict.finding(), Finding::Unproved, "{verdict:?}");
    let is_said = verdict.unproved.iter().any(|text| text.contains(says));
    assert!(is_said, "{verdict:?} should say {says:?}");
}

/// `StockChanged` events of the sample show: when, and seats left.
pub(super) fn stock_rows(left: &[(i64, u64)]) -> BTreeMap<u64, Outgoing> {
    let row = |(i, (ms, left)): (usize, &(i64, u64))| {
        let seq = i as u64 + 1;
        let event = Event::StockChanged(StockChanged {
            show_id: show(),
            free: *left,
            held: 0,
            sold: 0,
            sections: Vec::new(),
        });
        (seq, outgoing(seq, event, *ms, seq))
    };
    left.iter().enumerate().map(row).collect()
}

/// An event as the outbox has it, whose id is its number.
pub(super) fn outgoing(seq: u64, event: Event, ms: i64, version: u64) -> Outgoing {
    let envelope = Envelope {
        id: event_id(seq.into()),
        version,
        at: at(ms),
        trace: None,
        event,
    };
    let key = envelope.key();
    Outgoing {
        id: envelope.id,
        aggregate: envelope.event.aggregate().to_owned(),
        partition: of_key(&key),
        key,
        version,
        kind: envelope.event.kind().to_owned(),
        at: envelope.at,
        payload: Ok(envelope),
    }
}

fn purchase(n: u128, ms: i64) -> Purchase {
    Purchase {
        show: show(),
        fan: fan(n),
        ticket: ticket(n),
        seats: vec![format!("A-{n}")],
        total_minor: 100,
        at: at(ms),
        version: 1,
    }
}

/// A live hold of fan `n`, with the seat and the ticket of that number.
pub(super) fn hold(n: u128, ms: i64) -> Hold {
    Hold {
        what: purchase(n, ms),
        state: HoldState::Live,
    }
}

/// A confirmed order of fan `n`, for the hold of that number.
pub(super) fn order(n: u128, ms: i64) -> Order {
    let what = Purchase {
        version: 2,
        ..purchase(n, ms)
    };
    Order {
        what,
        hold: hold_id(n),
        status: OrderStatus::Confirmed,
    }
}

fn money() -> Money {
    Money {
        minor: 100,
        currency: "BRL".parse().expect("a currency"),
    }
}

/// `HoldPlaced` for the hold of that number.
pub(super) fn hold_placed(n: u128) -> Event {
    Event::HoldPlaced(HoldPlaced {
        hold_id: hold_id(n),
        show_id: show(),
        seats: vec![format!("A-{n}")],
        total: money(),
        expires_at: at(0),
        fan_id: Some(fan(n)),
    })
}

/// The facts of the order of that number.
pub(super) fn order_facts(n: u128) -> crate::event::Order {
    crate::event::Order {
        order_id: order_id(n),
        customer: Customer {
            id: fan(n).to_string(),
            email: String::new(),
            locale: "en".to_owned(),
        },
        event: ShowFacts {
            id: show(),
            name: "Sample".to_owned(),
            starts_at: None,
        },
        seats: vec![format!("A-{n}")],
        total: money(),
        reason: None,
    }
}

/// Holds 1 and 2 are placed, and order 2 is placed and confirmed.
pub(super) fn order_events() -> BTreeMap<u64, Outgoing> {
    BTreeMap::from([
        (1, outgoing(1, hold_placed(1), 0, 1)),
        (2, outgoing(2, hold_placed(2), 0, 1)),
        (3, outgoing(3, Event::OrderPlaced(order_facts(2)), 0, 1)),
        (4, outgoing(4, Event::OrderConfirmed(order_facts(2)), 0, 2)),
    ])
}

/// Rows of these kinds, whatever they carry, with versions 1, 2, 3…
pub(super) fn story(kinds: &[&str]) -> Vec<Outgoing> {
    let row = |(kind, version): (&&str, u64)| Outgoing {
        kind: (*kind).to_owned(),
        ..outgoing(version, Event::OrderPlaced(order_facts(1)), 0, version)
    };
    kinds.iter().zip(1..).map(row).collect()
}

/// [`order_events`], in the log, read by `stock` and `notify`, with the message to order 2's buyer.
pub(super) fn delivered() -> Facts {
    let mut facts = facts(Vec::new());
    let events = &mut facts.events;
    events.outbox = order_events();
    let mut next: BTreeMap<u16, Progress> = BTreeMap::new();
    for (seq, row) in &events.outbox {
        let progress = next
            .entry(row.partition)
            .or_insert(Progress { next: 0, at: at(0) });
        let (partition, offset) = (row.partition, progress.next);
        events.log.push(Mark {
            partition,
            offset,
            seq: *seq,
            at: at(0),
        });
        progress.next += 1;
    }
    events.log.sort_by_key(|mark| (mark.partition, mark.offset));
    for (consumer, handles) in [("stock", 1..=4), ("notify", 4..=4)] {
        events.groups.insert(consumer.to_owned(), next.clone());
        let inbox = handles.map(|n| (event_id(n), at(0))).collect();
        events.inboxes.insert(consumer.to_owned(), inbox);
    }
    events
        .notices
        .insert(event_id(4), Notice { order: order_id(2) });
    let message_id = event_id(4).to_string();
    facts.mail = Some(vec![Mail {
        file: "a.eml".to_owned(),
        message_id,
    }]);
    facts
}

/// A dead letter of `notify` for the event of that number in [`delivered`].
pub(super) fn dead_letter(seq: u64) -> DeadLetter {
    let delivered = delivered();
    let mark = delivered
        .events
        .log
        .iter()
        .find(|mark| mark.seq == seq)
        .expect("it is in the log");
    DeadLetter {
        consumer: "notify".to_owned(),
        partition: mark.partition,
        offset: mark.offset,
        event: event_id(seq.into()),
        key: delivered.events.outbox[&seq].key.clone(),
        reason: "no such mailbox".to_owned(),
        is_replayed: false,
    }
}
