//! The ledgers of rooms in PostgreSQL, and where they may lack something. `in_postgres.rs` calls.

use sqlx::{Postgres as Db, Transaction};

use crate::base::ids::{Generation, ShowId};
use crate::show::in_postgres::load;
use crate::show::in_sql::int;
use crate::show::{Kept, LedgerRow, Loss, StoreError};

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

/// Of a first life the ledger is copied up to its birth, for it has none before.
pub(super) async fn keep_loss(
    mut tx: Transaction<'static, Db>,
    show: &ShowId,
    loss: &Loss,
) -> Result<Kept, StoreError> {
    let first: Option<bool> = sqlx::query_scalar(
        "select mended = 0 and not exists
           (select from room_mends m where m.show = s.show and m.generation < s.generation)
         from shows s where show = $1 and generation = $2 for update",
    )
    .bind(show.as_str())
    .bind(int(loss.generation.0))
    .fetch_optional(&mut *tx)
    .await?;
    let Some(is_first) = first else {
        return Ok(Kept::Overtaken);
    };
    if is_first {
        sqlx::query("update shows set checkpoint_at_ms = $1 where show = $2")
            .bind(loss.found_at.as_millis())
            .bind(show.as_str())
            .execute(&mut *tx)
            .await?;
    }
    sqlx::query(
        "insert into room_mends (show, edition, generation, copied_at_ms, found_at_ms)
         select show, $1, generation, checkpoint_at_ms, $2 from shows where show = $3
         on conflict do nothing",
    )
    .bind(int(loss.edition.0))
    .bind(loss.found_at.as_millis())
    .bind(show.as_str())
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(if is_first { Kept::First } else { Kept::Later })
}
