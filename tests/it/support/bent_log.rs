//! Relay, log, inbox and provider that lack one rule, to see whether the checker notices.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use catraca::app::backends::Backends;
use catraca::base::time::Timestamp;
use catraca::log::inbox::{Because, DeadLetter, Inbox, Retry, Rewound, Run, Stands};
use catraca::log::patience::Failure;
use catraca::log::{Delivery, Handled, Lag, LogError, Subscriber};
use catraca::notify::{Notice, Sender};
use catraca::relay::plan::{Batch, Lease, Page};
use catraca::relay::store::{self, Cleaned, Published, StoreError};

/// The consumer that tells people.
const GROUP: &str = "notify";
/// What it tells them of.
const KIND: &str = "OrderConfirmed";

/// A log that hands every confirmed order over twice, as any log may, and a provider that does not
/// know a message again. Only the inbox is left to keep messages single.
pub(crate) fn repeat(backends: &mut Backends, folder: &Path) {
    backends.log = Arc::new(Repeating {
        inner: Arc::clone(&backends.log),
        again: Mutex::default(),
        repeated: Mutex::default(),
    });
    backends.sender = Arc::new(Naive {
        inner: Arc::clone(&backends.sender),
        mailbox: folder.join("mailbox"),
        count: AtomicU32::new(0),
    });
}

/// The same, and an inbox that knows nothing.
pub(crate) fn repeat_without_inbox(backends: &mut Backends, folder: &Path) {
    repeat(backends, folder);
    backends.inbox = Arc::new(Blank {
        inner: Arc::clone(&backends.inbox),
    });
}

#[derive(Debug)]
struct Repeating {
    inner: Arc<dyn Subscriber>,
    /// Handed over once.
    again: Mutex<Vec<Delivery>>,
    repeated: Mutex<BTreeSet<String>>,
}

#[async_trait]
impl Subscriber for Repeating {
    async fn poll(
        &self,
        group: &str,
        partition: u16,
        max: usize,
    ) -> Result<Vec<Delivery>, LogError> {
        let fresh = self.inner.poll(group, partition, max).await?;
        if group != GROUP {
            return Ok(fresh);
        }
        let mut again = self.again.lock().unwrap();
        let mut repeated = self.repeated.lock().unwrap();
        let mut all: Vec<Delivery> = again
            .extract_if(.., |delivery| delivery.partition == partition)
            .collect();
        for delivery in &fresh {
            if delivery.kind == KIND && repeated.insert(delivery.event_id.clone()) {
                again.push(delivery.clone());
            }
        }
        all.extend(fresh);
        Ok(all)
    }

    async fn lag(&self, group: &str) -> Result<Vec<Lag>, LogError> {
        self.inner.lag(group).await
    }
}

/// Sends each message under a name of its own.
#[derive(Debug)]
struct Naive {
    inner: Arc<dyn Sender>,
    mailbox: PathBuf,
    count: AtomicU32,
}

#[async_trait]
impl Sender for Naive {
    async fn send(&self, notice: &Notice) -> Result<String, Failure> {
        let file = self.inner.send(notice).await?;
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let name = format!("{count}-{file}");
        std::fs::rename(self.mailbox.join(&file), self.mailbox.join(&name)).unwrap();
        Ok(name)
    }
}

/// An inbox that has never heard of anything.
#[derive(Debug)]
struct Blank {
    inner: Arc<dyn Inbox>,
}

#[async_trait]
impl Inbox for Blank {
    async fn stands(&self, group: &str) -> Result<Stands, LogError> {
        self.inner.stands(group).await
    }

    async fn marked(&self) -> Result<BTreeMap<u16, u64>, LogError> {
        self.inner.marked().await
    }

    async fn renew(&self, stands: &Stands, ends: &BTreeMap<u16, u64>) -> Result<(), LogError> {
        self.inner.renew(stands, ends).await
    }

    async fn handled(&self, _group: &str, _event_id: &str) -> Result<Option<Handled>, LogError> {
        Ok(None)
    }

    async fn register(&self, group: &str) -> Result<(), LogError> {
        self.inner.register(group).await
    }

    async fn rewind(&self, group: &str, run: Run) -> Result<Rewound, LogError> {
        self.inner.rewind(group, run).await
    }

    async fn newest(&self, group: &str, key: &str) -> Result<Option<u64>, LogError> {
        self.inner.newest(group, key).await
    }

    async fn pass(&self, group: &str, through: &[(u16, u64)]) -> Result<(), LogError> {
        self.inner.pass(group, through).await
    }

    async fn retries(&self, group: &str) -> Result<Vec<Retry>, LogError> {
        self.inner.retries(group).await
    }

    async fn retry(&self, group: &str, retry: &Retry) -> Result<(), LogError> {
        self.inner.retry(group, retry).await
    }

    async fn set_aside(
        &self,
        group: &str,
        delivery: &Delivery,
        because: &Because,
    ) -> Result<(), LogError> {
        self.inner.set_aside(group, delivery, because).await
    }

    async fn dead_letters(&self, after: u64) -> Result<Vec<DeadLetter>, LogError> {
        self.inner.dead_letters(after).await
    }

    async fn dead_letter(&self, id: u64) -> Result<Option<DeadLetter>, LogError> {
        self.inner.dead_letter(id).await
    }

    async fn replayed(&self, id: u64) -> Result<(), LogError> {
        self.inner.replayed(id).await
    }
}

/// A relay that marks before the log has taken the event, and dies in between: the first confirmed
/// order counts as sent, and no log has it.
#[derive(Debug)]
pub(crate) struct MarksFirst {
    inner: Arc<dyn store::Store>,
    lost: Mutex<Option<u64>>,
}

impl MarksFirst {
    pub(crate) fn new(inner: Arc<dyn store::Store>) -> Self {
        Self {
            inner,
            lost: Mutex::default(),
        }
    }
}

#[async_trait]
impl store::Store for MarksFirst {
    async fn lease(&self, holder: &str, ttl_ms: u64) -> Result<Vec<Lease>, StoreError> {
        self.inner.lease(holder, ttl_ms).await
    }

    async fn resign(&self, holder: &str) -> Result<(), StoreError> {
        self.inner.resign(holder).await
    }

    async fn unsent(&self, partition: u16, max: usize) -> Result<Page, StoreError> {
        let page = self.inner.unsent(partition, max).await?;
        let confirmed = page.rows.iter().find(|row| row.payload.contains(KIND));
        if let Some(row) = confirmed {
            self.lost.lock().unwrap().get_or_insert(row.seq);
        }
        Ok(page)
    }

    async fn publish(&self, batches: &[Batch]) -> Result<Vec<Published>, StoreError> {
        let lost = *self.lost.lock().unwrap();
        let mut batches = batches.to_vec();
        for batch in &mut batches {
            batch.send.retain(|row| Some(row.seq) != lost);
        }
        self.inner.publish(&batches).await
    }

    async fn clean_up(&self, before: Timestamp, max: usize) -> Result<Cleaned, StoreError> {
        self.inner.clean_up(before, max).await
    }
}
