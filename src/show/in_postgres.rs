//! Shows in PostgreSQL: one row a show, the copied ledger, the audit.

use std::collections::BTreeMap;

use async_trait::async_trait;
use sqlx::{PgConnection, Postgres as Db, Transaction};

use crate::base::ids::{Edition, Generation, Number, ShowId};
use crate::driver::postgres::Postgres;
use crate::event::money::Currency;
use crate::show::draw::{DrawFact, Entered};
use crate::show::draws_in_postgres as draws;
use crate::show::in_sql::{int, read_currencies, read_ledger, read_show};
use crate::show::ledger_in_postgres as ledger;
use crate::show::settings::Settings;
use crate::show::{Change, Checkpoint, Kept, LedgerRow, Loss, Put, Show, Store, StoreError};

/// The show store over a database.
#[derive(Debug, Clone)]
pub struct InPostgres {
    db: Postgres,
}

impl InPostgres {
    /// A store over an open database.
    pub fn new(db: Postgres) -> Self {
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
    where shows.show = $1";

#[async_trait]
impl Store for InPostgres {
    async fn list(&self) -> Result<Vec<Show>, StoreError> {
        self.db
            .within(async {
                let rows = sqlx::query(SHOWS)
                    .fetch_all(&mut *self.db.connection().await?)
                    .await?;
                rows.iter().map(read_show).collect()
            })
            .await
    }

    async fn get(&self, show: &ShowId) -> Result<Option<Show>, StoreError> {
        self.db
            .within(async { load(&mut *self.db.connection().await?, show).await })
            .await
    }

    async fn currencies(&self, show: &ShowId) -> Result<BTreeMap<String, Currency>, StoreError> {
        let found = sqlx::query_as("select section, currency from sections where show = $1")
            .bind(show.as_str())
            .fetch_all(&mut *self.db.connection().await?)
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
        let given = (show.clone(), change.clone(), settings.clone());
        self.db
            .unit_with(given, move |tx, (show, change, settings)| async move {
                put(tx, &show, (&change, &settings), expected).await
            })
            .await
    }

    async fn verb(
        &self,
        show: &ShowId,
        change: &Change,
        verb: &str,
    ) -> Result<Option<Show>, StoreError> {
        let given = (show.clone(), change.clone(), verb.to_owned());
        self.db
            .unit_with(given, |tx, (show, change, verb)| async move {
                put_verb(tx, &show, &change, &verb).await
            })
            .await
    }

    async fn cancel(&self, show: &ShowId, change: &Change) -> Result<Option<Show>, StoreError> {
        let given = (show.clone(), change.clone());
        self.db
            .unit_with(given, |tx, (show, change)| async move {
                cancel(tx, &show, &change).await
            })
            .await
    }

    async fn begin_mend(&self, seen: &Show, ceiling: Number) -> Result<bool, StoreError> {
        self.db
            .within(async {
                let done = sqlx::query(
                    "update shows set generation = generation + 1, ceiling = $1
                 where show = $2 and generation = $3 and ceiling = $4",
                )
                .bind(int(ceiling.0))
                .bind(seen.id.as_str())
                .bind(int(seen.generation.0))
                .bind(int(seen.ceiling.0))
                .execute(&mut *self.db.connection().await?)
                .await?;
                Ok(done.rows_affected() == 1)
            })
            .await
    }

    async fn keep_loss(&self, show: &ShowId, loss: &Loss) -> Result<Kept, StoreError> {
        self.db
            .unit_with((show.clone(), *loss), |tx, (show, loss)| async move {
                ledger::keep_loss(tx, &show, &loss).await
            })
            .await
    }

    async fn end_mend(&self, show: &ShowId, generation: Generation) -> Result<(), StoreError> {
        sqlx::query("update shows set mended = $1 where show = $2 and generation = $1")
            .bind(int(generation.0))
            .bind(show.as_str())
            .execute(&mut *self.db.connection().await?)
            .await?;
        Ok(())
    }

    async fn raise_ceiling(
        &self,
        show: &ShowId,
        generation: Generation,
        ceiling: Number,
    ) -> Result<bool, StoreError> {
        self.db
            .within(async {
                let done = sqlx::query(
                    "update shows set ceiling = greatest(ceiling, $1)
                 where show = $2 and generation = $3",
                )
                .bind(int(ceiling.0))
                .bind(show.as_str())
                .bind(int(generation.0))
                .execute(&mut *self.db.connection().await?)
                .await?;
                Ok(done.rows_affected() == 1)
            })
            .await
    }

    async fn checkpoint(&self, show: &ShowId, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        self.db
            .within(async {
                sqlx::query(
                "update shows set issued = $1, serving = $2, waiting = $3, checkpoint_at_ms = $4,
                   mended = generation,
                   state = case when coalesce(verb_version, 0) <= $5 then $6 else state end
                 where show = $7 and generation = $8",
            )
            .bind(int(checkpoint.issued.0))
            .bind(int(checkpoint.serving.0))
            .bind(int(checkpoint.waiting))
            .bind(checkpoint.at.as_millis())
            .bind(int(checkpoint.verb_version))
            .bind(&checkpoint.state)
            .bind(show.as_str())
            .bind(int(checkpoint.generation.0))
            .execute(&mut *self.db.connection().await?)
            .await?;
                Ok(())
            })
            .await
    }

    async fn append_ledger(
        &self,
        show: &ShowId,
        current: Generation,
        rows: &[LedgerRow],
    ) -> Result<bool, StoreError> {
        let given = (show.clone(), rows.to_vec());
        self.db
            .unit_with(given, move |tx, (show, rows)| async move {
                ledger::append(tx, &show, current, &rows).await
            })
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
            "select edition, generation, seq, at_ms, token, serving, kind, body from room_ledger
         where show = $1 and edition = $2 and (generation, seq) > ($3, $4)
         order by generation, seq limit $5",
        )
        .bind(show.as_str())
        .bind(int(edition.0))
        .bind(int(after.0.0))
        .bind(int(after.1))
        .bind(i64::try_from(max).unwrap_or(i64::MAX))
        .fetch_all(&mut *self.db.connection().await?)
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
        self.db
            .unit_with((show.clone(), fact), move |tx, (show, fact)| async move {
                draws::keep(tx, (&show, edition), fact).await
            })
            .await
    }

    async fn enter_beacon(
        &self,
        show: &ShowId,
        change: &Change,
        value: &str,
    ) -> Result<Option<Entered>, StoreError> {
        let given = (show.clone(), change.clone(), value.to_owned());
        self.db
            .unit_with(given, |tx, (show, change, value)| async move {
                draws::enter(tx, &show, &change, &value).await
            })
            .await
    }

    async fn audit(&self, change: &Change) -> Result<(), StoreError> {
        insert_audit(&mut *self.db.connection().await?, None, change).await
    }

    async fn try_write(&self) -> Result<(), StoreError> {
        self.db
            .within(async {
                sqlx::query("update migrations set sql = sql where name = '0001_shows'")
                    .execute(&mut *self.db.connection().await?)
                    .await?;
                Ok(())
            })
            .await
    }
}

pub(super) async fn load(db: &mut PgConnection, show: &ShowId) -> Result<Option<Show>, StoreError> {
    let row = sqlx::query(SHOW)
        .bind(show.as_str())
        .fetch_optional(db)
        .await?;
    row.as_ref().map(read_show).transpose()
}

/// The write itself asks for the version: two operators who read the same one cannot both pass.
async fn put(
    mut tx: Transaction<'static, Db>,
    id: &ShowId,
    (change, settings): (&Change, &Settings),
    expected: Option<u64>,
) -> Result<Put, StoreError> {
    let document = serde_json::to_string(settings).map_err(|e| StoreError::Corrupt(e.into()))?;
    let written = match expected {
        Some(version) => {
            let done = sqlx::query(
                "update shows set settings = $1, version = version + 1
                 where show = $2 and version = $3",
            )
            .bind(document)
            .bind(id.as_str())
            .bind(int(version))
            .execute(&mut *tx)
            .await?;
            done.rows_affected() == 1
        }
        None => insert_show(&mut tx, id, change, document).await?,
    };
    if !written {
        let found = load(&mut tx, id).await?;
        return Ok(Put::Mismatch(found.map(|show| show.version)));
    }
    insert_audit(&mut tx, Some(id), change).await?;
    let after = load(&mut tx, id).await?;
    tx.commit().await?;
    let after = Box::new(after.expect("the row was written in this transaction"));
    Ok(if expected.is_some() {
        Put::Changed(after)
    } else {
        Put::Created(after)
    })
}

/// A new show has generation 0: its room is born when an admitter mends it from an empty ledger.
/// False where there is such a show already.
async fn insert_show(
    tx: &mut PgConnection,
    id: &ShowId,
    change: &Change,
    document: String,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "insert into shows (show, version, settings, state, edition, generation, mended, ceiling,
           issued, serving, waiting, checkpoint_at_ms, created_at_ms)
         values ($1, 1, $2, 'scheduled', 1, 0, 0, 0, 0, 0, 0, $3, $3)
         on conflict (show) do nothing",
    )
    .bind(id.as_str())
    .bind(document)
    .bind(change.at.as_millis())
    .execute(tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

async fn put_verb(
    mut tx: Transaction<'static, Db>,
    id: &ShowId,
    change: &Change,
    verb: &str,
) -> Result<Option<Show>, StoreError> {
    sqlx::query(
        "update shows set version = version + 1, verb = $1, verb_version = version + 1, state = $1
         where show = $2 and cancelled_at_ms is null",
    )
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

async fn cancel(
    mut tx: Transaction<'static, Db>,
    id: &ShowId,
    change: &Change,
) -> Result<Option<Show>, StoreError> {
    let done = sqlx::query(
        "update shows set version = version + 1, verb = 'closed', verb_version = version + 1,
           state = 'closed', cancelled_at_ms = $1 where show = $2 and cancelled_at_ms is null",
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
    tx: &mut PgConnection,
    id: Option<&ShowId>,
    change: &Change,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into audit (at_ms, who, role, action, show, detail)
         values ($1, $2, $3, $4, $5, $6)",
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
