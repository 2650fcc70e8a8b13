//! Ways to hold seats and to order them: ours, as the statements stand in the tree, beside those that
//! one would write first. Each writes the same facts, its events included.

use sqlx::{Connection, PgConnection, Row};

use crate::bench::orders::shelf::Shelf;

const HELD: &str = include_str!("../../../../src/orders/in_postgres/sql/held.sql");
const HOLD_FACTS: &str = include_str!("../../../../src/orders/in_postgres/sql/hold_facts.sql");
const ORDER_FACTS: &str = include_str!("../../../../src/orders/in_postgres/sql/order_facts.sql");
const PLACED: &str = include_str!("../../../../src/orders/in_postgres/sql/placed.sql");

/// The W3C name of the request.
pub(super) const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// When everything happens.
pub(super) const NOW_MS: i64 = 1_800_000_000_000;
/// When holds end.
const END_MS: i64 = NOW_MS + 240_000;
/// Seats of the one section.
const SEATS: i64 = 60_000;
/// As long as a settings document and the payloads of events usually are.
const SETTINGS_BYTES: usize = 800;
pub(super) const PAYLOAD_BYTES: usize = 420;

/// A way to do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// A read and one statement that writes all.
    OrderOurs,
    /// A statement a row, between begin and commit.
    OrderByRow,
    /// Only order and event between begin and commit: no payment, and the hold stays as it is.
    OrderBare,
    /// Rows that nobody else was given.
    HoldOurs,
    /// A row that counts what is left.
    HoldCounter,
}

impl Way {
    /// All, each beside what it is compared with.
    pub(super) const ALL: [Self; 5] = [
        Self::OrderOurs,
        Self::OrderByRow,
        Self::OrderBare,
        Self::HoldOurs,
        Self::HoldCounter,
    ];

    /// What it does for one operation.
    pub(super) const fn does(self) -> &'static str {
        match self {
            Self::OrderOurs => "order, ours: 1 select; 1 statement: hold, order, payment, event",
            Self::OrderByRow => {
                "order, by row: the same select; begin; 4 statements, the same 4 rows; commit"
            }
            Self::OrderBare => "order, bare: begin; insert order; insert event; commit",
            Self::HoldOurs => {
                "hold of 2, ours: 1 statement: seats, hold, event; 1 select in 500 holds"
            }
            Self::HoldCounter => {
                "hold of 2, counter row: begin; update counter; insert hold; insert event; commit"
            }
        }
    }

    /// Makes the state in which `count` operations can be done.
    ///
    /// # Errors
    /// The database's.
    pub(super) async fn prepare(
        self,
        connection: &mut PgConnection,
        count: u32,
    ) -> anyhow::Result<()> {
        sqlx::raw_sql(
            "create table if not exists counters (section text primary key, free bigint not null);
             truncate shows, sections, seats, holds, orders, payments, outbox, counters;
             insert into counters values ('B', 60000);
             insert into sections values ('show', 'B', 0, true, 39000, 'BRL');
             insert into seats select 'show', 'B', i, 'B-' || i, 'free'
             from generate_series(1, 60000) i",
        )
        .execute(&mut *connection)
        .await?;
        sqlx::query(
            "insert into shows (show, version, settings, state, edition, generation, mended, ceiling,
               issued, serving, waiting, checkpoint_at_ms, created_at_ms)
             values ('show', 1, $1, 'open', 1, 1, 1, 0, 0, 0, 0, 0, 0)",
        )
        .bind(" ".repeat(SETTINGS_BYTES))
        .execute(&mut *connection)
        .await?;
        match self {
            Self::OrderOurs | Self::OrderByRow | Self::OrderBare => {
                sqlx::query(
                    "insert into holds select 'hold-' || i, 'show', 'fan', 'ticket-' || i,
                       '[\"B-12\",\"B-13\"]', 78000, 'BRL', 'live', $1, $2, 1, 1
                     from generate_series(0, $3 - 1) i",
                )
                .bind(END_MS)
                .bind(NOW_MS)
                .bind(i64::from(count))
                .execute(&mut *connection)
                .await?;
            }
            Self::HoldOurs | Self::HoldCounter => {}
        }
        // Not those that are empty yet: a new shop has no statistics that say so.
        let filled = match self {
            Self::OrderOurs | Self::OrderByRow | Self::OrderBare => "vacuum analyze shows, holds",
            Self::HoldOurs | Self::HoldCounter => "vacuum analyze shows, sections, seats",
        };
        sqlx::raw_sql(filled).execute(&mut *connection).await?;
        sqlx::raw_sql("checkpoint").execute(connection).await?;
        Ok(())
    }

    /// Does it once; `n` is another number each time.
    ///
    /// # Errors
    /// The database's, or where it was not done.
    pub(super) async fn run(
        self,
        connection: &mut PgConnection,
        n: u32,
        shelf: &Shelf,
    ) -> anyhow::Result<()> {
        match self {
            Self::OrderOurs => order_ours(connection, n).await,
            Self::OrderByRow => order_by_row(connection, n).await,
            Self::OrderBare => order_bare(connection, n).await,
            Self::HoldOurs => hold_ours(connection, n, shelf).await,
            Self::HoldCounter => hold_counter(connection, n).await,
        }
    }

    /// Whether `count` operations left what they should.
    ///
    /// # Errors
    /// Where they did not.
    pub(super) async fn check(
        self,
        connection: &mut PgConnection,
        count: u32,
    ) -> anyhow::Result<()> {
        let of = match self {
            Self::OrderOurs | Self::OrderByRow | Self::OrderBare => {
                "select count(*) from orders join outbox on aggregateid = order_id"
            }
            Self::HoldOurs | Self::HoldCounter => {
                "select count(*) from holds join outbox on aggregateid = hold_id"
            }
        };
        let done: i64 = sqlx::query_scalar(of).fetch_one(&mut *connection).await?;
        anyhow::ensure!(done == i64::from(count), "{done} of {count} were done");
        let held = match self {
            Self::HoldOurs => "select count(*) from seats where state = 'held'",
            Self::HoldCounter => "select 60000 - free from counters",
            Self::OrderOurs | Self::OrderByRow | Self::OrderBare => return Ok(()),
        };
        let held: i64 = sqlx::query_scalar(held).fetch_one(connection).await?;
        anyhow::ensure!(held == 2 * i64::from(count) && held <= SEATS, "{held} held");
        Ok(())
    }
}

fn payload() -> String {
    "x".repeat(PAYLOAD_BYTES)
}

async fn order_facts(connection: &mut PgConnection, n: u32) -> anyhow::Result<()> {
    sqlx::query(ORDER_FACTS)
        .bind("show")
        .bind(format!("hold-{n}"))
        .bind(format!("ticket-{n}"))
        .fetch_one(connection)
        .await?;
    Ok(())
}

async fn order_ours(connection: &mut PgConnection, n: u32) -> anyhow::Result<()> {
    order_facts(connection, n).await?;
    sqlx::query(PLACED)
        .bind(format!("hold-{n}"))
        .bind(1_i64)
        .bind(format!("order-{n}"))
        .bind("ana@example.com")
        .bind("pt-BR")
        .bind(NOW_MS)
        .bind(END_MS)
        .bind(1_i64)
        .bind(1_i64)
        .bind(None::<String>)
        .bind(format!("event-order-{n}"))
        .bind("OrderPlaced")
        .bind(payload())
        .bind(3_i64)
        .bind(TRACE)
        .fetch_one(connection)
        .await?;
    Ok(())
}

async fn insert_order(connection: &mut PgConnection, n: u32) -> anyhow::Result<()> {
    sqlx::query(
        "insert into orders (order_id, hold_id, show, fan, ticket_id, email, locale, seats,
           total_minor, currency, status, reason, placed_at_ms, payable_until_ms, updated_at_ms,
           version)
         values ($1, $2, 'show', 'fan', $3, 'ana@example.com', 'pt-BR', '[\"B-12\",\"B-13\"]', 78000,
           'BRL', 'pending', null, $4, $5, $4, 1)",
    )
    .bind(format!("order-{n}"))
    .bind(format!("hold-{n}"))
    .bind(format!("ticket-{n}"))
    .bind(NOW_MS)
    .bind(END_MS)
    .execute(connection)
    .await?;
    Ok(())
}

async fn insert_event(
    connection: &mut PgConnection,
    (aggregate, key, kind): (&str, &str, &str),
) -> anyhow::Result<()> {
    sqlx::query(
        "insert into outbox (id, aggregatetype, aggregateid, aggregate_version, type, payload,
           partition, traceparent, occurred_at_ms)
         values ($1, $2, $3, 1, $4, $5, 3,
           $7, $6)",
    )
    .bind(format!("event-{key}"))
    .bind(aggregate)
    .bind(key)
    .bind(kind)
    .bind(payload())
    .bind(NOW_MS)
    .bind(TRACE)
    .execute(connection)
    .await?;
    Ok(())
}

async fn order_by_row(connection: &mut PgConnection, n: u32) -> anyhow::Result<()> {
    order_facts(connection, n).await?;
    let mut tx = connection.begin().await?;
    sqlx::query(
        "update holds set state = 'ordered'
         where hold_id = $1 and state = 'live' and expires_at_ms > $2
         returning fan, ticket_id, seats, total_minor, currency, expires_at_ms",
    )
    .bind(format!("hold-{n}"))
    .bind(NOW_MS)
    .fetch_one(&mut *tx)
    .await?;
    insert_order(&mut tx, n).await?;
    sqlx::query(
        "insert into payments (order_id, attempt, state, at_ms) values ($1, 1, 'asked', $2)",
    )
    .bind(format!("order-{n}"))
    .bind(NOW_MS)
    .execute(&mut *tx)
    .await?;
    insert_event(&mut tx, ("order", &format!("order-{n}"), "OrderPlaced")).await?;
    Ok(tx.commit().await?)
}

async fn order_bare(connection: &mut PgConnection, n: u32) -> anyhow::Result<()> {
    let mut tx = connection.begin().await?;
    insert_order(&mut tx, n).await?;
    insert_event(&mut tx, ("order", &format!("order-{n}"), "OrderPlaced")).await?;
    Ok(tx.commit().await?)
}

/// The shop looks where it remembers no seats.
async fn hold_ours(connection: &mut PgConnection, n: u32, shelf: &Shelf) -> anyhow::Result<()> {
    let (ticket, hold) = (format!("ticket-{n}"), format!("hold-{n}"));
    let pair = loop {
        match shelf.give() {
            Some(pair) => break pair,
            None => look(connection, &ticket, shelf).await?,
        }
    };
    let seats = pair.map(|seat| format!("B-{seat}"));
    let row = sqlx::query(HELD)
        .bind(&hold)
        .bind("show")
        .bind("fan")
        .bind(ticket)
        .bind(&seats[..])
        .bind(serde_json::to_string(&seats)?)
        .bind(78_000_i64)
        .bind("BRL")
        .bind(END_MS)
        .bind(NOW_MS)
        .bind(1_i64)
        .bind(1_i64)
        .bind(1_i64)
        .bind("B")
        .bind(true)
        .bind(39_000_i64)
        .bind("BRL")
        .bind("section show B")
        .bind(format!("event-{hold}"))
        .bind("HoldPlaced")
        .bind(payload())
        .bind(3_i64)
        .bind(TRACE)
        .fetch_one(connection)
        .await?;
    anyhow::ensure!(row.try_get::<bool, _>("is_live")?, "seats were lost");
    Ok(())
}

/// Looks at the first free seats.
async fn look(connection: &mut PgConnection, ticket: &str, shelf: &Shelf) -> anyhow::Result<()> {
    let row = sqlx::query(HOLD_FACTS)
        .bind("show")
        .bind(ticket)
        .bind(NOW_MS)
        .bind("B")
        .bind(1_000_i64)
        .fetch_one(connection)
        .await?;
    shelf.saw(&row.try_get::<Vec<i64>, _>("free")?);
    Ok(())
}

async fn hold_counter(connection: &mut PgConnection, n: u32) -> anyhow::Result<()> {
    let mut tx = connection.begin().await?;
    sqlx::query("update counters set free = free - 2 where section = 'B' and 2 <= free")
        .execute(&mut *tx)
        .await?;
    sqlx::query(
        "insert into holds values ($1, 'show', 'fan', $2, '[]', 78000, 'BRL', 'live', $3, $4, 1, 1)",
    )
    .bind(format!("hold-{n}"))
    .bind(format!("ticket-{n}"))
    .bind(END_MS)
    .bind(NOW_MS)
    .execute(&mut *tx)
    .await?;
    insert_event(&mut tx, ("hold", &format!("hold-{n}"), "HoldPlaced")).await?;
    Ok(tx.commit().await?)
}
