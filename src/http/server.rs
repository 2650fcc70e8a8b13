//! The accept loop: HTTP/1 and HTTP/2 over TCP, with a bound on everything a stranger can hold.
//!
//! `axum::serve` has no timer for heads, no cap on connections and no deadline for a drain; a door
//! that strangers lean on needs all three. What becomes of one connection stands in `talk.rs`. No task
//! outlives [`serve`]: connections and the streams that HTTP/2 spawns belong to one tracker, which is
//! awaited and, past the deadline, cut.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::http::brief::Dates;
use crate::http::clients::{Clients, Slot};
use crate::http::extract::is_trusted;
use crate::http::service::{Service, Transport};
use crate::http::talk::Talk;
use crate::http::tls::Tls;
use crate::limit::prefix::Prefixes;
use crate::telemetry::metrics;

/// Pause after an error of `accept` that is not one connection's own, such as a lack of file
/// descriptors, so that the loop does not spin until some are free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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

/// Serves `service` on `listener` until `stop`; then accepts no more, lets requests finish, those
/// included that were on their way, and cuts what is left after `drain_max`.
///
/// # Errors
/// None: a server that cannot accept waits until it can.
pub async fn serve(
    listener: TcpListener,
    service: impl Service,
    settings: ServerSettings,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let server = Arc::new(Server {
        slots: Arc::new(Semaphore::new(settings.connections_max)),
        clients: Clients::default(),
        tasks: TaskTracker::new(),
        stop: stop.clone(),
        cut: CancellationToken::new(),
        dates: Dates::default(),
        service,
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

/// What the connections of one listener share.
pub(super) struct Server<A> {
    pub(super) service: A,
    pub(super) settings: ServerSettings,
    slots: Arc<Semaphore>,
    clients: Clients,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
    pub(super) cut: CancellationToken,
    pub(super) dates: Dates,
}

impl<A: Service> Server<A> {
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

    /// Shakes hands first, where TLS is spoken.
    async fn talk(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        let Some(tls) = &self.settings.tls else {
            return Talk::new(self, peer, Transport::Clear).run(stream).await;
        };
        let shaking = tls.acceptor().accept(stream);
        let shaken = tokio::time::timeout(self.settings.head_max, shaking);
        match self.cut.run_until_cancelled(shaken).await {
            Some(Ok(Ok(stream))) => {
                Box::pin(Talk::new(self, peer, Transport::Tls).run(stream)).await
            }
            Some(Ok(Err(_)) | Err(_)) => metrics::connection("no-handshake"),
            None => {}
        }
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
