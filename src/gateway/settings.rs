//! What an operator decides about the gateway.

use std::net::SocketAddr;

use ipnet::IpNet;
use serde::Deserialize;

use crate::limit;

/// `[gateway]`: the listener and its patience.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where fans connect.
    pub listen: SocketAddr,
    /// Proxies whose X-Forwarded-For is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Connections of the process.
    pub connections_max: usize,
    /// Connections of one address that is no trusted proxy.
    pub connections_per_client_max: usize,
    /// Requests being answered at once; beyond, 503 `busy`.
    pub in_flight_max: usize,
    /// How long one of our own answers may take to begin, and a client to send a request that is
    /// forwarded.
    pub request_ms: u64,
    /// How long a connection to an upstream may take.
    pub connect_ms: u64,
    /// How long an upstream may take to begin its answer to a request that it has; then 504.
    pub upstream_ms: u64,
    /// How long client or upstream may be silent inside a body that is forwarded.
    pub silence_ms: u64,
    /// Requests at one upstream at once, answers under way included; beyond, 503 `busy`.
    pub upstream_in_flight_max: usize,
    /// Longest request body that is forwarded.
    pub forward_body_bytes_max: u64,
    /// Sites whose scripts may ask us, as browsers write an origin.
    pub cors_origins: Vec<String>,
    /// How long a drain may take.
    pub drain_ms: u64,
    /// How often one may ask.
    pub limits: limit::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            trusted_proxies: Vec::new(),
            connections_max: 50_000,
            connections_per_client_max: 1_024,
            in_flight_max: 20_000,
            request_ms: 30_000,
            connect_ms: 1_000,
            upstream_ms: 15_000,
            silence_ms: 30_000,
            upstream_in_flight_max: 5_000,
            forward_body_bytes_max: 1_048_576,
            cors_origins: Vec::new(),
            drain_ms: 10_000,
            limits: limit::Settings::default(),
        }
    }
}
