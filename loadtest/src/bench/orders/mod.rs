//! Holds and orders on PostgreSQL, beside what one would write first; the relay behind them; buyers of one
//! show while another is hot; and orders while nobody's mail goes out.

mod broker;
mod hot;
mod outage;
mod relay;
mod server;
mod shelf;
mod shop;
mod ways;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use anyhow::Context;
use clap::Args;

use crate::bench::machine::median;
use crate::bench::orders::server::Server;
use crate::bench::orders::shelf::Shelf;
use crate::bench::orders::ways::Way;
use crate::bench::table::{Must, Row, Table, machine_of};

/// Operations of each client before those that count: connections that a shop has are not new.
const WARM: u32 = 40;

/// Words of `loadtest bench orders`.
#[derive(Debug, Args)]
pub struct OrdersArgs {
    /// The PostgreSQL to start: `postgres`, beside its `initdb`.
    #[arg(long, value_name = "FILE", default_value = "/usr/local/bin/postgres")]
    pub postgres: PathBuf,
    /// The program `catraca`, a release build.
    #[arg(long, value_name = "FILE", default_value = "target/release/catraca")]
    pub catraca: PathBuf,
    /// The room's server: redis-server or valkey-server.
    #[arg(long, value_name = "FILE", default_value = "redis-server")]
    pub server: PathBuf,
    /// Operations a round, at most 25,000.
    #[arg(long, default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(1..=25_000))]
    pub count: u32,
    /// Clients at once, each with a connection.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub clients: u32,
    /// Rounds; each way has its turn in each.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// A folder with Kafka's jars, for row 13.
    #[arg(long, value_name = "FOLDER")]
    pub kafka: Option<PathBuf>,
    /// Statements only: without rows 13 and 14 and the hot show.
    #[arg(long)]
    pub statements_only: bool,
    /// Where the table goes as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What one way came to in one round.
#[derive(Debug, Clone, Copy)]
struct Round {
    per_s: f64,
    server_cpu_us: f64,
    p99_ms: f64,
}

/// What all ways came to, round by round.
#[derive(Debug)]
struct Rounds(Vec<(Way, Vec<Round>)>);

/// Runs `loadtest bench orders` and says the table.
///
/// # Errors
/// Where the server does not start, or what was done is not what should be there.
pub(super) async fn run(settings: &OrdersArgs) -> anyhow::Result<String> {
    let server = Server::start(&settings.postgres).await?;
    let mut rounds = Rounds(Way::ALL.map(|way| (way, Vec::new())).to_vec());
    for round in 0..settings.rounds {
        for (way, of_way) in &mut rounds.0 {
            let measured = measure(&server, *way, settings).await;
            of_way.push(measured.with_context(|| format!("round {round}: {}", way.does()))?);
        }
    }
    let mut rows = rounds.rows();
    if !settings.statements_only {
        let orders_per_s = median(rounds.of(Way::OrderOurs, |round| round.per_s));
        let folder =
            std::env::temp_dir().join(format!("catraca-bench-shop-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let of_shops = of_shops((&server, settings), &folder, orders_per_s).await;
        std::fs::remove_dir_all(&folder)?;
        rows.extend(of_shops?);
    }
    let table = Table {
        server: server.version().await?,
        machine: machine_of(),
        rows,
    };
    if let Some(path) = &settings.json {
        std::fs::write(path, serde_json::to_string_pretty(&table)?)?;
    }
    Ok(table.render())
}

/// The rows for which processes of ours run, with all that they keep in a folder.
async fn of_shops(
    (server, settings): (&Server, &OrdersArgs),
    folder: &Path,
    orders_per_s: f64,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = vec![hot::row(server, settings, folder).await?];
    rows.extend(relay::rows(server, settings, folder, orders_per_s).await?);
    rows.push(outage::row(server, settings, folder).await?);
    Ok(rows)
}

async fn measure(server: &Server, way: Way, settings: &OrdersArgs) -> anyhow::Result<Round> {
    let (mut own, count) = (server.connect().await?, settings.count);
    let all = count + settings.clients * WARM;
    way.prepare(&mut own, all).await?;
    let shelf = Arc::new(Shelf::default());
    let mut connections = Vec::new();
    for client in 0..settings.clients {
        let mut connection = server.connect().await?;
        for n in 0..WARM {
            let n = count + client * WARM + n;
            way.run(&mut connection, n, &shelf).await?;
        }
        connections.push(connection);
    }
    let next = Arc::new(AtomicU32::new(0));
    let cpu = server.cpu_s()?;
    let began = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for mut connection in connections {
        let (next, shelf) = (Arc::clone(&next), Arc::clone(&shelf));
        clients.spawn(async move {
            let mut took: Vec<Duration> = Vec::new();
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if count <= n {
                    return Ok((took, connection));
                }
                let asked = Instant::now();
                way.run(&mut connection, n, &shelf).await?;
                took.push(asked.elapsed());
            }
        });
    }
    let done: Vec<anyhow::Result<_>> = clients.join_all().await;
    let elapsed = began.elapsed();
    let mut took = Vec::new();
    // Kept until the CPU is read: what a process that has ended used is not counted.
    let mut kept = Vec::new();
    for client in done {
        let (of_client, connection) = client?;
        took.extend(of_client);
        kept.push(connection);
    }
    let cpu = server.cpu_s()? - cpu;
    way.check(&mut own, all).await?;
    Ok(Round {
        per_s: f64::from(count) / elapsed.as_secs_f64(),
        server_cpu_us: cpu * 1e6 / f64::from(count),
        p99_ms: p99_ms(took),
    })
}

fn p99_ms(mut took: Vec<Duration>) -> f64 {
    took.sort_unstable();
    let p99 = took.get(took.len() * 99 / 100).copied().unwrap_or_default();
    p99.as_secs_f64() * 1e3
}

impl Rounds {
    fn of(&self, way: Way, figure: fn(&Round) -> f64) -> Vec<f64> {
        let rounds = self.0.iter().find(|(of, _)| *of == way);
        rounds.map_or_else(Vec::new, |(_, rounds)| rounds.iter().map(figure).collect())
    }

    /// A line for each figure: the middle of the rounds, and the middle of their ratios, for what is
    /// compared was done one right after the other.
    fn rows(&self) -> Vec<Row> {
        let row = |what: &str, (way, to): (Way, Way), unit, must| {
            let figure: fn(&Round) -> f64 = match unit {
                PER_S => |round| round.per_s,
                CPU => |round| round.server_cpu_us,
                _ => |round| round.p99_ms,
            };
            let (ours, peer) = (self.of(way, figure), self.of(to, figure));
            // More a second is better, less of the rest.
            let better = |(ours, peer): (&f64, &f64)| match unit {
                PER_S => ours / peer,
                _ => peer / ours,
            };
            Row {
                number: 0,
                what: what.to_owned(),
                ratio: median(ours.iter().zip(&peer).map(better).collect()),
                ours: median(ours),
                peer: median(peer),
                unit,
                must,
                note: format!("{}, against {}", way.does(), to.does()),
            }
        };
        let (order, hold) = (
            (Way::OrderOurs, Way::OrderByRow),
            (Way::HoldOurs, Way::HoldCounter),
        );
        vec![
            row("orders", order, PER_S, Must::AtLeast(1.6)),
            row("server CPU of an order", order, CPU, Must::Nothing),
            row("99 % of orders within", order, P99, Must::Nothing),
            row(
                "orders, the bare transaction",
                (Way::OrderOurs, Way::OrderBare),
                PER_S,
                Must::Nothing,
            ),
            row("holds of 2", hold, PER_S, Must::AtLeast(2.5)),
            row("server CPU of a hold", hold, CPU, Must::Nothing),
            row("99 % of holds within", hold, P99, Must::Nothing),
        ]
    }
}

const PER_S: &str = "a second";
const CPU: &str = "µs";
const P99: &str = "ms";
