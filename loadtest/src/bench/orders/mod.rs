//! Holds and orders on PostgreSQL, beside what one would write first.

mod server;
mod ways;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use anyhow::Context;
use clap::Args;

use crate::bench::orders::server::Server;
use crate::bench::orders::ways::Way;

/// Words of `loadtest bench orders`.
#[derive(Debug, Args)]
pub struct OrdersArgs {
    /// The PostgreSQL to start: `postgres`, beside its `initdb`.
    #[arg(long, value_name = "FILE", default_value = "/usr/local/bin/postgres")]
    pub postgres: PathBuf,
    /// Operations a round, at most 30,000.
    #[arg(long, default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(1..=30_000))]
    pub count: u32,
    /// Clients at once, each with a connection.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub clients: u32,
    /// Rounds; each way has its turn in each.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
}

/// What one way came to in one round.
#[derive(Debug, Clone, Copy)]
struct Round {
    per_s: f64,
    server_cpu_us: f64,
    p99_ms: f64,
}

/// What all ways came to.
#[derive(Debug)]
pub(super) struct Table(Vec<(Way, Vec<Round>)>);

/// Runs `loadtest bench orders`.
///
/// # Errors
/// Where the server does not start, or what was done is not what should be there.
pub(super) async fn run(settings: &OrdersArgs) -> anyhow::Result<Table> {
    let server = Server::start(&settings.postgres).await?;
    let mut table: Vec<(Way, Vec<Round>)> = Way::ALL.map(|way| (way, Vec::new())).to_vec();
    for round in 0..settings.rounds {
        for (way, rounds) in &mut table {
            let measured = measure(&server, *way, settings).await;
            rounds.push(measured.with_context(|| format!("round {round}: {}", way.does()))?);
        }
    }
    Ok(Table(table))
}

async fn measure(server: &Server, way: Way, settings: &OrdersArgs) -> anyhow::Result<Round> {
    let mut own = server.connect().await?;
    way.prepare(&mut own, settings.count).await?;
    let mut connections = Vec::new();
    for _ in 0..settings.clients {
        connections.push(server.connect().await?);
    }
    let (next, count) = (Arc::new(AtomicU32::new(0)), settings.count);
    let cpu = server.cpu_s()?;
    let began = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for mut connection in connections {
        let next = Arc::clone(&next);
        clients.spawn(async move {
            let mut took: Vec<Duration> = Vec::new();
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if count <= n {
                    return Ok((took, connection));
                }
                let asked = Instant::now();
                way.run(&mut connection, n).await?;
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
    way.check(&mut own, count).await?;
    took.sort_unstable();
    let p99 = took.get(took.len() * 99 / 100).copied().unwrap_or_default();
    Ok(Round {
        per_s: f64::from(count) / elapsed.as_secs_f64(),
        server_cpu_us: cpu * 1e6 / f64::from(count),
        p99_ms: p99.as_secs_f64() * 1e3,
    })
}

impl Table {
    /// The median of a figure over the rounds of a way.
    fn median(&self, way: Way, figure: fn(&Round) -> f64) -> f64 {
        let rounds = self.0.iter().find(|(of, _)| *of == way);
        let mut values: Vec<f64> =
            rounds.map_or_else(Vec::new, |(_, rounds)| rounds.iter().map(figure).collect());
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    }

    fn ratio(&self, way: Way, to: Way) -> f64 {
        self.median(way, |round| round.per_s) / self.median(to, |round| round.per_s)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what is done | per s | server CPU µs | p99 ms |")?;
        writeln!(f, "|---|---:|---:|---:|")?;
        for (way, _) in &self.0 {
            let per_s = self.median(*way, |round| round.per_s);
            let cpu = self.median(*way, |round| round.server_cpu_us);
            let p99 = self.median(*way, |round| round.p99_ms);
            writeln!(f, "| {} | {per_s:.0} | {cpu:.0} | {p99:.1} |", way.does())?;
        }
        writeln!(f)?;
        for (what, way, to) in [
            (
                "order, ours against by row",
                Way::OrderOurs,
                Way::OrderByRow,
            ),
            ("order, ours against bare", Way::OrderOurs, Way::OrderBare),
            (
                "hold, ours against a counter row",
                Way::HoldOurs,
                Way::HoldCounter,
            ),
        ] {
            writeln!(f, "{what}: {:.2}×", self.ratio(way, to))?;
        }
        Ok(())
    }
}
