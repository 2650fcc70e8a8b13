//! The ledgers of rooms in SQLite, and where they may lack something. `in_sqlite.rs` calls.

use crate::base::ids::{Generation, ShowId};
use crate::driver::sqlite::Sqlite;
use crate::show::in_sql::int;
use crate::show::in_sqlite::{begin, load};
use crate::show::{Kept, LedgerRow, Loss, StoreError};

pub(super) async fn append(
    db: &Sqlite,
    show: &ShowId,
    current: Generation,
    rows: &[LedgerRow],
) -> Result<bool, StoreError> {
    let mut tx = begin(db).await?;
    let now = load(&mut tx, show).await?;
    let Some(now) = now.filter(|now| now.generation == current) else {
        return Ok(false);
    };
    for row in rows {
        let counts = row.generation == current || row.generation == now.mended;
        if row.edition != now.edition || !counts {
            return Ok(false);
        }
        sqlx::query(
            "insert into room_ledger \
             (show, edition, generation, seq, at_ms, token, serving, kind, body) \
             values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing",
        )
        .bind(show.as_str())
        .bind(int(row.edition.0))
        .bind(int(row.generation.0))
        .bind(int(row.seq))
        .bind(row.at.as_millis())
        .bind(int(row.token))
        .bind(int(row.serving.0))
        .bind(&row.kind)
        .bind(&row.body)
        .execute(&mut *tx)
        .await?;
    }
    tx.commit().await?;
    Ok(true)
}

/// Of a first life the ledger is copied up to its birth, for it has none before.
pub(super) async fn keep_loss(db: &Sqlite, show: &ShowId, loss: &Loss) -> Result<Kept, StoreError> {
    let mut tx = begin(db).await?;
    let first: Option<bool> = sqlx::query_scalar(
        "select mended = 0 and not exists \
           (select 1 from room_mends m where m.show = s.show and m.generation < s.generation) \
         from shows s where show = ? and generation = ?",
    )
    .bind(show.as_str())
    .bind(int(loss.generation.0))
    .fetch_optional(&mut *tx)
    .await?;
    let Some(is_first) = first else {
        return Ok(Kept::Overtaken);
    };
    if is_first {
        sqlx::query("update shows set checkpoint_at_ms = ? where show = ?")
            .bind(loss.found_at.as_millis())
            .bind(show.as_str())
            .execute(&mut *tx)
            .await?;
    }
    sqlx::query(
        "insert into room_mends (show, edition, generation, copied_at_ms, found_at_ms) \
         select show, ?, generation, checkpoint_at_ms, ? from shows where show = ? \
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
