//! What stands behind the gateway, and the paths that lead there, as an operator writes them.

use http::uri::Authority;
use serde::Deserialize;
use url::{Position, Url};

use crate::base::ids::ShowId;
use crate::base::secret::Secret;

/// `[upstreams.<name>]`: a service behind the gateway, and its gate.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// `http://host:port`, without a path.
    pub url: Url,
    /// Who may pass.
    pub gate: Gate,
    /// The show whose ticket opens it; else routes name it as `{show}`.
    #[serde(default)]
    pub show: Option<ShowId>,
    /// Shared with the upstream, for the assertion; else derived from the root secret.
    #[serde(default)]
    pub secret: Option<Secret>,
    /// Whether its `Catraca-Admission` and `Catraca-Stock` are believed.
    #[serde(default)]
    pub trusted: bool,
}

impl Upstream {
    /// Host and port.
    ///
    /// # Errors
    /// The rule that the URL breaks, as a sentence that begins with `url`.
    pub(crate) fn authority(&self) -> Result<Authority, String> {
        let url = &self.url;
        let is_bare = url.scheme() == "http"
            && url.path() == "/"
            && url.username().is_empty()
            && url.query().is_none()
            && url.fragment().is_none();
        match url[Position::BeforeHost..Position::AfterPort].parse() {
            Ok(authority) if is_bare => Ok(authority),
            Ok(_) | Err(_) => Err(format!(
                "url ({url}) must be http://host:port without a path"
            )),
        }
    }
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
        host: None,
        path: format!("/v1/shows/{{show}}{path}"),
        methods: vec![method.to_owned()],
        upstream: upstream.to_owned(),
        gate,
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
