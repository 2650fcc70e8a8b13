//! The reverse proxy: one request in, at most one request out.
//!
//! Bodies stream both ways within their bounds. Nothing is retried: only the client knows whether a
//! repeat is safe. Protocol upgrades do not pass, and `docs/decisions/` says why this is not a
//! library's.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::header::CACHE_CONTROL;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, Version};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Semaphore;

use crate::base::ids::{RequestId, ShowId};
use crate::base::secret::Secret;
use crate::base::time::Clock;
use crate::gateway::entry::Entry;
use crate::gateway::gate::Entrant;
use crate::gateway::headers::{strip_request, strip_response};
use crate::gateway::settings::Settings;
use crate::gateway::upstreams::Upstream;
use crate::http::body::{Bounded, body_error};
use crate::http::extract::{ClientAddr, unfinished};
use crate::http::problem::Problem;
use crate::telemetry::metrics;
use crate::token::assertion::{self, Asserted};

/// How long a client or an upstream may be silent inside a body.
const BODY_SILENCE_MAX: Duration = Duration::from_secs(30);
/// How long an unused connection to an upstream is kept: shorter than servers keep theirs, so that
/// no request is sent into a connection that is being closed.
const POOL_IDLE_MAX: Duration = Duration::from_secs(15);
/// Unused connections kept for an upstream.
const POOL_MAX: usize = 256;

/// An upstream as the gateway reaches it.
#[derive(Debug)]
pub(crate) struct Forwarder {
    authority: Authority,
    secret: Secret,
    is_trusted: bool,
    client: Client<HttpConnector, Bounded<Body>>,
    permits: Semaphore,
    answer_max: Duration,
    body_bytes_max: u64,
    clock: Arc<dyn Clock>,
}

/// What is to be forwarded, beside the request itself.
#[derive(Debug)]
pub(crate) struct Errand<'a> {
    /// Path and query, rebuilt from the matched route.
    pub(crate) target: &'a str,
    /// The show, where the route has one.
    pub(crate) show: Option<&'a ShowId>,
    /// Who asks, where the gate knows.
    pub(crate) entrant: Option<&'a Entrant>,
}

impl Forwarder {
    /// A way to an upstream. `secret` is used where the operator has set none.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the URL.
    pub(crate) fn new(
        upstream: &Upstream,
        secret: Secret,
        settings: &Settings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        let authority = upstream.authority()?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(Duration::from_millis(settings.connect_ms)));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE_MAX)
            .pool_max_idle_per_host(POOL_MAX)
            .retry_canceled_requests(false)
            .set_host(false)
            .build(connector);
        Ok(Self {
            authority,
            secret: upstream.secret.clone().unwrap_or(secret),
            is_trusted: upstream.trusted,
            client,
            permits: Semaphore::new(settings.upstream_in_flight_max),
            answer_max: Duration::from_millis(settings.upstream_ms),
            body_bytes_max: settings.forward_body_bytes_max,
            clock,
        })
    }

    /// Whether what it says of admissions and stock is believed.
    pub(crate) fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    /// Sends the request on and the answer back. What the upstream says of admissions is still in
    /// the answer's extensions as [`Said`].
    ///
    /// # Errors
    /// 413, 503 where it cannot be reached, 504 where it does not answer in time, 502 where its
    /// answer is broken.
    pub(crate) async fn forward(
        &self,
        request: Request,
        errand: &Errand<'_>,
    ) -> Result<Response, Problem> {
        let Ok(_permit) = self.permits.try_acquire() else {
            metrics::forward("busy");
            return Err(Problem::unavailable("busy"));
        };
        let asked = self.client.request(self.outgoing(request, errand));
        let answered = match tokio::time::timeout(self.answer_max, asked).await {
            Ok(answered) => answered,
            Err(_) => {
                metrics::forward("timeout");
                return Err(timed_out(self.answer_max));
            }
        };
        match answered {
            Ok(response) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                metrics::forward("broken");
                Err(broken(anyhow::anyhow!("upstream switched protocols")))
            }
            Ok(response) => {
                metrics::forward(class(response.status()));
                Ok(incoming(response, errand))
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn outgoing(&self, request: Request, errand: &Errand<'_>) -> http::Request<Bounded<Body>> {
        let (mut parts, body) = request.into_parts();
        let id = parts.extensions.get::<RequestId>().copied();
        let entry = parts.extensions.get::<Entry>().cloned();
        let client = parts.extensions.get::<ClientAddr>().copied();
        strip_request(&mut parts.headers);
        let headers = &mut parts.headers;
        put(headers, "host", self.authority.as_str());
        if let Some(client) = client {
            put(headers, "x-forwarded-for", &client.0.to_string());
        }
        if let Some(entry) = &entry {
            put(headers, "x-forwarded-proto", entry.proto);
            put(headers, "x-forwarded-host", &entry.host);
        }
        if let Some(id) = id {
            put(headers, "x-request-id", &id.to_string());
        }
        if let (Some(entrant), Some(show), Some(nonce)) = (errand.entrant, errand.show, id) {
            let asserted = Asserted {
                fan: entrant.fan,
                show,
                ticket_id: entrant.ticket_id,
                nonce,
                method: parts.method.as_str(),
                path: errand.target,
            };
            self.assert(headers, &asserted);
        }
        let mut outgoing =
            http::Request::new(Bounded::new(body, BODY_SILENCE_MAX).at_most(self.body_bytes_max));
        *outgoing.method_mut() = parts.method;
        *outgoing.version_mut() = Version::HTTP_11;
        *outgoing.uri_mut() = self.uri(errand.target);
        *outgoing.headers_mut() = parts.headers;
        outgoing
    }

    /// Names the entrant to the upstream, and proves that it was us.
    fn assert(&self, headers: &mut HeaderMap, asserted: &Asserted<'_>) {
        put(headers, "x-catraca-fan", &asserted.fan.to_string());
        put(headers, "x-catraca-show", asserted.show.as_str());
        if let Some(id) = asserted.ticket_id {
            put(headers, "x-catraca-ticket-id", &id.to_string());
        }
        put(headers, "x-catraca-nonce", &asserted.nonce.to_string());
        let proof = assertion::sign(asserted, &self.secret, self.clock.now());
        put(headers, assertion::HEADER, &proof);
    }

    fn uri(&self, target: &str) -> Uri {
        let target: PathAndQuery = target.parse().expect("a strict target is a path and query");
        Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(self.authority.clone())
            .path_and_query(target)
            .build()
            .expect("all three parts are there")
    }
}

fn put(headers: &mut HeaderMap, name: &'static str, value: &str) {
    let value = HeaderValue::from_str(value).expect("ids, addresses, hosts and MACs are ASCII");
    headers.insert(HeaderName::from_static(name), value);
}

/// What an upstream said of admissions and stock, for whoever forwards. Not for clients.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    /// `Catraca-Admission`.
    pub(crate) admission: Option<HeaderValue>,
    /// `Catraca-Stock`.
    pub(crate) stock: Option<HeaderValue>,
}

fn incoming(response: http::Response<Incoming>, errand: &Errand<'_>) -> Response {
    let (mut parts, body) = response.into_parts();
    let said = Said {
        admission: parts.headers.remove("catraca-admission"),
        stock: parts.headers.remove("catraca-stock"),
    };
    strip_response(&mut parts.headers);
    if errand.entrant.is_some() && !parts.headers.contains_key(CACHE_CONTROL) {
        // What is behind the gate is one fan's; caches that guess by file name must not keep it.
        let no_store = HeaderValue::from_static("no-store");
        parts.headers.insert(CACHE_CONTROL, no_store);
    }
    parts.extensions.clear();
    parts.extensions.insert(said);
    Response::from_parts(parts, Body::new(Bounded::new(body, BODY_SILENCE_MAX)))
}

fn failed(error: ClientError) -> Problem {
    if let Some(error) = body_error(&error) {
        return unfinished(error);
    }
    if error.is_connect() {
        metrics::forward("unreachable");
        return Problem::unavailable("upstream-unavailable").caused_by(error);
    }
    metrics::forward("broken");
    broken(error.into())
}

fn broken(cause: anyhow::Error) -> Problem {
    Problem::new(
        StatusCode::BAD_GATEWAY,
        "upstream-broken",
        "The shop's answer got lost. Ask what became of it before you try again.",
    )
    .caused_by(cause)
}

fn timed_out(after: Duration) -> Problem {
    Problem::new(
        StatusCode::GATEWAY_TIMEOUT,
        "upstream-timeout",
        "The shop did not answer in time. Ask what became of it before you try again.",
    )
    .caused_by(anyhow::anyhow!("upstream did not answer within {after:?}"))
}

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() {
        ..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        500.. => "5xx",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::SystemClock;
    use crate::gateway::upstreams::Gate;

    #[tokio::test]
    async fn an_upstream_is_a_host_and_a_port() {
        for (url, fits) in [
            ("http://127.0.0.1:8081", true),
            ("http://[::1]:8081/", true),
            ("http://shop", true),
            ("https://shop", false),
            ("http://shop/base", false),
            ("http://user@shop", false),
            ("http://shop?x=1", false),
            ("unix:/run/shop", false),
        ] {
            let upstream = Upstream {
                url: url.parse().unwrap(),
                gate: Gate::Ticket,
                show: None,
                secret: None,
                trusted: false,
            };
            let secret = Secret::new("s");
            let settings = Settings::default();
            let forwarder = Forwarder::new(&upstream, secret, &settings, Arc::new(SystemClock));
            assert_eq!(forwarder.is_ok(), fits, "{url}");
        }
    }
}
