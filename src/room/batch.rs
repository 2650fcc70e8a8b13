//! Group commit: many requests, one command.
//!
//! One call of a kind is in flight for a show; whatever arrives meanwhile is the next batch. No
//! timer: an idle room answers at once, a busy one in batches as large as the store is slow.
//!
//! ```text
//! ask ── nobody drives? ── drive: own + queued ── call ── answer all ── pass the turn on
//!     └─ queue and wait for the answer, or for the turn
//! ```
//!
//! No task stands behind this: the waiting requests drive. A request that is dropped may have been
//! driving, or may just have been given the turn. So the turn is a value: wherever it is dropped, it
//! goes to the next in the queue. And what a dropped driver took from the queue goes back to its
//! front, to be asked again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::base::ids::FanId;
use crate::base::limits::{BATCH_MAX, BATCH_QUEUE_MAX};
use crate::room::model::command::{
    Checked, Claimed, Command, Joined, Joining, Origin, Outcome, Restored, Restoring, Touched,
};
use crate::room::{StoreError, foreign};
use crate::telemetry::metrics;

/// A question that can be asked together with others of its kind.
pub(super) trait Ask: Copy + Send {
    /// What one of them is answered.
    type Answer: Send;

    /// The word for the kind.
    const KIND: &'static str;

    /// The command that asks all of these.
    fn command(asks: Vec<Self>) -> Command;

    /// The answers in the order of the asks; none if the outcome is of another kind.
    fn answers(outcome: Outcome) -> Option<Vec<Self::Answer>>;

    /// The same question, when it may have been asked already.
    fn again(self) -> Self {
        self
    }
}

impl Ask for Joining {
    type Answer = Joined;
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

    fn again(self) -> Self {
        Self {
            origin: Origin::Known,
            ..self
        }
    }
}

impl Ask for Restoring {
    type Answer = Restored;
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

/// Those who wait to ask the same kind of question of the same show.
pub(super) struct Batch<A: Ask> {
    queue: Mutex<Queue<A>>,
}

struct Queue<A: Ask> {
    waiting: VecDeque<Waiting<A>>,
    /// Somebody drives, or has just been given the turn.
    driven: bool,
}

struct Waiting<A: Ask> {
    ask: A,
    tell: oneshot::Sender<Told<A>>,
}

enum Told<A: Ask> {
    Answer(Result<A::Answer, StoreError>),
    /// Nobody has asked for you yet: you drive, with this question of yours.
    Turn(Turn<A>, A),
}

impl<A: Ask> Default for Batch<A> {
    fn default() -> Self {
        Self {
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                driven: false,
            }),
        }
    }
}

impl<A: Ask> Batch<A> {
    /// Asks, together with whoever else is asking. `call` applies a command to the show's room; it is
    /// used only if it falls to this request to drive.
    pub(super) async fn ask<F>(
        self: &Arc<Self>,
        ask: A,
        call: impl FnOnce(Command) -> F,
    ) -> Result<A::Answer, StoreError>
    where
        F: Future<Output = Result<Outcome, StoreError>>,
    {
        let (turn, ask) = match self.enter(ask)? {
            Entered::Drives(turn) => (turn, ask),
            Entered::Waits(told) => match told.await {
                Ok(Told::Answer(answer)) => return answer,
                Ok(Told::Turn(turn, ask)) => (turn, ask),
                // Only a driver that panicked loses those it took along.
                Err(_) => {
                    return Err(StoreError::Unavailable(
                        anyhow::anyhow!("batch was lost").into(),
                    ));
                }
            },
        };
        let mut flight = turn.take_off(ask);
        let asks = flight.asks();
        metrics::batch(A::KIND, asks.len());
        let outcome = call(A::command(asks)).await;
        flight.land(outcome)
    }

    fn enter(self: &Arc<Self>, ask: A) -> Result<Entered<A>, StoreError> {
        let mut queue = self.lock();
        if !queue.driven {
            queue.driven = true;
            return Ok(Entered::Drives(Turn(Arc::clone(self))));
        }
        if BATCH_QUEUE_MAX <= queue.waiting.len() {
            metrics::batch_refused(A::KIND);
            return Err(StoreError::Overloaded);
        }
        let (tell, told) = oneshot::channel();
        queue.waiting.push_back(Waiting { ask, tell });
        Ok(Entered::Waits(told))
    }

    fn lock(&self) -> MutexGuard<'_, Queue<A>> {
        // Nothing panics under this lock; if it did, the queue would still be whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Entered<A: Ask> {
    Drives(Turn<A>),
    Waits(oneshot::Receiver<Told<A>>),
}

/// The right to drive. There is one at a time; dropped, it goes to the first who still waits.
struct Turn<A: Ask>(Arc<Batch<A>>);

impl<A: Ask> Turn<A> {
    fn take_off(self, own: A) -> Flight<A> {
        let mut queue = self.0.lock();
        let mut taken = Vec::new();
        while taken.len() + 1 < BATCH_MAX
            && let Some(next) = queue.waiting.pop_front()
        {
            if !next.tell.is_closed() {
                taken.push(next);
            }
        }
        drop(queue);
        Flight {
            own,
            taken,
            turn: self,
        }
    }
}

impl<A: Ask> Drop for Turn<A> {
    fn drop(&mut self) {
        let heir = {
            let mut queue = self.0.lock();
            queue.waiting.retain(|waiting| !waiting.tell.is_closed());
            let heir = queue.waiting.pop_front();
            queue.driven = heir.is_some();
            heir
        };
        if let Some(Waiting { ask, tell }) = heir {
            // Told after the lock is free: if the heir has gone, the turn is dropped here and now,
            // and goes to the next.
            drop(tell.send(Told::Turn(Turn(Arc::clone(&self.0)), ask)));
        }
    }
}

/// A call on its way, and those it asks for.
struct Flight<A: Ask> {
    own: A,
    taken: Vec<Waiting<A>>,
    turn: Turn<A>,
}

impl<A: Ask> Flight<A> {
    fn asks(&self) -> Vec<A> {
        std::iter::once(self.own)
            .chain(self.taken.iter().map(|waiting| waiting.ask))
            .collect()
    }

    /// Tells everybody the outcome, and returns the driver's own answer.
    fn land(&mut self, outcome: Result<Outcome, StoreError>) -> Result<A::Answer, StoreError> {
        let taken = std::mem::take(&mut self.taken);
        let answers = outcome.and_then(|outcome| {
            A::answers(outcome)
                .filter(|answers| answers.len() == taken.len() + 1)
                .ok_or_else(foreign)
        });
        match answers {
            Ok(answers) => {
                let mut answers = answers.into_iter();
                let own = answers.next().ok_or_else(foreign);
                for (waiting, answer) in taken.into_iter().zip(answers) {
                    // Who has gone does not hear it.
                    drop(waiting.tell.send(Told::Answer(Ok(answer))));
                }
                own
            }
            Err(error) => {
                for waiting in taken {
                    drop(waiting.tell.send(Told::Answer(Err(error.alike()))));
                }
                Err(error)
            }
        }
    }
}

impl<A: Ask> Drop for Flight<A> {
    /// A call that was dropped on its way may have reached the store. Those it asked for go back to
    /// the front, to be asked again; then the turn is dropped, and goes to the first of them.
    fn drop(&mut self) {
        let mut queue = self.turn.0.lock();
        for waiting in std::mem::take(&mut self.taken).into_iter().rev() {
            queue.waiting.push_front(Waiting {
                ask: waiting.ask.again(),
                tell: waiting.tell,
            });
        }
    }
}
