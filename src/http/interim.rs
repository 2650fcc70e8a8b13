//! Interim answers (1xx): what comes before an answer, on its way to a client of HTTP/1.1.
//!
//! hyper reads them as a client and cannot write them as a server. So whoever has one leaves it here, and the
//! stream below hyper (`strict.rs`) writes it at a moment when hyper has written all that it had and has not
//! begun the answer. Where there is no such moment the interim answer is lost, which any of them may be.

use std::fmt::Write;
use std::io::{ErrorKind, Result};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::{HeaderMap, StatusCode};
use tokio::io::AsyncWrite;

/// Bytes of interim answers to one request; those above are lost, so that whoever never comes to the point
/// fills nobody's memory.
const BYTES_MAX: usize = 16_384;

/// Where the interim answers to the request of a connection wait. An extension of requests whose client can
/// read any.
#[derive(Debug, Clone, Default)]
pub struct Interim(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// How many came since the request.
    count: usize,
}

impl Interim {
    /// A request has begun.
    pub(crate) fn begin(&self) {
        *self.lock() = Waiting::default();
    }

    /// Says this before the answer.
    pub fn say(&self, status: StatusCode, headers: &HeaderMap) {
        let mut head = format!("HTTP/1.1 {} ", status.as_u16());
        head.push_str(status.canonical_reason().unwrap_or_default());
        head.push_str("\r\n");
        for (name, value) in headers {
            let Ok(value) = value.to_str() else {
                continue; // it is a hint, and this is none that everybody reads alike
            };
            write!(head, "{name}: {value}\r\n").expect("a string takes whatever is written");
        }
        head.push_str("\r\n");
        let mut waiting = self.lock();
        if waiting.count + head.len() <= BYTES_MAX {
            waiting.count += head.len();
            waiting.bytes.extend_from_slice(head.as_bytes());
        }
    }

    /// What waits to be written.
    pub(crate) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.lock().bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What writes them, between all that hyper writes.
#[derive(Debug, Default)]
pub(crate) struct Saying {
    interim: Option<Interim>,
    /// What is being written.
    bytes: Bytes,
    /// Whether hyper has written since it had nothing left: then an answer may be under way.
    is_under_way: bool,
}

impl From<Option<Interim>> for Saying {
    fn from(interim: Option<Interim>) -> Self {
        Self {
            interim,
            ..Self::default()
        }
    }
}

impl Saying {
    /// hyper has nothing left to write.
    pub(crate) fn poll_end<S>(&mut self, stream: &mut S, cx: &mut Context<'_>) -> Poll<Result<()>>
    where
        S: AsyncWrite + Unpin,
    {
        self.is_under_way = false;
        self.poll_say(stream, cx)
    }

    /// hyper is about to write.
    pub(crate) fn poll_begin<S>(&mut self, stream: &mut S, cx: &mut Context<'_>) -> Poll<Result<()>>
    where
        S: AsyncWrite + Unpin,
    {
        ready!(self.poll_say(stream, cx))?;
        self.is_under_way = true;
        Poll::Ready(Ok(()))
    }

    fn poll_say<S>(&mut self, stream: &mut S, cx: &mut Context<'_>) -> Poll<Result<()>>
    where
        S: AsyncWrite + Unpin,
    {
        let Some(interim) = &self.interim else {
            return Poll::Ready(Ok(()));
        };
        if self.bytes.is_empty() {
            self.bytes = interim.take().into();
        }
        if self.is_under_way {
            self.bytes.clear(); // there is no room for it any more
        }
        while !self.bytes.is_empty() {
            match ready!(Pin::new(&mut *stream).poll_write(cx, &self.bytes))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                count => self.bytes.advance(count),
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_for_each_request() {
        let interim = Interim::default();
        let mut headers = HeaderMap::new();
        headers.insert("link", "</a.css>".parse().unwrap());
        let one = b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n";
        for _ in 0..2 {
            interim.begin();
            let mut all = Vec::new();
            for _ in 0..10_000 {
                interim.say(StatusCode::EARLY_HINTS, &headers);
                all.extend(interim.take());
            }
            assert_eq!(all, one.repeat(BYTES_MAX / one.len()));
        }
    }
}
