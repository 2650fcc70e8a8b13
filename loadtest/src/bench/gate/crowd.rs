//! The crowd: so many keep-alive connections, each of which asks again as soon as it is answered.
//!
//! It never sleeps. To wake it would be the door's work, and much of it where cores are virtual; a door
//! that keeps the crowd busy would be spared that, and one that does not would pay for being slow twice.
//! Clients on other machines are woken there.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::ensure;
use tokio::runtime::Runtime;
use tokio::task::{JoinSet, yield_now};

use crate::bench::http::Connection;
use crate::bench::machine::{cpu, median};

/// Connections of the crowd: fewer than a gateway allows at once to an upstream that it does not know
/// yet, so that nobody is told to come again.
pub(super) const CONNECTIONS: usize = 192;
/// Turns of each side.
pub(super) const TURNS: usize = 3;

/// What is asked for the nth time, appended to what is sent.
pub(super) type Write = Arc<dyn Fn(usize, &mut Vec<u8>) + Send + Sync>;

/// Requests of so many fans, over and over.
pub(super) fn over_and_over(requests: &Arc<Vec<Vec<u8>>>) -> Write {
    let requests = Arc::clone(requests);
    Arc::new(move |n, out| out.extend_from_slice(&requests[n % requests.len()]))
}

/// One way to serve the crowd.
pub(super) struct Side {
    pub(super) door: SocketAddr,
    /// The door's process first, then what works for it.
    pub(super) pids: Vec<u32>,
    /// What every answer must be.
    pub(super) status: u16,
    pub(super) write: Write,
}

impl Side {
    /// Microseconds of CPU for one operation, of each process.
    pub(super) fn turn(&self, runtime: &Runtime, operations: usize) -> anyhow::Result<Vec<f64>> {
        let before = self.cpu()?;
        runtime.block_on(self.ask(operations))?;
        let spent = self.cpu()?.into_iter().zip(before);
        Ok(spent
            .map(|(after, before)| micros(after.saturating_sub(before), operations))
            .collect())
    }

    fn cpu(&self) -> anyhow::Result<Vec<Duration>> {
        self.pids.iter().map(|pid| cpu(*pid)).collect()
    }

    async fn ask(&self, operations: usize) -> anyhow::Result<()> {
        let next = Arc::new(AtomicUsize::new(0));
        let mut awake = JoinSet::new();
        awake.spawn(async {
            loop {
                yield_now().await;
            }
        });
        let mut tasks = JoinSet::new();
        for _ in 0..CONNECTIONS.min(operations) {
            let (next, write) = (Arc::clone(&next), Arc::clone(&self.write));
            let (door, expected) = (self.door, self.status);
            tasks.spawn(async move {
                let mut connection = Connection::open(door).await?;
                let mut request = Vec::with_capacity(1_024);
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if operations <= n {
                        return anyhow::Ok(());
                    }
                    request.clear();
                    write(n, &mut request);
                    let (status, body) = connection.ask(&request).await?;
                    let body = || String::from_utf8_lossy(body);
                    ensure!(status == expected, "answered {status}: {}", body());
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok(())
    }
}

/// The middle turn of each process of each side. The sides take turns.
pub(super) fn medians(
    runtime: &Runtime,
    sides: &[Side],
    operations: usize,
) -> anyhow::Result<Vec<Vec<f64>>> {
    for side in sides {
        side.turn(runtime, operations / 20)?; // warm
    }
    let mut turns = vec![Vec::new(); sides.len()];
    for _ in 0..TURNS {
        for (side, turns) in sides.iter().zip(&mut turns) {
            turns.push(side.turn(runtime, operations)?);
        }
    }
    Ok(turns.iter().map(|turns| middles(turns)).collect())
}

/// The middle of each process's turns.
pub(super) fn middles(turns: &[Vec<f64>]) -> Vec<f64> {
    let processes = turns.first().map_or(0, Vec::len);
    (0..processes)
        .map(|process| median(turns.iter().map(|turn| turn[process]).collect()))
        .collect()
}

/// What all processes of a side need together.
pub(super) fn sum(parts: &[f64]) -> f64 {
    parts.iter().sum()
}

/// What they need one by one: the door, and Redis behind it.
pub(super) fn apart(parts: &[f64]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| format!("{part:.1}")).collect();
    parts.join(" and ")
}

#[expect(clippy::cast_precision_loss, reason = "a count of operations")]
fn micros(spent: Duration, count: usize) -> f64 {
    spent.as_secs_f64() * 1e6 / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_each_process_counts() {
        let turns = [vec![3.0, 30.0], vec![1.0, 10.0], vec![2.0, 99.0]];
        assert_eq!(middles(&turns), [2.0, 30.0]);
    }
}
