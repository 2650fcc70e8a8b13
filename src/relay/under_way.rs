//! Batches on their way to the log, each by itself: a partition that has no answer holds up no other.
//!
//! A partition has one batch under way at most. Where the outbox is the log, and where a batch has nothing
//! to send, there is no way to go: it has arrived.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::base::limits::ACK_DEADLINE_MS;
use crate::base::time::Timestamp;
use crate::relay::plan::Batch;
use crate::relay::store::{Sent, Sink};

/// A batch that can be marked, as far as it was sent.
#[derive(Debug)]
pub struct Arrived {
    /// What became of it.
    pub sent: Sent,
    /// When it was begun.
    pub since: Timestamp,
    /// Whether its partition had more rows than a batch takes.
    pub more: bool,
}

/// What a relay has begun and not yet marked.
pub struct UnderWay {
    sink: Option<Arc<dyn Sink>>,
    partitions: BTreeSet<u16>,
    sending: JoinSet<Arrived>,
    arrived: Vec<Arrived>,
}

impl fmt::Debug for UnderWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnderWay")
            .field("partitions", &self.partitions)
            .finish_non_exhaustive()
    }
}

impl UnderWay {
    /// Nothing, to a log that is not the outbox, or none.
    pub fn to(sink: Option<Arc<dyn Sink>>) -> Self {
        Self {
            sink,
            partitions: BTreeSet::new(),
            sending: JoinSet::new(),
            arrived: Vec::new(),
        }
    }

    /// How long a batch may take to arrive, in milliseconds.
    pub fn takes_ms(&self) -> u64 {
        self.sink.as_ref().map_or(0, |_| ACK_DEADLINE_MS)
    }

    /// Whether a batch of this partition was begun and not taken.
    pub fn has(&self, partition: u16) -> bool {
        self.partitions.contains(&partition)
    }

    /// Whether nothing is being sent.
    pub fn is_empty(&self) -> bool {
        self.sending.is_empty()
    }

    /// Sends a batch of a partition that has none.
    pub fn begin(&mut self, batch: Batch, since: Timestamp, more: bool) {
        self.partitions.insert(batch.lease.partition);
        let arrives = move |sent| Arrived { sent, since, more };
        match self.sink.clone().filter(|_| !batch.send.is_empty()) {
            Some(sink) => {
                let sending = async move { arrives(sink.send(batch).await) };
                self.sending.spawn(sending);
            }
            None => self.arrived.push(arrives(Sent {
                marks: batch,
                failure: None,
            })),
        }
    }

    /// Waits for one of those that are being sent. Nothing is lost where the wait is given up.
    pub async fn one(&mut self) {
        if let Some(arrived) = self.sending.join_next().await {
            self.arrived.push(arrived.expect("sending does not panic"));
        }
    }

    /// Waits for all that are being sent, but no longer than this.
    pub async fn all(&mut self, within: Duration) {
        let all = async {
            while !self.is_empty() {
                self.one().await;
            }
        };
        drop(timeout(within, all).await);
    }

    /// Takes what has arrived.
    pub fn take(&mut self) -> Vec<Arrived> {
        for arrived in &self.arrived {
            self.partitions.remove(&arrived.sent.marks.lease.partition);
        }
        std::mem::take(&mut self.arrived)
    }
}
