//! The ledgers of rooms in SQLite, and where they may lack something. `in_sqlite.rs` calls.

use crate::base::ids::{Generation, ShowId};
use crate::driver::sqlite::Sqlite;
use crate::show::in_sql::int;
use crate::show::in_sqlite::{begin, load};
use crate::show::{FinishedMend, LedgerRow, StoreError};

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

pub(super) async fn end_mend(
    db: &Sqlite,
    show: &ShowId,
    mend: &FinishedMend,
) -> Result<(), StoreError> {
    let mut tx = begin(db).await?;
    let done = sqlx::query("update shows set mended = ? where show = ? and generation = ?")
        .bind(int(mend.generation.0))
        .bind(show.as_str())
        .bind(int(mend.generation.0))
        .execute(&mut *tx)
        .await?;
    if done.rows_affected() == 1 {
        sqlx::query(
            "insert into room_mends (show, edition, generation, copied_at_ms, found_at_ms) \
             values (?, ?, ?, ?, ?) on conflict do nothing",
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
