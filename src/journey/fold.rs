//! From facts to stages: how far an order has come, where it stopped, and since when.

use serde::{Deserialize, Serialize};

use crate::base::ids::OrderId;
use crate::base::time::Timestamp;
use crate::notify::compose;

/// What is known of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The order.
    pub order: OrderId,
    /// Its show.
    pub show: String,
    /// `pending`, `confirmed`, `declined`, `cancelled` or `refunded`.
    pub status: String,
    /// Why it ended other than confirmed.
    pub reason: Option<String>,
    /// When it was placed.
    pub placed_at: Timestamp,
    /// When its status last changed.
    pub updated_at: Timestamp,
    /// Until when it may be paid, while it is pending.
    pub payable_until: Timestamp,
    /// Attempts to charge it.
    pub payments: u64,
    /// Of those, the ones whose money has to go back.
    pub owed: u64,
    /// The version of its last event.
    pub version: u64,
    /// Its events, by version.
    pub events: Vec<EventFacts>,
}

/// What is known of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFacts {
    /// The event.
    pub id: String,
    /// Its `type`.
    pub kind: String,
    /// 1, 2, 3… within the order.
    pub version: u64,
    /// The `traceparent` of the request that caused it.
    pub trace: Option<String>,
    /// When it became true.
    pub at: Timestamp,
    /// Its partition.
    pub partition: u16,
    /// Its offset, and when it was logged.
    pub logged: Option<(u64, Timestamp)>,
    /// Why and since when it is in quarantine.
    pub quarantine: Option<(String, Timestamp)>,
    /// What each group has done about it.
    pub groups: Vec<GroupFacts>,
    /// What the provider answered, and when.
    pub notice: Option<(String, Timestamp)>,
}

/// What a consumer group has done about an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupFacts {
    /// The group.
    pub group: String,
    /// The next offset it reads in the event's partition, and when that was written; `None` where it
    /// has never read at all.
    pub next: Option<(u64, Timestamp)>,
    /// When it handled the event.
    pub handled_at: Option<Timestamp>,
    /// The event's dead letter that was not replayed.
    pub dead_letter: Option<DeadLetterFacts>,
    /// What the group is trying again in this partition.
    pub retry: Option<RetryFacts>,
}

/// A delivery that was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterFacts {
    /// By which it is replayed.
    pub id: u64,
    /// Why.
    pub reason: String,
    /// After how many attempts.
    pub attempts: u64,
    /// When.
    pub at: Timestamp,
}

/// A delivery that is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryFacts {
    /// Its event: this one, or one before it.
    pub event_id: String,
    /// Attempts spent.
    pub attempts: u64,
    /// What the last one said.
    pub reason: String,
    /// When the first one failed.
    pub since: Timestamp,
    /// When the next one is due.
    pub next_at: Timestamp,
}

/// An order's way, stage by stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journey {
    /// The order.
    pub order: OrderId,
    /// Its show.
    pub show: String,
    /// Its status.
    pub status: String,
    /// The trace of the request that placed it, 32 hexadecimal digits.
    pub trace: Option<String>,
    /// Its stages, in order.
    pub stages: Vec<Stage>,
    /// The first stage that is not done; none: it has arrived.
    pub stopped: Option<Stage>,
}

/// One stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// Which.
    pub stage: Station,
    /// The event it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The group it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// How it stands.
    pub state: State,
    /// When it was done; else since when it is not.
    pub at: Timestamp,
    /// What there is to know.
    pub detail: String,
}

/// The stations on an order's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Station {
    /// The request that placed it.
    Request,
    /// Its row.
    Order,
    /// An event's row in the outbox.
    Outbox,
    /// An event's place in the log.
    Log,
    /// What a group does about an event.
    Effect,
    /// What the provider answered.
    Provider,
}

/// How a stage stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Over.
    Done,
    /// There is nothing to do.
    NotNeeded,
    /// Its turn has not come.
    Waiting,
    /// It failed and is tried again.
    Retrying,
    /// It goes on only when somebody acts.
    Stuck,
}

/// Makes stages of facts.
pub fn fold(facts: &Facts) -> Journey {
    let traceparent = facts.events.iter().find_map(|event| event.trace.as_deref());
    let trace = traceparent.and_then(|text| text.split('-').nth(1));
    let mut stages = vec![request(facts, trace), order(facts)];
    for event in &facts.events {
        stages.push(Stage::of(
            event,
            Station::Outbox,
            (State::Done, event.at),
            format!("{}, version {}", event.kind, event.version),
        ));
        stages.extend(after_outbox(event));
    }
    let written = facts.events.last().map_or(0, |event| event.version);
    if written < facts.version {
        stages.push(Stage {
            stage: Station::Outbox,
            event: None,
            group: None,
            state: State::Stuck,
            at: facts.updated_at,
            detail: format!(
                "version {} has no row in the outbox: it was cleaned up, or never written",
                facts.version
            ),
        });
    }
    let arrived = |stage: &&Stage| !matches!(stage.state, State::Done | State::NotNeeded);
    Journey {
        order: facts.order,
        show: facts.show.clone(),
        status: facts.status.clone(),
        trace: trace.map(str::to_owned),
        stopped: stages.iter().find(arrived).cloned(),
        stages,
    }
}

impl Stage {
    fn of(
        event: &EventFacts,
        stage: Station,
        (state, at): (State, Timestamp),
        detail: String,
    ) -> Self {
        Self {
            stage,
            event: Some(event.id.clone()),
            group: None,
            state,
            at,
            detail,
        }
    }
}

fn request(facts: &Facts, trace: Option<&str>) -> Stage {
    Stage {
        stage: Station::Request,
        event: None,
        group: None,
        state: State::Done,
        at: facts.placed_at,
        detail: match trace {
            Some(trace) => format!("trace {trace}"),
            None => "came without a trace".to_owned(),
        },
    }
}

fn order(facts: &Facts) -> Stage {
    let pending = facts.status == "pending";
    let (state, at) = match (pending, facts.owed) {
        (true, _) => (State::Waiting, facts.placed_at),
        (false, 0) => (State::Done, facts.updated_at),
        (false, _) => (State::Waiting, facts.updated_at),
    };
    let owed = match facts.owed {
        0 => "",
        _ => "; what was paid has not gone back yet",
    };
    let detail = match &facts.reason {
        _ if pending => format!(
            "pending: waits for its payment until {}, charged {} times so far",
            facts.payable_until, facts.payments
        ),
        Some(reason) => format!("{}: {reason}{owed}", facts.status),
        None => format!("{}{owed}", facts.status),
    };
    Stage {
        stage: Station::Order,
        event: None,
        group: None,
        state,
        at,
        detail,
    }
}

fn after_outbox(event: &EventFacts) -> Vec<Stage> {
    let stage = |standing, detail| vec![Stage::of(event, Station::Log, standing, detail)];
    let (offset, at) = match (&event.logged, &event.quarantine) {
        (Some(logged), _) => *logged,
        (None, Some((reason, since))) => {
            return stage((State::Stuck, *since), format!("in quarantine: {reason}"));
        }
        (None, None) => {
            return stage((State::Waiting, event.at), "not relayed yet".to_owned());
        }
    };
    let place = format!("partition {}, offset {offset}", event.partition);
    let mut stages = stage((State::Done, at), place);
    for group in &event.groups {
        let (state, since, detail) = effect(event, group, (offset, at));
        stages.push(Stage {
            group: Some(group.group.clone()),
            ..Stage::of(event, Station::Effect, (state, since), detail)
        });
    }
    if let Some((receipt, sent_at)) = &event.notice {
        let standing = (State::Done, *sent_at);
        stages.push(Stage::of(
            event,
            Station::Provider,
            standing,
            receipt.clone(),
        ));
    }
    stages
}

/// How a group stands with an event that is in the log.
fn effect(
    event: &EventFacts,
    group: &GroupFacts,
    (offset, logged_at): (u64, Timestamp),
) -> (State, Timestamp, String) {
    if let Some(letter) = &group.dead_letter {
        let detail = format!(
            "set aside as dead letter {} after {} attempts: {}",
            letter.id, letter.attempts, letter.reason
        );
        return (State::Stuck, letter.at, detail);
    }
    if let Some(at) = group.handled_at {
        return (State::Done, at, "handled".to_owned());
    }
    if group.group == compose::GROUP && !compose::concerns(&event.kind) {
        return (State::NotNeeded, logged_at, "nobody is told".to_owned());
    }
    let Some((next, at)) = group.next else {
        let detail = "the group has never read the log".to_owned();
        return (State::Waiting, logged_at, detail);
    };
    if offset < next {
        return (State::Done, at, "read".to_owned());
    }
    match &group.retry {
        Some(retry) if retry.event_id == event.id => {
            let detail = format!(
                "{} attempts spent, the next at {}: {}",
                retry.attempts, retry.next_at, retry.reason
            );
            (State::Retrying, retry.since, detail)
        }
        Some(retry) => {
            let detail = format!(
                "waits behind event {}, which is tried again since {}: {}",
                retry.event_id, retry.since, retry.reason
            );
            (State::Waiting, logged_at, detail)
        }
        None => {
            let detail = format!("not read yet: the group is {} behind", offset - next + 1);
            (State::Waiting, logged_at, detail)
        }
    }
}
