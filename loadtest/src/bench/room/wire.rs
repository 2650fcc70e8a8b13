//! Fans at the gateway's door: they join, and poll at the times they intend, not when the last answer
//! came.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::bench::http::{Connection, fresh_address};

/// Keep-alive connections that all fans share.
const CONNECTIONS: usize = 64;

/// What a run of polls came to.
#[derive(Debug)]
pub(super) struct Polled {
    /// Answered with 200.
    pub(super) answered: u64,
    /// Microseconds from the intended time to the whole answer.
    pub(super) latency: Histogram<u64>,
}

/// So many fans join a show; what each of them says to poll.
pub(super) async fn join(
    door: SocketAddr,
    show: &str,
    fans: usize,
) -> anyhow::Result<Arc<Vec<Vec<u8>>>> {
    let mut tasks = JoinSet::new();
    for first in 0..CONNECTIONS {
        let show = show.to_owned();
        tasks.spawn(async move {
            let mut connection = Connection::open(door).await?;
            let mut polls = Vec::new();
            for _ in (first..fans).step_by(CONNECTIONS) {
                let from = fresh_address();
                let request = format!(
                    "POST /v1/shows/{show}/join HTTP/1.1\r\nhost: bench\r\nx-forwarded-for: {from}\r\n\
                     content-length: 0\r\n\r\n"
                );
                let (status, body) = connection.ask(request.as_bytes()).await?;
                ensure!(status == 201, "a join is answered {status}");
                let body: serde_json::Value = serde_json::from_slice(body)?;
                let pass = body["pass"].as_str().context("a join without a pass")?;
                polls.push(
                    format!(
                        "GET /v1/shows/{show}/status HTTP/1.1\r\nhost: bench\r\n\
                         x-forwarded-for: {from}\r\nx-catraca-pass: {pass}\r\n\r\n"
                    )
                    .into_bytes(),
                );
            }
            anyhow::Ok(polls)
        });
    }
    let mut all = Vec::new();
    while let Some(polls) = tasks.join_next().await {
        all.extend(polls??);
    }
    Ok(Arc::new(all))
}

/// Polls at so many a second for so long, each fan in turn.
pub(super) async fn poll(
    door: SocketAddr,
    fans: &Arc<Vec<Vec<u8>>>,
    per_s: u32,
    seconds: u32,
) -> anyhow::Result<Polled> {
    let polls = u64::from(per_s) * u64::from(seconds);
    let start = Instant::now() + Duration::from_millis(50);
    let mut tasks = JoinSet::new();
    for first in 0..CONNECTIONS as u64 {
        let fans = Arc::clone(fans);
        tasks.spawn(async move {
            let mut connection = Connection::open(door).await?;
            let mut latency = Histogram::new(3)?;
            for n in (first..polls).step_by(CONNECTIONS) {
                let intended = start + Duration::from_nanos(n * 1_000_000_000 / u64::from(per_s));
                sleep_until(intended).await;
                let fan = usize::try_from(n)? % fans.len();
                let (status, _) = connection.ask(&fans[fan]).await?;
                ensure!(status == 200, "a poll is answered {status}");
                latency.saturating_record(u64::try_from(intended.elapsed().as_micros())?);
            }
            anyhow::Ok(latency)
        });
    }
    let mut latency = Histogram::new(3)?;
    while let Some(part) = tasks.join_next().await {
        latency.add(part??)?;
    }
    Ok(Polled {
        answered: latency.len(),
        latency,
    })
}
