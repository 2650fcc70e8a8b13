//! A journey as a person reads it in a terminal.

use crate::journey::fold::{Journey, Stage, State, Station};

impl Station {
    /// The station's name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Order => "order",
            Self::Outbox => "outbox",
            Self::Log => "log",
            Self::Effect => "effect",
            Self::Provider => "provider",
        }
    }
}

impl State {
    /// How it stands, in a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::NotNeeded => "not needed",
            Self::Waiting => "waiting",
            Self::Retrying => "retrying",
            Self::Stuck => "stuck",
        }
    }
}

/// The whole journey, a line a stage, and at the end where it stopped.
pub fn text(journey: &Journey) -> String {
    let subject = match journey.order {
        Some(order) => format!("order {order}"),
        None => format!("no order yet, hold {}", journey.hold),
    };
    let mut lines = vec![format!("{subject} of {}: {}", journey.show, journey.status)];
    for stage in &journey.stages {
        let name = name(stage);
        let state = stage.state.word();
        lines.push(format!(
            "  {name:<16} {state:<10} {}  {}",
            stage.at, stage.detail
        ));
    }
    match &journey.stopped {
        None => lines.push("It has arrived.".to_owned()),
        Some(stage) => lines.extend(stop(stage)),
    }
    lines.join("\n") + "\n"
}

/// Where it stopped and for how long, what went wrong, and whose turn it is.
fn stop(stage: &Stage) -> Vec<String> {
    let age_ms = stage.age_ms.unwrap_or_default();
    let mut lines = vec![format!(
        "It stopped at {}, {} since {}, for {}.{:03} s: {}",
        name(stage),
        stage.state.word(),
        stage.at,
        age_ms / 1_000,
        age_ms % 1_000,
        stage.detail
    )];
    lines.extend(
        stage
            .last_error
            .iter()
            .map(|error| format!("Last error: {error}")),
    );
    lines.extend(stage.owner.iter().map(|owner| format!("Its turn: {owner}")));
    lines
}

fn name(stage: &Stage) -> String {
    match &stage.group {
        Some(group) => format!("{} {group}", stage.stage.word()),
        None => stage.stage.word().to_owned(),
    }
}
