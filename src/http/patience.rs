//! How long one request may take: until its answer begins, and how long nothing may move in its stream.
//!
//! A server knows neither for a request whose route it does not know yet, so a request begins with the
//! patience for what we answer ourselves; whoever forwards it tells what its route grants. An extension of
//! every request, and known to the task that runs its stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The patience with one request.
#[derive(Debug, Clone)]
pub struct Patience(Arc<Bounds>);

#[derive(Debug)]
struct Bounds {
    answer_ms: AtomicU64,
    still_ms: AtomicU64,
    /// How long the client may read nothing: part of `still_ms`, whoever is asked.
    stall: Duration,
}

impl Patience {
    /// The patience with a request of which nothing is known: `answer_max` for its answer to begin, after
    /// which the client may read nothing for `stall_max`.
    pub(crate) fn new(answer_max: Duration, stall_max: Duration) -> Self {
        let still_max = answer_max + stall_max;
        Self(Arc::new(Bounds {
            answer_ms: AtomicU64::new(whole_ms(answer_max)),
            still_ms: AtomicU64::new(whole_ms(still_max)),
            stall: stall_max,
        }))
    }

    /// From now on the answer may take `answer_max` to begin, counted from the request's beginning, and
    /// whoever answers may be silent for `silence_max`.
    pub(crate) fn grant(&self, answer_max: Duration, silence_max: Duration) {
        let Bounds {
            answer_ms,
            still_ms,
            stall,
        } = &*self.0;
        answer_ms.store(whole_ms(answer_max), Ordering::Relaxed);
        still_ms.store(whole_ms(silence_max + *stall), Ordering::Relaxed);
    }

    /// How long the answer may take to begin.
    pub(crate) fn answer_max(&self) -> Duration {
        Duration::from_millis(self.0.answer_ms.load(Ordering::Relaxed))
    }

    /// How long nothing may move in the stream.
    pub(crate) fn still_max(&self) -> Duration {
        Duration::from_millis(self.0.still_ms.load(Ordering::Relaxed))
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
