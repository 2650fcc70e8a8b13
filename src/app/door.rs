//! The gateway as a configuration has it: what it lets through, and the loops behind it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use url::Url;

use crate::app::StartError;
use crate::app::backends::{Front, certificates};
use crate::config::Config;
use crate::driver::https::trusting;
use crate::gateway::upstreams::{Route, Upstream, orders_routes};
use crate::gateway::{Gateway, GatewayState, Parts};
use crate::http::server::ServerSettings;
use crate::http::tls::Tls;
use crate::limit::in_memory::InMemory as Limits;
use crate::room::Rooms;
use crate::seller::Accounts;
use crate::supervisor::Supervisor;

/// The upstream that is our own.
pub(super) const ORDERS: &str = "orders";

/// The gateway and what it lets through: who is counted where, and where our own shop listens.
pub(super) fn gateway(
    config: &Config,
    front: Front,
    rooms: Rooms,
    (limits, orders): (&Arc<Limits>, SocketAddr),
) -> Result<GatewayState, StartError> {
    let (upstreams, routes) = upstreams(config, orders)?;
    Gateway::new(Parts {
        rooms,
        keys: front.keys,
        limits: Arc::clone(limits) as _,
        joins: front.joins,
        accounts: front
            .seller
            .map(|source| Accounts::new(source, config.gateway.seller.clone())),
        ids: front.ids,
        clock: front.clock,
        settings: config.gateway.clone(),
        upstreams,
        routes,
    })
    .map_err(StartError::config)
}

/// How the gateway's listener is to be served; with TLS, the loop that follows its files is started.
pub(super) fn served(
    config: &Config,
    supervisor: &mut Supervisor,
    gateway: &GatewayState,
) -> Result<ServerSettings, StartError> {
    let mut served = gateway.server_settings();
    if let Some(tls) = tls(config)?.map(Arc::new) {
        served.tls = Some(Arc::clone(&tls));
        let stop = supervisor.loop_stop();
        supervisor.background("certificate", tls.run(stop));
    }
    Ok(served)
}

/// The certificate of the gateway, if it has one.
pub(super) fn tls(config: &Config) -> Result<Option<Tls>, StartError> {
    let files = &config.gateway.tls;
    if !files.are_given() {
        return Ok(None);
    }
    let opened = Tls::open(&files.cert_file, &files.key_file);
    let tls = opened.map_err(|error| StartError::config(format!("gateway.tls: {error}")))?;
    Ok(Some(tls))
}

/// How a person writes where the gateway listens.
pub(super) fn url(config: &Config, address: SocketAddr) -> String {
    let scheme = match config.gateway.tls.are_given() {
        true => "https",
        false => "http",
    };
    format!("{scheme}://{address}")
}

/// The loops that a gateway needs: what everybody may see, what upstreams said, who asks too often.
pub(super) fn behind(supervisor: &mut Supervisor, gateway: &GatewayState, limits: Arc<Limits>) {
    let stop = supervisor.loop_stop();
    let (boards, token) = (gateway.boards(), stop.clone());
    supervisor.background("boards", async move { boards.run(token).await });
    let (follow_ups, token) = (gateway.follow_ups(), stop.clone());
    supervisor.background("follow-ups", async move { follow_ups.run(token).await });
    supervisor.background("limits", async move { limits.run(stop).await });
}

/// How TLS is spoken with an upstream, where its address says so.
fn tls_to(name: &str, url: &Url, ca_file: &Path) -> Result<Option<Arc<ClientConfig>>, StartError> {
    let key = format!("upstreams.{name}.ca_file");
    let ca = certificates(&key, ca_file)?;
    let says = match (url.scheme(), &ca) {
        ("https", Some(_)) => key,
        ("https", None) => format!("upstreams.{name}.url needs ca_file"),
        (_, None) => return Ok(None),
        (_, Some(_)) => {
            let rule = format!("{key} needs url to begin with https://");
            return Err(StartError::config(rule));
        }
    };
    let tls = trusting(ca.as_deref());
    tls.map(Some)
        .map_err(|error| StartError::config(format!("{says}: {error:#}")))
}

/// The services behind the gateway and the ways there; `orders` is where our own listens.
pub(super) fn upstreams(
    config: &Config,
    orders: SocketAddr,
) -> Result<(BTreeMap<String, Upstream>, Vec<Route>), StartError> {
    let mut upstreams = BTreeMap::new();
    for (name, entry) in &config.upstreams {
        let own = format!("http://{orders}");
        let url = match &entry.url {
            Some(url) => url.clone(),
            None => own
                .parse()
                .map_err(|_| StartError::config(format!("{own} is no URL")))?,
        };
        let upstream = Upstream {
            tls: tls_to(name, &url, &entry.ca_file)?,
            show: entry.show.clone(),
            secret: entry.secret.clone(),
            trusted: entry.trusted,
            host: entry.host,
            in_flight_max: entry.in_flight_max,
            ..Upstream::new(url, entry.gate)
        };
        upstreams.insert(name.clone(), upstream);
    }
    let routes = if config.routes.is_empty() {
        orders_routes(ORDERS)
    } else {
        config.routes.clone()
    };
    Ok((upstreams, routes))
}
