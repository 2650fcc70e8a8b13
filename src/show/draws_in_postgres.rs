//! Draws in PostgreSQL: one row an edition, each column written once. `in_postgres.rs` calls.

use sqlx::{PgConnection, Postgres as Db, Transaction};

use crate::base::ids::{Edition, ShowId};
use crate::driver::postgres::Postgres;
use crate::show::draw::{self, DrawFact, Entered};
use crate::show::in_postgres::{insert_audit, load};
use crate::show::in_sql::int;
use crate::show::{Change, StoreError};

pub(super) async fn keep(
    db: &Postgres,
    (show, edition): (&ShowId, Edition),
    fact: DrawFact,
) -> Result<(), StoreError> {
    let statement = match fact {
        DrawFact::Sealed(sealed) => sqlx::query(
            "insert into draws (secret, commitment, show, edition) values ($1, $2, $3, $4) \
             on conflict do nothing",
        )
        .bind(sealed.secret.to_string())
        .bind(sealed.commitment.to_string()),
        DrawFact::Size(size) => sqlx::query(
            "update draws set size = $1 where show = $2 and edition = $3 and size is null",
        )
        .bind(int(size.0)),
        DrawFact::Seed(seed) => sqlx::query(
            "update draws set seed = $1 \
             where show = $2 and edition = $3 and seed is null and size is not null",
        )
        .bind(seed.to_string()),
    };
    statement
        .bind(show.as_str())
        .bind(int(edition.0))
        .execute(&mut *db.connection().await?)
        .await?;
    Ok(())
}

pub(super) async fn enter(
    mut tx: Transaction<'static, Db>,
    id: &ShowId,
    change: &Change,
    value: &str,
) -> Result<Option<Entered>, StoreError> {
    // Alone, so that of two values at once only one is entered.
    sqlx::query("select from shows where show = $1 for update")
        .bind(id.as_str())
        .execute(&mut *tx)
        .await?;
    let Some(show) = load(&mut tx, id).await? else {
        return Ok(None);
    };
    let entered = draw::enter(show.settings.beacon.as_deref(), show.draw.as_ref(), value);
    if entered == Entered::Now {
        keep_beacon(&mut tx, (id, show.edition), value).await?;
        insert_audit(&mut tx, Some(id), change).await?;
        tx.commit().await?;
    }
    Ok(Some(entered))
}

async fn keep_beacon(
    tx: &mut PgConnection,
    (show, edition): (&ShowId, Edition),
    value: &str,
) -> Result<(), StoreError> {
    sqlx::query(
        "update draws set beacon_value = $1 \
         where show = $2 and edition = $3 and beacon_value is null",
    )
    .bind(value)
    .bind(show.as_str())
    .bind(int(edition.0))
    .execute(tx)
    .await?;
    Ok(())
}
