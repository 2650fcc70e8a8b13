//! Sections and seats on SQLite: made from a show's settings, and counted.

use sqlx::{SqliteConnection, SqlitePool};

use crate::base::ids::ShowId;
use crate::driver::sql::SqlError;
use crate::event::SectionStock;
use crate::orders::rows_in_sql as rows;
use crate::orders::store::{Reconciled, StoreError};
use crate::show::settings::Section;

/// Makes sections and seats what the settings of this version say. Free seats are withdrawn from the back;
/// seats that somebody has stay, and then the section has more seats than its settings. Of a cancelled show
/// nothing is for sale, whatever they say; and once it has no seat, it gets none again.
pub(super) async fn reconcile(
    tx: &mut SqliteConnection,
    (show, version): (&ShowId, u64),
    sections: &[Section],
) -> Result<Reconciled, StoreError> {
    let cancelled = is_cancelled(tx, (show, version)).await?;
    let sections = if cancelled { &[] } else { sections };
    reconcile_with(tx, show, sections).await
}

/// Whether an operator has cancelled the show; an error where its settings have another version by now, for
/// a cancellation is one.
async fn is_cancelled(
    tx: &mut SqliteConnection,
    (show, version): (&ShowId, u64),
) -> Result<bool, StoreError> {
    let found: Option<(i64, bool)> =
        sqlx::query_as("select version, cancelled_at_ms is not null from shows where show = ?")
            .bind(show.as_str())
            .fetch_optional(tx)
            .await?;
    match found {
        Some((now, cancelled)) if now == version.cast_signed() => Ok(cancelled),
        Some(_) | None => Err(SqlError::Moved.into()),
    }
}

async fn reconcile_with(
    tx: &mut SqliteConnection,
    show: &ShowId,
    sections: &[Section],
) -> Result<Reconciled, StoreError> {
    for (position, section) in sections.iter().enumerate() {
        put_section(tx, show, section, position).await?;
        let has = seats_of(tx, show, &section.name).await?;
        let wanted = i64::from(section.seats);
        if has < wanted {
            add_seats(tx, show, section, wanted - has).await?;
        } else {
            withdraw_seats(tx, show, &section.name, has - wanted).await?;
        }
    }
    let mut reconciled = Reconciled { seats: 0, kept: 0 };
    for name in section_names(tx, show).await? {
        let wanted = sections.iter().find(|section| section.name == name);
        if wanted.is_none() {
            withdraw_seats(tx, show, &name, i64::MAX).await?;
            drop_section_if_empty(tx, show, &name).await?;
        }
        let has = u64::try_from(seats_of(tx, show, &name).await?).map_err(rows::corrupt)?;
        reconciled.seats += has;
        reconciled.kept += has.saturating_sub(wanted.map_or(0, |section| section.seats.into()));
    }
    Ok(reconciled)
}

/// A section that comes back in another currency while somebody has seats of the old one stays as it is.
async fn put_section(
    tx: &mut SqliteConnection,
    show: &ShowId,
    section: &Section,
    position: usize,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into sections (show, section, position, numbered, price_minor, currency)
         values (?, ?, ?, ?, ?, ?)
         on conflict (show, section) do update set position = excluded.position,
           numbered = excluded.numbered, price_minor = excluded.price_minor,
           currency = excluded.currency
           where sections.currency = excluded.currency or not exists
             (select 1 from seats s where s.show = excluded.show and s.section = excluded.section
                and s.state <> 'free')",
    )
    .bind(show.as_str())
    .bind(&section.name)
    .bind(i64::try_from(position).map_err(rows::corrupt)?)
    .bind(section.numbered)
    .bind(section.price.minor)
    .bind(section.price.currency.code())
    .execute(tx)
    .await?;
    Ok(())
}

async fn seats_of(
    tx: &mut SqliteConnection,
    show: &ShowId,
    section: &str,
) -> Result<i64, StoreError> {
    Ok(
        sqlx::query_scalar("select count(*) from seats where show = ? and section = ?")
            .bind(show.as_str())
            .bind(section)
            .fetch_one(tx)
            .await?,
    )
}

/// Adds the lowest ordinals that are missing.
async fn add_seats(
    tx: &mut SqliteConnection,
    show: &ShowId,
    section: &Section,
    count: i64,
) -> Result<(), StoreError> {
    sqlx::query(
        "with recursive ordinals (ordinal) as
           (select 1 union all select ordinal + 1 from ordinals where ordinal < ?1)
         insert into seats (show, section, ordinal, seat, state)
         select ?2, ?3, ordinal, ?3 || '-' || ordinal, 'free' from ordinals
         where not exists
           (select 1 from seats where show = ?2 and seat = ?3 || '-' || ordinals.ordinal)
         order by ordinal limit ?4",
    )
    .bind(section.seats)
    .bind(show.as_str())
    .bind(&section.name)
    .bind(count)
    .execute(tx)
    .await?;
    Ok(())
}

/// Withdraws free seats from the back, at most `count`.
async fn withdraw_seats(
    tx: &mut SqliteConnection,
    show: &ShowId,
    section: &str,
    count: i64,
) -> Result<(), StoreError> {
    sqlx::query(
        "delete from seats where show = ?1 and seat in
           (select seat from seats where show = ?1 and section = ?2 and state = 'free'
            order by ordinal desc limit ?3)",
    )
    .bind(show.as_str())
    .bind(section)
    .bind(count)
    .execute(tx)
    .await?;
    Ok(())
}

async fn section_names(
    tx: &mut SqliteConnection,
    show: &ShowId,
) -> Result<Vec<String>, StoreError> {
    Ok(
        sqlx::query_scalar(
            "select section from sections where show = ? order by position, section",
        )
        .bind(show.as_str())
        .fetch_all(tx)
        .await?,
    )
}

async fn drop_section_if_empty(
    tx: &mut SqliteConnection,
    show: &ShowId,
    section: &str,
) -> Result<(), StoreError> {
    sqlx::query(
        "delete from sections where show = ?1 and section = ?2
         and not exists (select 1 from seats where show = ?1 and section = ?2)",
    )
    .bind(show.as_str())
    .bind(section)
    .execute(tx)
    .await?;
    Ok(())
}

/// How many seats each section has, in the order of the settings: one snapshot.
pub(super) async fn by_section(
    read: &SqlitePool,
    show: &ShowId,
) -> Result<Vec<SectionStock>, StoreError> {
    let found = sqlx::query(
        "select c.section,
           count(*) filter (where s.state = 'free') as free,
           count(*) filter (where s.state = 'held') as held,
           count(*) filter (where s.state = 'sold') as sold
         from sections c left join seats s on s.show = c.show and s.section = c.section
         where c.show = ? group by c.section, c.position order by c.position, c.section",
    )
    .bind(show.as_str())
    .fetch_all(read)
    .await?;
    found.iter().map(rows::section_stock).collect()
}

/// Whether there is such a show, with seats or without.
pub(super) async fn is_there(read: &SqlitePool, show: &ShowId) -> Result<bool, StoreError> {
    Ok(
        sqlx::query_scalar("select exists (select 1 from shows where show = ?)")
            .bind(show.as_str())
            .fetch_one(read)
            .await?,
    )
}
