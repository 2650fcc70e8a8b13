//! Which log the events of an outbox go to, in PostgreSQL.

use sqlx::PgConnection;

use crate::log::{Elsewhere, LogName};

/// Makes sure, within the transaction that depends on it, that the events of this outbox go to this log:
/// whoever asks first decides it for ever, since marks and the offsets of groups are places in that log.
///
/// # Errors
/// The database's own. Within: it is another log.
pub async fn claim(
    conn: &mut PgConnection,
    log: &LogName,
) -> Result<Result<(), Elsewhere>, sqlx::Error> {
    if log.may_begin() {
        sqlx::query(
            "insert into event_log (one, name) values (1, $1) on conflict (one) do nothing",
        )
        .bind(&log.0)
        .execute(&mut *conn)
        .await?;
    }
    let known: Option<String> = sqlx::query_scalar("select name from event_log")
        .fetch_optional(conn)
        .await?;
    Ok(log.is(&known.unwrap_or_default()))
}
