//! The route table: which paths lead where, and who may go there. Nothing else leads anywhere.
//!
//! The gate belongs to the upstream. A route opens only the path that it names: one that takes
//! whatever follows can never open a gated upstream. What is forwarded is built from the match, so
//! the gate and the upstream cannot have read different paths.

use std::collections::BTreeMap;

use crate::base::ids::ShowId;
use crate::gateway::pattern::Pattern;
use crate::gateway::target;
use crate::gateway::upstreams::{Gate, Route, RouteGate, Upstream};

/// The methods of HTTP that pass a gateway: those that a route may take, and a script may ask for.
pub(crate) const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Who may take a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Holders of a live ticket.
    Ticket,
    /// The same; browsers without one are led to the waiting page.
    Room,
    /// Holders of a pass.
    Pass,
    /// Everybody.
    Open,
}

/// Where a request leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matched<'a> {
    /// The upstream's name.
    pub upstream: &'a str,
    /// The route's number in the operator's list, from 0.
    pub route: usize,
    /// Who may pass.
    pub access: Access,
    /// The show; there is one wherever the access is not open.
    pub show: Option<ShowId>,
    /// Path and query to forward.
    pub target: String,
}

/// Why a request leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoute {
    /// Its target has no single reading, or its show is not well-formed.
    BadPath,
    /// No route.
    NotFound,
    /// A route, but not for this method.
    Method,
}

#[derive(Debug, Clone)]
struct Entry {
    host: Option<String>,
    pattern: Pattern,
    methods: Vec<String>,
    upstream: String,
    access: Access,
    show: Option<ShowId>,
}

/// All routes, in the operator's order.
#[derive(Debug, Clone)]
pub struct RouteTable {
    entries: Vec<Entry>,
}

impl RouteTable {
    /// Compiles the operator's routes.
    ///
    /// # Errors
    /// A sentence that names the route and the rule it breaks.
    pub fn new(upstreams: &BTreeMap<String, Upstream>, routes: &[Route]) -> Result<Self, String> {
        let entries: Result<_, String> = routes
            .iter()
            .map(|route| {
                entry(upstreams, route).map_err(|rule| format!("route {:?} {rule}", route.path))
            })
            .collect();
        Ok(Self { entries: entries? })
    }

    /// Where a request leads. `host` is lower-case and without port.
    ///
    /// # Errors
    /// [`NoRoute`]: nothing is to be forwarded.
    pub fn find(
        &self,
        host: &str,
        method: &str,
        path: &str,
        query: Option<&str>,
    ) -> Result<Matched<'_>, NoRoute> {
        let segments = target::segments(path).map_err(|_| NoRoute::BadPath)?;
        let named =
            target::show_in_query(query.unwrap_or_default()).map_err(|_| NoRoute::BadPath)?;
        let mut none = NoRoute::NotFound;
        for (route, entry) in self.entries.iter().enumerate() {
            if entry.host.as_deref().is_some_and(|only| only != host) {
                continue;
            }
            let Some(built) = entry.pattern.fit(&segments) else {
                continue;
            };
            if !entry.takes(method) {
                none = NoRoute::Method;
                continue;
            }
            let show = entry.show_of(built.show)?;
            if let (Some(show), Some(named)) = (&show, &named)
                && show.as_str() != named
            {
                return Err(NoRoute::BadPath);
            }
            let question = query.map(|query| format!("?{query}")).unwrap_or_default();
            return Ok(Matched {
                upstream: &entry.upstream,
                route,
                access: entry.access,
                show,
                target: built.path + &question,
            });
        }
        Err(none)
    }
}

impl Entry {
    fn takes(&self, method: &str) -> bool {
        let wanted = if method == "HEAD" { "GET" } else { method };
        self.methods.iter().any(|m| m == method || m == wanted)
    }

    fn show_of(&self, segment: Option<&str>) -> Result<Option<ShowId>, NoRoute> {
        let Some(segment) = segment else {
            return Ok(self.show.clone());
        };
        let named: ShowId = segment.parse().map_err(|_| NoRoute::BadPath)?;
        match &self.show {
            Some(only) if *only != named => Err(NoRoute::NotFound),
            Some(_) | None => Ok(Some(named)),
        }
    }
}

fn entry(upstreams: &BTreeMap<String, Upstream>, route: &Route) -> Result<Entry, String> {
    let Some(upstream) = upstreams.get(&route.upstream) else {
        return Err(format!("names the unknown upstream {:?}", route.upstream));
    };
    let pattern: Pattern = route.path.parse()?;
    route.check_host()?;
    let access = match (upstream.gate, route.gate) {
        (Gate::Ticket, None) => Access::Ticket,
        (Gate::Room, None) => Access::Room,
        (Gate::Open, _) if pattern.is_everything() && upstream.is_gated_in(upstreams) => {
            return Err(format!(
                "opens all of {}, which another upstream gates",
                upstream.url
            ));
        }
        (Gate::Open, _) => Access::Open,
        (Gate::Ticket | Gate::Room, Some(_)) if pattern.catches_all() => {
            return Err(format!(
                "takes whatever follows, so it cannot open the gated upstream {:?}",
                route.upstream
            ));
        }
        (Gate::Ticket | Gate::Room, Some(RouteGate::Pass)) => Access::Pass,
        (Gate::Ticket | Gate::Room, Some(RouteGate::Open)) => Access::Open,
    };
    let has_show = upstream.show.is_some() || pattern.names_show();
    if access != Access::Open && !has_show {
        return Err(format!(
            "needs {{show}}, or upstream {:?} a show",
            route.upstream
        ));
    }
    if let Some(unknown) = route
        .methods
        .iter()
        .find(|m| !METHODS.contains(&m.as_str()))
    {
        return Err(format!("has the unknown method {unknown:?}"));
    }
    if route.methods.is_empty() {
        return Err("has no methods".to_owned());
    }
    Ok(Entry {
        host: route.host.as_ref().map(|host| host.to_ascii_lowercase()),
        pattern,
        methods: route.methods.clone(),
        upstream: route.upstream.clone(),
        access,
        show: upstream.show.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::upstreams::orders_routes;

    fn url(text: &str) -> url::Url {
        text.parse().unwrap()
    }

    fn upstream(gate: Gate, show: Option<&str>) -> Upstream {
        Upstream {
            show: show.map(|show| show.parse().unwrap()),
            ..Upstream::new(url("http://127.0.0.1:1"), gate)
        }
    }

    fn upstreams() -> BTreeMap<String, Upstream> {
        let all = [
            ("orders", upstream(Gate::Ticket, None)),
            ("shop", upstream(Gate::Room, Some("gala"))),
            (
                "static",
                Upstream::new(url("http://127.0.0.1:2"), Gate::Open),
            ),
            ("aside", upstream(Gate::Open, None)),
            ("tls", Upstream::new(url("https://127.0.0.1"), Gate::Open)),
        ];
        all.map(|(name, upstream)| (name.to_owned(), upstream))
            .into()
    }

    fn route(path: &str, upstream: &str, gate: Option<RouteGate>) -> Route {
        Route {
            gate,
            ..Route::new(path, &["GET"], upstream)
        }
    }

    fn table() -> RouteTable {
        let mut routes = orders_routes("orders");
        routes.push(route("/about", "shop", Some(RouteGate::Open)));
        routes.push(Route {
            host: Some("Shop.example.com".to_owned()),
            ..route("/{*rest}", "shop", None)
        });
        routes.push(route("/static/{*rest}", "static", None));
        RouteTable::new(&upstreams(), &routes).unwrap()
    }

    #[test]
    fn requests_lead_where_the_operator_said() {
        let table = table();
        for (host, request, upstream, access, show) in [
            (
                "a",
                "POST /v1/shows/gig/orders",
                "orders",
                Access::Ticket,
                Some("gig"),
            ),
            (
                "a",
                "GET /v1/shows/gig/orders/7?x=1",
                "orders",
                Access::Pass,
                Some("gig"),
            ),
            (
                "a",
                "HEAD /v1/shows/gig/orders/7",
                "orders",
                Access::Pass,
                Some("gig"),
            ),
            (
                "a",
                "DELETE /v1/shows/gig/holds/7",
                "orders",
                Access::Ticket,
                Some("gig"),
            ),
            ("a", "GET /about", "shop", Access::Open, Some("gala")),
            (
                "shop.example.com",
                "GET /",
                "shop",
                Access::Room,
                Some("gala"),
            ),
            (
                "shop.example.com",
                "GET /a/b/?show=gala",
                "shop",
                Access::Room,
                Some("gala"),
            ),
            ("a", "GET /static/x.css", "static", Access::Open, None),
        ] {
            let (method, target) = request.split_once(' ').unwrap();
            let (path, query) = match target.split_once('?') {
                Some((path, query)) => (path, Some(query)),
                None => (target, None),
            };
            let matched = table.find(host, method, path, query).unwrap();
            assert_eq!(
                (matched.upstream, matched.access),
                (upstream, access),
                "{request}"
            );
            assert_eq!(matched.show.as_ref().map(ShowId::as_str), show, "{request}");
            assert_eq!(matched.target, target);
        }
    }

    #[test]
    fn everything_else_leads_nowhere() {
        let table = table();
        for (host, request, why) in [
            ("a", "GET /", NoRoute::NotFound),
            ("shop.example.com.evil", "GET /", NoRoute::NotFound),
            ("a", "POST /v1/shows/gig/ORDERS", NoRoute::NotFound),
            ("a", "POST /v1/shows/gig/orders/", NoRoute::NotFound),
            ("a", "POST /V1/shows/gig/orders", NoRoute::NotFound),
            ("a", "POST /v1/shows/gig/orders.json", NoRoute::NotFound),
            ("a", "POST /v1/shows/gig", NoRoute::NotFound),
            ("a", "GET /static", NoRoute::NotFound),
            ("a", "GET /v1/shows/gig/holds", NoRoute::Method),
            ("a", "PUT /v1/shows/gig/orders/7", NoRoute::Method),
            ("shop.example.com", "POST /", NoRoute::Method),
            ("a", "POST /v1/shows/GIG/orders", NoRoute::BadPath),
            ("a", "POST /v1/shows/{gig}/orders", NoRoute::BadPath),
            ("a", "POST /v1/shows/gig/orders?show=gala", NoRoute::BadPath),
            (
                "a",
                "POST /v1/shows/gig/orders?show=gig&show=gig",
                NoRoute::BadPath,
            ),
            ("a", "POST /v1/shows/gig/x/../orders", NoRoute::BadPath),
            ("a", "POST //v1/shows/gig/orders", NoRoute::BadPath),
            ("a", "POST /v1/shows/gig/%6frders", NoRoute::BadPath),
        ] {
            let (method, target) = request.split_once(' ').unwrap();
            let (path, query) = match target.split_once('?') {
                Some((path, query)) => (path, Some(query)),
                None => (target, None),
            };
            assert_eq!(
                table.find(host, method, path, query),
                Err(why),
                "{host} {request}"
            );
        }
    }

    #[test]
    fn tables_that_open_what_is_gated_are_refused() {
        for (path, upstream, gate, says) in [
            (
                "/{*rest}",
                "orders",
                Some(RouteGate::Open),
                "cannot open the gated",
            ),
            (
                "/v1/shows/{show}/{*rest}",
                "orders",
                Some(RouteGate::Pass),
                "cannot open the gated",
            ),
            ("/orders", "orders", None, "needs {show}"),
            ("/x", "nobody", None, "unknown upstream"),
            ("x", "static", None, "must begin with /"),
            ("/{show}/{show}", "orders", None, "twice"),
            ("/{*rest}/x", "static", None, "must end"),
            ("/{}", "static", None, "malformed parameter"),
            ("/a/../b", "static", None, "malformed segment"),
            ("/{*rest}", "aside", None, "another upstream gates"),
            ("/{*rest}", "tls", None, "another upstream gates"),
        ] {
            let error = RouteTable::new(&upstreams(), &[route(path, upstream, gate)]).unwrap_err();
            assert!(error.contains(says), "{path}: {error}");
        }
        for fits in [
            route("/{*rest}", "static", None),
            route("/css/{*rest}", "aside", None),
        ] {
            RouteTable::new(&upstreams(), &[fits]).unwrap();
        }
        for host in ["shop:80", "shop.", "", "*.shop", "http://shop", "[::1]:80"] {
            let route = Route {
                host: Some(host.to_owned()),
                ..route("/x", "static", None)
            };
            let error = RouteTable::new(&upstreams(), &[route]).unwrap_err();
            assert!(error.contains("no bare name"), "{host}: {error}");
        }
    }
}
