//! Idempotency keys on PostgreSQL: marked, kept, released, forgotten.

use sqlx::PgConnection;
use sqlx::postgres::PgQueryResult;

use crate::base::time::Timestamp;
use crate::driver::sql::SqlError;
use crate::orders::idempotency::{self, Answer, Begun, Claimed, Key, Known};
use crate::orders::rows_in_sql as rows;
use crate::orders::store::StoreError;

/// Decides whether a request may proceed, and marks its key if it may. Of two that find no key one
/// marks it, and the other looks again.
pub(super) async fn begin(
    conn: &mut PgConnection,
    key: &Key,
    now: Timestamp,
) -> Result<Begun, StoreError> {
    let known = find(conn, key).await?;
    let begun = idempotency::begin(key, known.as_ref(), now);
    if let Begun::Proceed(claimed) = &begun {
        let marked = match &known {
            None => mark(conn, claimed, now).await?,
            Some(known) => mark_again(conn, claimed, known, now).await?,
        };
        if marked.rows_affected() == 0 {
            return Err(SqlError::Moved.into());
        }
    }
    Ok(begun)
}

async fn find(conn: &mut PgConnection, key: &Key) -> Result<Option<Known>, StoreError> {
    let row = sqlx::query(
        "select fingerprint, status, admission, body, in_flight_until_ms, at_ms
         from idempotency_keys where fan = $1 and route = $2 and key = $3",
    )
    .bind(key.fan.to_string())
    .bind(key.route)
    .bind(&key.key)
    .fetch_optional(conn)
    .await?;
    row.as_ref().map(rows::known).transpose()
}

async fn mark(
    conn: &mut PgConnection,
    claimed: &Claimed,
    now: Timestamp,
) -> Result<PgQueryResult, StoreError> {
    let key = &claimed.key;
    let marked = sqlx::query(
        "insert into idempotency_keys (fan, route, key, fingerprint, in_flight_until_ms, at_ms)
         values ($1, $2, $3, $4, $5, $6) on conflict (fan, route, key) do nothing",
    )
    .bind(key.fan.to_string())
    .bind(key.route)
    .bind(&key.key)
    .bind(&key.fingerprint)
    .bind(claimed.until.as_millis())
    .bind(now.as_millis())
    .execute(conn)
    .await?;
    Ok(marked)
}

/// Marks a key whose last request lies too far back, if it is still as it was found.
async fn mark_again(
    conn: &mut PgConnection,
    claimed: &Claimed,
    known: &Known,
    now: Timestamp,
) -> Result<PgQueryResult, StoreError> {
    let key = &claimed.key;
    let marked = sqlx::query(
        "update idempotency_keys set fingerprint = $4, status = null, admission = null,
           body = null, in_flight_until_ms = $5, at_ms = $6
         where fan = $1 and route = $2 and key = $3
           and in_flight_until_ms = $7 and (status is not null) = $8",
    )
    .bind(key.fan.to_string())
    .bind(key.route)
    .bind(&key.key)
    .bind(&key.fingerprint)
    .bind(claimed.until.as_millis())
    .bind(now.as_millis())
    .bind(known.in_flight_until.as_millis())
    .bind(known.answer.is_some())
    .execute(conn)
    .await?;
    Ok(marked)
}

/// Keeps the answer to a request whose mark is still its own.
pub(super) async fn keep(
    conn: &mut PgConnection,
    claimed: &Claimed,
    answer: &Answer,
) -> Result<(), StoreError> {
    let key = &claimed.key;
    let kept = sqlx::query(
        "update idempotency_keys set status = $1, admission = $2, body = $3
         where fan = $4 and route = $5 and key = $6 and in_flight_until_ms = $7 and status is null",
    )
    .bind(i64::from(answer.status))
    .bind(&answer.admission)
    .bind(&answer.body)
    .bind(key.fan.to_string())
    .bind(key.route)
    .bind(&key.key)
    .bind(claimed.until.as_millis())
    .execute(conn)
    .await?;
    match kept.rows_affected() {
        1 => Ok(()),
        _ => Err(StoreError::Overtaken),
    }
}

/// Takes a mark back, if it is still there.
pub(super) async fn release(conn: &mut PgConnection, claimed: &Claimed) -> Result<(), StoreError> {
    let key = &claimed.key;
    sqlx::query(
        "delete from idempotency_keys
         where fan = $1 and route = $2 and key = $3 and in_flight_until_ms = $4 and status is null",
    )
    .bind(key.fan.to_string())
    .bind(key.route)
    .bind(&key.key)
    .bind(claimed.until.as_millis())
    .execute(conn)
    .await?;
    Ok(())
}

/// Forgets keys that were first used at or before a time.
pub(super) async fn forget(
    conn: &mut PgConnection,
    before: Timestamp,
    max: u32,
) -> Result<u32, StoreError> {
    let forgotten = sqlx::query(
        "delete from idempotency_keys where (fan, route, key) in
           (select fan, route, key from idempotency_keys where at_ms <= $1
            order by at_ms limit $2 for update skip locked)",
    )
    .bind(before.as_millis())
    .bind(i64::from(max))
    .execute(conn)
    .await?;
    u32::try_from(forgotten.rows_affected()).map_err(rows::corrupt)
}
