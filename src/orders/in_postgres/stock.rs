//! Sections and seats on PostgreSQL: made from a show's settings, and counted.

use sqlx::{PgConnection, PgPool};

use crate::base::ids::{ShowId, TicketId};
use crate::driver::sql::SqlError;
use crate::event::SectionStock;
use crate::orders::rows_in_sql as rows;
use crate::orders::store::{Reconciled, StoreError};
use crate::show::settings::Section;

/// The version of a show's settings, and whether an operator has cancelled it.
const DECIDED: &str = "select version, cancelled_at_ms is not null from shows where show = $1";
/// The same, and nobody decides otherwise before the end of this transaction.
const STAYS_SO: &str =
    "select version, cancelled_at_ms is not null from shows where show = $1 for share";

/// Makes sections and seats what the settings of this version say. Free seats are withdrawn from the back;
/// seats that somebody has stay, and then the section has more seats than its settings. Of a cancelled show
/// nothing is for sale, whatever they say; and once it has no seat, it gets none again.
pub(super) async fn reconcile(
    tx: &mut PgConnection,
    (show, version): (&ShowId, u64),
    sections: &[Section],
) -> Result<Reconciled, StoreError> {
    let cancelled = is_cancelled(tx, (show, version), DECIDED).await?;
    let sections = if cancelled { &[] } else { sections };
    let reconciled = reconcile_with(tx, show, sections).await?;
    // The row is locked only now, for admitters write it every second.
    is_cancelled(tx, (show, version), STAYS_SO).await?;
    Ok(reconciled)
}

/// Whether an operator has cancelled the show; an error where its settings have another version by now, for
/// a cancellation is one.
async fn is_cancelled(
    tx: &mut PgConnection,
    (show, version): (&ShowId, u64),
    asking: &'static str,
) -> Result<bool, StoreError> {
    let found: Option<(i64, bool)> = sqlx::query_as(asking)
        .bind(show.as_str())
        .fetch_optional(tx)
        .await?;
    match found {
        Some((now, cancelled)) if now == version.cast_signed() => Ok(cancelled),
        Some(_) | None => Err(SqlError::Moved.into()),
    }
}

async fn reconcile_with(
    tx: &mut PgConnection,
    show: &ShowId,
    sections: &[Section],
) -> Result<Reconciled, StoreError> {
    lock_sections(tx, show, sections).await?;
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

/// Locks the sections that there are and that there will be, in one order.
async fn lock_sections(
    tx: &mut PgConnection,
    show: &ShowId,
    sections: &[Section],
) -> Result<(), StoreError> {
    let mut names = section_names(tx, show).await?;
    names.extend(sections.iter().map(|section| section.name.clone()));
    names.sort_unstable();
    names.dedup();
    for name in names {
        lock(tx, &section_lock(show, &name)).await?;
    }
    Ok(())
}

/// Waits for the lock of this name and keeps it to the end of the transaction.
pub(super) async fn lock(tx: &mut PgConnection, name: &str) -> Result<(), StoreError> {
    sqlx::query("select pg_advisory_xact_lock(hashtextextended($1, 0))")
        .bind(name)
        .execute(tx)
        .await?;
    Ok(())
}

/// What the lock of a ticket is called.
pub(super) fn ticket_lock(ticket: TicketId) -> String {
    format!("ticket {ticket}")
}

/// What the lock of a section is called.
pub(super) fn section_lock(show: &ShowId, section: &str) -> String {
    format!("section {show} {section}")
}

/// A section that comes back in another currency while somebody has seats of the old one stays as it is.
async fn put_section(
    tx: &mut PgConnection,
    show: &ShowId,
    section: &Section,
    position: usize,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into sections (show, section, position, numbered, price_minor, currency)
         values ($1, $2, $3, $4, $5, $6)
         on conflict (show, section) do update set position = excluded.position,
           numbered = excluded.numbered, price_minor = excluded.price_minor,
           currency = excluded.currency
           where sections.currency = excluded.currency or not exists
             (select from seats s where s.show = excluded.show and s.section = excluded.section
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

async fn seats_of(tx: &mut PgConnection, show: &ShowId, section: &str) -> Result<i64, StoreError> {
    Ok(
        sqlx::query_scalar("select count(*) from seats where show = $1 and section = $2")
            .bind(show.as_str())
            .bind(section)
            .fetch_one(tx)
            .await?,
    )
}

/// Adds the lowest ordinals that are missing.
async fn add_seats(
    tx: &mut PgConnection,
    show: &ShowId,
    section: &Section,
    count: i64,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into seats (show, section, ordinal, seat, state)
         select $2, $3, ordinal, $3 || '-' || ordinal, 'free'
         from generate_series(1, $1) wanted (ordinal)
         where not exists
           (select from seats where show = $2 and seat = $3 || '-' || wanted.ordinal)
         order by ordinal limit $4",
    )
    .bind(i64::from(section.seats))
    .bind(show.as_str())
    .bind(&section.name)
    .bind(count)
    .execute(tx)
    .await?;
    Ok(())
}

/// Withdraws free seats from the back, at most `count`. One that somebody asks for by name right now
/// stays: it is seen to when it is looked at again.
async fn withdraw_seats(
    tx: &mut PgConnection,
    show: &ShowId,
    section: &str,
    count: i64,
) -> Result<(), StoreError> {
    sqlx::query(
        "delete from seats where show = $1 and seat in
           (select seat from seats where show = $1 and section = $2 and state = 'free'
            order by ordinal desc limit $3 for update skip locked)",
    )
    .bind(show.as_str())
    .bind(section)
    .bind(count)
    .execute(tx)
    .await?;
    Ok(())
}

async fn section_names(tx: &mut PgConnection, show: &ShowId) -> Result<Vec<String>, StoreError> {
    Ok(sqlx::query_scalar(
        "select section from sections where show = $1 order by position, section",
    )
    .bind(show.as_str())
    .fetch_all(tx)
    .await?)
}

async fn drop_section_if_empty(
    tx: &mut PgConnection,
    show: &ShowId,
    section: &str,
) -> Result<(), StoreError> {
    sqlx::query(
        "delete from sections where show = $1 and section = $2
         and not exists (select from seats where show = $1 and section = $2)",
    )
    .bind(show.as_str())
    .bind(section)
    .execute(tx)
    .await?;
    Ok(())
}

/// How many seats each section has, in the order of the settings: one snapshot.
pub(super) async fn by_section(
    read: &PgPool,
    show: &ShowId,
) -> Result<Vec<SectionStock>, StoreError> {
    let found = sqlx::query(
        "select c.section,
           count(*) filter (where s.state = 'free') as free,
           count(*) filter (where s.state = 'held') as held,
           count(*) filter (where s.state = 'sold') as sold
         from sections c left join seats s on s.show = c.show and s.section = c.section
         where c.show = $1 group by c.section, c.position order by c.position, c.section",
    )
    .bind(show.as_str())
    .fetch_all(read)
    .await?;
    found.iter().map(rows::section_stock).collect()
}

/// Whether there is such a show, with seats or without.
pub(super) async fn is_there(read: &PgPool, show: &ShowId) -> Result<bool, StoreError> {
    Ok(
        sqlx::query_scalar("select exists (select 1 from shows where show = $1)")
            .bind(show.as_str())
            .fetch_one(read)
            .await?,
    )
}
