//! Where in the log the topic of Kafka begins, in SQLite.
//!
//! A place of the log is counted from 0 on for ever. A topic that was deleted and made anew counts from 0 again:
//! its first record then has the place behind all that there were. What had a place before stays in the outbox until
//! every group is past it, and is read there.

use std::collections::BTreeMap;

use sqlx::SqliteConnection;

use crate::base::limits::PARTITIONS;
use crate::telemetry::metrics;

/// The place of the first record of the topic. Asked inside the transaction that depends on it.
///
/// # Errors
/// The database's own.
pub async fn begins(conn: &mut SqliteConnection, partition: u16) -> Result<u64, sqlx::Error> {
    let begins: Option<i64> =
        sqlx::query_scalar("select begins from outbox_partitions where partition = ?1")
            .bind(partition)
            .fetch_optional(conn)
            .await?;
    Ok(begins.unwrap_or_default().cast_unsigned())
}

/// By partition, the place behind the last mark.
///
/// # Errors
/// The database's own.
pub async fn marked(conn: &mut SqliteConnection) -> Result<BTreeMap<u16, u64>, sqlx::Error> {
    let mut marked = BTreeMap::new();
    for partition in 0..PARTITIONS {
        marked.insert(partition, next(conn, partition).await?);
    }
    Ok(marked)
}

/// Whether a topic that begins there cannot be the one that the marks are of, for it has nothing at or behind this
/// offset, or gives that offset to what is new. If so, another begins from now on.
///
/// # Errors
/// The database's own.
pub async fn is_anew(
    conn: &mut SqliteConnection,
    partition: u16,
    (begins, offset): (u64, u64),
) -> Result<bool, sqlx::Error> {
    let next = next(conn, partition).await?;
    if next <= begins + offset {
        return Ok(false);
    }
    // No group is ahead of it, not even one that has read what was sent and never marked.
    let begins: i64 = sqlx::query_scalar(
        "update outbox_partitions
         set begins = max(?2, coalesce((select max(\"offset\") from log_groups where partition = ?1), 0))
         where partition = ?1 returning begins",
    )
    .bind(partition)
    .bind(next.cast_signed())
    .fetch_one(conn)
    .await?;
    metrics::topic_anew();
    tracing::error!(
        partition,
        place = begins,
        "the topic was made anew: its records before this place are gone. Groups of Catraca read them in the \
         outbox; whoever else had not read them has lost them"
    );
    Ok(true)
}

/// The place behind the last mark of a partition.
async fn next(conn: &mut SqliteConnection, partition: u16) -> Result<u64, sqlx::Error> {
    let next: i64 = sqlx::query_scalar(
        "select coalesce(max(\"offset\") + 1, 0) from outbox_log where partition = ?1",
    )
    .bind(partition)
    .fetch_one(conn)
    .await?;
    Ok(next.cast_unsigned())
}
