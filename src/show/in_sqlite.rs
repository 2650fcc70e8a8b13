//! Shows in SQLite: one row a show, the copied ledger, the audit.

use std::collections::BTreeMap;

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Sqlite as Db, Transaction};

use crate::base::ids::{Edition, Generation, Number, ShowId};
use crate::driver::sqlite::Sqlite;
use crate::event::money::Currency;
use crate::show::draw::{DrawFact, Entered};
use crate::show::draws_in_sqlite as draws;
use crate::show::in_sql::{int, read_currencies, read_ledger, read_show};
use crate::show::ledger_in_sqlite as ledger;
use crate::show::settings::Settings;
use crate::show::{Change, Checkpoint, Kept, LedgerRow, Loss, Put, Show, Store, StoreError};

/// The show store over `catraca.db`.
#[derive(Debug, Clone)]
pub struct InSqlite {
    db: Sqlite,
}

impl InSqlite {
    /// A store over an open database.
    pub fn new(db: Sqlite) -> Self {
        Self { db }
    }
}

/// Every show with the draw of its edition.
const SHOWS: &str = "select shows.*, secret, commitment, size, beacon_value, seed from shows \
    left join draws on draws.show = shows.show and draws.edition = shows.edition \
    order by shows.show";
/// One of them.
const SHOW: &str = "select shows.*, secret, commitment, size, beacon_value, seed from shows \
    left join draws on draws.show = shows.show and draws.edition = shows.edition \
    where shows.show = ?";

#[async_trait]
impl Store for InSqlite {
    async fn list(&self) -> Result<Vec<Show>, StoreError> {
        let rows = sqlx::query(SHOWS).fetch_all(&self.db.read).await?;
        rows.iter().map(read_show).collect()
    }

    async fn get(&self, show: &ShowId) -> Result<Option<Show>, StoreError> {
        let mut connection = self.db.read.acquire().await?;
        load(&mut connection, show).await
    }

    async fn currencies(&self, show: &ShowId) -> Result<BTreeMap<String, Currency>, StoreError> {
        let found = sqlx::query_as("select section, currency from sections where show = ?")
            .bind(show.as_str())
            .fetch_all(&self.db.read)
            .await?;
        read_currencies(found)
    }

    async fn put(
        &self,
        show: &ShowId,
        change: &Change,
        settings: &Settings,
        expected: Option<u64>,
    ) -> Result<Put, StoreError> {
        let (db, show) = (self.db.clone(), show.clone());
        let (change, settings) = (change.clone(), settings.clone());
        self.db
            .outlive(async move { put(&db, &show, (&change, &settings), expected).await })
            .await
    }

    async fn verb(
        &self,
        show: &ShowId,
        change: &Change,
        verb: &str,
    ) -> Result<Option<Show>, StoreError> {
        let (db, show) = (self.db.clone(), show.clone());
        let (change, verb) = (change.clone(), verb.to_owned());
        self.db
            .outlive(async move { put_verb(&db, &show, &change, &verb).await })
            .await
    }

    async fn cancel(&self, show: &ShowId, change: &Change) -> Result<Option<Show>, StoreError> {
        let (db, show, change) = (self.db.clone(), show.clone(), change.clone());
        self.db
            .outlive(async move { cancel(&db, &show, &change).await })
            .await
    }

    async fn begin_mend(&self, seen: &Show, ceiling: Number) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "update shows set generation = generation + 1, ceiling = ? \
             where show = ? and generation = ? and ceiling = ?",
        )
        .bind(int(ceiling.0))
        .bind(seen.id.as_str())
        .bind(int(seen.generation.0))
        .bind(int(seen.ceiling.0))
        .execute(&self.db.write)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    async fn keep_loss(&self, show: &ShowId, loss: &Loss) -> Result<Kept, StoreError> {
        let (db, show, loss) = (self.db.clone(), show.clone(), *loss);
        self.db
            .outlive(async move { ledger::keep_loss(&db, &show, &loss).await })
            .await
    }

    async fn end_mend(&self, show: &ShowId, generation: Generation) -> Result<(), StoreError> {
        sqlx::query("update shows set mended = ?1 where show = ?2 and generation = ?1")
            .bind(int(generation.0))
            .bind(show.as_str())
            .execute(&self.db.write)
            .await?;
        Ok(())
    }

    async fn raise_ceiling(
        &self,
        show: &ShowId,
        generation: Generation,
        ceiling: Number,
    ) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "update shows set ceiling = max(ceiling, ?) where show = ? and generation = ?",
        )
        .bind(int(ceiling.0))
        .bind(show.as_str())
        .bind(int(generation.0))
        .execute(&self.db.write)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    async fn checkpoint(&self, show: &ShowId, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        sqlx::query(
            "update shows set issued = ?, serving = ?, waiting = ?, checkpoint_at_ms = ?, \
             mended = generation, \
             state = case when coalesce(verb_version, 0) <= ? then ? else state end \
             where show = ? and generation = ?",
        )
        .bind(int(checkpoint.issued.0))
        .bind(int(checkpoint.serving.0))
        .bind(int(checkpoint.waiting))
        .bind(checkpoint.at.as_millis())
        .bind(int(checkpoint.verb_version))
        .bind(&checkpoint.state)
        .bind(show.as_str())
        .bind(int(checkpoint.generation.0))
        .execute(&self.db.write)
        .await?;
        Ok(())
    }

    async fn append_ledger(
        &self,
        show: &ShowId,
        current: Generation,
        rows: &[LedgerRow],
    ) -> Result<bool, StoreError> {
        let (db, show, rows) = (self.db.clone(), show.clone(), rows.to_vec());
        self.db
            .outlive(async move { ledger::append(&db, &show, current, &rows).await })
            .await
    }

    async fn ledger(
        &self,
        show: &ShowId,
        edition: Edition,
        after: (Generation, u64),
        max: usize,
    ) -> Result<Vec<LedgerRow>, StoreError> {
        let rows = sqlx::query(
            "select edition, generation, seq, at_ms, token, serving, kind, body from room_ledger \
             where show = ? and edition = ? and (generation, seq) > (?, ?) \
             order by generation, seq limit ?",
        )
        .bind(show.as_str())
        .bind(int(edition.0))
        .bind(int(after.0.0))
        .bind(int(after.1))
        .bind(i64::try_from(max).unwrap_or(i64::MAX))
        .fetch_all(&self.db.read)
        .await?;
        let ledger: Result<_, sqlx::Error> = rows.iter().map(read_ledger).collect();
        Ok(ledger?)
    }

    async fn keep_draw(
        &self,
        show: &ShowId,
        edition: Edition,
        fact: DrawFact,
    ) -> Result<(), StoreError> {
        let (db, show) = (self.db.clone(), show.clone());
        self.db
            .outlive(async move { draws::keep(&db, (&show, edition), fact).await })
            .await
    }

    async fn enter_beacon(
        &self,
        show: &ShowId,
        change: &Change,
        value: &str,
    ) -> Result<Option<Entered>, StoreError> {
        let (db, show) = (self.db.clone(), show.clone());
        let (change, value) = (change.clone(), value.to_owned());
        self.db
            .outlive(async move { draws::enter(&db, &show, &change, &value).await })
            .await
    }

    async fn audit(&self, change: &Change) -> Result<(), StoreError> {
        let mut connection = self.db.write.acquire().await?;
        insert_audit(&mut connection, None, change).await
    }

    async fn try_write(&self) -> Result<(), StoreError> {
        // A row that is written as it stands writes no page; this number, which nobody reads, does.
        sqlx::query("pragma user_version = 0")
            .execute(&self.db.write)
            .await?;
        Ok(())
    }
}

pub(super) async fn load(
    db: &mut SqliteConnection,
    show: &ShowId,
) -> Result<Option<Show>, StoreError> {
    let row = sqlx::query(SHOW)
        .bind(show.as_str())
        .fetch_optional(db)
        .await?;
    row.as_ref().map(read_show).transpose()
}

async fn put(
    db: &Sqlite,
    id: &ShowId,
    (change, settings): (&Change, &Settings),
    expected: Option<u64>,
) -> Result<Put, StoreError> {
    let mut tx = begin(db).await?;
    let before = load(&mut tx, id).await?;
    if before.as_ref().map(|show| show.version) != expected {
        return Ok(Put::Mismatch(before.map(|show| show.version)));
    }
    let document = serde_json::to_string(settings).map_err(|e| StoreError::Corrupt(e.into()))?;
    match &before {
        Some(_) => {
            sqlx::query("update shows set settings = ?, version = version + 1 where show = ?")
                .bind(document)
                .bind(id.as_str())
                .execute(&mut *tx)
                .await?;
        }
        None => insert_show(&mut tx, id, change, document).await?,
    }
    insert_audit(&mut tx, Some(id), change).await?;
    let after = load(&mut tx, id).await?;
    tx.commit().await?;
    let after = Box::new(after.expect("the row was written in this transaction"));
    Ok(if before.is_some() {
        Put::Changed(after)
    } else {
        Put::Created(after)
    })
}

/// A new show has generation 0: its room is born when an admitter mends it from an empty ledger.
async fn insert_show(
    tx: &mut SqliteConnection,
    id: &ShowId,
    change: &Change,
    document: String,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into shows (show, version, settings, state, edition, generation, mended, ceiling, \
         issued, serving, waiting, checkpoint_at_ms, created_at_ms) \
         values (?, 1, ?, 'scheduled', 1, 0, 0, 0, 0, 0, 0, ?, ?)",
    )
    .bind(id.as_str())
    .bind(document)
    .bind(change.at.as_millis())
    .bind(change.at.as_millis())
    .execute(tx)
    .await?;
    Ok(())
}

async fn put_verb(
    db: &Sqlite,
    id: &ShowId,
    change: &Change,
    verb: &str,
) -> Result<Option<Show>, StoreError> {
    let mut tx = begin(db).await?;
    sqlx::query(
        "update shows set version = version + 1, verb = ?, verb_version = version + 1, state = ? \
         where show = ? and cancelled_at_ms is null",
    )
    .bind(verb)
    .bind(verb)
    .bind(id.as_str())
    .execute(&mut *tx)
    .await?;
    let Some(show) = load(&mut tx, id).await? else {
        return Ok(None);
    };
    if show.cancelled_at.is_some() {
        return Ok(Some(show));
    }
    insert_audit(&mut tx, Some(id), change).await?;
    tx.commit().await?;
    Ok(Some(show))
}

async fn cancel(db: &Sqlite, id: &ShowId, change: &Change) -> Result<Option<Show>, StoreError> {
    let mut tx = begin(db).await?;
    let done = sqlx::query(
        "update shows set version = version + 1, verb = 'closed', verb_version = version + 1, \
         state = 'closed', cancelled_at_ms = ? where show = ? and cancelled_at_ms is null",
    )
    .bind(change.at.as_millis())
    .bind(id.as_str())
    .execute(&mut *tx)
    .await?;
    if done.rows_affected() == 1 {
        insert_audit(&mut tx, Some(id), change).await?;
    }
    let show = load(&mut tx, id).await?;
    tx.commit().await?;
    Ok(show)
}

pub(super) async fn insert_audit(
    tx: &mut SqliteConnection,
    id: Option<&ShowId>,
    change: &Change,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into audit (at_ms, who, role, action, show, detail) values (?, ?, ?, ?, ?, ?)",
    )
    .bind(change.at.as_millis())
    .bind(&change.who)
    .bind(&change.role)
    .bind(&change.action)
    .bind(id.map(ShowId::as_str))
    .bind(&change.detail)
    .execute(tx)
    .await?;
    Ok(())
}

pub(super) async fn begin(db: &Sqlite) -> Result<Transaction<'static, Db>, sqlx::Error> {
    db.write.begin_with("begin immediate").await
}
