//! HTTP/1.1, as little of it as a bench needs: one keep-alive connection, answers with a length.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A connection that asks one thing after the other.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    heard: Vec<u8>,
}

impl Connection {
    pub(super) async fn open(door: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(door).await.context("the door")?;
        stream.set_nodelay(true)?;
        let heard = Vec::with_capacity(8_192);
        Ok(Self { stream, heard })
    }

    /// Status and body of the answer.
    pub(super) async fn ask(&mut self, request: &[u8]) -> anyhow::Result<(u16, &[u8])> {
        self.heard.clear();
        self.stream.write_all(request).await?;
        loop {
            let read = timeout(ANSWER_MAX, self.stream.read_buf(&mut self.heard)).await??;
            ensure!(0 < read, "the other side hung up");
            if let Some((status, from)) = whole(&self.heard)? {
                return Ok((status, &self.heard[from..]));
            }
        }
    }

    /// Bytes of the last answer, its head included.
    pub(super) fn heard(&self) -> usize {
        self.heard.len()
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

/// Addresses that nobody has used yet.
static FRESH: AtomicUsize = AtomicUsize::new(0);

/// An address for a fan of their own, in every part of a run, so that the limits count them as they would in
/// life.
pub(super) fn fresh_address() -> String {
    let fan = FRESH.fetch_add(1, Ordering::Relaxed);
    format!("10.{}.{}.{}", fan >> 16 & 255, fan >> 8 & 255, fan & 255)
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
