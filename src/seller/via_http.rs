//! The shop's keys at an address.
//!
//! One GET, no redirects: whoever answers there is whom the operator named. Whoever could change the
//! answer on its way could sign accounts, so it comes by https, or from this machine.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;

use crate::base::limits::{SELLER_DEADLINE_MS, SELLER_JWKS_BYTES_MAX};
use crate::driver::https::{Connector, connector};
use crate::seller::Source;

/// An address.
#[derive(Debug)]
pub struct ViaHttp {
    at: Uri,
    client: Client<Connector, Empty<Bytes>>,
}

impl ViaHttp {
    /// The keys at this address, trusting also the authorities of `ca` (PEM). Nobody is asked yet.
    ///
    /// # Errors
    /// It is no https address, nor an http address of this machine, or `ca` holds no certificates.
    pub fn open(at: &str, ca: Option<&[u8]>) -> anyhow::Result<Self> {
        let uri: Uri = at.parse().map_err(|_| anyhow!("it is no address"))?;
        let host = uri.host().context("it names no host")?;
        ensure!(
            uri.scheme_str() == Some("https") || is_this_machine(host),
            "it must begin with https://, for whoever could change the keys on their way could sign \
             accounts; http:// is for 127.0.0.1 and ::1"
        );
        Ok(Self {
            client: Client::builder(TokioExecutor::new())
                .pool_max_idle_per_host(0) // one question in minutes
                .build(connector(ca)?),
            at: uri,
        })
    }

    async fn ask(&self) -> anyhow::Result<Vec<u8>> {
        let request = Request::get(self.at.clone()).header("accept", "application/json");
        let request = request.body(Empty::new()).context("asking for keys")?;
        let answer = self.client.request(request).await;
        let answer = answer.with_context(|| format!("asking {}", self.at))?;
        let status = answer.status();
        ensure!(status == StatusCode::OK, "{} answered {status}", self.at);
        let body = Limited::new(answer.into_body(), SELLER_JWKS_BYTES_MAX).collect();
        let body = body.await.map_err(|error| anyhow!("its keys: {error}"))?;
        Ok(body.to_bytes().to_vec())
    }
}

fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[async_trait]
impl Source for ViaHttp {
    async fn read(&self) -> anyhow::Result<Vec<u8>> {
        let deadline = Duration::from_millis(SELLER_DEADLINE_MS);
        let asked = timeout(deadline, self.ask()).await;
        asked.unwrap_or_else(|_| Err(anyhow!("{} did not answer in time", self.at)))
    }
}
