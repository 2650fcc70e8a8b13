//! From facts to stages: how far an order has come, where it stopped, and since when.

use serde::{Deserialize, Serialize};

use crate::base::ids::{HoldId, OrderId};
use crate::base::time::Timestamp;
use crate::journey::facts::{EventFacts, Facts, GroupFacts, HoldFacts};
use crate::notify::compose;

/// An order's way, stage by stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journey {
    /// The order; none: nobody has placed one for the hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderId>,
    /// The hold that it bought.
    pub hold: HoldId,
    /// Its show.
    pub show: String,
    /// Its status; before there is an order, the hold's.
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
    /// For how long it has not been done, in milliseconds; none where it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// What there is to know.
    pub detail: String,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Whose turn it is, and when they last gave a sign of life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
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

/// Makes stages of facts, as of now.
pub fn fold(facts: &Facts, now: Timestamp) -> Journey {
    let traceparent = facts.events.iter().find_map(|event| event.trace.as_deref());
    let trace = traceparent.and_then(|text| text.split('-').nth(1));
    let mut stages = vec![request(facts, trace), order(facts)];
    for event in &facts.events {
        let detail = format!("{}, version {}", event.kind, event.version);
        stages.push(Stage::new(Station::Outbox, State::Done, event.at, detail).about(event));
        let more = after_outbox(event, now).into_iter();
        stages.extend(more.map(|stage| stage.about(event)));
    }
    let written = facts.events.last().map_or(0, |event| event.version);
    if written < facts.version {
        let detail = format!(
            "version {} has no row in the outbox: it was cleaned up, or never written",
            facts.version
        );
        let at = facts.updated_at;
        stages.push(Stage::new(Station::Outbox, State::Stuck, at, detail));
    }
    Journey {
        order: Some(facts.order),
        hold: facts.hold,
        show: facts.show.clone(),
        status: facts.status.clone(),
        trace: trace.map(str::to_owned),
        stages: Vec::new(),
        stopped: None,
    }
    .along(stages, now)
}

/// The journey of a hold for which no order has come, as of now.
pub fn fold_hold(facts: &HoldFacts, now: Timestamp) -> Journey {
    let (state, detail) = match facts.state.as_str() {
        "live" if now < facts.expires_at => (
            State::Waiting,
            format!(
                "no order has come yet; the hold is kept until {}",
                facts.expires_at
            ),
        ),
        _ => (
            State::Stuck,
            format!(
                "no order came until the hold ended, at {} at the latest",
                facts.expires_at
            ),
        ),
    };
    let request = Stage {
        owner: Some(
            "the fan's, a gateway's or the shop's; none of them leaves a trace before the order"
                .to_owned(),
        ),
        ..Stage::new(Station::Request, state, facts.created_at, detail)
    };
    Journey {
        order: None,
        hold: facts.hold,
        show: facts.show.clone(),
        status: facts.state.clone(),
        trace: None,
        stages: Vec::new(),
        stopped: None,
    }
    .along(vec![request], now)
}

impl Journey {
    /// The journey with these stages, and where it stopped.
    fn along(self, mut stages: Vec<Stage>, now: Timestamp) -> Self {
        for stage in stages.iter_mut().filter(|stage| stage.is_open()) {
            stage.age_ms = Some(now.ms_since(stage.at));
        }
        Self {
            stopped: stages.iter().find(|stage| stage.is_open()).cloned(),
            stages,
            ..self
        }
    }
}

impl Stage {
    fn new(stage: Station, state: State, at: Timestamp, detail: String) -> Self {
        Self {
            stage,
            event: None,
            group: None,
            state,
            at,
            age_ms: None,
            detail,
            last_error: None,
            owner: None,
        }
    }

    fn about(self, event: &EventFacts) -> Self {
        Self {
            event: Some(event.id.clone()),
            ..self
        }
    }

    fn is_open(&self) -> bool {
        !matches!(self.state, State::Done | State::NotNeeded)
    }
}

fn request(facts: &Facts, trace: Option<&str>) -> Stage {
    let detail = match trace {
        Some(trace) => format!("trace {trace}"),
        None => "came without a trace".to_owned(),
    };
    Stage::new(Station::Request, State::Done, facts.placed_at, detail)
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
    let stage = Stage::new(Station::Order, state, at, detail);
    if !stage.is_open() {
        return stage;
    }
    let last_payment = facts.last_payment.as_ref();
    Stage {
        last_error: last_payment
            .filter(|(state, _)| state == "declined")
            .map(|(_, at)| format!("the payment was declined at {at}")),
        owner: Some(match last_payment {
            None => "orders: it has not asked the payment provider yet".to_owned(),
            Some((state, at)) => {
                format!("orders: it last worked on the payment, now {state}, at {at}")
            }
        }),
        ..stage
    }
}

fn after_outbox(event: &EventFacts, now: Timestamp) -> Vec<Stage> {
    let (offset, at) = match &event.logged {
        Some(logged) => *logged,
        None => return vec![unlogged(event, now)],
    };
    let place = format!("partition {}, offset {offset}", event.partition);
    let mut stages = vec![Stage::new(Station::Log, State::Done, at, place)];
    for group in &event.groups {
        stages.push(Stage {
            group: Some(group.group.clone()),
            ..effect(event, group, (offset, at))
        });
    }
    stages.extend(provider(event, &stages));
    stages
}

/// An event that has no place in the log.
fn unlogged(event: &EventFacts, now: Timestamp) -> Stage {
    if let Some((reason, since)) = &event.quarantine {
        let detail = format!("in quarantine: {reason}");
        return Stage {
            last_error: Some(reason.clone()),
            ..Stage::new(Station::Log, State::Stuck, *since, detail)
        };
    }
    let partition = event.partition;
    let owner = match &event.relay {
        None => format!("no relay has partition {partition}"),
        Some((relay, until)) if now < *until => {
            format!("{relay} has partition {partition} until {until}")
        }
        Some((relay, until)) => {
            format!("{relay} had partition {partition} until {until}, and nobody has it now")
        }
    };
    let detail = "not relayed yet".to_owned();
    Stage {
        owner: Some(owner),
        ..Stage::new(Station::Log, State::Waiting, event.at, detail)
    }
}

/// What the provider said to the message of an event that is in the log: nothing yet where the group
/// that writes to people is not past it.
fn provider(event: &EventFacts, before: &[Stage]) -> Option<Stage> {
    if let Some((receipt, sent_at)) = &event.notice {
        let receipt = receipt.clone();
        return Some(Stage::new(
            Station::Provider,
            State::Done,
            *sent_at,
            receipt,
        ));
    }
    let ours = |stage: &&Stage| stage.group.as_deref() == Some(compose::GROUP);
    let notify = before.iter().find(ours).filter(|stage| stage.is_open())?;
    let detail = match notify.state {
        State::Retrying | State::Stuck => "has not taken the message".to_owned(),
        State::Done | State::NotNeeded | State::Waiting => "no answer yet".to_owned(),
    };
    Some(Stage {
        last_error: notify.last_error.clone(),
        ..Stage::new(Station::Provider, State::Waiting, notify.at, detail)
    })
}

/// How a group stands with an event that is in the log.
fn effect(event: &EventFacts, group: &GroupFacts, (offset, logged_at): (u64, Timestamp)) -> Stage {
    let stage = |state, at, detail| Stage::new(Station::Effect, state, at, detail);
    if let Some(letter) = &group.dead_letter {
        let detail = format!(
            "set aside as dead letter {} after {} attempts: {}",
            letter.id, letter.attempts, letter.reason
        );
        return Stage {
            last_error: Some(letter.reason.clone()),
            ..stage(State::Stuck, letter.at, detail)
        };
    }
    if let Some(at) = group.handled_at {
        return stage(State::Done, at, "handled".to_owned());
    }
    if group.group == compose::GROUP && !compose::concerns(&event.kind) {
        return stage(State::NotNeeded, logged_at, "nobody is told".to_owned());
    }
    match group.next {
        None => {
            let detail = "the group has never read the log".to_owned();
            stage(State::Waiting, logged_at, detail)
        }
        Some((next, at)) if offset < next => stage(State::Done, at, "read".to_owned()),
        Some((next, _)) => Stage {
            last_error: group.retry.as_ref().map(|retry| retry.reason.clone()),
            owner: group
                .seen_at
                .map(|at| format!("a process that runs {} last said so at {at}", group.group)),
            ..unread(event, group, (offset - next + 1, logged_at))
        },
    }
}

/// An event that a group has before it, this many with those before it.
fn unread(event: &EventFacts, group: &GroupFacts, (behind, logged_at): (u64, Timestamp)) -> Stage {
    let (state, at, detail) = match &group.retry {
        Some(retry) if retry.event_id == event.id => (
            State::Retrying,
            retry.since,
            format!(
                "{} attempts spent, the next at {}: {}",
                retry.attempts, retry.next_at, retry.reason
            ),
        ),
        Some(retry) => (
            State::Waiting,
            logged_at,
            format!(
                "waits behind event {}, which is tried again since {}: {}",
                retry.event_id, retry.since, retry.reason
            ),
        ),
        None => (
            State::Waiting,
            logged_at,
            format!("not read yet: the group is {behind} behind"),
        ),
    };
    Stage::new(Station::Effect, state, at, detail)
}
