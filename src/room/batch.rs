//! What many fans ask a room at once: each kind of question is gathered into one command.
//!
//! `crate::batch` gathers; here stand the kinds, and what each says to the room.

use std::sync::Arc;

use crate::base::ids::FanId;
use crate::batch::{Ask, Batch, Failure};
use crate::room::model::command::{
    Checked, Claimed, Command, Joined, Joining, Origin, Outcome, Restored, Restoring, Touched,
};
use crate::room::{Away, StoreError, foreign};
use crate::telemetry::metrics;

/// A question to a room.
pub(super) trait Question: Ask<Error = StoreError> {
    /// The word for the kind.
    const KIND: &'static str;

    /// The command that asks all of these.
    fn command(asks: Vec<Self>) -> Command;

    /// The answers in the order of the asks; none if the outcome is of another kind.
    fn answers(outcome: Outcome) -> Option<Vec<Self::Answer>>;
}

impl Failure for StoreError {
    fn overloaded() -> Self {
        Self::Overloaded
    }

    fn lost() -> Self {
        Self::Unavailable(anyhow::anyhow!("batch was lost").into())
    }

    fn foreign() -> Self {
        foreign()
    }

    fn alike(&self) -> Self {
        match self {
            Self::Unfenced => Self::Unfenced,
            Self::Overloaded => Self::Overloaded,
            Self::Unavailable(away) => Self::Unavailable(Away {
                outage: away.outage,
                failure: anyhow::anyhow!("{:#}", away.failure),
            }),
            Self::Corrupt(source) => Self::Corrupt(anyhow::anyhow!("{source:#}")),
        }
    }
}

/// Asks a room, together with whoever else asks it this. `send` applies a command to it.
///
/// # Errors
/// See [`StoreError`].
pub(super) async fn ask<Q: Question, F>(
    batch: &Arc<Batch<Q>>,
    question: Q,
    send: impl FnOnce(Command) -> F,
) -> Result<Q::Answer, StoreError>
where
    F: Future<Output = Result<Outcome, StoreError>>,
{
    let call = |asks: Vec<Q>| async move {
        metrics::batch(Q::KIND, asks.len());
        let outcome = send(Q::command(asks)).await?;
        Q::answers(outcome).ok_or_else(foreign)
    };
    let answer = batch.ask(question, call).await;
    if let Err(StoreError::Overloaded) = answer {
        metrics::batch_refused(Q::KIND);
    }
    answer
}

impl Ask for Joining {
    type Answer = Joined;
    type Error = StoreError;

    fn again(self) -> Self {
        Self {
            origin: Origin::Known,
            ..self
        }
    }
}

impl Question for Joining {
    const KIND: &'static str = "join";

    fn command(asks: Vec<Self>) -> Command {
        Command::Join { joining: asks }
    }

    fn answers(outcome: Outcome) -> Option<Vec<Joined>> {
        if let Outcome::Joined(answers) = outcome {
            Some(answers)
        } else {
            None
        }
    }
}

impl Ask for Restoring {
    type Answer = Restored;
    type Error = StoreError;
}

impl Question for Restoring {
    const KIND: &'static str = "restore";

    fn command(asks: Vec<Self>) -> Command {
        Command::Restore { restoring: asks }
    }

    fn answers(outcome: Outcome) -> Option<Vec<Restored>> {
        if let Outcome::Restored(answers) = outcome {
            Some(answers)
        } else {
            None
        }
    }
}

/// A called fan shows up.
#[derive(Clone, Copy)]
pub(super) struct Claiming(pub(super) FanId);

impl Ask for Claiming {
    type Answer = Claimed;
    type Error = StoreError;
}

impl Question for Claiming {
    const KIND: &'static str = "claim";

    fn command(asks: Vec<Self>) -> Command {
        Command::Claim {
            fans: asks.into_iter().map(|ask| ask.0).collect(),
        }
    }

    fn answers(outcome: Outcome) -> Option<Vec<Claimed>> {
        if let Outcome::Claimed(answers) = outcome {
            Some(answers)
        } else {
            None
        }
    }
}

/// The gate asks for a fan.
#[derive(Clone, Copy)]
pub(super) struct Checking(pub(super) FanId);

impl Ask for Checking {
    type Answer = Checked;
    type Error = StoreError;
}

impl Question for Checking {
    const KIND: &'static str = "check";

    fn command(asks: Vec<Self>) -> Command {
        Command::Check {
            fans: asks.into_iter().map(|ask| ask.0).collect(),
        }
    }

    fn answers(outcome: Outcome) -> Option<Vec<Checked>> {
        if let Outcome::Checked(answers) = outcome {
            Some(answers)
        } else {
            None
        }
    }
}

/// A fan near their turn shows up.
#[derive(Clone, Copy)]
pub(super) struct Touching(pub(super) FanId);

impl Ask for Touching {
    type Answer = Touched;
    type Error = StoreError;
}

impl Question for Touching {
    const KIND: &'static str = "touch";

    fn command(asks: Vec<Self>) -> Command {
        Command::Touch {
            fans: asks.into_iter().map(|ask| ask.0).collect(),
        }
    }

    fn answers(outcome: Outcome) -> Option<Vec<Touched>> {
        if let Outcome::Touched(answers) = outcome {
            Some(answers)
        } else {
            None
        }
    }
}
