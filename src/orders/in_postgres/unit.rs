//! One unit of work on PostgreSQL: a decision and the statement that carries it out, or nothing.

use std::sync::Arc;

use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, Postgres, Transaction};

use crate::base::ids::IdSource;
use crate::base::time::Timestamp;
use crate::event::Envelope;
use crate::orders::answer;
use crate::orders::idempotency::{Answer, Claimed};
use crate::orders::in_postgres::batch::Batch;
use crate::orders::in_postgres::keys;
use crate::orders::rules::{Buyer, Decision, Refusal, Write};
use crate::orders::store::{StoreError, Told};

/// What a unit runs on.
#[derive(Debug)]
pub(super) enum Conn {
    /// A transaction: what was locked stays so until it commits.
    Transaction(Transaction<'static, Postgres>),
    /// A connection: its one statement that writes checks what was read.
    Plain(PoolConnection<Postgres>),
}

/// A unit of work with the time at which it began.
#[derive(Debug)]
pub(super) struct Unit {
    conn: Conn,
    now: Timestamp,
    ids: Arc<IdSource>,
    trace: Option<String>,
    key: Option<Claimed>,
}

impl Unit {
    pub(super) const fn new(conn: Conn, now: Timestamp, ids: Arc<IdSource>) -> Self {
        Self {
            conn,
            now,
            ids,
            trace: None,
            key: None,
        }
    }

    /// The same on behalf of a buyer: events carry the request's trace, and the answer is kept for
    /// its idempotency key.
    pub(super) fn asked_by(self, buyer: &Buyer, key: Option<Claimed>) -> Self {
        let trace = buyer.trace.clone();
        Self { trace, key, ..self }
    }

    pub(super) fn tx(&mut self) -> &mut PgConnection {
        match &mut self.conn {
            Conn::Transaction(tx) => tx,
            Conn::Plain(conn) => conn,
        }
    }

    pub(super) const fn now(&self) -> Timestamp {
        self.now
    }

    pub(super) fn ids(&self) -> &IdSource {
        &self.ids
    }

    pub(super) async fn commit(self) -> Result<(), StoreError> {
        match self.conn {
            Conn::Transaction(tx) => Ok(tx.commit().await?),
            Conn::Plain(_) => Ok(()),
        }
    }

    /// Carries a decision out.
    pub(super) async fn save_and_commit<T>(
        mut self,
        decision: Decision<T>,
    ) -> Result<T, StoreError> {
        self.save(decision.writes).await?;
        self.commit().await?;
        Ok(decision.answer)
    }

    /// Carries out what was decided for a request and keeps the answer, in the words of `render`,
    /// for its key. A refusal that may not last releases the key.
    pub(super) async fn finish<T>(
        mut self,
        decided: Result<Decision<T>, Refusal>,
        render: fn(&T) -> Answer,
    ) -> Told<T> {
        let key = self.key.take();
        let told = match decided {
            Ok(decision) => {
                let mut batch = self.batch(decision.writes);
                if let Some(key) = key {
                    batch.keep(key, render(&decision.answer));
                }
                batch.carry_out(self.tx()).await?;
                Ok(decision.answer)
            }
            Err(refusal) => {
                match (key, answer::refused(&refusal)) {
                    (Some(key), Some(answer)) => keys::keep(self.tx(), &key, &answer).await?,
                    (Some(key), None) => keys::release(self.tx(), &key).await?,
                    (None, _) => {}
                }
                Err(refusal)
            }
        };
        self.commit().await?;
        Ok(told)
    }

    /// Carries out the writes of a decision, or of several.
    pub(super) async fn save(&mut self, writes: Vec<Write>) -> Result<(), StoreError> {
        self.batch(writes).carry_out(self.tx()).await
    }

    fn batch(&self, writes: Vec<Write>) -> Batch {
        let mut batch = Batch::default();
        for write in writes {
            batch.add(&write);
            if let Write::Event(version, event) = write {
                batch.publish(&Envelope {
                    id: self.ids.event(self.now),
                    version,
                    at: self.now,
                    trace: self.trace.clone(),
                    event,
                });
            }
        }
        batch
    }
}
