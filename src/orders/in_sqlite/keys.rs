//! Idempotency keys on SQLite: marked, kept, released, forgotten.

use sqlx::SqliteConnection;

use crate::base::time::Timestamp;
use crate::orders::idempotency::{self, Answer, Begun, Claimed, Key, Known};
use crate::orders::rows_in_sql as rows;
use crate::orders::store::StoreError;

/// Decides whether a request may proceed, and marks its key if it may.
pub(super) async fn begin(
    tx: &mut SqliteConnection,
    key: &Key,
    now: Timestamp,
) -> Result<Begun, StoreError> {
    let known = find(tx, key).await?;
    let begun = idempotency::begin(key, known.as_ref(), now);
    if let Begun::Proceed(claimed) = &begun {
        mark(tx, claimed, now).await?;
    }
    Ok(begun)
}

async fn find(tx: &mut SqliteConnection, key: &Key) -> Result<Option<Known>, StoreError> {
    let row = sqlx::query(
        "select fingerprint, status, admission, body, in_flight_until_ms, at_ms
         from idempotency_keys where fan = ? and route = ? and key = ?",
    )
    .bind(key.fan.to_string())
    .bind(key.route)
    .bind(&key.key)
    .fetch_optional(tx)
    .await?;
    row.as_ref().map(rows::known).transpose()
}

async fn mark(
    tx: &mut SqliteConnection,
    claimed: &Claimed,
    now: Timestamp,
) -> Result<(), StoreError> {
    let key = &claimed.key;
    sqlx::query(
        "insert into idempotency_keys (fan, route, key, fingerprint, in_flight_until_ms, at_ms)
         values (?, ?, ?, ?, ?, ?)
         on conflict (fan, route, key) do update set fingerprint = excluded.fingerprint,
           status = null, admission = null, body = null,
           in_flight_until_ms = excluded.in_flight_until_ms, at_ms = excluded.at_ms",
    )
    .bind(key.fan.to_string())
    .bind(key.route)
    .bind(&key.key)
    .bind(&key.fingerprint)
    .bind(claimed.until.as_millis())
    .bind(now.as_millis())
    .execute(tx)
    .await?;
    Ok(())
}

/// Keeps the answer to a request whose mark is still its own.
pub(super) async fn keep(
    tx: &mut SqliteConnection,
    claimed: &Claimed,
    answer: &Answer,
) -> Result<(), StoreError> {
    let key = &claimed.key;
    let kept = sqlx::query(
        "update idempotency_keys set status = ?, admission = ?, body = ?
         where fan = ? and route = ? and key = ? and in_flight_until_ms = ? and status is null",
    )
    .bind(answer.status)
    .bind(&answer.admission)
    .bind(&answer.body)
    .bind(key.fan.to_string())
    .bind(key.route)
    .bind(&key.key)
    .bind(claimed.until.as_millis())
    .execute(tx)
    .await?;
    match kept.rows_affected() {
        1 => Ok(()),
        _ => Err(StoreError::Overtaken),
    }
}

/// Takes a mark back, if it is still there.
pub(super) async fn release(
    tx: &mut SqliteConnection,
    claimed: &Claimed,
) -> Result<(), StoreError> {
    let key = &claimed.key;
    sqlx::query(
        "delete from idempotency_keys
         where fan = ? and route = ? and key = ? and in_flight_until_ms = ? and status is null",
    )
    .bind(key.fan.to_string())
    .bind(key.route)
    .bind(&key.key)
    .bind(claimed.until.as_millis())
    .execute(tx)
    .await?;
    Ok(())
}

/// Forgets keys that were first used at or before a time.
pub(super) async fn forget(
    tx: &mut SqliteConnection,
    before: Timestamp,
    max: u32,
) -> Result<u32, StoreError> {
    let forgotten = sqlx::query(
        "delete from idempotency_keys where rowid in
           (select rowid from idempotency_keys where at_ms <= ? order by at_ms limit ?)",
    )
    .bind(before.as_millis())
    .bind(max)
    .execute(tx)
    .await?;
    u32::try_from(forgotten.rows_affected()).map_err(rows::corrupt)
}
