//! The one statement with which every writer puts an event into the outbox, in PostgreSQL.

use sqlx::PgConnection;

use crate::event::{Envelope, codec, partition};

/// Writes an event into the outbox, within the transaction that makes it true. The relay sends it
/// once that transaction is committed; rolled back, it never was.
///
/// # Errors
/// The database's own, a second event of the same id or the same version of a key among them.
pub async fn append(conn: &mut PgConnection, envelope: &Envelope) -> Result<(), sqlx::Error> {
    let key = envelope.key();
    sqlx::query(
        "insert into outbox (id, aggregatetype, aggregateid, aggregate_version, type, payload,
                             partition, traceparent, occurred_at_ms)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(envelope.id.to_string())
    .bind(envelope.event.aggregate())
    .bind(&key)
    .bind(envelope.version.cast_signed())
    .bind(envelope.event.kind())
    .bind(codec::to_json(envelope))
    .bind(i64::from(partition::of_key(&key)))
    .bind(&envelope.trace)
    .bind(envelope.at.as_millis())
    .execute(conn)
    .await?;
    Ok(())
}
