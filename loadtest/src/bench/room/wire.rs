//! Fans at the gateway's door: they join, and poll at the times they intend, not when the last answer
//! came.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// Keep-alive connections that all fans share.
const CONNECTIONS: usize = 64;
/// Longest wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// What a run of polls came to.
#[derive(Debug)]
pub(super) struct Polled {
    /// Answered with 200.
    pub(super) answered: u64,
    /// Microseconds from the intended time to the whole answer.
    pub(super) latency: Histogram<u64>,
}

/// A connection that asks one thing after the other.
struct Connection {
    stream: TcpStream,
    heard: Vec<u8>,
}

impl Connection {
    async fn open(door: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(door)
            .await
            .context("the gateway's door")?;
        stream.set_nodelay(true)?;
        let heard = Vec::with_capacity(8_192);
        Ok(Self { stream, heard })
    }

    /// Status and body of the answer.
    async fn ask(&mut self, request: &[u8]) -> anyhow::Result<(u16, &[u8])> {
        self.heard.clear();
        self.stream.write_all(request).await?;
        loop {
            let read = timeout(ANSWER_MAX, self.stream.read_buf(&mut self.heard)).await??;
            ensure!(0 < read, "the gateway hung up");
            if let Some((status, from)) = whole(&self.heard)? {
                return Ok((status, &self.heard[from..]));
            }
        }
    }
}

/// Status and where the body begins, once the whole answer is there.
fn whole(heard: &[u8]) -> anyhow::Result<Option<(u16, usize)>> {
    let Some(end) = heard.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&heard[..end])?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>())
    });
    let length = length.context("an answer without a length")??;
    Ok((end + 4 + length <= heard.len()).then_some((status, end + 4)))
}

/// Everybody has an address of their own, so that the limits count them as they would in life.
fn address(fan: usize) -> String {
    format!("10.{}.{}.{}", fan >> 16 & 255, fan >> 8 & 255, fan & 255)
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
            for fan in (first..fans).step_by(CONNECTIONS) {
                let from = address(fan);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_when_its_body_is() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(whole(text).unwrap(), Some((200, text.len() - 2)));
        for part in 0..text.len() {
            assert_eq!(whole(&text[..part]).unwrap(), None, "{part}");
        }
        assert!(whole(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
