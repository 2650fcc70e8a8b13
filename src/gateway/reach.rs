//! How an upstream is reached: by TCP, and by TLS over it where its address says https.
//!
//! Whoever answers there must be who the address says, by the word of somebody the operator trusts. Who is not
//! gets not a byte of a request, and nothing is ever sent in the clear instead.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use http::Uri;
use http::uri::{PathAndQuery, Scheme};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::gateway::upstreams::Upstream;

type Connector = HttpsConnector<HttpConnector>;

/// A connection, with TLS or without.
pub(crate) type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

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

    fn apart(&self, error: Box<dyn Error + Send + Sync>) -> Apart {
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

fn connector(upstream: &Upstream, mut http: HttpConnector) -> Result<Connector, String> {
    let url = &upstream.url;
    let tls = match (&upstream.tls, upstream.is_https()) {
        (Some(tls), true) => Arc::clone(tls),
        (None, false) => return Ok(Connector::from((http, nobody()))),
        (Some(_), false) | (None, true) => {
            return Err(format!("url ({url}) and TLS do not go together"));
        }
    };
    let host = url.host_str().unwrap_or_default();
    let name = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(name)
        .map_err(|_| format!("url ({url}) has a host that no certificate can be for"))?;
    http.enforce_http(false);
    let mut connector = Connector::from((http, tls));
    connector.enforce_https();
    Ok(connector)
}

/// Trusts nobody: where no TLS is spoken, it takes none by mistake.
fn nobody() -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has the versions that are the default")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth()
}

/// What went wrong with TLS, if that is what went wrong: the other end is not who it should be, or does not
/// speak as we do.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(io) = error.downcast_ref::<std::io::Error>() {
        return io.get_ref().and_then(|inner| tls_error(inner));
    }
    let found = error.downcast_ref::<rustls::Error>();
    found.or_else(|| error.source().and_then(tls_error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::upstreams::Gate;

    #[test]
    fn a_way_that_could_lead_nowhere_is_refused() {
        let long = format!("https://{}.example", "x".repeat(64));
        for (url, is_tls, says) in [
            ("http://10.0.0.5:8000", false, ""),
            ("https://shop", true, ""),
            ("https://[::1]:8443", true, ""),
            (
                "ftp://shop",
                false,
                "url (ftp://shop/) must be http://host:port or https://",
            ),
            ("https://shop/x", true, "url (https://shop/x) must be "),
            (
                "https://shop:secret@shop",
                true,
                "url must be without a user and a password",
            ),
            (long.as_str(), true, "url (https://"),
            ("https://shop", false, "url (https://shop/) and TLS do not"),
            ("http://shop", true, "url (http://shop/) and TLS do not"),
        ] {
            let upstream = Upstream {
                tls: is_tls.then(|| Arc::new(nobody())),
                ..Upstream::new(url.parse().unwrap(), Gate::Open)
            };
            let told = Reach::new(&upstream, Duration::from_secs(1)).err();
            let told = told.unwrap_or_default();
            assert!(
                told.starts_with(says) && told.is_empty() == says.is_empty(),
                "{url}: {told}"
            );
        }
    }
}
