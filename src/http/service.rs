//! What a listener serves: a request comes, an answer goes.

use std::future::Future;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use tower::ServiceExt;

use crate::http::patience::Patience;

/// What lies between us and whoever connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Nothing: a connection in the clear.
    Clear,
    /// Our own TLS.
    Tls,
}

/// How a request came.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The address that its connection came from.
    pub peer: SocketAddr,
    /// What that connection is.
    pub transport: Transport,
    /// How long it may take.
    pub patience: Patience,
}

/// What answers the requests of a listener.
pub trait Service: Clone + Send + Sync + 'static {
    /// Answers one request.
    fn answer(
        &self,
        request: Request<Body>,
        arrival: Arrival,
    ) -> impl Future<Output = Response<Body>> + Send;

    /// Whether the answer to this is short and all there when it begins, whatever it says: then it is
    /// read and written without hyper.
    fn is_brief(&self, method: &str, path: &str) -> bool;
}

/// Who does not ask how a request came.
impl Service for Router {
    async fn answer(&self, request: Request<Body>, _arrival: Arrival) -> Response<Body> {
        let answered = self.clone().oneshot(request).await;
        answered.unwrap_or_else(|never| match never {})
    }

    fn is_brief(&self, _method: &str, _path: &str) -> bool {
        false
    }
}
