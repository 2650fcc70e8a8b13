//! One connection, from its first byte to its last.
//!
//! ```text
//! HTTP/2 ───────────────────────────► hyper
//! HTTP/1 ──► strict ──┬─ brief ─────► the service, and straight back
//!               ▲     └─ the rest ──► hyper, until the connection rests
//!               └─────────────────────┘
//! ```
//!
//! hyper holds buffers for as long as there is a connection, whether or not anything is said on it, and
//! fans say little: a poll every few seconds. So hyper comes only for what needs it, and goes again.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use http::header::{CONNECTION, EXPECT, UPGRADE};
use http::{HeaderValue, Request, Response, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::base::limits::{HEADER_BYTES_MAX, HEADERS_MAX};
use crate::http::body::{Bounded, Holding};
use crate::http::brief;
use crate::http::conn::{Activity, InFlight, Timed};
use crate::http::frames::PREFACE;
use crate::http::interim::Interim;
use crate::http::patience::Patience;
use crate::http::problem::Last;
use crate::http::server::Server;
use crate::http::service::{Arrival, Service, Transport};
use crate::http::streams::Streams;
use crate::http::strict::Strict;

/// Streams that one HTTP/2 connection may have open.
const STREAMS_MAX: u32 = 100;
/// Headers of one HTTP/2 request, unpacked.
const HTTP2_HEADER_BYTES_MAX: u32 = 16_384;
/// Streams reset before we have looked at them; more is an attack.
const PENDING_RESETS_MAX: usize = 20;
/// Streams of one connection that we had to reset for what was sent in them; more is an attack.
const ERROR_RESETS_MAX: usize = 256;
/// Window of one HTTP/2 stream: what a stranger may make us buffer.
const STREAM_WINDOW_BYTES: u32 = 65_536;
/// Window of one HTTP/2 connection.
const CONNECTION_WINDOW_BYTES: u32 = 1_048_576;
/// How long an HTTP/1 connection is kept, when we stop, for a request that may be on its way. HTTP/2
/// can say which requests it still took; HTTP/1 can only answer, and say that it was the last.
const LINGER: Duration = Duration::from_millis(500);
/// How long a connection lies idle until hyper goes.
const REST: Duration = Duration::from_millis(500);

/// One connection.
pub(super) struct Talk<A> {
    server: Arc<Server<A>>,
    peer: SocketAddr,
    transport: Transport,
    activity: Arc<Activity>,
}

/// What a connection of HTTP/1 comes to, once nothing brief is asked.
enum Then {
    /// Something else.
    AtLength,
    /// Its end.
    Over,
}

impl<A: Service> Talk<A> {
    pub(super) fn new(server: &Arc<Server<A>>, peer: SocketAddr, transport: Transport) -> Self {
        let settings = &server.settings;
        Self {
            server: Arc::clone(server),
            peer,
            transport,
            activity: Activity::new(settings.head_max, settings.idle_max),
        }
    }

    /// Answers until there is nothing left to say.
    pub(super) async fn run<S>(&self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stall_max = self.server.settings.stall_max;
        let mut timed = Timed::new(stream, Arc::clone(&self.activity), stall_max);
        let Some(first) = self.first_bytes(&mut timed).await else {
            return;
        };
        if first == PREFACE {
            let strict = Strict::http2(timed, Arc::clone(&self.activity), &first);
            return Box::pin(self.http2(strict)).await;
        }
        let mut strict = Strict::http1(timed, Arc::clone(&self.activity), &first);
        while let Then::AtLength = self.briefly(&mut strict).await {
            let resting = Box::pin(self.at_length(strict)).await;
            let Some(resting) = resting else {
                return;
            };
            strict = resting;
        }
    }

    /// The first bytes of a connection, as many as it takes to tell HTTP/2 from HTTP/1. None where
    /// they do not come.
    async fn first_bytes<S>(&self, stream: &mut S) -> Option<Vec<u8>>
    where
        S: AsyncRead + Unpin,
    {
        let reading = async {
            let (mut first, mut count) = ([0; PREFACE.len()], 0);
            while count < first.len() && PREFACE.starts_with(&first[..count]) {
                match stream.read(&mut first[count..]).await {
                    Ok(0) | Err(_) => return None,
                    Ok(more) => count += more,
                }
            }
            Some(first[..count].to_vec())
        };
        tokio::select! {
            biased;
            first = reading => first,
            () = self.over() => None,
        }
    }

    /// Answers what is brief.
    async fn briefly<S>(&self, strict: &mut Strict<S>) -> Then
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut over = pin!(self.over());
        loop {
            let held = poll_fn(|cx| match strict.poll_hold(cx) {
                Poll::Ready(held) => Poll::Ready(held.ok()),
                Poll::Pending => over.as_mut().poll(cx).map(|()| None),
            });
            match held.await {
                Some(true) => {}
                Some(false) | None => return Then::Over,
            }
            let Some(request) = self.brief(strict) else {
                return Then::AtLength;
            };
            let answering = Box::pin(self.answer_briefly(request, strict));
            match self.server.cut.run_until_cancelled(answering).await {
                Some(true) => {}
                Some(false) | None => return Then::Over,
            }
        }
    }

    /// The request that is held, if it is brief.
    fn brief<S>(&self, strict: &mut Strict<S>) -> Option<Request<Body>> {
        let (method, path) = brief::question(strict.cleared())?;
        if !self.server.service.is_brief(method, path) {
            return None;
        }
        let bytes = strict.take();
        let read = brief::read(&bytes);
        let length = read.as_ref().map_or(0, |(_, length)| *length);
        strict.put_back(&bytes[length..]);
        read.map(|(request, _)| request)
    }

    /// Answers one request. Returns whether another may follow.
    async fn answer_briefly<S>(&self, request: Request<Body>, strict: &mut Strict<S>) -> bool
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (patience, _in_flight) = self.begin(&request);
        let response = self.answer(request, patience).await;
        let is_last = response.headers().contains_key(CONNECTION);
        let Some(bytes) = brief::written(response, &self.server.dates).await else {
            return false;
        };
        if strict.write_all(&bytes).await.is_err() {
            return false;
        }
        if is_last {
            // Whoever is gone need not be told.
            drop(strict.shutdown().await);
        }
        !is_last
    }

    /// Lets hyper speak. Gives the connection back when it rests.
    async fn at_length<S>(&self, mut strict: Strict<S>) -> Option<Strict<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let interim = Interim::default();
        strict.say_before(Some(interim.clone()));
        let service = service_fn(|mut request: Request<Incoming>| {
            interim.begin();
            if request.version() == Version::HTTP_11 {
                request.extensions_mut().insert(interim.clone());
            }
            self.serve(request, |_| {})
        });
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(None) // conn.rs has its own, which knows idle from slow
            .max_headers(HEADERS_MAX)
            .max_buf_size(HEADER_BYTES_MAX);
        let mut connection = builder.serve_connection(TokioIo::new(strict), service);
        let mut going = pin!(self.going());
        let mut rests = pin!(self.activity.rests(REST));
        let mut is_going = false;
        loop {
            tokio::select! {
                biased;
                () = self.server.cut.cancelled() => return None,
                () = going.as_mut(), if !is_going => {
                    is_going = true;
                    Pin::new(&mut connection).graceful_shutdown();
                }
                ended = &mut connection => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "connection broke off");
                    }
                    return None;
                }
                () = self.activity.expired() => return None,
                () = rests.as_mut(), if !is_going => break,
            }
        }
        let parts = connection.into_parts();
        // What is left of a body that nobody wanted is no request.
        parts.read_buf.is_empty().then(|| {
            let mut strict = parts.io.into_inner();
            strict.say_before(None);
            strict
        })
    }

    async fn http2<S>(&self, strict: Strict<S>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let server = &self.server;
        let streams = Streams::new(server.tasks.clone(), server.cut.clone(), self.patience());
        let service =
            service_fn(|request| self.serve(request, |patience| streams.expect(patience)));
        let mut builder = http2::Builder::new(streams.clone());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(HTTP2_HEADER_BYTES_MAX)
            .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
            .max_local_error_reset_streams(ERROR_RESETS_MAX)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .keep_alive_interval(server.settings.stall_max)
            .keep_alive_timeout(server.settings.head_max);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(strict), service));
        let mut going = pin!(self.going());
        let mut is_going = false;
        loop {
            tokio::select! {
                biased;
                () = server.cut.cancelled() => return,
                () = going.as_mut(), if !is_going => {
                    is_going = true;
                    connection.as_mut().graceful_shutdown();
                }
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "connection broke off");
                    }
                    return;
                }
                () = self.activity.expired() => return,
            }
        }
    }

    /// One request of hyper's.
    fn serve(
        &self,
        request: Request<Incoming>,
        expect: impl Fn(&Patience),
    ) -> impl Future<Output = Result<Response<Holding<Body, InFlight>>, Infallible>> + Send + 'static
    {
        let (patience, in_flight) = self.begin(&request);
        expect(&patience);
        let talk = self.clone();
        async move {
            let silence_max = talk.server.settings.body_silence_max;
            let request = request.map(|body| {
                if body.is_end_stream() {
                    return Body::empty(); // nothing to bound
                }
                let bounded = Bounded::new(body, silence_max);
                Body::new(bounded.with_trailers(|_| {})) // whoever forwards them sifts them
            });
            let response = talk.answer(request, patience).await;
            Ok(response.map(|body| Holding::new(body, in_flight)))
        }
    }

    /// A request has begun; it ends when the second is dropped.
    fn begin<B>(&self, request: &Request<B>) -> (Patience, InFlight) {
        (self.patience(), self.activity.request(request.version()))
    }

    async fn answer(&self, request: Request<Body>, patience: Patience) -> Response<Body> {
        // What follows a request to speak otherwise may be meant otherwise; and who asks first whether
        // to send a body may leave it away after a no.
        let headers = request.headers();
        let may_be_meant_otherwise = headers.contains_key(UPGRADE) || headers.contains_key(EXPECT);
        let is_http2 = request.version() == Version::HTTP_2;
        let arrival = Arrival {
            peer: self.peer,
            transport: self.transport,
            patience,
        };
        let mut response = self.server.service.answer(request, arrival).await;
        let is_last = may_be_meant_otherwise || response.extensions().get::<Last>().is_some();
        if (is_last || self.server.stop.is_cancelled()) && !is_http2 {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        response
    }

    fn patience(&self) -> Patience {
        let settings = &self.server.settings;
        Patience::new(settings.answer_max, settings.stall_max)
    }

    /// Ends when a connection has to shut: what is idle closes, what is busy closes afterwards.
    async fn going(&self) {
        self.server.stop.cancelled().await;
        if !self.activity.speaks_http2() {
            let lingering = tokio::time::sleep(LINGER);
            self.server.cut.run_until_cancelled(lingering).await;
        }
    }

    /// Ends when a connection on which nothing is answered has to shut, for whatever reason.
    async fn over(&self) {
        tokio::select! {
            biased;
            () = self.activity.expired() => {}
            () = self.going() => {}
        }
    }
}

impl<A> Clone for Talk<A> {
    fn clone(&self) -> Self {
        Self {
            server: Arc::clone(&self.server),
            peer: self.peer,
            transport: self.transport,
            activity: Arc::clone(&self.activity),
        }
    }
}
