//! Row 13: how many events a second a relay puts into the log, beside how many orders a second are
//! written. Each is measured alone: the relay finds an outbox that was filled before it began.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use sqlx::{Connection, PgConnection};
use tokio::time::{Duration, Instant, sleep};

use crate::bench::machine::{CLIENT_CORE, median};
use crate::bench::orders::OrdersArgs;
use crate::bench::orders::broker::Broker;
use crate::bench::orders::server::{Server, pin};
use crate::bench::orders::ways::{NOW_MS, PAYLOAD_BYTES, TRACE};
use crate::bench::system::{Role, RoomServer};
use crate::bench::table::{Must, Row};

/// Events for each order of a round: enough that a relay works for some seconds.
const EVENTS_AN_ORDER: u32 = 15;
/// How long it may take.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// What the relay works with.
struct Relaying<'a> {
    server: &'a Server,
    settings: &'a OrdersArgs,
    room: RoomServer,
    folder: &'a Path,
}

/// # Errors
/// Where a process does not start, or not everything came into the log.
pub(super) async fn rows(
    server: &Server,
    settings: &OrdersArgs,
    folder: &Path,
    orders_per_s: f64,
) -> anyhow::Result<Vec<Row>> {
    let folder = folder.join("relay");
    std::fs::create_dir(&folder)?;
    let relaying = Relaying {
        server,
        settings,
        room: RoomServer::start(&settings.server, &folder)?,
        folder: &folder,
    };
    relaying.rows(orders_per_s).await
}

impl Relaying<'_> {
    async fn rows(&self, orders_per_s: f64) -> anyhow::Result<Vec<Row>> {
        let broker = match &self.settings.kafka {
            None => None,
            Some(jars) => Some(Broker::start(jars, self.folder)?),
        };
        let (mut into_sql, mut into_kafka) = (Vec::new(), Vec::new());
        for round in 0..self.settings.rounds {
            into_sql.push(self.measure(&format!("sql_{round}"), None).await?);
            if let Some(broker) = &broker {
                into_kafka.push(
                    self.measure(&format!("kafka_{round}"), Some(broker))
                        .await?,
                );
            }
        }
        let row = |into: &str, rates: Vec<f64>, least: f64| {
            let per_s = median(rates);
            Row {
                number: 13,
                what: format!("events relayed into {into}, against orders"),
                ratio: per_s / orders_per_s,
                ours: per_s,
                peer: orders_per_s,
                unit: "a second",
                must: Must::AtLeast(least),
                note: format!(
                    "one relay, {} events of 2 versions a key, written before it began, against the \
                     statements of an order",
                    self.events()
                ),
            }
        };
        let missing = anyhow::anyhow!("no --kafka, a folder with Kafka's jars");
        Ok(vec![
            row("SQL", into_sql, 5.0),
            match into_kafka.is_empty() {
                true => row("Kafka", into_kafka, 1.5).without_peer(&missing),
                false => row("Kafka, acks=all", into_kafka, 1.5),
            },
        ])
    }

    fn events(&self) -> u32 {
        self.settings.count * EVENTS_AN_ORDER
    }

    /// Events a second, from the end of the relay's first batch to the end of its last.
    async fn measure(&self, name: &str, broker: Option<&Broker>) -> anyhow::Result<f64> {
        let mut own = self.server.connect().await?;
        let create = sqlx::AssertSqlSafe(format!("create database {name}"));
        sqlx::raw_sql(create).execute(&mut own).await?;
        let url = self.server.url(name);
        let log = broker.map_or(String::new(), |broker| {
            format!("[log]\nurl = \"{}\"\ntopic = \"{name}\"\n", broker.url())
        });
        let more = format!("[database]\nurl = \"{url}\"\n{log}");
        self.verb(&["migrate"], &more)?;
        if broker.is_some() {
            self.verb(&["topics", "apply"], &more)?;
        }
        let mut sql = PgConnection::connect(&url).await?;
        self.fill(&mut sql).await?;
        let relay = Role::start(
            "relay",
            &self.settings.catraca,
            &self.room,
            self.folder,
            &more,
        )?;
        pin(CLIENT_CORE, relay.pid());
        let end = Instant::now() + WAIT_MAX;
        let marked = "select count(*) from outbox_log";
        while sqlx::query_scalar::<_, i64>(marked)
            .fetch_one(&mut sql)
            .await?
            < i64::from(self.events())
        {
            ensure!(
                Instant::now() < end,
                "not everything came into the log in time"
            );
            sleep(Duration::from_millis(250)).await;
        }
        drop(relay);
        let (rows, ms): (i64, i64) = sqlx::query_as(
            "with ends as (select min(logged_at_ms) as first, max(logged_at_ms) as last from outbox_log)
             select count(*), max(last) - max(first) from outbox_log, ends where first < logged_at_ms",
        )
        .fetch_one(&mut sql)
        .await?;
        ensure!(0 < ms, "all of it was one batch: more --count");
        let (rows, ms) = (u32::try_from(rows)?, u32::try_from(ms)?);
        Ok(f64::from(rows) * 1e3 / f64::from(ms))
    }

    fn verb(&self, words: &[&str], more: &str) -> anyhow::Result<()> {
        let config = self.folder.join("verb.toml");
        std::fs::write(&config, more)?;
        let done = Command::new(&self.settings.catraca)
            .args(words)
            .arg("--config")
            .arg(&config)
            .output()
            .with_context(|| format!("starting {}", self.settings.catraca.display()))?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "catraca {}: {said}", words.join(" "));
        Ok(())
    }

    /// Two events a key, as an order has, spread over the partitions.
    async fn fill(&self, sql: &mut PgConnection) -> anyhow::Result<()> {
        sqlx::query(
            "insert into outbox (id, aggregatetype, aggregateid, aggregate_version, type, payload,
               partition, traceparent, occurred_at_ms)
             select 'event-' || i, 'order', 'order-' || i / 2, 1 + i % 2, 'OrderPlaced', $2,
               (i / 2) % 6, $3, $4
             from generate_series(0, $1 - 1) i",
        )
        .bind(i64::from(self.events()))
        .bind(format!(
            "{{\"order\":\"{}\"}}",
            "x".repeat(PAYLOAD_BYTES - 12)
        ))
        .bind(TRACE)
        .bind(NOW_MS)
        .execute(&mut *sql)
        .await?;
        sqlx::raw_sql("vacuum analyze outbox")
            .execute(&mut *sql)
            .await?;
        sqlx::raw_sql("checkpoint").execute(sql).await?;
        Ok(())
    }
}
