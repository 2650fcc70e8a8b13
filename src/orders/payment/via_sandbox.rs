//! A payment provider for demos and tests. It takes no money.
//!
//! The token says what it does: none or `approve`, `decline`, `slow` (approves after a while, whether or
//! not anybody still listens), `lost` (approves, and the answer is lost). Any other token is declined.
//! It keeps a record of every attempt, no more than a shop can sell: what it was asked and what it did.
//!
//! Where it has a file, each act is a line of it before it is answered. So it outlives the process that it
//! is in, as a real provider would: the next one finds whatever was done for the one that died. It is read
//! once, at the start: of what others do with the same file later, this one does not hear.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};

use crate::base::ids::OrderId;
use crate::orders::payment::{Charge, PaymentError, Payments};
use crate::orders::rules::PaymentId;
use crate::orders::rules::payment::Verdict;

/// The provider.
#[derive(Debug)]
pub struct ViaSandbox {
    slow: Duration,
    book: Mutex<Book>,
}

/// What is known of all attempts, and where it is written.
#[derive(Debug, Default)]
struct Book {
    attempts: BTreeMap<PaymentId, Attempt>,
    file: Option<File>,
}

/// What the sandbox was asked about one attempt, and what it did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    /// How often it was asked to take the money.
    pub charges: u32,
    /// How often it was asked to give it back.
    pub refunds: u32,
    /// Whether the money was taken.
    pub is_taken: bool,
    /// Whether it was given back.
    pub is_returned: bool,
}

#[derive(Debug, Clone, Copy)]
struct Attempt {
    record: Record,
    /// Before that it is being thought about.
    decided_at: Instant,
}

/// A line of the file: what was done about an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    order: OrderId,
    attempt: u32,
    act: Act,
}

/// What is done about an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Act {
    /// It is asked to take the money, and takes it if this is the first it hears of the attempt.
    Approve,
    /// It is asked to take the money, and takes none.
    Decline,
    /// It is asked not to take any.
    Void,
    /// It gives back what it took.
    Refund,
}

impl Act {
    /// What it does where it is asked to take the money by this token.
    fn of_token(token: &str) -> Self {
        match token {
            "approve" | "slow" | "lost" => Self::Approve,
            _ => Self::Decline,
        }
    }
}

impl Book {
    /// Does this about an attempt. The first act decides about the money.
    fn act(&mut self, line: Line, decided_at: Instant) -> Attempt {
        let id = PaymentId {
            order: line.order,
            attempt: line.attempt,
        };
        let attempt = self.attempts.entry(id).or_insert_with(|| Attempt {
            record: Record {
                is_taken: line.act == Act::Approve,
                ..Record::default()
            },
            decided_at,
        });
        let record = &mut attempt.record;
        match line.act {
            Act::Approve | Act::Decline => record.charges += 1,
            Act::Void => {}
            Act::Refund => {
                record.refunds += 1;
                record.is_returned |= record.is_taken;
            }
        }
        *attempt
    }

    /// The same, written down before.
    fn write(&mut self, line: Line, decided_at: Instant) -> io::Result<Attempt> {
        if let Some(file) = &mut self.file {
            let text = serde_json::to_string(&line)? + "\n";
            file.write_all(text.as_bytes())?; // at once: whoever dies in between leaves no half of it
        }
        Ok(self.act(line, decided_at))
    }
}

impl ViaSandbox {
    /// A provider whose `slow` answers take so long. It forgets with the process.
    pub fn new(slow: Duration) -> Self {
        Self {
            slow,
            book: Mutex::default(),
        }
    }

    /// One that remembers by this file, which is made where it is missing. It has made up its mind about
    /// whatever is in there.
    ///
    /// # Errors
    /// The file cannot be read or written, or a line of it is none of ours.
    pub fn in_file(slow: Duration, path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut file = options.create(true).read(true).append(true).open(path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let mut book = Book::default();
        let now = Instant::now();
        // What has no end is being written by somebody else.
        for line in text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
        {
            book.act(serde_json::from_str(line)?, now);
        }
        book.file = Some(file);
        Ok(Self {
            slow,
            book: Mutex::new(book),
        })
    }

    /// What it was asked and what it did, by idempotency key.
    pub fn records(&self) -> BTreeMap<PaymentId, Record> {
        let book = self.book();
        let record = |(id, attempt): (&PaymentId, &Attempt)| (*id, attempt.record);
        book.attempts.iter().map(record).collect()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn act(&self, id: PaymentId, act: Act, decided_at: Instant) -> Result<Attempt, PaymentError> {
        let line = Line {
            order: id.order,
            attempt: id.attempt,
            act,
        };
        let written = self.book().write(line, decided_at);
        written.map_err(|error| PaymentError::NoAnswer(error.into()))
    }
}

impl Attempt {
    fn verdict(&self, id: PaymentId) -> Result<Verdict, PaymentError> {
        if Instant::now() < self.decided_at {
            let why = anyhow::anyhow!("the sandbox is still thinking about it");
            return Err(PaymentError::NoAnswer(why));
        }
        if self.record.is_taken {
            let reference = format!("sandbox-{}-{}", id.order, id.attempt);
            return Ok(Verdict::Approved { reference });
        }
        Ok(Verdict::Declined)
    }
}

#[async_trait]
impl Payments for ViaSandbox {
    async fn charge(&self, charge: &Charge) -> Result<Verdict, PaymentError> {
        let token = charge.token.as_deref().unwrap_or("approve");
        let wait = match token {
            "slow" => self.slow,
            _ => Duration::ZERO,
        };
        let attempt = self.act(charge.id, Act::of_token(token), Instant::now() + wait)?;
        sleep_until(attempt.decided_at).await;
        if token == "lost" {
            let why = anyhow::anyhow!("the sandbox lost its answer, as it was told to");
            return Err(PaymentError::NoAnswer(why));
        }
        attempt.verdict(charge.id)
    }

    async fn look_up(&self, id: PaymentId) -> Result<Option<Verdict>, PaymentError> {
        let attempt = self.book().attempts.get(&id).copied();
        attempt.map(|attempt| attempt.verdict(id)).transpose()
    }

    async fn void(&self, id: PaymentId) -> Result<Verdict, PaymentError> {
        self.act(id, Act::Void, Instant::now())?.verdict(id)
    }

    async fn refund(&self, id: PaymentId) -> Result<(), PaymentError> {
        self.act(id, Act::Refund, Instant::now()).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::IdSource;
    use crate::base::time::Timestamp;
    use crate::event::money::Money;

    fn attempt(attempt: u32) -> PaymentId {
        let now = Timestamp::from_unix_ms(1_800_000_000_000);
        let order = IdSource::seeded(1).order(now);
        PaymentId { order, attempt }
    }

    fn charge(id: PaymentId, token: &str) -> Charge {
        Charge {
            id,
            amount: Money::parse("390", "BRL".parse().unwrap()).unwrap(),
            token: Some(token.to_owned()),
        }
    }

    #[tokio::test]
    async fn by_its_file_it_outlives_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sandbox.ndjson");
        let open = |slow| ViaSandbox::in_file(slow, &path).unwrap();
        let hour = Duration::from_secs(3_600);
        let first = open(hour);
        for (id, token) in [(1, "approve"), (2, "decline"), (3, "lost")] {
            drop(first.charge(&charge(attempt(id), token)).await);
        }
        let slow = charge(attempt(4), "slow");
        let struck = tokio::time::timeout(Duration::from_millis(1), first.charge(&slow));
        assert!(struck.await.is_err());
        first.refund(attempt(1)).await.unwrap();
        first.void(attempt(5)).await.unwrap();
        let records = first.records();
        drop(first);

        let next = open(hour);
        assert_eq!(next.records(), records);
        let paid_back = Record {
            charges: 1,
            refunds: 1,
            is_taken: true,
            is_returned: true,
        };
        assert_eq!(records[&attempt(1)], paid_back);
        for (id, is_taken) in [(1, true), (2, false), (3, true), (4, true), (5, false)] {
            let known = next.look_up(attempt(id)).await.unwrap().unwrap();
            let is_approved = matches!(known, Verdict::Approved { .. });
            assert_eq!(is_approved, is_taken, "attempt {id}");
        }
        assert_eq!(next.look_up(attempt(6)).await.unwrap(), None);
        let voided = next.charge(&charge(attempt(5), "approve")).await.unwrap();
        assert_eq!(voided, Verdict::Declined, "nobody pays after all");
    }

    #[test]
    fn half_a_line_is_not_read_and_anything_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sandbox.ndjson");
        std::fs::write(&path, r#"{"order":"0193"#).unwrap();
        let open = || ViaSandbox::in_file(Duration::ZERO, &path);
        assert!(open().unwrap().records().is_empty());
        std::fs::write(&path, "anything else\n").unwrap();
        assert_eq!(open().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
