//! Row 14: an order while the mail provider hangs and the broker is dead, against one of a shop that neither
//! relays events nor sends mail, so that it has the machine for itself.
//!
//! Two shops of real processes on one PostgreSQL take turns. The one that suffers has its log in Kafka, and
//! sends a first mail. Then its notifier is stopped by SIGSTOP, as hard as a provider can hang: whatever it
//! has open in the database stays open. And its broker is killed: its relay goes on knocking, and its
//! outbox grows.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use tokio::time::Instant;

use crate::bench::http::Connection as Http;
use crate::bench::orders::broker::Broker;
use crate::bench::orders::server::Server;
use crate::bench::orders::shop::{Shop, hold, order};
use crate::bench::orders::{OrdersArgs, p99_ms};
use crate::bench::system::Role;
use crate::bench::table::{Must, Row};

/// Orders a second at most: one after the other, so that a shop which takes longer is asked less often.
const PER_S: u32 = 100;
/// How long a turn lasts, however slow the shop: all of them end within minutes. Short, so that what else
/// happens on the machine falls on both.
const TURN: Duration = Duration::from_secs(2);
/// Turns of each kind in a round. One order in a hundred decides, and there must be enough of those.
const TURNS: u32 = 12;
/// How long what was on its way when broker and notifier went may take to arrive.
const SETTLES: Duration = Duration::from_secs(4);
const SHOW: &str = "show";
const MAILS: &str = "select count(*) from notices";
const RELAYED: &str = "select count(*) from outbox_log";

/// # Errors
/// Where a process does not start, an order was not taken, or what should be away was not.
pub(super) async fn row(
    server: &Server,
    settings: &OrdersArgs,
    folder: &Path,
) -> anyhow::Result<Row> {
    let (with, without) = measure(server, settings, folder).await?;
    let orders = (with.len(), without.len());
    let (with, without) = (p99_ms(with), p99_ms(without));
    let (what, away) = match &settings.kafka {
        Some(_) => (
            "99 % of orders within, mail provider hung and broker dead",
            "notify stopped in its work and Kafka killed",
        ),
        None => (
            "99 % of orders within, mail provider hung",
            "notify stopped in its work; no --kafka to kill",
        ),
    };
    Ok(Row {
        number: 14,
        what: what.to_owned(),
        ratio: with / without,
        ours: with,
        peer: without,
        unit: "ms",
        must: Must::AtMost(1.05),
        note: format!(
            "POST orders, at most {PER_S} a second, {away}, against no notify and no relay; \
             {} turns of {} s each, {} orders against {}",
            TURNS * settings.rounds,
            TURN.as_secs(),
            orders.0,
            orders.1
        ),
    })
}

/// A shop whose mail provider hangs, and whose broker is dead.
struct Suffering {
    shop: Shop,
    notify: Role,
    /// What had come through by then.
    mails: i64,
    relayed: i64,
    /// Whether there was a broker to kill.
    is_cut_off: bool,
}

/// How long each order took, with and without.
async fn measure(
    server: &Server,
    settings: &OrdersArgs,
    folder: &Path,
) -> anyhow::Result<(Vec<Duration>, Vec<Duration>)> {
    let mut well = Shop::start((server, settings), (folder, "well"), "").await?;
    well.open(SHOW).await?;
    well.relay.stand_still()?; // what it did would be in the way of those it is compared with
    let mut fan = 0;
    let mut suffering = Suffering::begin(server, settings, folder, &mut fan).await?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    sell(&well, &mut fan).await?; // warm
    for _ in 0..TURNS * settings.rounds {
        // The one whose turn it is not leaves the machine to the other.
        suffering.shop.relay.stand_still()?;
        without.extend(sell(&well, &mut fan).await?);
        suffering.shop.relay.go_on()?;
        with.extend(sell(&suffering.shop, &mut fan).await?);
    }
    suffering.end().await?;
    Ok((with, without))
}

impl Suffering {
    async fn begin(
        server: &Server,
        settings: &OrdersArgs,
        folder: &Path,
        fan: &mut u64,
    ) -> anyhow::Result<Self> {
        let broker = match &settings.kafka {
            Some(jars) => Some(Broker::start(jars, folder)?),
            None => None,
        };
        let log = broker.as_ref().map_or(String::new(), |broker| {
            format!("[log]\nurl = \"{}\"\n", broker.url())
        });
        let mut shop = Shop::start((server, settings), (folder, "suffering"), &log).await?;
        shop.open(SHOW).await?;
        let notify = shop.start_role("notify")?;
        sell(&shop, fan).await?;
        shop.until(MAILS, 1).await?;
        notify.stand_still()?;
        let is_cut_off = broker.is_some();
        if let Some(broker) = broker {
            broker.kill()?;
        }
        tokio::time::sleep(SETTLES).await;
        Ok(Self {
            is_cut_off,
            mails: shop.count(MAILS).await?,
            relayed: shop.count(RELAYED).await?,
            shop,
            notify,
        })
    }

    /// Nothing may have been sent by anybody since, or the row says less than it seems to.
    async fn end(&mut self) -> anyhow::Result<()> {
        ensure!(self.shop.relay.runs(), "the relay ended without its broker");
        ensure!(self.notify.runs(), "the notifier ended");
        let mails = self.shop.count(MAILS).await?;
        ensure!(mails == self.mails, "mail was sent: {mails}");
        let relayed = self.shop.count(RELAYED).await?;
        ensure!(
            !self.is_cut_off || relayed == self.relayed,
            "events were relayed: {relayed}"
        );
        Ok(())
    }
}

/// Sells a seat to each of those who come in one turn, and says how long each order took.
async fn sell(shop: &Shop, fan: &mut u64) -> anyhow::Result<Vec<Duration>> {
    let (mut took, mut http) = (Vec::new(), Http::open(shop.door).await?);
    let mut due = tokio::time::interval(Duration::from_secs(1) / PER_S);
    let end = Instant::now() + TURN;
    while Instant::now() < end {
        *fan += 1;
        due.tick().await;
        let (hold, _) = hold(&mut http, SHOW, *fan).await?;
        took.push(order(&mut http, (SHOW, *fan), &hold).await?);
    }
    Ok(took)
}
