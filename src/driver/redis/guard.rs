//! What bounds a split brain, and whether it does.
//!
//! A primary that is cut off from its sentinels or its cluster goes on until it notices. With
//! `min-replicas-to-write` it stops when its replicas have been silent for `min-replicas-max-lag`;
//! without, nothing stops it, and whoever still reaches it is given numbers that another primary
//! gives too. We cannot set this for the operator; we say it, once a process.

use std::sync::atomic::{AtomicBool, Ordering};

use redis::aio::MultiplexedConnection;

use crate::driver::redis::look::Seen;

/// What a process expects of its primaries.
#[derive(Debug)]
pub(super) struct Guard {
    /// Whether another server may take a server's place.
    may_fail_over: bool,
    /// How long a room waits, after its primary was replaced, for the old one to stop.
    split_brain_ms: u64,
    is_said: AtomicBool,
}

impl Guard {
    pub(super) fn new(may_fail_over: bool, split_brain_ms: u64) -> Self {
        Self {
            may_fail_over,
            split_brain_ms,
            is_said: AtomicBool::new(false),
        }
    }

    /// Says what is missing, the first time that a server is seen.
    pub(super) async fn saw(&self, connection: &mut MultiplexedConnection, seen: Seen) {
        if !(self.may_fail_over || seen.has_replicas) || self.is_said.swap(true, Ordering::Relaxed)
        {
            return;
        }
        if !seen.is_guarded {
            tracing::warn!(
                "nothing bounds how long a primary that was cut off goes on: set \
                 min-replicas-to-write 1 and min-replicas-max-lag"
            );
            return;
        }
        match max_lag_ms(connection).await {
            Some(lag_ms) if self.split_brain_ms < lag_ms => tracing::warn!(
                "room.split_brain_ms ({}) is shorter than min-replicas-max-lag ({lag_ms} ms): a \
                 primary that was cut off may still write when its room opens elsewhere",
                self.split_brain_ms
            ),
            Some(_) => tracing::info!("a primary that was cut off stops writing in time"),
            None => tracing::info!(
                "a primary that was cut off stops writing after min-replicas-max-lag, which may \
                 not be read here; room.split_brain_ms ({}) must be at least as long",
                self.split_brain_ms
            ),
        }
    }
}

/// How long a primary writes on without its replicas; none where a server does not let us ask.
async fn max_lag_ms(connection: &mut MultiplexedConnection) -> Option<u64> {
    let mut command = redis::cmd("CONFIG");
    command.arg("GET").arg("min-replicas-max-lag");
    let answer: Vec<String> = command.query_async(connection).await.ok()?;
    let seconds: u64 = answer.get(1)?.parse().ok()?;
    Some(seconds.saturating_mul(1_000))
}
