//! A small HTTP client: one request, one answer, over a real socket.

use std::time::Duration;

use bytes::Bytes;
use http::response::Parts;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// How long an answer may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// Somebody who asks one server.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pool: Pool<HttpConnector, Full<Bytes>>,
    base: String,
}

impl Client {
    /// `base`: `http://host:port`.
    pub(crate) fn of(base: impl Into<String>) -> Self {
        Self {
            pool: Pool::builder(TokioExecutor::new()).build_http(),
            base: base.into(),
        }
    }

    /// Sends `line` (`GET /path`) and reads status and JSON; no JSON, no value.
    ///
    /// # Errors
    /// Nobody answered.
    pub(crate) async fn try_ask(
        &self,
        line: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let (head, text) = self.exchange(line, headers, body).await?;
        let json = serde_json::from_slice(&text).unwrap_or(Value::Null);
        Ok((head.status, json))
    }

    /// The same, with the headers of the answer and its bytes.
    ///
    /// # Errors
    /// Nobody answered.
    pub(crate) async fn exchange(
        &self,
        line: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> anyhow::Result<(Parts, Bytes)> {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let text = if body.is_null() {
            String::new()
        } else {
            request = request.header("content-type", "application/json");
            body.to_string()
        };
        let request = request.body(Full::new(Bytes::from(text))).unwrap();
        let exchange = async {
            let (head, body) = self.pool.request(request).await?.into_parts();
            let bytes = body.collect().await?.to_bytes();
            Ok((head, bytes))
        };
        tokio::time::timeout(PATIENCE, exchange).await?
    }

    /// The same where somebody must answer.
    pub(crate) async fn ask(
        &self,
        line: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> (StatusCode, Value) {
        let answer = self.try_ask(line, headers, body).await;
        answer.unwrap_or_else(|error| panic!("{line} at {}: {error:#}", self.base))
    }
}
