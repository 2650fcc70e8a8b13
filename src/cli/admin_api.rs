//! The operator verbs' way to the admin API: one request, one answer.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use http::header::{AUTHORIZATION, CONTENT_TYPE, IF_MATCH};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::base::secret::Secret;
use crate::driver::https::connector;

/// Largest answer that is read.
const ANSWER_BYTES_MAX: usize = 16 * 1_048_576;
/// How long an answer may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Where the admin API is, and who asks.
#[derive(Debug, Clone, Args)]
pub struct AdminArgs {
    /// The admin API; https where a proxy that speaks it stands before.
    #[arg(
        long,
        value_name = "URL",
        env = "CATRACA_ADMIN",
        default_value = "http://127.0.0.1:9090"
    )]
    pub admin: String,
    /// The bearer token; without it the file named by --token-file.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "CATRACA_TOKEN",
        hide_env_values = true
    )]
    pub token: Option<String>,
    /// A file with the bearer token.
    #[arg(
        long,
        value_name = "FILE",
        env = "CATRACA_TOKEN_FILE",
        default_value = "catraca-data/admin-token"
    )]
    pub token_file: std::path::PathBuf,
}

/// One request to the admin API.
#[derive(Debug)]
pub struct Ask {
    /// The method.
    pub method: Method,
    /// The path below the admin URL, with its leading slash.
    pub path: String,
    /// The version that the change is for.
    pub if_match: Option<u64>,
    /// The JSON body, as text: an amount of money must not become a float on its way.
    pub body: Option<String>,
}

/// A server gave no answer. Marks errors whose exit code says that one is missing.
#[derive(Debug, thiserror::Error)]
#[error("cannot reach {0}")]
pub struct Away(String);

impl Ask {
    /// A read.
    pub fn get(path: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            if_match: None,
            body: None,
        }
    }

    /// An act without a body.
    pub fn post(path: impl Into<String>) -> Self {
        Self {
            method: Method::POST,
            path: path.into(),
            if_match: None,
            body: None,
        }
    }
}

impl AdminArgs {
    /// Sends a request and reads the JSON answer.
    ///
    /// # Errors
    /// One line: the API is away, or what its problem document says.
    pub async fn ask(&self, ask: Ask) -> anyhow::Result<Value> {
        let url = format!("{}{}", self.admin.trim_end_matches('/'), ask.path);
        let mut request = Request::builder()
            .method(ask.method)
            .uri(&url)
            .header(AUTHORIZATION, format!("Bearer {}", self.token()?.expose()))
            .header(CONTENT_TYPE, "application/json");
        if let Some(version) = ask.if_match {
            request = request.header(IF_MATCH, format!("\"{version}\""));
        }
        let request = request
            .body(Full::new(Bytes::from(ask.body.unwrap_or_default())))
            .context("--admin is no URL")?;
        let answered = exchange(request).await;
        let (status, bytes) = answered.context(Away(format!("the admin API at {}", self.admin)))?;
        read(status, &bytes)
    }

    fn token(&self) -> anyhow::Result<Secret> {
        if let Some(token) = &self.token {
            return Ok(Secret::new(token.trim()));
        }
        let shown = self.token_file.display();
        let text = std::fs::read_to_string(&self.token_file).with_context(|| {
            format!("no --token, no CATRACA_TOKEN, and cannot read the token file {shown}")
        })?;
        Ok(Secret::new(text.trim()))
    }
}

async fn exchange(request: Request<Full<Bytes>>) -> anyhow::Result<(StatusCode, Bytes)> {
    let client = Client::builder(TokioExecutor::new()).build(connector(None)?);
    let exchange = async {
        let (head, body) = client.request(request).await?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let bytes = body.map_err(|error| anyhow::anyhow!(error))?.to_bytes();
        Ok::<_, anyhow::Error>((head.status, bytes))
    };
    tokio::time::timeout(DEADLINE, exchange)
        .await
        .with_context(|| format!("no answer in {} s", DEADLINE.as_secs()))
        .flatten()
}

/// Reads what is public below a gateway's URL.
///
/// # Errors
/// One line: the gateway is away, or has no such answer.
pub async fn fetch(url: &str, path: &str) -> anyhow::Result<String> {
    let request = Request::get(format!("{url}{path}")).body(Full::new(Bytes::new()));
    let request = request.context("--url is no URL")?;
    let answered = exchange(request).await;
    let (status, bytes) = answered.context(Away(format!("the gateway at {url}")))?;
    if !status.is_success() {
        bail!("{url}{path} answered {status}");
    }
    String::from_utf8(bytes.to_vec()).context("the answer is no text")
}

fn read(status: StatusCode, bytes: &Bytes) -> anyhow::Result<Value> {
    let answer = serde_json::from_slice(bytes).unwrap_or(Value::Null);
    if status.is_success() {
        return Ok(answer);
    }
    let title = answer["title"].as_str().unwrap_or("no reason given");
    let known = ["type", "title", "status"];
    let members = answer.as_object().into_iter().flatten();
    let more = members
        .filter(|(name, _)| !known.contains(&name.as_str()))
        .map(|(name, value)| match (name.as_str(), value.as_str()) {
            ("detail", Some(detail)) => format!(" {detail}"),
            _ => format!(" {name}: {value}."),
        });
    bail!("{title}{} ({status})", more.collect::<String>())
}
