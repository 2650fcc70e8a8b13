//! The accept loop: HTTP/1 and HTTP/2 over TCP, with a bound on everything a stranger can hold.
//!
//! `axum::serve` has no timer for heads, no cap on connections and no deadline for a drain; a door
//! that strangers lean on needs all three. What is sent passes `strict.rs` before it reaches hyper. No
//! task outlives [`serve`]: connections and the streams that HTTP/2 spawns belong to one tracker, which
//! is awaited and, past the deadline, cut.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::header::{CONNECTION, EXPECT, UPGRADE};
use http::{HeaderValue, Request, Response, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use ipnet::IpNet;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::base::limits::{HEADER_BYTES_MAX, HEADERS_MAX};
use crate::http::body::{Bounded, Holding};
use crate::http::clients::{Clients, Slot};
use crate::http::conn::{Activity, Timed};
use crate::http::extract::is_trusted;
use crate::http::frames::PREFACE;
use crate::http::patience::Patience;
use crate::http::problem::Last;
use crate::http::streams::Streams;
use crate::http::strict::Strict;
use crate::http::tls::Tls;
use crate::limit::prefix::Prefixes;
use crate::telemetry::metrics;

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
/// Pause after an error of `accept` that is not one connection's own, such as a lack of file
/// descriptors, so that the loop does not spin until some are free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long an HTTP/1 connection is kept, when we stop, for a request that may be on its way. HTTP/2
/// can say which requests it still took; HTTP/1 can only answer, and say that it was the last.
const LINGER: Duration = Duration::from_millis(500);

/// The address that a connection came from. An extension of every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Says that a request came through our own TLS. An extension of such requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encrypted;

/// How patient a server is, and with how many.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// From the first byte of a request's head (or from connecting) to its last. A handshake of TLS
    /// may take as long.
    pub head_max: Duration,
    /// How long an answer may take to begin, where nobody grants it more.
    pub answer_max: Duration,
    /// Silence inside a request's body.
    pub body_silence_max: Duration,
    /// How long a client may read nothing of an answer.
    pub stall_max: Duration,
    /// How long a connection may lie idle between requests.
    pub idle_max: Duration,
    /// How long a drain may take before connections are cut.
    pub drain_max: Duration,
    /// Connections of the process. Further ones wait in the listen queue.
    pub connections_max: usize,
    /// Connections of one client (an IPv4 address or an IPv6 /64) that is not a trusted proxy.
    /// Further ones are closed at once.
    pub connections_per_client_max: usize,
    /// Proxies that speak for many clients.
    pub trusted_proxies: Vec<IpNet>,
    /// The certificate, where TLS is spoken.
    pub tls: Option<Arc<Tls>>,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            head_max: Duration::from_secs(10),
            answer_max: Duration::from_secs(30),
            body_silence_max: Duration::from_secs(10),
            stall_max: Duration::from_secs(30),
            idle_max: Duration::from_secs(75),
            drain_max: Duration::from_secs(10),
            connections_max: 50_000,
            connections_per_client_max: 1_024,
            trusted_proxies: Vec::new(),
            tls: None,
        }
    }
}

/// Serves `router` on `listener` until `stop`; then accepts no more, lets requests finish, those
/// included that were on their way, and cuts what is left after `drain_max`.
///
/// # Errors
/// None: a server that cannot accept waits until it can.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    settings: ServerSettings,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let server = Arc::new(Server {
        slots: Arc::new(Semaphore::new(settings.connections_max)),
        clients: Clients::default(),
        tasks: TaskTracker::new(),
        stop: stop.clone(),
        cut: CancellationToken::new(),
        router,
        settings,
    });
    stop.run_until_cancelled(server.accept(&listener)).await;
    server.accept_queued(listener);
    server.tasks.close();
    let drained = tokio::time::timeout(server.settings.drain_max, server.tasks.wait()).await;
    if drained.is_err() {
        let left = server.tasks.len();
        tracing::warn!(left, "drain took too long; connections are cut");
        server.cut.cancel();
        server.tasks.wait().await;
    }
    Ok(())
}

struct Server {
    router: Router,
    settings: ServerSettings,
    slots: Arc<Semaphore>,
    clients: Clients,
    tasks: TaskTracker,
    stop: CancellationToken,
    cut: CancellationToken,
}

impl Server {
    async fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let slot = Arc::clone(&self.slots).acquire_owned().await;
            let slot = slot.expect("the semaphore is never closed");
            match listener.accept().await {
                Ok((stream, peer)) => self.admit(stream, peer, slot),
                Err(error) if is_one_connections_own(error.kind()) => {}
                Err(error) => {
                    tracing::warn!(error = %error, "cannot accept connections for the moment");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Lets those in who stood in the listen queue when we stopped: they have been told that they are
    /// connected.
    fn accept_queued(self: &Arc<Self>, listener: TcpListener) {
        // Without the runtime, which may not know yet that somebody is there. It never blocks.
        let Ok(listener) = listener.into_std() else {
            return;
        };
        while let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned()
            && let Ok((stream, peer)) = listener.accept()
            && let Ok(()) = stream.set_nonblocking(true)
            && let Ok(stream) = TcpStream::from_std(stream)
        {
            self.admit(stream, peer, slot);
        }
    }

    fn admit(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr, slot: OwnedSemaphorePermit) {
        let Some(client) = self.client_slot(peer) else {
            metrics::connection("refused");
            return;
        };
        metrics::connection("accepted");
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(error = %error, "connection ended before it began");
            return;
        }
        let server = Arc::clone(self);
        self.tasks.spawn(async move {
            server.talk(stream, peer).await;
            drop((slot, client));
        });
    }

    /// One connection, from its first byte to its last.
    async fn talk(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        let Some(tls) = &self.settings.tls else {
            return self.speak(stream, peer, None).await;
        };
        let shaking = tls.acceptor().accept(stream);
        let shaken = tokio::time::timeout(self.settings.head_max, shaking);
        match self.cut.run_until_cancelled(shaken).await {
            Some(Ok(Ok(stream))) => Box::pin(self.speak(stream, peer, Some(Encrypted))).await,
            Some(Ok(Err(_)) | Err(_)) => metrics::connection("no-handshake"),
            None => {}
        }
    }

    async fn speak<S>(self: &Arc<Self>, stream: S, peer: SocketAddr, encrypted: Option<Encrypted>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let activity = Activity::new(self.settings.head_max, self.settings.idle_max);
        let mut timed = Timed::new(stream, Arc::clone(&activity), self.settings.stall_max);
        let Some(first) = self.first_bytes(&mut timed, &activity).await else {
            return;
        };
        let streams = self.streams();
        let service = service_fn(|mut request: Request<Incoming>| {
            let in_flight = activity.request(request.version());
            let patience = self.patience();
            if request.version() == Version::HTTP_2 {
                streams.expect(&patience);
            }
            request.extensions_mut().insert(patience);
            let server = Arc::clone(self);
            async move {
                let response = server.answer(request, peer, encrypted).await?;
                Ok::<_, Infallible>(response.map(|body| Holding::new(body, in_flight)))
            }
        });
        let (builder, strict) = if first == PREFACE {
            let strict = Strict::http2(timed, Arc::clone(&activity), &first);
            (self.builder(&streams).http2_only(), strict)
        } else {
            let strict = Strict::http1(timed, Arc::clone(&activity), &first);
            (self.builder(&streams).http1_only(), strict)
        };
        let mut connection = pin!(builder.serve_connection(TokioIo::new(strict), service));
        let mut going = pin!(self.going(&activity));
        let mut draining = false;
        loop {
            tokio::select! {
                biased;
                () = self.cut.cancelled() => return,
                () = going.as_mut(), if !draining => {
                    draining = true;
                    connection.as_mut().graceful_shutdown();
                }
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(error, "connection broke off");
                    }
                    return;
                }
                () = activity.expired() => return,
            }
        }
    }

    /// The first bytes of a connection, as many as it takes to tell HTTP/2 from HTTP/1. None where
    /// they do not come.
    async fn first_bytes<S>(&self, stream: &mut S, activity: &Activity) -> Option<Vec<u8>>
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
            () = self.cut.cancelled() => None,
            first = reading => first,
            () = activity.expired() => None,
            () = self.going(activity) => None,
        }
    }

    async fn answer(
        &self,
        mut request: Request<Incoming>,
        peer: SocketAddr,
        encrypted: Option<Encrypted>,
    ) -> Result<Response<Body>, Infallible> {
        request.extensions_mut().insert(Peer(peer));
        if let Some(encrypted) = encrypted {
            request.extensions_mut().insert(encrypted);
        }
        // What follows a request to speak otherwise may be meant otherwise; and who asks first whether
        // to send a body may leave it away after a no.
        let headers = request.headers();
        let may_be_meant_otherwise = headers.contains_key(UPGRADE) || headers.contains_key(EXPECT);
        let is_http2 = request.version() == Version::HTTP_2;
        let silence_max = self.settings.body_silence_max;
        let request = request.map(|body| {
            if body.is_end_stream() {
                return Body::empty(); // nothing to bound
            }
            let bounded = Bounded::new(body, silence_max);
            Body::new(bounded.with_trailers(|_| {})) // whoever forwards them sifts them
        });
        let mut response = self.router.clone().oneshot(request).await?;
        let is_last = may_be_meant_otherwise || response.extensions().get::<Last>().is_some();
        if (is_last || self.stop.is_cancelled()) && !is_http2 {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        Ok(response)
    }

    /// Ends when a connection has to shut: what is idle closes, what is busy closes afterwards.
    async fn going(&self, activity: &Activity) {
        self.stop.cancelled().await;
        if !activity.speaks_http2() {
            tokio::time::sleep(LINGER).await;
        }
    }

    fn patience(&self) -> Patience {
        Patience::new(self.settings.answer_max, self.settings.stall_max)
    }

    fn streams(&self) -> Streams {
        Streams::new(self.tasks.clone(), self.cut.clone(), self.patience())
    }

    fn builder(&self, streams: &Streams) -> auto::Builder<Streams> {
        let mut builder = auto::Builder::new(streams.clone());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(None) // conn.rs has its own, which knows idle from slow
            .max_headers(HEADERS_MAX)
            .max_buf_size(HEADER_BYTES_MAX);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(HTTP2_HEADER_BYTES_MAX)
            .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
            .max_local_error_reset_streams(ERROR_RESETS_MAX)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .keep_alive_interval(self.settings.stall_max)
            .keep_alive_timeout(self.settings.head_max);
        builder
    }

    /// A place among one client's connections; trusted proxies need none.
    fn client_slot(&self, peer: SocketAddr) -> Option<Option<Slot>> {
        if is_trusted(peer.ip(), &self.settings.trusted_proxies) {
            return Some(None);
        }
        let max = self.settings.connections_per_client_max;
        let client = Prefixes::of(peer.ip().to_canonical()).narrowest();
        self.clients.slot(client, max).map(Some)
    }
}

/// Errors of `accept` that belong to the connection that was to be accepted.
fn is_one_connections_own(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
    )
}
