//! The ledgers of rooms in PostgreSQL, and where they may lack something. `in_postgres.rs` calls.

use sqlx::{Postgres as Db, Transaction};

use crate::base::ids::{Generation, ShowId};
use crate::show::in_postgres::load;
use crate::show::in_sql::int;
use crate::show::{FinishedMend, LedgerRow, StoreError};

/// A page is one statement: row by row, a busy room would write more than could be copied.
pub(super) async fn append(
    mut tx: Transaction<'static, Db>,
    show: &ShowId,
    current: Generation,
    rows: &[LedgerRow],
) -> Result<bool, StoreError> {
    // Shared, so that no mend begins before these rows are either there or not.
    sqlx::query("select from shows where show = $1 for share")
        .bind(show.as_str())
        .execute(&mut *tx)
        .await?;
    let now = load(&mut tx, show).await?;
    let Some(now) = now.filter(|now| now.generation == current) else {
        return Ok(false);
    };
    let counts = |row: &LedgerRow| {
        row.edition == now.edition && (row.generation == current || row.generation == now.mended)
    };
    if !rows.iter().all(counts) {
        return Ok(false);
    }
    let ints = |of: fn(&LedgerRow) -> i64| rows.iter().map(of).collect::<Vec<i64>>();
    let texts = |of: fn(&LedgerRow) -> &String| rows.iter().map(of).cloned().collect::<Vec<_>>();
    sqlx::query(
        "insert into room_ledger
           (show, edition, generation, seq, at_ms, token, serving, kind, body)
         select $1, edition, generation, seq, at_ms, token, serving, kind, body
         from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
             $7::bigint[], $8::text[], $9::text[])
           as page (edition, generation, seq, at_ms, token, serving, kind, body)
         on conflict do nothing",
    )
    .bind(show.as_str())
    .bind(ints(|row| int(row.edition.0)))
    .bind(ints(|row| int(row.generation.0)))
    .bind(ints(|row| int(row.seq)))
    .bind(ints(|row| row.at.as_millis()))
    .bind(ints(|row| int(row.token)))
    .bind(ints(|row| int(row.serving.0)))
    .bind(texts(|row| &row.kind))
    .bind(texts(|row| &row.body))
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(true)
}

pub(super) async fn end_mend(
    mut tx: Transaction<'static, Db>,
    show: &ShowId,
    mend: &FinishedMend,
) -> Result<(), StoreError> {
    let done = sqlx::query("update shows set mended = $1 where show = $2 and generation = $1")
        .bind(int(mend.generation.0))
        .bind(show.as_str())
        .execute(&mut *tx)
        .await?;
    if done.rows_affected() == 1 {
        sqlx::query(
            "insert into room_mends (show, edition, generation, copied_at_ms, found_at_ms)
             values ($1, $2, $3, $4, $5) on conflict do nothing",
        )
        .bind(show.as_str())
        .bind(int(mend.edition.0))
        .bind(int(mend.generation.0))
        .bind(mend.copied_at.as_millis())
        .bind(mend.found_at.as_millis())
        .execute(&mut *tx)
        .await?;
    }
    tx.commit().await?;
    Ok(())
}
