//! Rooms that lack one rule, to see whether the checker notices.
//!
//! Each stands before the real room. What it lets the room do against the rule it also hides from
//! the ledger, as a room would that never had the rule: the operator's settings stay what they are.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use catraca::base::ids::{FanId, IdSource, ShowId};
use catraca::base::limits::TICK_CALLS_MAX;
use catraca::base::time::Timestamp;
use catraca::room::model::command::{
    Change, Checked, Command, Joined, Mend, Origin, Outcome, Settings,
};
use catraca::room::{Store, StoreError};

/// How much more than the operator allows.
const TIMES: u64 = 100;

/// What is done to the questions and answers of a room.
pub(crate) trait Bend: Debug + Send + Sync {
    /// Changes a question before the room hears it.
    fn asks(&self, _command: &mut Command) {}

    /// What the room is asked beside.
    fn then(&self, _command: &Command, _outcome: &Outcome) -> Vec<Command> {
        Vec::new()
    }

    /// Changes an answer before anybody hears it.
    fn answers(&self, _outcome: &mut Outcome) {}
}

/// The real room behind a bend.
#[derive(Debug)]
pub(crate) struct Bent<B> {
    inner: Arc<dyn Store>,
    bend: B,
}

/// Puts a bend before a room.
pub(crate) fn bent(rooms: &mut Arc<dyn Store>, bend: impl Bend + 'static) {
    let inner = Arc::clone(rooms);
    *rooms = Arc::new(Bent { inner, bend });
}

#[async_trait]
impl<B: Bend> Store for Bent<B> {
    async fn apply(&self, show: &ShowId, command: &Command) -> Result<Outcome, StoreError> {
        let mut command = command.clone();
        self.bend.asks(&mut command);
        let mut outcome = self.inner.apply(show, &command).await?;
        for beside in self.bend.then(&command, &outcome) {
            self.inner.apply(show, &beside).await?;
        }
        self.bend.answers(&mut outcome);
        Ok(outcome)
    }

    async fn shows(&self) -> Result<Vec<ShowId>, StoreError> {
        self.inner.shows().await
    }
}

fn settings_in(command: &mut Command) -> Option<&mut Settings> {
    match command {
        Command::Configure(asked) => Some(&mut asked.settings),
        Command::Mend(Mend::Finish(rest)) => Some(&mut rest.configure.settings),
        _ => None,
    }
}

/// An admitter that asks for all it can get. The room must hold it back.
#[derive(Debug)]
pub(crate) struct Greed;

impl Bend for Greed {
    fn asks(&self, command: &mut Command) {
        if let Command::Tick(tick) = command {
            tick.want = TICK_CALLS_MAX;
        }
    }
}

/// No quota: a greedy admitter is held back by nothing.
#[derive(Debug)]
pub(crate) struct NoQuota;

impl Bend for NoQuota {
    fn asks(&self, command: &mut Command) {
        Greed.asks(command);
        if let Some(settings) = settings_in(command) {
            settings.rate *= TIMES;
        }
    }

    fn answers(&self, outcome: &mut Outcome) {
        match outcome {
            Outcome::Board(board) => board.settings.rate /= TIMES,
            Outcome::Ledger(entries) => {
                for entry in entries {
                    if let Change::Called(called) = &mut entry.change {
                        called.rate /= TIMES;
                    }
                }
            }
            _ => {}
        }
    }
}

/// No bound on how many are inside.
#[derive(Debug)]
pub(crate) struct NoCapacity;

impl Bend for NoCapacity {
    fn asks(&self, command: &mut Command) {
        if let Some(settings) = settings_in(command) {
            settings.capacity *= TIMES;
        }
    }

    fn answers(&self, outcome: &mut Outcome) {
        match outcome {
            Outcome::Board(board) => board.settings.capacity /= TIMES,
            Outcome::Ledger(entries) => {
                for entry in entries {
                    if let Change::Called(called) = &mut entry.change {
                        called.capacity /= TIMES;
                    }
                }
            }
            _ => {}
        }
    }
}

/// No look-up at join: whoever asks again stands in line again.
#[derive(Debug)]
pub(crate) struct NoDedup {
    ids: IdSource,
    seen: Mutex<BTreeSet<FanId>>,
}

impl NoDedup {
    pub(crate) fn new() -> Self {
        Self {
            ids: IdSource::random(),
            seen: Mutex::default(),
        }
    }
}

impl Bend for NoDedup {
    fn asks(&self, command: &mut Command) {
        let Command::Join { joining } = command else {
            return;
        };
        for joining in joining {
            if !self.seen.lock().unwrap().insert(joining.fan) && joining.origin == Origin::Known {
                joining.fan = self.ids.fan(); // a stranger, as far as this room knows
            }
        }
    }
}

/// No liveness at the gate: a ticket once good is good for ever.
#[derive(Debug)]
pub(crate) struct NoCheck;

impl Bend for NoCheck {
    fn answers(&self, outcome: &mut Outcome) {
        let Outcome::Checked(checked) = outcome else {
            return;
        };
        for checked in checked {
            *checked = Checked::Live {
                until: Timestamp::from_unix_ms(4_000_000_000_000),
            };
        }
    }
}

/// The last in line of each tick is called first.
#[derive(Debug)]
pub(crate) struct LastFirst;

impl Bend for LastFirst {
    fn asks(&self, command: &mut Command) {
        Greed.asks(command); // so that ticks call more than one
    }

    fn answers(&self, outcome: &mut Outcome) {
        let Outcome::Ledger(entries) = outcome else {
            return;
        };
        for entry in entries {
            if let Change::Called(called) = &mut entry.change {
                called.fans.reverse();
            }
        }
    }
}

/// Every tenth fan in line is forgotten, and the ledger has no word of it.
#[derive(Debug, Default)]
pub(crate) struct Forgetful {
    forgotten: Mutex<BTreeSet<FanId>>,
}

impl Bend for Forgetful {
    fn then(&self, command: &Command, outcome: &Outcome) -> Vec<Command> {
        let (Command::Join { joining }, Outcome::Joined(joined)) = (command, outcome) else {
            return Vec::new();
        };
        let mut leave = Vec::new();
        for (joining, joined) in joining.iter().zip(joined) {
            let fan = joining.fan;
            if matches!(joined, Joined::New { number } if number.0 % 10 == 3) {
                self.forgotten.lock().unwrap().insert(fan);
                leave.push(Command::Leave { fan });
            }
        }
        leave
    }

    fn answers(&self, outcome: &mut Outcome) {
        let Outcome::Ledger(entries) = outcome else {
            return;
        };
        for entry in entries {
            let forgotten = self.forgotten.lock().unwrap();
            if let Change::Ended { fan, .. } = entry.change
                && forgotten.contains(&fan)
            {
                // Says nothing of a fan who was never inside.
                let until = entry.at;
                entry.change = Change::Extended { fan, until };
            }
        }
    }
}
