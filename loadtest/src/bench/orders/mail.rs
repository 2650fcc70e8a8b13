//! Row 14: an order while its mail provider hangs, against one of a shop that sends no mail at all.
//!
//! Real processes on one PostgreSQL: `catraca orders` and `catraca relay` all the time, `catraca notify`
//! in every other turn. Its provider hangs as hard as one can: the process has sent mail, and is then
//! stopped by SIGSTOP, so that whatever it has open in the database stays open.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
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
use crate::bench::orders::server::Server;
use crate::bench::orders::{OrdersArgs, p99_ms};
use crate::bench::system::{Role, RoomServer};
use crate::bench::table::{Must, Row};

/// Orders a second at most: one after the other, so that a shop which takes longer is asked less often.
const PER_S: u32 = 100;
/// How long a turn lasts, however slow the shop: all of them end within minutes.
const TURN: Duration = Duration::from_secs(4);
/// Turns of each kind.
const TURNS: u64 = 10;
/// Longest wait for seats, and for a first mail.
const WAIT_MAX: Duration = Duration::from_secs(30);
const SECRET: &str = "between the bench and the shop, nobody else";
/// Seats for all turns, and some for orders that count for nothing.
const SETTINGS: &str = r#"{"name":"Show","rate":10,"starts_at":"2027-05-01T21:00:00-03:00",
  "sections":[{"name":"Floor","seats":20000,"price":{"amount":390.00,"currency":"BRL"}}]}"#;

/// The shop's processes.
struct Shop<'a> {
    settings: &'a OrdersArgs,
    room: RoomServer,
    folder: &'a Path,
    more: String,
    door: SocketAddr,
    sql: PgConnection,
}

/// # Errors
/// Where a process does not start, or an order was not taken.
pub(super) async fn row(server: &Server, settings: &OrdersArgs) -> anyhow::Result<Row> {
    let folder = std::env::temp_dir().join(format!("catraca-bench-mail-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let measured = measure(server, settings, &folder).await;
    std::fs::remove_dir_all(&folder)?;
    let (with, without) = measured?;
    let orders = (with.len(), without.len());
    let (with, without) = (p99_ms(with), p99_ms(without));
    Ok(Row {
        number: 14,
        what: "99 % of orders within, mail provider hung".to_owned(),
        ratio: with / without,
        ours: with,
        peer: without,
        unit: "ms",
        must: Must::AtMost(1.05),
        note: format!(
            "POST orders, at most {PER_S} a second, notify stopped in its work, against no notify; \
             {TURNS} turns of {} s each, {} orders against {}",
            TURN.as_secs(),
            orders.0,
            orders.1
        ),
    })
}

/// How long each order took, with and without.
async fn measure(
    server: &Server,
    settings: &OrdersArgs,
    folder: &Path,
) -> anyhow::Result<(Vec<Duration>, Vec<Duration>)> {
    let mut own = server.connect().await?;
    sqlx::raw_sql("create database shop")
        .execute(&mut own)
        .await?;
    let url = server.url("shop");
    let door = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
    let more = format!(
        "[database]\nurl = \"{url}\"\n[orders]\nlisten = \"{door}\"\n\
         [upstreams.orders]\ngate = \"ticket\"\ntrusted = true\nsecret = \"{SECRET}\"\n"
    );
    let room = RoomServer::start(&settings.server, folder)?;
    let start = |word: &str| Role::start(word, &settings.catraca, &room, folder, &more);
    let _orders = start("orders")?;
    let _relay = start("relay")?;
    let sql = PgConnection::connect(&url).await?;
    let mut shop = Shop {
        settings,
        room,
        folder,
        more,
        door,
        sql,
    };
    shop.open().await?;
    let (mut with, mut without, mut fan) = (Vec::new(), Vec::new(), 0);
    shop.sell(&mut fan).await?; // warm
    for _ in 0..TURNS {
        without.extend(shop.sell(&mut fan).await?);
        let hung = shop.hang().await?;
        with.extend(shop.sell(&mut fan).await?);
        drop(hung);
    }
    Ok((with, without))
}

impl Shop<'_> {
    /// Puts the show where an operator's goes, and waits until its seats are there.
    async fn open(&mut self) -> anyhow::Result<()> {
        sqlx::query(
            "insert into shows (show, version, settings, state, edition, generation, mended, ceiling,
               issued, serving, waiting, checkpoint_at_ms, created_at_ms)
             values ('show', 1, $1, 'open', 1, 1, 1, 0, 0, 0, 0, 0, 0)",
        )
        .bind(SETTINGS)
        .execute(&mut self.sql)
        .await?;
        self.until("select count(*) from seats", 20_000).await
    }

    /// Starts a notifier, waits until it has sent something, and stops it in its work.
    async fn hang(&mut self) -> anyhow::Result<Role> {
        let sent: i64 = self.count("select count(*) from notices").await?;
        let notify = Role::start(
            "notify",
            &self.settings.catraca,
            &self.room,
            self.folder,
            &self.more,
        )?;
        self.until("select count(*) from notices", sent + 1).await?;
        let stopped = Command::new("kill")
            .args(["-STOP", &notify.pid().to_string()])
            .status()?;
        ensure!(stopped.success(), "kill -STOP");
        Ok(notify)
    }

    async fn count(&mut self, query: &'static str) -> anyhow::Result<i64> {
        Ok(sqlx::query_scalar(query).fetch_one(&mut self.sql).await?)
    }

    async fn until(&mut self, query: &'static str, least: i64) -> anyhow::Result<()> {
        let end = Instant::now() + WAIT_MAX;
        while self.count(query).await? < least {
            ensure!(Instant::now() < end, "{query}: not {least} in time");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Sells a seat to each of those who come in one turn, and says how long each order took.
    async fn sell(&self, fan: &mut u64) -> anyhow::Result<Vec<Duration>> {
        let (mut took, mut http) = (Vec::new(), Http::open(self.door).await?);
        let mut due = tokio::time::interval(Duration::from_secs(1) / PER_S);
        let end = Instant::now() + TURN;
        while Instant::now() < end {
            *fan += 1;
            due.tick().await;
            let hold = post(*fan, "holds", r#"{"section":"Floor","quantity":1}"#)?;
            let (status, body) = http.ask(&hold).await?;
            let body: Value = serde_json::from_slice(body).unwrap_or_default();
            let hold = body["hold_id"].as_str();
            let hold = hold.with_context(|| format!("a hold: {status} {body}"))?;
            let order = format!(
                r#"{{"hold_id":"{hold}","customer":{{"email":"ana@example.com","locale":"pt-BR"}}}}"#
            );
            let order = post(*fan, "orders", &order)?;
            let asked = Instant::now();
            let (status, _) = http.ask(&order).await?;
            took.push(asked.elapsed());
            ensure!(status == 201, "an order: {status}");
        }
        Ok(took)
    }
}

/// A fan's request as the gateway forwards it: with who they are, and its word for it.
#[expect(
    clippy::disallowed_methods,
    reason = "the gateway's clock is the system's"
)]
fn post(fan: u64, what: &str, body: &str) -> anyhow::Result<Vec<u8>> {
    let (id, path) = (u128::from(fan), format!("/v1/shows/show/{what}"));
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
        b"show",
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
         content-length: {}\r\nx-catraca-show: show\r\nx-catraca-fan: {ticket}\r\n\
         x-catraca-ticket-id: {ticket}\r\nx-catraca-nonce: {a}-{b}-{c}-{d}-{e}\r\n\
         x-catraca-assertion: v1.{at}.{mac}\r\n\r\n{body}",
        body.len()
    );
    Ok(request.into_bytes())
}
