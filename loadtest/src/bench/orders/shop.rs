//! A shop of real processes, `catraca orders` and `catraca relay`, on a database of its own, and a client who
//! asks it as the gateway would.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use serde_json::Value;
use sha2::Sha256;
use sqlx::{Connection, PgConnection};
use tokio::time::Instant;

use crate::bench::http::Connection as Http;
use crate::bench::machine::free_port;
use crate::bench::orders::OrdersArgs;
use crate::bench::orders::server::Server;
use crate::bench::system::{Role, RoomServer};

/// Longest wait for something that has to happen by itself.
const WAIT_MAX: Duration = Duration::from_secs(30);
const SECRET: &str = "between the bench and the shop, nobody else";
/// Seats of each show.
const SEATS: i64 = 60_000;
const SETTINGS: &str = r#"{"name":"Show","rate":10,"starts_at":"2027-05-01T21:00:00-03:00",
  "sections":[{"name":"Floor","seats":60000,"price":{"amount":390.00,"currency":"BRL"}}]}"#;
const WISH: &str = r#"{"section":"Floor","quantity":1}"#;

/// A shop that runs until this value goes.
#[derive(Debug)]
pub(super) struct Shop {
    catraca: PathBuf,
    folder: PathBuf,
    more: String,
    pub(super) door: SocketAddr,
    sql: PgConnection,
    pub(super) relay: Role,
    _orders: Role,
    /// The last to go: roles that end say so in it.
    room: RoomServer,
}

impl Shop {
    /// Starts one whose database and folder have this name. `log` is added to its configuration.
    ///
    /// # Errors
    /// Where a process does not start.
    pub(super) async fn start(
        (server, settings): (&Server, &OrdersArgs),
        (folder, name): (&Path, &str),
        log: &str,
    ) -> anyhow::Result<Self> {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder)?;
        let create = sqlx::AssertSqlSafe(format!("create database {name}"));
        sqlx::raw_sql(create)
            .execute(&mut server.connect().await?)
            .await?;
        let (url, catraca) = (server.url(name), settings.catraca.clone());
        let door = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let more = format!(
            "[database]\nurl = \"{url}\"\n{log}[orders]\nlisten = \"{door}\"\n\
             [upstreams.orders]\ngate = \"ticket\"\ntrusted = true\nsecret = \"{SECRET}\"\n"
        );
        if !log.is_empty() {
            apply_topics(&catraca, &folder, &more)?;
        }
        let room = RoomServer::start(&settings.server, &folder)?;
        let start = |word: &str| Role::start(word, &catraca, &room, &folder, &more);
        let _orders = start("orders")?;
        let relay = start("relay")?;
        let sql = PgConnection::connect(&url).await?;
        Ok(Self {
            catraca,
            folder,
            more,
            door,
            sql,
            room,
            relay,
            _orders,
        })
    }

    /// Starts another role of it.
    ///
    /// # Errors
    /// Where it does not start.
    pub(super) fn start_role(&self, word: &str) -> anyhow::Result<Role> {
        Role::start(word, &self.catraca, &self.room, &self.folder, &self.more)
    }

    /// Puts a show where an operator's goes, and waits until its seats are there.
    ///
    /// # Errors
    /// The database's, or where they do not come.
    pub(super) async fn open(&mut self, show: &str) -> anyhow::Result<()> {
        sqlx::query(
            "insert into shows (show, version, settings, state, edition, generation, mended, ceiling,
               issued, serving, waiting, checkpoint_at_ms, created_at_ms)
             values ($1, 1, $2, 'open', 1, 1, 1, 0, 0, 0, 0, 0, 0)",
        )
        .bind(show)
        .bind(SETTINGS)
        .execute(&mut self.sql)
        .await?;
        let seats = self.count("select count(*) from seats").await?;
        self.until("select count(*) from seats", seats + SEATS)
            .await
    }

    /// A number from the database.
    ///
    /// # Errors
    /// The database's.
    pub(super) async fn count(&mut self, query: &'static str) -> anyhow::Result<i64> {
        Ok(sqlx::query_scalar(query).fetch_one(&mut self.sql).await?)
    }

    /// Waits until a number in the database is so large.
    ///
    /// # Errors
    /// The database's, or where it does not become so in time.
    pub(super) async fn until(&mut self, query: &'static str, least: i64) -> anyhow::Result<()> {
        let end = Instant::now() + WAIT_MAX;
        while self.count(query).await? < least {
            ensure!(Instant::now() < end, "{query}: not {least} in time");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

fn apply_topics(catraca: &Path, folder: &Path, more: &str) -> anyhow::Result<()> {
    let config = folder.join("verb.toml");
    std::fs::write(&config, more)?;
    let done = Command::new(catraca)
        .args(["topics", "apply", "--config"])
        .arg(&config)
        .output()
        .with_context(|| format!("starting {}", catraca.display()))?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "catraca topics apply: {said}");
    Ok(())
}

/// Sets a seat aside for a fan who has none yet; its hold, and how long that took.
///
/// # Errors
/// Where the shop does not.
pub(super) async fn hold(
    http: &mut Http,
    show: &str,
    fan: u64,
) -> anyhow::Result<(String, Duration)> {
    let request = post((show, fan), "holds", WISH)?;
    let asked = Instant::now();
    let (status, body) = http.ask(&request).await?;
    let took = asked.elapsed();
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let hold = body["hold_id"].as_str();
    let hold = hold.with_context(|| format!("a hold: {status} {body}"))?;
    Ok((hold.to_owned(), took))
}

/// Orders what a fan holds; how long that took.
///
/// # Errors
/// Where the shop does not take it.
pub(super) async fn order(
    http: &mut Http,
    (show, fan): (&str, u64),
    hold: &str,
) -> anyhow::Result<Duration> {
    let order = format!(
        r#"{{"hold_id":"{hold}","customer":{{"email":"ana@example.com","locale":"pt-BR"}}}}"#
    );
    let order = post((show, fan), "orders", &order)?;
    let asked = Instant::now();
    let (status, _) = http.ask(&order).await?;
    let took = asked.elapsed();
    ensure!(status == 201, "an order: {status}");
    Ok(took)
}

/// A fan's request as the gateway forwards it: with who they are, and its word for it.
#[expect(
    clippy::disallowed_methods,
    reason = "the gateway's clock is the system's"
)]
fn post((show, fan): (&str, u64), what: &str, body: &str) -> anyhow::Result<Vec<u8>> {
    let (id, path) = (u128::from(fan), format!("/v1/shows/{show}/{what}"));
    let nonce = id << 8 | u128::from(what == "orders");
    let hex = format!("{nonce:032x}");
    let (a, b, c, d, e) = (
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    );
    let at = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
    let ticket = format!("{id:032x}");
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes())?;
    for part in [
        &id.to_be_bytes()[..],
        show.as_bytes(),
        ticket.as_bytes(),
        &nonce.to_be_bytes(),
        b"POST",
        path.as_bytes(),
        &at.to_be_bytes(),
    ] {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    let mac = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: shop\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nx-catraca-show: {show}\r\nx-catraca-fan: {ticket}\r\n\
         x-catraca-ticket-id: {ticket}\r\nx-catraca-nonce: {a}-{b}-{c}-{d}-{e}\r\n\
         x-catraca-assertion: v1.{at}.{mac}\r\n\r\n{body}",
        body.len()
    );
    Ok(request.into_bytes())
}
