//! Group commit: many requests, one call.
//!
//! One call is in flight; whatever arrives meanwhile is the next batch. No timer: who is alone is
//! answered at once, a crowd in batches as large as the store is slow. A store next door is so quick that
//! hardly anything arrives meanwhile, so the driver first lets everybody ask whose request is here already:
//! that is one turn of the runtime, and saves calls where requests come faster than they are looked at.
//!
//! ```text
//! ask ── nobody drives? ── drive: own + queued ── call ── answer all ── pass the turn on
//!     └─ queue and wait for the answer, or for the turn
//! ```
//!
//! No task stands behind this: the waiting requests drive. A request that is dropped may have been
//! driving, or may just have been given the turn. So the turn is a value: wherever it is dropped, it
//! goes to the next in the queue. And what a dropped driver took from the queue goes back to its
//! front, to be asked again ([`Batch::ask`]); where asking twice would count twice, the call is
//! carried to its end without its driver ([`Batch::ask_once`]).
//!
//! Absent on purpose: what is asked, and of whom. `room/batch.rs` and `limit/joins_in_redis.rs` know.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio_util::task::TaskTracker;

use crate::base::limits::{BATCH_MAX, BATCH_QUEUE_MAX};

/// A question that can be asked together with others of its kind.
pub trait Ask: Copy + Send {
    /// What one of them is answered.
    type Answer: Send;
    /// Why it is not.
    type Error: Failure;

    /// The same question, when it may have been asked already.
    #[must_use]
    fn again(self) -> Self {
        self
    }
}

/// How a batch says what went wrong, in the words of the store that it asks.
pub trait Failure: Send {
    /// More wait than the next batches can take.
    fn overloaded() -> Self;

    /// Nobody knows what became of the question.
    fn lost() -> Self;

    /// The answers are not as many as the questions.
    fn foreign() -> Self;

    /// The same failure for somebody else who asked in the same batch.
    #[must_use]
    fn alike(&self) -> Self;
}

/// Those who wait to ask the same kind of question of the same store.
pub struct Batch<A: Ask> {
    queue: Mutex<Queue<A>>,
    /// Calls that go on without their driver.
    calls: TaskTracker,
}

struct Queue<A: Ask> {
    waiting: VecDeque<Waiting<A>>,
    /// Somebody drives, or has just been given the turn.
    driven: bool,
    /// Somebody has gone who may still be in `waiting`.
    has_left: bool,
}

struct Waiting<A: Ask> {
    ask: A,
    tell: oneshot::Sender<Told<A>>,
}

enum Told<A: Ask> {
    Answer(Result<A::Answer, A::Error>),
    /// Nobody has asked for you yet: you drive, with this question of yours.
    Turn(Turn<A>, A),
}

impl<A: Ask> fmt::Debug for Batch<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").finish_non_exhaustive()
    }
}

impl<A: Ask> Default for Batch<A> {
    fn default() -> Self {
        Self {
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                driven: false,
                has_left: false,
            }),
            calls: TaskTracker::new(),
        }
    }
}

impl<A: Ask> Batch<A> {
    /// Asks, together with whoever else is asking. `call` asks all of these; it is used only if it
    /// falls to this request to drive. Where a driver is dropped, those it took along ask again.
    ///
    /// # Errors
    /// Whatever the call says, to everybody whom it asked for; and see [`Failure`].
    pub async fn ask<F>(
        self: &Arc<Self>,
        ask: A,
        call: impl FnOnce(Vec<A>) -> F,
    ) -> Result<A::Answer, A::Error>
    where
        F: Future<Output = Result<Vec<A::Answer>, A::Error>>,
    {
        let mut flight = match self.wait(ask).await? {
            Waited::Answer(answer) => return Ok(answer),
            Waited::Flight(flight) => flight,
        };
        let answers = call(flight.asks()).await;
        flight.land(answers)
    }

    /// The same for what must not be asked twice: once begun, a call goes on in a task of its own,
    /// whether its driver is still there or not, and everybody else hears the answer.
    ///
    /// # Errors
    /// As [`Batch::ask`].
    pub async fn ask_once<F>(
        self: &Arc<Self>,
        ask: A,
        call: impl FnOnce(Vec<A>) -> F,
    ) -> Result<A::Answer, A::Error>
    where
        A: 'static,
        A::Answer: 'static,
        A::Error: 'static,
        F: Future<Output = Result<Vec<A::Answer>, A::Error>> + Send + 'static,
    {
        let mut flight = match self.wait(ask).await? {
            Waited::Answer(answer) => return Ok(answer),
            Waited::Flight(flight) => flight,
        };
        let called = call(flight.asks());
        let landed = self.calls.spawn(async move {
            let answers = called.await;
            flight.land(answers)
        });
        landed.await.unwrap_or_else(|_| Err(A::Error::lost()))
    }

    /// Waits for the answer, or for the turn.
    async fn wait(self: &Arc<Self>, ask: A) -> Result<Waited<A>, A::Error> {
        let (turn, ask) = match self.enter(ask)? {
            Entered::Drives(turn) => (turn, ask),
            Entered::Waits(told) => {
                let mut seat = Seat {
                    batch: self,
                    is_left: true,
                };
                let told = told.await;
                seat.is_left = false;
                match told {
                    Ok(Told::Answer(answer)) => return answer.map(Waited::Answer),
                    Ok(Told::Turn(turn, ask)) => (turn, ask),
                    // Only a driver that panicked loses those it took along.
                    Err(_) => return Err(A::Error::lost()),
                }
            }
        };
        yield_now().await;
        Ok(Waited::Flight(turn.take_off(ask)))
    }

    fn enter(self: &Arc<Self>, ask: A) -> Result<Entered<A>, A::Error> {
        let mut queue = self.lock();
        if !queue.driven {
            queue.driven = true;
            return Ok(Entered::Drives(Turn(Arc::clone(self))));
        }
        if BATCH_QUEUE_MAX <= queue.waiting.len() && queue.has_left {
            queue.waiting.retain(|waiting| !waiting.tell.is_closed());
            queue.has_left = false;
        }
        if BATCH_QUEUE_MAX <= queue.waiting.len() {
            return Err(A::Error::overloaded());
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

enum Waited<A: Ask> {
    Answer(A::Answer),
    Flight(Flight<A>),
}

enum Entered<A: Ask> {
    Drives(Turn<A>),
    Waits(oneshot::Receiver<Told<A>>),
}

/// Where somebody waits, until they are told or go.
struct Seat<'a, A: Ask> {
    batch: &'a Batch<A>,
    is_left: bool,
}

impl<A: Ask> Drop for Seat<'_, A> {
    fn drop(&mut self) {
        if self.is_left {
            self.batch.lock().has_left = true;
        }
    }
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
    fn land(&mut self, answers: Result<Vec<A::Answer>, A::Error>) -> Result<A::Answer, A::Error> {
        let taken = std::mem::take(&mut self.taken);
        let answers = answers.and_then(|answers| match answers.len() == taken.len() + 1 {
            true => Ok(answers),
            false => Err(A::Error::foreign()),
        });
        match answers {
            Ok(answers) => {
                let mut answers = answers.into_iter();
                let own = answers.next().ok_or_else(A::Error::foreign);
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
