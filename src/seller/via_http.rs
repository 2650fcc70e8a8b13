//! The shop's keys at an address.
//!
//! One GET, no redirects: whoever answers there is whom the operator named. Over https the machine's
//! own authorities count.

use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;

use crate::base::limits::{SELLER_DEADLINE_MS, SELLER_JWKS_BYTES_MAX};
use crate::seller::Source;

/// An address.
#[derive(Debug)]
pub struct ViaHttp {
    at: Uri,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

impl ViaHttp {
    /// The keys at this address. Nobody is asked yet.
    ///
    /// # Errors
    /// It is no http or https address, or the machine trusts no authority.
    pub fn open(at: &str) -> anyhow::Result<Self> {
        let uri: Uri = at.parse().map_err(|_| anyhow!("it is no address"))?;
        ensure!(uri.host().is_some(), "it names no host");
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(provider)
            .context("reading the machine's certificates")?
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self {
            at: uri,
            client: Client::builder(TokioExecutor::new())
                .pool_max_idle_per_host(0) // one question in minutes
                .build(connector),
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

#[async_trait]
impl Source for ViaHttp {
    async fn read(&self) -> anyhow::Result<Vec<u8>> {
        let deadline = Duration::from_millis(SELLER_DEADLINE_MS);
        let asked = timeout(deadline, self.ask()).await;
        asked.unwrap_or_else(|_| Err(anyhow!("{} did not answer in time", self.at)))
    }
}
