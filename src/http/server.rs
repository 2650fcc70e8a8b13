//! The accept loop: HTTP/1 and HTTP/2 over TCP, with a bound on everything a stranger can hold.
//!
//! `axum::serve` has no timer for heads, no cap on connections and no deadline for a drain; a door
//! that strangers lean on needs all three. No task outlives [`serve`]: connections and the streams
//! that HTTP/2 spawns belong to one tracker, which is awaited and, past the deadline, cut.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use ipnet::IpNet;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::base::limits::{HEADER_BYTES_MAX, HEADERS_MAX};
use crate::http::body::{Bounded, Holding};
use crate::http::conn::{Activity, Timed};
use crate::telemetry::metrics;

/// Streams that one HTTP/2 connection may have open.
const STREAMS_MAX: u32 = 100;
/// Headers of one HTTP/2 request, unpacked.
const HTTP2_HEADER_BYTES_MAX: u32 = 16_384;
/// Streams reset before we have looked at them; more is an attack.
const PENDING_RESETS_MAX: usize = 20;
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

/// How patient a server is, and with how many.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// From the first byte of a request's head (or from connecting) to its last.
    pub head_max: Duration,
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
    /// Connections of one address that is not a trusted proxy. Further ones are closed at once.
    pub connections_per_client_max: usize,
    /// Proxies that speak for many clients.
    pub trusted_proxies: Vec<IpNet>,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            head_max: Duration::from_secs(10),
            body_silence_max: Duration::from_secs(10),
            stall_max: Duration::from_secs(30),
            idle_max: Duration::from_secs(75),
            drain_max: Duration::from_secs(10),
            connections_max: 50_000,
            connections_per_client_max: 1_024,
            trusted_proxies: Vec::new(),
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
        clients: Arc::default(),
        tasks: TaskTracker::new(),
        stop: stop.clone(),
        cut: CancellationToken::new(),
        router,
        settings,
    });
    stop.run_until_cancelled(server.accept(&listener)).await;
    drop(listener);
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
    clients: Arc<Mutex<HashMap<IpAddr, usize>>>,
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

    fn admit(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr, slot: OwnedSemaphorePermit) {
        let Some(client) = self.client_slot(peer.ip().to_canonical()) else {
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
    async fn talk(&self, stream: TcpStream, peer: SocketAddr) {
        let activity = Activity::new(self.settings.head_max, self.settings.idle_max);
        let service = service_fn(|mut request: Request<Incoming>| {
            let in_flight = activity.request(request.version());
            request.extensions_mut().insert(Peer(peer));
            let silence_max = self.settings.body_silence_max;
            let request = request.map(|body| {
                let bounded = Bounded::new(body, silence_max);
                Body::new(bounded.with_trailers(|_| {})) // whoever forwards them sifts them
            });
            let (router, stop) = (self.router.clone(), self.stop.clone());
            let is_http2 = request.version() == Version::HTTP_2;
            async move {
                let mut response: Response<Body> = router.oneshot(request).await?;
                if stop.is_cancelled() && !is_http2 {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
                Ok::<_, Infallible>(response.map(|body| Holding::new(body, in_flight)))
            }
        });
        let timed = Timed::new(stream, Arc::clone(&activity), self.settings.stall_max);
        let builder = self.builder();
        let mut connection = pin!(builder.serve_connection(TokioIo::new(timed), service));
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

    /// Ends when a connection has to shut: what is idle closes, what is busy closes afterwards.
    async fn going(&self, activity: &Activity) {
        self.stop.cancelled().await;
        if !activity.speaks_http2() {
            tokio::time::sleep(LINGER).await;
        }
    }

    fn builder(&self) -> auto::Builder<Streams> {
        let mut builder = auto::Builder::new(Streams {
            tasks: self.tasks.clone(),
            cut: self.cut.clone(),
        });
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
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .keep_alive_interval(self.settings.stall_max)
            .keep_alive_timeout(self.settings.head_max);
        builder
    }

    /// A place among one address's connections; trusted proxies need none.
    fn client_slot(&self, address: IpAddr) -> Option<Option<ClientSlot>> {
        let trusted = &self.settings.trusted_proxies;
        if trusted.iter().any(|net| net.contains(&address)) {
            return Some(None);
        }
        let mut clients = lock(&self.clients);
        let open = clients.entry(address).or_insert(0);
        if self.settings.connections_per_client_max <= *open {
            return None;
        }
        *open += 1;
        Some(Some(ClientSlot {
            address,
            clients: Arc::clone(&self.clients),
        }))
    }
}

/// Errors of `accept` that belong to the connection that was to be accepted.
fn is_one_connections_own(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
    )
}

type Clients = Mutex<HashMap<IpAddr, usize>>;

fn lock(clients: &Clients) -> std::sync::MutexGuard<'_, HashMap<IpAddr, usize>> {
    clients.lock().unwrap_or_else(PoisonError::into_inner)
}

struct ClientSlot {
    address: IpAddr,
    clients: Arc<Clients>,
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        let mut clients = lock(&self.clients);
        if let Some(open) = clients.get_mut(&self.address) {
            *open -= 1;
            if *open == 0 {
                clients.remove(&self.address);
            }
        }
    }
}

/// Where HTTP/2 spawns its streams: among the server's own tasks.
#[derive(Debug, Clone)]
struct Streams {
    tasks: TaskTracker,
    cut: CancellationToken,
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let cut = self.cut.clone();
        self.tasks.spawn(async move {
            cut.run_until_cancelled(stream).await;
        });
    }
}
