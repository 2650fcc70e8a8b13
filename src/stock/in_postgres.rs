//! Seats and stock in PostgreSQL.
//!
//! Seats are counted outside the transaction that writes the count down: a house of sixty thousand seats
//! must not keep a row locked meanwhile. `against` makes that safe.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;

use crate::base::ids::ShowId;
use crate::base::time::{Clock, Timestamp};
use crate::driver::postgres::Postgres;
use crate::event::SectionStock;
use crate::log::inbox_in_postgres::pass;
use crate::log::outbox_in_postgres::append;
use crate::stock::count::{Sale, Stock};
use crate::stock::in_sql;
use crate::stock::store::{Saved, Seats, Statement, Store, StoreError};

/// The seats of one database.
#[derive(Debug, Clone)]
pub struct InPostgres {
    db: Postgres,
    clock: Arc<dyn Clock>,
}

impl InPostgres {
    /// The seats of an open database.
    pub fn new(db: Postgres, clock: Arc<dyn Clock>) -> Self {
        Self { db, clock }
    }
}

#[async_trait]
impl Store for InPostgres {
    async fn shows(&self) -> Result<Vec<ShowId>, StoreError> {
        let ids: Vec<String> = sqlx::query_scalar(
            "select show from sections
             union select show from show_stock where 0 < free + held + sold order by show",
        )
        .fetch_all(&mut *self.db.connection().await?)
        .await?;
        in_sql::shows(&ids)
    }

    async fn count(&self, show: &ShowId) -> Result<Seats, StoreError> {
        // One snapshot for both: the count belongs to what was said before it.
        let mut tx = self.db.snapshot().await?;
        let sections = sections(&mut tx, show).await?;
        let sale = sale(&mut tx, show).await?;
        let before = said(&mut tx, show).await?;
        tx.rollback().await?;
        Ok(Seats {
            sections,
            sale,
            before,
        })
    }

    async fn save(
        &self,
        group: &str,
        statements: &[Statement],
        through: &[(u16, u64)],
    ) -> Result<Vec<Saved>, StoreError> {
        let given = (
            self.clock.now(),
            group.to_owned(),
            statements.to_vec(),
            through.to_vec(),
        );
        self.db
            .unit_with(
                given,
                |mut tx, (now, group, statements, through)| async move {
                    let mut answers = Vec::new();
                    for statement in &statements {
                        answers.push(say(&mut tx, statement).await?);
                    }
                    for at in through {
                        pass(&mut tx, &group, at, now).await?;
                    }
                    tx.commit().await?;
                    Ok(answers)
                },
            )
            .await
    }
}

async fn sections(
    conn: &mut PgConnection,
    show: &ShowId,
) -> Result<Vec<SectionStock>, sqlx::Error> {
    let rows = sqlx::query(
        "select c.section, count(*) filter (where s.state = 'free') as free,
                count(*) filter (where s.state = 'held') as held,
                count(*) filter (where s.state = 'sold') as sold
         from sections c left join seats s on s.show = c.show and s.section = c.section
         where c.show = $1 group by c.section, c.position order by c.position",
    )
    .bind(show.as_str())
    .fetch_all(conn)
    .await?;
    rows.iter().map(in_sql::section).collect()
}

async fn sale(conn: &mut PgConnection, show: &ShowId) -> Result<Sale, sqlx::Error> {
    let row = sqlx::query("select cancelled_at_ms from shows where show = $1")
        .bind(show.as_str())
        .fetch_optional(conn)
        .await?;
    row.as_ref().map_or(Ok(Sale::On), in_sql::sale)
}

async fn said(conn: &mut PgConnection, show: &ShowId) -> Result<Option<Stock>, sqlx::Error> {
    let row = sqlx::query("select * from show_stock where show = $1")
        .bind(show.as_str())
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(in_sql::stock).transpose()
}

async fn say(conn: &mut PgConnection, statement: &Statement) -> Result<Saved, sqlx::Error> {
    let stock = &statement.stock;
    let said = sqlx::query(
        "insert into show_stock as s (show, version, free, held, sold, as_of_ms, sold_out_at_ms,
                                      event_version)
         select $1, $2, $3, $4, $5, $6, $7, $8
         where $9 = 0 or exists (select 1 from show_stock where show = $1)
         on conflict (show) do update
         set version = excluded.version, free = excluded.free, held = excluded.held,
             sold = excluded.sold, as_of_ms = excluded.as_of_ms,
             sold_out_at_ms = excluded.sold_out_at_ms, event_version = excluded.event_version
         where s.version = $9",
    )
    .bind(statement.show.as_str())
    .bind(stock.version.cast_signed())
    .bind(stock.free.cast_signed())
    .bind(stock.held.cast_signed())
    .bind(stock.sold.cast_signed())
    .bind(statement.as_of.as_millis())
    .bind(stock.sold_out_at.map(Timestamp::as_millis))
    .bind(stock.event_version.cast_signed())
    .bind(statement.against.cast_signed())
    .execute(&mut *conn)
    .await?;
    if said.rows_affected() == 0 {
        return Ok(Saved::Overtaken);
    }
    for event in &statement.events {
        append(conn, event).await?;
    }
    Ok(Saved::Now)
}
