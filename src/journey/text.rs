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
    let mut lines = vec![format!(
        "order {} of {}: {}",
        journey.order, journey.show, journey.status
    )];
    for stage in &journey.stages {
        let name = name(stage);
        let state = stage.state.word();
        lines.push(format!(
            "  {name:<16} {state:<10} {}  {}",
            stage.at, stage.detail
        ));
    }
    lines.push(match &journey.stopped {
        None => "It has arrived.".to_owned(),
        Some(stage) => format!(
            "It stopped at {}, {} since {}: {}",
            name(stage),
            stage.state.word(),
            stage.at,
            stage.detail
        ),
    });
    lines.join("\n") + "\n"
}

fn name(stage: &Stage) -> String {
    match &stage.group {
        Some(group) => format!("{} {group}", stage.stage.word()),
        None => stage.stage.word().to_owned(),
    }
}
