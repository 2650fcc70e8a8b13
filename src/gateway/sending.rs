//! A request's body on its way to an upstream, and whom it is that we wait for.
//!
//! A client that sends slowly must not look like an upstream that answers slowly: deadlines of the
//! one are not those of the other, and only the other's are held against the upstream.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::http::body::{BodyError, Bounded};

/// How far a body has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    over: CancellationToken,
    over_at: OnceLock<Instant>,
    waits_for_client: AtomicBool,
}

impl Progress {
    /// Ends once nothing more is to be sent: all is, or the rest is not wanted.
    pub(crate) async fn over(&self) {
        self.over.cancelled().await;
    }

    /// Since when nothing more is to be sent, if that is so.
    pub(crate) fn over_at(&self) -> Option<Instant> {
        self.over_at.get().copied()
    }

    /// Whether it was the client who had nothing to give when the upstream last wanted more.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.waits_for_client.load(Ordering::Relaxed)
    }
}

/// A body on its way. One that is empty from the beginning has no progress.
#[derive(Debug)]
pub(crate) struct Sending {
    inner: Bounded<Body>,
    progress: Option<Arc<Progress>>,
}

impl Sending {
    /// A body, and how far it has come.
    pub(crate) fn new(inner: Bounded<Body>) -> (Self, Option<Arc<Progress>>) {
        let progress = (!inner.is_end_stream()).then(Arc::<Progress>::default);
        let sending = Self {
            inner,
            progress: progress.clone(),
        };
        (sending, progress)
    }
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        if let Some(progress) = &self.progress {
            let waits = polled.is_pending();
            progress.waits_for_client.store(waits, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if let Some(progress) = &self.progress {
            progress.over_at.get_or_init(Instant::now);
            progress.over.cancel();
        }
    }
}
