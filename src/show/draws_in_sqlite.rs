//! Draws in SQLite: one row an edition, each column written once. `in_sqlite.rs` calls.

use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use crate::base::ids::{Edition, Malformed, Number, ShowId};
use crate::driver::sqlite::Sqlite;
use crate::show::draw::{self, Draw, DrawFact, Entered, Sealed};
use crate::show::in_sqlite::{begin, insert_audit, load};
use crate::show::{Change, StoreError};

pub(super) async fn keep(
    db: &Sqlite,
    (show, edition): (&ShowId, Edition),
    fact: DrawFact,
) -> Result<(), StoreError> {
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
    statement
        .bind(show.as_str())
        .bind(int(edition.0))
        .execute(&db.write)
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

/// The columns of `draws` beside a show's own; none where they are null.
pub(super) fn read(row: &SqliteRow) -> Result<Option<Draw>, StoreError> {
    let Some(secret) = row.try_get::<Option<String>, _>("secret")? else {
        return Ok(None);
    };
    let commitment: String = row.try_get("commitment")?;
    let size: Option<i64> = row.try_get("size")?;
    let seed: Option<String> = row.try_get("seed")?;
    let foreign = |error: Malformed| StoreError::Corrupt(error.into());
    Ok(Some(Draw {
        sealed: Sealed {
            secret: secret.parse().map_err(foreign)?,
            commitment: commitment.parse().map_err(foreign)?,
        },
        size: size.map(|size| Number(size.unsigned_abs())),
        beacon_value: row.try_get("beacon_value")?,
        seed: seed.map(|seed| seed.parse()).transpose().map_err(foreign)?,
    }))
}

fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
