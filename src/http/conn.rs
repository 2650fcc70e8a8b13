//! One connection's patience: how long it may take over a request's head, lie idle, or not read.
//!
//! hyper has a timer for heads, but starts it when the previous answer ends, so that it would bound
//! idle keep-alive connections as well; and it has none for a client that stops reading. Both are
//! kept here: [`Activity`] is told of bytes and requests, [`Timed`] tells it of bytes. It also knows when a
//! connection rests, so that nothing need be held for it.

use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use http::Version;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// What a connection is doing.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Part of a request's head is here, or the connection is new.
    Head { since: Instant },
    /// So many requests are being answered.
    Busy { requests: usize },
    /// Nothing, between requests.
    Idle { since: Instant },
}

/// What a connection is doing, and until when it may.
#[derive(Debug)]
pub(crate) struct Activity {
    phase: Mutex<Phase>,
    speaks_http2: AtomicBool,
    /// Whether part of a request's body is still to come, as far as whoever reads the bytes knows.
    pub(crate) is_inside: AtomicBool,
    /// Whether something that was to be written could not yet be.
    is_stalled: AtomicBool,
    /// Whoever waits for the last request to end.
    waiting: AtomicWaker,
    head_max: Duration,
    idle_max: Duration,
}

impl Activity {
    /// A new connection, which owes us the head of a request.
    pub(crate) fn new(head_max: Duration, idle_max: Duration) -> Arc<Self> {
        let since = Instant::now();
        Arc::new(Self {
            phase: Mutex::new(Phase::Head { since }),
            speaks_http2: AtomicBool::new(false),
            is_inside: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
            waiting: AtomicWaker::new(),
            head_max,
            idle_max,
        })
    }

    /// Ends when the connection has outlived our patience.
    ///
    /// Looks again after `head_max` at the latest: an idle connection may meanwhile have begun a
    /// head, whose deadline is sooner than that of idling, but never sooner than the next look.
    pub(crate) async fn expired(&self) {
        loop {
            let (now, deadline) = (Instant::now(), self.deadline());
            if deadline <= now {
                return;
            }
            sleep_until(deadline.min(now + self.head_max)).await;
        }
    }

    /// Ends when nothing has been asked, read or written for at least `rest`. Looks only after it: who asks
    /// again at once is told again after `rest` at the earliest.
    pub(crate) async fn rests(&self, rest: Duration) {
        loop {
            sleep(rest).await;
            let is_idle = match *self.lock() {
                Phase::Idle { since } => rest <= since.elapsed(),
                Phase::Head { .. } | Phase::Busy { .. } => false,
            };
            let is_moving = [&self.is_inside, &self.is_stalled];
            if is_idle && !is_moving.iter().any(|is| is.load(Ordering::Relaxed)) {
                return;
            }
        }
    }

    /// Whether the last request came by HTTP/2.
    pub(crate) fn speaks_http2(&self) -> bool {
        self.speaks_http2.load(Ordering::Relaxed)
    }

    /// Whether a request is being answered; if so, the task is woken when one ends.
    pub(crate) fn is_busy(&self, cx: &mut Context<'_>) -> bool {
        self.waiting.register(cx.waker());
        matches!(*self.lock(), Phase::Busy { .. })
    }

    /// A request has begun; it ends when what is returned is dropped.
    pub(crate) fn request(self: &Arc<Self>, version: Version) -> InFlight {
        let is_http2 = version == Version::HTTP_2;
        self.speaks_http2.store(is_http2, Ordering::Relaxed);
        let mut phase = self.lock();
        *phase = match *phase {
            Phase::Busy { requests } => Phase::Busy {
                requests: requests + 1,
            },
            Phase::Head { .. } | Phase::Idle { .. } => Phase::Busy { requests: 1 },
        };
        InFlight(Arc::clone(self))
    }

    fn deadline(&self) -> Instant {
        match *self.lock() {
            Phase::Head { since } => since + self.head_max,
            Phase::Idle { since } => since + self.idle_max,
            Phase::Busy { .. } => Instant::now() + self.head_max, // look again
        }
    }

    /// Only with HTTP/1 do bytes begin a head: frames of HTTP/2 need not belong to a request.
    fn bytes_came(&self) {
        if self.speaks_http2() {
            return;
        }
        let mut phase = self.lock();
        if let Phase::Idle { .. } = *phase {
            let since = Instant::now();
            *phase = Phase::Head { since };
        }
    }

    fn request_ended(&self) {
        let mut phase = self.lock();
        let since = Instant::now();
        *phase = match *phase {
            Phase::Busy { requests } if 1 < requests => Phase::Busy {
                requests: requests - 1,
            },
            Phase::Busy { .. } | Phase::Head { .. } | Phase::Idle { .. } => Phase::Idle { since },
        };
        drop(phase);
        self.waiting.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Activity>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.request_ended();
    }
}

/// A stream that reports arriving bytes and fails when its reader takes none for too long.
#[derive(Debug)]
pub(crate) struct Timed<S> {
    stream: S,
    activity: Arc<Activity>,
    stall_max: Duration,
    stall: Option<Pin<Box<Sleep>>>,
}

impl<S> Timed<S> {
    pub(crate) fn new(stream: S, activity: Arc<Activity>, stall_max: Duration) -> Self {
        Self {
            stream,
            activity,
            stall_max,
            stall: None,
        }
    }

    /// Turns a write that is pending for too long into an error.
    fn bound<T>(&mut self, cx: &mut Context<'_>, written: Poll<Result<T>>) -> Poll<Result<T>> {
        if written.is_ready() {
            if self.stall.take().is_some() {
                self.activity.is_stalled.store(false, Ordering::Relaxed);
            }
            return written;
        }
        self.activity.is_stalled.store(true, Ordering::Relaxed);
        let stall_max = self.stall_max;
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(stall_max)));
        match stall.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(Error::from(ErrorKind::TimedOut))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if before < buf.filled().len() {
            self.activity.bytes_came();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.bound(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.bound(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.bound(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.bound(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const HTTP_11: Version = Version::HTTP_11;
    const HEAD: Duration = Duration::from_secs(10);
    const IDLE: Duration = Duration::from_secs(75);

    async fn patience(activity: &Activity) -> u64 {
        let from = Instant::now();
        activity.expired().await;
        from.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn heads_idling_and_answers_have_different_patience() {
        let activity = Activity::new(HEAD, IDLE);
        assert_eq!(patience(&activity).await, 10);
        let (first, second) = (activity.request(HTTP_11), activity.request(HTTP_11));
        drop(first);
        let busy = tokio::time::timeout(10 * IDLE, activity.expired()).await;
        assert!(busy.is_err(), "an answer may take as long as it likes");
        drop(second);
        assert_eq!(patience(&activity).await, 75);
        drop(activity.request(HTTP_11));
        let (seconds, ()) = tokio::join!(patience(&activity), async {
            sleep(Duration::from_secs(13)).await;
            activity.bytes_came();
        });
        assert_eq!(seconds, 13 + 10);
        drop(activity.request(Version::HTTP_2));
        activity.bytes_came();
        assert_eq!(patience(&activity).await, 75, "a ping begins no request");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_asked_read_or_written_does_not_rest() {
        let second = Duration::from_secs(1);
        let activity = Activity::new(HEAD, IDLE);
        let rests = async || tokio::time::timeout(10 * second, activity.rests(second)).await;
        assert!(rests().await.is_err(), "a head is awaited");
        let request = activity.request(HTTP_11);
        assert!(rests().await.is_err(), "a request is answered");
        drop(request);
        activity.is_inside.store(true, Ordering::Relaxed);
        assert!(rests().await.is_err(), "the rest of a body is to come");
        activity.is_inside.store(false, Ordering::Relaxed);
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut timed = Timed::new(ours, Arc::clone(&activity), IDLE);
        let (rested, written) = tokio::join!(rests(), async {
            let writing = tokio::time::timeout(20 * second, timed.write_all(b"12345678"));
            writing.await
        });
        assert!(rested.is_err() && written.is_err(), "an answer is not read");
        let (written, read) = tokio::join!(timed.write_all(b"5678"), async {
            theirs.read_exact(&mut [0; 8]).await
        });
        assert!(written.is_ok() && read.is_ok());
        assert!(rests().await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_reading_is_given_up() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut timed = Timed::new(ours, Activity::new(HEAD, IDLE), Duration::from_secs(30));
        timed.write_all(b"1234").await.unwrap();
        let error = timed.write_all(b"5678").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        theirs.read_exact(&mut [0; 4]).await.unwrap();
    }
}
