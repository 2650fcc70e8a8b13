//! What stands behind the gateway, and the paths that lead there, as an operator writes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::uri::Authority;
use rustls::ClientConfig;
use serde::Deserialize;
use url::{Position, Url};

use crate::base::ids::ShowId;
use crate::base::secret::Secret;
use crate::gateway::target::is_host;

/// A service behind the gateway, and its gate.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// `http://host:port` or `https://host:port`, without a path.
    pub url: Url,
    /// How TLS is spoken with it, and whose certificates count: with https, and only then.
    pub tls: Option<Arc<ClientConfig>>,
    /// Who may pass.
    pub gate: Gate,
    /// The show whose ticket opens it; else routes name it as `{show}`.
    pub show: Option<ShowId>,
    /// Shared with the upstream, for the assertion; else derived from the root secret.
    pub secret: Option<Secret>,
    /// Whether its `Catraca-Admission` and `Catraca-Stock` are believed.
    pub trusted: bool,
    /// The host that it is told was asked.
    pub host: HostSent,
    /// Requests at once; none: what the gateway's settings say.
    pub in_flight_max: Option<usize>,
}

impl Upstream {
    /// An upstream with nothing said but where it is and who may pass.
    pub fn new(url: Url, gate: Gate) -> Self {
        Self {
            url,
            tls: None,
            gate,
            show: None,
            secret: None,
            trusted: false,
            host: HostSent::Upstream,
            in_flight_max: None,
        }
    }

    /// Whether the same server stands behind a gate under another name: a route that opens all of it
    /// would be a way round. One that opens a part is the operator's to judge.
    pub(crate) fn is_gated_in(&self, upstreams: &BTreeMap<String, Self>) -> bool {
        let mut gated = upstreams.values().filter(|other| other.gate != Gate::Open);
        gated.any(|other| other.may_be(self))
    }

    /// Whether both may be one server, which has a port for each scheme.
    fn may_be(&self, other: &Self) -> bool {
        let (ours, theirs) = (&self.url, &other.url);
        let is_one_scheme = ours.scheme() == theirs.scheme();
        let is_one_port = ours.port_or_known_default() == theirs.port_or_known_default();
        ours.host() == theirs.host() && (is_one_port || !is_one_scheme)
    }

    /// Whether it is reached by TLS.
    pub(crate) fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Host and port, the port unless it is the scheme's own.
    ///
    /// # Errors
    /// The rule that the URL breaks, as a sentence that begins with `url`.
    pub(crate) fn authority(&self) -> Result<Authority, String> {
        let url = &self.url;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("url must be without a user and a password".to_owned()); // and not be told
        }
        let is_bare = ["http", "https"].contains(&url.scheme())
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none();
        match url[Position::BeforeHost..Position::AfterPort].parse() {
            Ok(authority) if is_bare => Ok(authority),
            Ok(_) | Err(_) => Err(format!(
                "url ({url}) must be http://host:port or https://host:port without a path"
            )),
        }
    }
}

/// What an upstream reads in `Host`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostSent {
    /// Its own name, as the URL has it.
    #[default]
    Upstream,
    /// The name that the fan asked: for shops that build addresses of it.
    Asked,
}

/// Who may pass to an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// Holders of a live ticket; others are answered 401.
    Ticket,
    /// Holders of a live ticket; others' browsers are shown the waiting page.
    Room,
    /// Everybody.
    Open,
}

/// `[[routes]]`: paths that lead to an upstream. The first that matches is taken.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Only requests to this host, without port.
    #[serde(default)]
    pub host: Option<String>,
    /// `/v1/shows/{show}/orders`; `{*rest}` as the last segment takes whatever follows.
    pub path: String,
    /// Methods; GET takes HEAD with it.
    pub methods: Vec<String>,
    /// A name among the upstreams.
    pub upstream: String,
    /// Whom this route lets pass where the upstream's gate would not.
    #[serde(default)]
    pub gate: Option<RouteGate>,
    /// Longest request body; none: what the gateway's settings say, and so for all below.
    #[serde(default)]
    pub body_bytes_max: Option<u64>,
    /// How long the client may take to send the request.
    #[serde(default)]
    pub request_ms: Option<u64>,
    /// How long the upstream may take to begin its answer to a request that it has.
    #[serde(default)]
    pub answer_ms: Option<u64>,
    /// How long either side may be silent inside a body.
    #[serde(default)]
    pub silence_ms: Option<u64>,
    /// Requests on this route at once; none: as many as the upstream may have.
    #[serde(default)]
    pub in_flight_max: Option<usize>,
    /// Requests on this route a second, in the long run; none: no limit.
    #[serde(default)]
    pub per_s: Option<u32>,
    /// Requests at once after a pause; none: as many as in a second.
    #[serde(default)]
    pub burst: Option<u32>,
}

impl Route {
    /// A route to an upstream with nothing said beside.
    pub fn new(path: &str, methods: &[&str], upstream: &str) -> Self {
        Self {
            host: None,
            path: path.to_owned(),
            methods: methods.iter().map(|&method| method.to_owned()).collect(),
            upstream: upstream.to_owned(),
            gate: None,
            body_bytes_max: None,
            request_ms: None,
            answer_ms: None,
            silence_ms: None,
            in_flight_max: None,
            per_s: None,
            burst: None,
        }
    }

    /// Whether its host can be one that is asked: without a port and a dot at the end.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub(crate) fn check_host(&self) -> Result<(), String> {
        let Some(host) = &self.host else {
            return Ok(());
        };
        let colon = host.rfind(':');
        let has_port = colon.is_some_and(|colon| !host[colon..].contains(']'));
        if is_host(host) && !has_port && !host.ends_with('.') {
            Ok(())
        } else {
            Err(format!("has a host ({host}) that is no bare name"))
        }
    }

    /// The same, for those whom its gate lets pass.
    #[must_use]
    pub fn with_gate(self, gate: RouteGate) -> Self {
        Self {
            gate: Some(gate),
            ..self
        }
    }
}

/// Whom a route of a gated upstream lets pass without a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RouteGate {
    /// Holders of a pass of the show: their own order, after their turn.
    Pass,
    /// Everybody.
    Open,
}

/// The routes of the shop that comes with Catraca, to the upstream of that name.
pub fn orders_routes(upstream: &str) -> Vec<Route> {
    let route = |method: &str, path: &str, gate| Route {
        gate,
        ..Route::new(&format!("/v1/shows/{{show}}{path}"), &[method], upstream)
    };
    vec![
        route("GET", "/seats", Some(RouteGate::Open)),
        route("POST", "/holds", None),
        route("DELETE", "/holds/{hold}", None),
        route("POST", "/orders", None),
        route("GET", "/orders", Some(RouteGate::Pass)),
        route("GET", "/orders/{order}", Some(RouteGate::Pass)),
        route("POST", "/orders/{order}/payment", None),
    ]
}
