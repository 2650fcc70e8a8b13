//! A connection whose bytes are read strictly before hyper sees them.
//!
//! HTTP/1 goes through [`framing`](crate::http::framing): a head goes on when it is all there and
//! good. When one is not, the connection has ended as far as hyper is concerned. It answers what came
//! before and shuts the stream; in shutting it, we say why, as a problem. HTTP/2 frames itself; there
//! only what brings nothing is counted.

use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::http::conn::Activity;
use crate::http::frames::Meter;
use crate::http::framing::{Reader, Taken};
use crate::http::interim::{Interim, Saying};
use crate::http::refused::answer;
use crate::telemetry::metrics;

/// Bytes read at once while a head is incomplete.
const PIECE_BYTES: usize = 4_096;
/// After a refusal the rest of what the client sends is read and forgotten for so long, and so much of
/// it: a client whose bytes are thrown away may lose the answer with them.
const FORGET_FOR: Duration = Duration::from_millis(500);
/// See [`FORGET_FOR`].
const FORGET_BYTES_MAX: usize = 1_048_576;

/// What is spoken on a connection.
#[derive(Debug)]
enum Speech {
    Http1(Reader),
    Http2(Meter, Instant),
}

/// A refused connection.
#[derive(Debug)]
enum Refused {
    /// In the middle of a request: whoever reads its body is told.
    Inside,
    /// Between requests: this is to be said when the stream is shut, if hyper was told of its end.
    Between { answer: Vec<u8>, is_told: bool },
}

/// A stream that is read strictly.
#[derive(Debug)]
pub(crate) struct Strict<S> {
    stream: S,
    activity: Arc<Activity>,
    speech: Speech,
    /// Bytes that have been read and have not gone on.
    held: Vec<u8>,
    /// So many of them may.
    cleared: usize,
    refused: Option<Refused>,
    /// Of an answer to a refusal.
    written: usize,
    /// What is said before answers.
    saying: Saying,
    forgotten: usize,
    forgetting: Option<Pin<Box<Sleep>>>,
}

impl<S> Strict<S> {
    /// A connection that speaks HTTP/1 and whose first bytes have been read.
    pub(crate) fn http1(stream: S, activity: Arc<Activity>, first: &[u8]) -> Self {
        Self::new(stream, activity, Speech::Http1(Reader::default()), first)
    }

    /// The same for HTTP/2.
    pub(crate) fn http2(stream: S, activity: Arc<Activity>, first: &[u8]) -> Self {
        let speech = Speech::Http2(Meter::new(0), Instant::now());
        Self::new(stream, activity, speech, first)
    }

    fn new(stream: S, activity: Arc<Activity>, speech: Speech, first: &[u8]) -> Self {
        let mut strict = Self {
            stream,
            activity,
            speech,
            held: first.to_vec(),
            cleared: 0,
            refused: None,
            written: 0,
            saying: Saying::default(),
            forgotten: 0,
            forgetting: None,
        };
        strict.cleared = strict.judge(first);
        strict
    }

    /// How many of these bytes may go on; remembers a refusal of what follows.
    fn judge(&mut self, bytes: &[u8]) -> usize {
        match &mut self.speech {
            Speech::Http1(reader) => {
                let Taken { passed, refusal } = reader.take(bytes);
                let is_inside = reader.is_inside();
                self.activity.is_inside.store(is_inside, Ordering::Relaxed);
                if let Some(refusal) = refusal {
                    metrics::refused_bytes(refusal.word());
                    self.refused = Some(match is_inside {
                        true => Refused::Inside,
                        false => Refused::Between {
                            answer: answer(refusal),
                            is_told: false,
                        },
                    });
                }
                passed
            }
            Speech::Http2(meter, since) => {
                let now_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
                if meter.take(bytes, now_ms) {
                    return bytes.len();
                }
                metrics::refused_bytes("frames");
                self.refused = Some(Refused::Inside);
                0
            }
        }
    }

    /// Says before answers what is left there, or nothing any more.
    pub(crate) fn say_before(&mut self, interim: Option<Interim>) {
        self.saying = Saying::from(interim);
    }

    /// What may go on.
    pub(crate) fn cleared(&self) -> &[u8] {
        &self.held[..self.cleared]
    }

    /// Takes away what may go on.
    pub(crate) fn take(&mut self) -> Bytes {
        let behind = self.held.split_off(self.cleared);
        self.cleared = 0;
        std::mem::replace(&mut self.held, behind).into()
    }

    /// Puts back the end of what was taken.
    pub(crate) fn put_back(&mut self, taken: &[u8]) {
        self.held.splice(..0, taken.iter().copied());
        self.cleared += taken.len();
    }

    /// Hands on what may go.
    fn hand_on(&mut self, buf: &mut ReadBuf<'_>) {
        let count = self.cleared.min(buf.remaining());
        buf.put_slice(&self.held[..count]);
        self.held.drain(..count);
        self.cleared -= count;
        if self.held.is_empty() {
            self.held = Vec::new(); // idle connections hold nothing
        }
    }
}

impl<S: AsyncRead + Unpin> Strict<S> {
    /// Reads on. Where nothing may go on yet, that is not an end: `None`.
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<Option<()>>> {
        if self.held.is_empty() {
            let before = buf.filled().len();
            ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
            let end = buf.filled().len();
            if before == end {
                return Poll::Ready(Ok(Some(())));
            }
            let passed = self.judge(&buf.filled()[before..]);
            if self.refused.is_none() {
                self.held
                    .extend_from_slice(&buf.filled()[before + passed..]);
            }
            buf.set_filled(before + passed);
            return Poll::Ready(Ok((0 < passed).then_some(())));
        }
        let read = ready!(self.poll_more(cx))?;
        Poll::Ready(Ok((read == 0).then_some(()))) // half a head is none
    }

    /// Reads a piece and keeps it. Returns how much.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize>> {
        let mut bytes = [const { MaybeUninit::uninit() }; PIECE_BYTES];
        let mut piece = ReadBuf::uninit(&mut bytes);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut piece))?;
        let read = piece.filled().len();
        if 0 < read {
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(piece.filled());
            self.cleared = self.judge(&held);
            self.held = held;
        }
        Poll::Ready(Ok(read))
    }

    /// Reads until something may go on or nothing ever will, and hands nothing on. Returns whether there is
    /// anything left to say: not where the client has gone.
    pub(crate) fn poll_hold(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        while self.cleared == 0 && self.refused.is_none() {
            if ready!(self.poll_more(cx))? == 0 {
                return Poll::Ready(Ok(false));
            }
        }
        Poll::Ready(Ok(true))
    }

    /// What the reader of a refused connection gets.
    fn poll_refused(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        match &mut self.refused {
            Some(Refused::Between { is_told, .. }) => {
                if self.activity.is_busy(cx) {
                    return Poll::Pending; // an end would take the answer with it
                }
                *is_told = true;
                Poll::Ready(Ok(()))
            }
            Some(Refused::Inside) | None => Poll::Ready(Err(Error::from(ErrorKind::InvalidData))),
        }
    }

    /// Reads what the client still sends, and forgets it, within bounds.
    fn poll_forget(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let forgetting = self
            .forgetting
            .get_or_insert_with(|| Box::pin(sleep(FORGET_FOR)));
        if forgetting.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let mut bytes = [0; PIECE_BYTES];
        while self.forgotten < FORGET_BYTES_MAX {
            let mut piece = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut piece));
            if read.is_err() || piece.filled().is_empty() {
                return Poll::Ready(());
            }
            self.forgotten += piece.filled().len();
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Strict<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let this = &mut *self;
        loop {
            if 0 < this.cleared {
                this.hand_on(buf);
                return Poll::Ready(Ok(()));
            }
            if this.refused.is_some() {
                return this.poll_refused(cx);
            }
            if let Some(()) = ready!(this.poll_piece(cx, buf))? {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Strict<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let this = &mut *self;
        ready!(this.saying.poll_begin(&mut this.stream, cx))?;
        Pin::new(&mut this.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let this = &mut *self;
        ready!(this.saying.poll_begin(&mut this.stream, cx))?;
        Pin::new(&mut this.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes when it has nothing left to write.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        ready!(this.saying.poll_end(&mut this.stream, cx))?;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        let Some(Refused::Between {
            answer,
            is_told: true,
        }) = &this.refused
        else {
            return Pin::new(&mut this.stream).poll_shutdown(cx);
        };
        while this.written < answer.len() {
            let rest = &answer[this.written..];
            match ready!(Pin::new(&mut this.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(Error::from(ErrorKind::WriteZero))),
                count => this.written += count,
            }
        }
        ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        ready!(this.poll_forget(cx));
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

    fn strict() -> (DuplexStream, Arc<Activity>, Strict<DuplexStream>) {
        let (client, server) = tokio::io::duplex(256);
        let activity = Activity::new(Duration::from_secs(10), Duration::from_secs(75));
        let strict = Strict::http1(server, Arc::clone(&activity), b"GET ");
        (client, activity, strict)
    }

    #[tokio::test]
    async fn what_is_good_goes_on_and_what_is_not_ends_the_connection() {
        let (mut client, activity, mut strict) = strict();
        client.write_all(&GET[4..]).await.unwrap();
        let mut head = vec![0; GET.len()];
        strict.read_exact(&mut head).await.unwrap();
        assert_eq!(head, GET);
        let busy = activity.request(http::Version::HTTP_11);
        client
            .write_all(b"GET / HTTP/1.1\nhost: a\n\n")
            .await
            .unwrap();
        let mut rest = Vec::new();
        let early = tokio::time::timeout(Duration::from_millis(20), strict.read_to_end(&mut rest));
        assert!(early.await.is_err(), "the answer comes first");
        let (read, ()) = tokio::join!(strict.read_to_end(&mut rest), async { drop(busy) });
        assert_eq!(read.unwrap(), 0);
        let mut said = String::new();
        let (shut, heard) = tokio::join!(strict.shutdown(), async {
            let heard = client.read_to_string(&mut said).await;
            drop(client);
            heard
        });
        shut.unwrap();
        heard.unwrap();
        assert!(said.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{said}");
        assert!(said.contains("urn:catraca:problem:bad-request"), "{said}");
    }

    #[tokio::test]
    async fn half_a_head_is_none() {
        let (mut client, _, mut strict) = strict();
        client.write_all(b"/ HTTP/1.1\r\nho").await.unwrap();
        drop(client);
        let mut read = Vec::new();
        assert_eq!(strict.read_to_end(&mut read).await.unwrap(), 0);
    }
}
