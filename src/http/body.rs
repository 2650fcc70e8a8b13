//! A body in passing: not too slow, not too long, and without trailers unless somebody sifts them.
//!
//! Trailers are dropped otherwise: whoever reads them as headers can be told anything by them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

/// Why a body ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// Its sender was silent for too long.
    #[error("body sent nothing for {0:?}")]
    Silent(Duration),
    /// It is longer than it may be.
    #[error("body is longer than allowed")]
    TooLong,
    /// The connection failed.
    #[error("body broke off")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Passes a body on, frame by frame, within its bounds.
#[derive(Debug)]
pub struct Bounded<B> {
    inner: B,
    silence_max: Duration,
    bytes_left: u64,
    sift: Option<fn(&mut HeaderMap)>,
    silence: Option<Pin<Box<Sleep>>>,
}

impl<B> Bounded<B> {
    /// A body whose sender may be silent for `silence_max` and send as much as they like.
    pub fn new(inner: B, silence_max: Duration) -> Self {
        Self {
            inner,
            silence_max,
            bytes_left: u64::MAX,
            sift: None,
            silence: None,
        }
    }

    /// The same, but not longer than `bytes`.
    #[must_use]
    pub fn at_most(mut self, bytes: u64) -> Self {
        self.bytes_left = bytes;
        self
    }

    /// The same, with those trailers that `sift` leaves.
    #[must_use]
    pub fn with_trailers(mut self, sift: fn(&mut HeaderMap)) -> Self {
        self.sift = Some(sift);
        self
    }

    /// Trailers as they may pass; they come last.
    fn trailers(&self, frame: Frame<Bytes>) -> Option<Frame<Bytes>> {
        let mut trailers = frame.into_trailers().ok()?;
        self.sift?(&mut trailers);
        (!trailers.is_empty()).then(|| Frame::trailers(trailers))
    }

    /// Ready once the sender has been silent for too long. The timer exists only while we wait, so
    /// that a body that is all there costs none.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<BodyError> {
        let silence_max = self.silence_max;
        let silence = self
            .silence
            .get_or_insert_with(|| Box::pin(sleep(silence_max)));
        ready!(silence.as_mut().poll(cx));
        Poll::Ready(BodyError::Silent(silence_max))
    }
}

impl<B> Body for Bounded<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let frame = match Pin::new(&mut this.inner).poll_frame(cx) {
            Poll::Pending => return this.poll_silence(cx).map(|error| Some(Err(error))),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(Err(error))) => {
                return Poll::Ready(Some(Err(BodyError::Broken(error.into()))));
            }
            Poll::Ready(Some(Ok(frame))) => frame,
        };
        if let Some(silence) = &mut this.silence {
            silence.as_mut().reset(Instant::now() + this.silence_max);
        }
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(last) => return Poll::Ready(this.trailers(last).map(Ok)),
        };
        let Some(left) = this.bytes_left.checked_sub(data.len() as u64) else {
            return Poll::Ready(Some(Err(BodyError::TooLong)));
        };
        this.bytes_left = left;
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A body that keeps something until it is dropped, such as a place that it takes.
#[derive(Debug)]
pub struct Holding<B, H> {
    body: B,
    _held: H,
}

impl<B, H> Holding<B, H> {
    /// Keeps `held` for as long as there is this body.
    pub fn new(body: B, held: H) -> Self {
        Self { body, _held: held }
    }
}

impl<B: Body<Data = Bytes> + Unpin, H: Unpin> Body for Holding<B, H> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The [`BodyError`] that lies behind an error of a library, if there is one: the innermost, for a
/// body that passes several bounds is broken for all but the first.
pub fn body_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a BodyError> {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.filter_map(|error| error.downcast_ref()).last()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use http_body_util::{BodyExt, StreamBody};

    fn frames(frames: Vec<Frame<Bytes>>) -> impl Body<Data = Bytes, Error = BodyError> + Unpin {
        StreamBody::new(stream::iter(frames.into_iter().map(Ok)))
    }

    #[tokio::test]
    async fn bytes_are_counted_and_trailers_sifted() {
        let two = || {
            let trailers = [(http::header::HOST, http::HeaderValue::from_static("x"))];
            frames(vec![
                Frame::data(Bytes::from_static(b"ab")),
                Frame::data(Bytes::from_static(b"c")),
                Frame::trailers(trailers.into_iter().collect()),
            ])
        };
        let whole = Bounded::new(two(), Duration::from_secs(1)).at_most(3);
        let collected = whole.collect().await.unwrap();
        assert!(collected.trailers().is_none());
        assert_eq!(collected.to_bytes(), "abc");
        for (sift, left) in [
            ((|_| {}) as fn(&mut HeaderMap), Some(1)),
            (HeaderMap::clear, None),
        ] {
            let sifted = Bounded::new(two(), Duration::from_secs(1)).with_trailers(sift);
            let collected = sifted.collect().await.unwrap();
            assert_eq!(collected.trailers().map(HeaderMap::len), left);
        }
        let short = Bounded::new(two(), Duration::from_secs(1)).at_most(2);
        assert!(matches!(short.collect().await, Err(BodyError::TooLong)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_sender_is_given_up() {
        let silent = StreamBody::new(stream::pending::<Result<Frame<Bytes>, BodyError>>());
        let error = Bounded::new(silent, Duration::from_secs(10))
            .collect()
            .await;
        assert!(matches!(error, Err(BodyError::Silent(_))));
    }
}
