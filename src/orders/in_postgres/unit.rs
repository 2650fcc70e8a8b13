//! One unit of work on PostgreSQL: a decision and the statement that carries it out, or nothing.

use std::sync::Arc;

use sqlx::pool::PoolConnection;
use sqlx::{Connection, PgConnection, Postgres, Transaction};

use crate::base::ids::IdSource;
use crate::base::time::Timestamp;
use crate::driver::sql::has_moved;
use crate::event::Envelope;
use crate::orders::answer;
use crate::orders::idempotency::{Answer, Claimed};
use crate::orders::in_postgres::batch::Batch;
use crate::orders::in_postgres::keys;
use crate::orders::in_postgres::sale::Ground;
use crate::orders::rules::{Buyer, Decision, Hold, Refusal, Write};
use crate::orders::store::{StoreError, Told};

/// What a unit runs on.
#[derive(Debug)]
pub(super) enum Conn {
    /// A transaction: what was locked stays so until it commits.
    Transaction(Transaction<'static, Postgres>),
    /// A connection: its one statement that writes checks what was read. Only where an answer is kept with
    /// it, the two are a transaction.
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
    ground: Option<Ground>,
}

impl Unit {
    pub(super) const fn new(conn: Conn, now: Timestamp, ids: Arc<IdSource>) -> Self {
        Self {
            conn,
            now,
            ids,
            trace: None,
            key: None,
            ground: None,
        }
    }

    /// The same on behalf of a buyer: events carry the request's trace, and the answer is kept for
    /// its idempotency key.
    pub(super) fn asked_by(self, buyer: &Buyer, key: Option<Claimed>) -> Self {
        let trace = buyer.trace.clone();
        Self { trace, key, ..self }
    }

    /// The same in a transaction, on the same connection: of a crowd, who lets go of theirs is behind everybody.
    pub(super) async fn begin(self) -> Result<Self, StoreError> {
        let conn = match self.conn {
            Conn::Plain(conn) => Conn::Transaction(Transaction::begin(conn, None).await?),
            begun @ Conn::Transaction(_) => begun,
        };
        Ok(Self { conn, ..self })
    }

    /// What a hold is decided by that must still be so when it is written.
    pub(super) fn stand_on(&mut self, ground: Ground) {
        self.ground = Some(ground);
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
        let told = match decided {
            Ok(decision) => Ok(self.carry_out(decision, render).await?),
            Err(refusal) => {
                match (self.key.take(), answer::refused(&refusal)) {
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

    /// Places a hold by a statement of its own; `None`, and nothing is written, where it was decided by what
    /// is not so any more.
    pub(super) async fn attempt(
        &mut self,
        decision: Decision<Hold>,
        ground: Ground,
    ) -> Result<Option<Hold>, StoreError> {
        self.stand_on(ground);
        match self.carry_out(decision, answer::held).await {
            Err(error) if has_moved(&error) => Ok(None),
            held => held.map(Some),
        }
    }

    async fn carry_out<T>(
        &mut self,
        decision: Decision<T>,
        render: fn(&T) -> Answer,
    ) -> Result<T, StoreError> {
        let batch = self.batch(decision.writes);
        let Some(key) = &self.key else {
            batch.carry_out(self.tx()).await?;
            return Ok(decision.answer);
        };
        let answer = render(&decision.answer);
        match &mut self.conn {
            Conn::Transaction(tx) => {
                batch.carry_out(tx).await?;
                keys::keep(tx, key, &answer).await?;
            }
            // What is written and what is answered are one fact.
            Conn::Plain(conn) => {
                let mut tx = conn.begin().await?;
                batch.carry_out(&mut tx).await?;
                keys::keep(&mut tx, key, &answer).await?;
                tx.commit().await?;
            }
        }
        Ok(decision.answer)
    }

    /// Carries out the writes of a decision, or of several.
    pub(super) async fn save(&mut self, writes: Vec<Write>) -> Result<(), StoreError> {
        self.batch(writes).carry_out(self.tx()).await
    }

    fn batch(&self, writes: Vec<Write>) -> Batch {
        let mut batch = Batch::on(self.ground.clone());
        for write in writes {
            match write {
                Write::Event(version, event) => batch.publish(Envelope {
                    id: self.ids.event(self.now),
                    version,
                    at: self.now,
                    trace: self.trace.clone(),
                    event,
                }),
                other => batch.add(other),
            }
        }
        batch
    }
}
