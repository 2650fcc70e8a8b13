//! Draws in SQLite: one row an edition, each column written once. `in_sqlite.rs` calls.

use sqlx::sqlite::SqliteConnection;

use crate::base::ids::{Edition, ShowId};
use crate::driver::sqlite::Sqlite;
use crate::show::draw::{self, DrawFact, Entered};
use crate::show::in_sql::int;
use crate::show::in_sqlite::{begin, insert_audit, load};
use crate::show::{Change, StoreError};

pub(super) async fn keep(
    db: &Sqlite,
    (show, edition): (&ShowId, Edition),
    fact: DrawFact,
) -> Result<(), StoreError> {
    let mut tx = begin(db).await?;
    let statement = match fact {
        DrawFact::Sealed(sealed) => sqlx::query(
            "insert into draws (secret, commitment, show, edition) values (?, ?, ?, ?) \
             on conflict do nothing",
        )
        .bind(sealed.secret.to_string())
        .bind(sealed.commitment.to_string()),
        DrawFact::Size(size) => {
            sqlx::query("update draws set size = ? where show = ? and edition = ? and size is null")
                .bind(int(size.0))
        }
        DrawFact::Seed(seed) => sqlx::query(
            "update draws set seed = ? \
             where show = ? and edition = ? and seed is null and size is not null",
        )
        .bind(seed.to_string()),
    };
    let kept = statement
        .bind(show.as_str())
        .bind(int(edition.0))
        .execute(&mut *tx)
        .await?;
    if kept.rows_affected() == 1 && matches!(fact, DrawFact::Seed(_)) {
        raise_version(&mut tx, show).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// The reveal is news for the room, which goes by the version.
async fn raise_version(tx: &mut SqliteConnection, show: &ShowId) -> Result<(), StoreError> {
    sqlx::query("update shows set version = version + 1 where show = ?")
        .bind(show.as_str())
        .execute(tx)
        .await?;
    Ok(())
}

pub(super) async fn enter(
    db: &Sqlite,
    id: &ShowId,
    change: &Change,
    value: &str,
) -> Result<Option<Entered>, StoreError> {
    let mut tx = begin(db).await?;
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
    tx: &mut SqliteConnection,
    (show, edition): (&ShowId, Edition),
    value: &str,
) -> Result<(), StoreError> {
    sqlx::query(
        "update draws set beacon_value = ? \
         where show = ? and edition = ? and beacon_value is null",
    )
    .bind(value)
    .bind(show.as_str())
    .bind(int(edition.0))
    .execute(tx)
    .await?;
    Ok(())
}
