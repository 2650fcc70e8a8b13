//! How an upstream is reached: by TCP, and by TLS over it where its address says https.
//!
//! Whoever answers there must be who the address says, by the word of somebody the operator trusts. Who is not
//! gets not a byte of a request, and nothing is ever sent in the clear instead.

use std::time::Duration;

use anyhow::{Context, anyhow};
use http::Uri;
use http::uri::{PathAndQuery, Scheme};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::ServerName;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::driver::https::{Connector, Stream, connector_in_the_clear, connector_over, tls_error};
use crate::gateway::upstreams::Upstream;

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum Apart {
    /// Nobody is there, or not in time.
    Unreachable(anyhow::Error),
    /// Somebody is there, and is not proved to be the upstream.
    Untrusted(anyhow::Error),
}

/// The way to one upstream.
#[derive(Debug)]
pub(crate) struct Reach {
    upstream: Uri,
    connector: Connector,
    connect_max: Duration,
}

impl Reach {
    /// The way to an upstream. Connecting may take `connect_max`, the handshake of TLS included.
    ///
    /// # Errors
    /// The rule that the upstream breaks, as a sentence that begins with the key.
    pub(crate) fn new(upstream: &Upstream, connect_max: Duration) -> Result<Self, String> {
        let uri = Uri::builder()
            .scheme(match upstream.is_https() {
                true => Scheme::HTTPS,
                false => Scheme::HTTP,
            })
            .authority(upstream.authority()?)
            .path_and_query(PathAndQuery::from_static("/"))
            .build();
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        http.set_connect_timeout(Some(connect_max));
        Ok(Self {
            upstream: uri.expect("all three parts are there"),
            connector: connector(upstream, http)?,
            connect_max,
        })
    }

    /// A connection, over which nothing has been sent.
    ///
    /// # Errors
    /// See [`Apart`].
    pub(crate) async fn connect(&self) -> Result<Stream, Apart> {
        let connecting = self.connector.clone().oneshot(self.upstream.clone());
        match timeout(self.connect_max, connecting).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(self.apart(error)),
            Err(_) => Err(Apart::Unreachable(anyhow!(
                "no connection to {} within {:?}",
                self.upstream,
                self.connect_max
            ))),
        }
    }

    fn apart(&self, error: Box<dyn std::error::Error + Send + Sync>) -> Apart {
        let tls = tls_error(error.as_ref()).cloned();
        match tls {
            Some(tls) => {
                let cause =
                    Err::<(), _>(tls).with_context(|| format!("no TLS to {}", self.upstream));
                Apart::Untrusted(cause.expect_err("it is one"))
            }
            None => Apart::Unreachable(anyhow::Error::from_boxed(error)),
        }
    }
}

fn connector(upstream: &Upstream, http: HttpConnector) -> Result<Connector, String> {
    let url = &upstream.url;
    if !upstream.is_https() {
        if upstream.ca.is_some() {
            return Err(format!("ca_file needs url ({url}) to begin with https://"));
        }
        return connector_in_the_clear(http).map_err(|error| format!("url ({url}): {error:#}"));
    }
    let host = url.host_str().unwrap_or_default();
    let name = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(name)
        .map_err(|_| format!("url ({url}) has a host that no certificate can be for"))?;
    let key = match upstream.ca {
        Some(_) => "ca_file".to_owned(),
        None => format!("url ({url}) needs ca_file"),
    };
    connector_over(http, upstream.ca.as_deref()).map_err(|error| format!("{key}: {error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::upstreams::Gate;

    fn refused(url: &str, ca: Option<&[u8]>) -> String {
        let upstream = Upstream {
            ca: ca.map(<[u8]>::to_vec),
            ..Upstream::new(url.parse().unwrap(), Gate::Open)
        };
        let reach = Reach::new(&upstream, Duration::from_secs(1));
        reach.map(|_| String::new()).unwrap_or_else(|says| says)
    }

    #[test]
    fn a_way_that_could_lead_nowhere_is_refused() {
        let long = format!("https://{}.example", "x".repeat(64));
        for (url, ca, says) in [
            ("http://10.0.0.5:8000", None, ""),
            (
                "ftp://shop",
                None,
                "url (ftp://shop/) must be http://host:port or https://",
            ),
            ("https://shop/x", None, "url (https://shop/x) must be "),
            (
                "https://shop:secret@shop",
                None,
                "url must be without a user and a password",
            ),
            (long.as_str(), None, "url (https://"),
            (
                "http://shop",
                Some(&b"x"[..]),
                "ca_file needs url (http://shop/) to begin with https://",
            ),
            (
                "https://shop",
                Some(b"no PEM"),
                "ca_file: there is no certificate in it",
            ),
            (
                "https://shop",
                Some(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
                "ca_file: a certificate is none",
            ),
        ] {
            let told = refused(url, ca);
            assert!(
                told.starts_with(says) && told.is_empty() == says.is_empty(),
                "{url}: {told}"
            );
        }
    }
}
