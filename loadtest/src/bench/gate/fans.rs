//! Fans who join through the gateway, and those of them whose turn it is.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::bench::http::{Connection, fresh_address};

/// Connections that prepare fans.
const CONNECTIONS: usize = 64;
/// Times that a called fan asks for their ticket, a second apart.
const CALLS_AWAITED: usize = 60;

/// What a fan without a pass says to join.
pub(super) fn join(show: &str, from: &str) -> String {
    format!(
        "POST /v1/shows/{show}/join HTTP/1.1\r\nhost: bench\r\nx-forwarded-for: {from}\r\n\
         content-length: 0\r\n\r\n"
    )
}

/// What a fan says to poll.
fn status(show: &str, from: &str, pass: &str) -> String {
    format!(
        "GET /v1/shows/{show}/status HTTP/1.1\r\nhost: bench\r\nx-forwarded-for: {from}\r\n\
         x-catraca-pass: {pass}\r\n\r\n"
    )
}

/// What an admitted fan says to the shop.
fn enter(from: &str, pass: &str, ticket: &str) -> String {
    format!(
        "GET /shop/seats HTTP/1.1\r\nhost: bench\r\nx-forwarded-for: {from}\r\n\
         x-catraca-pass: {pass}\r\nx-admission-ticket: {ticket}\r\n\r\n"
    )
}

/// So many new fans of a show who wait; what each says to poll.
pub(super) async fn waiting(
    door: SocketAddr,
    show: &'static str,
    fans: usize,
) -> anyhow::Result<Arc<Vec<Vec<u8>>>> {
    prepare(fans, move |count| async move {
        let mut connection = Connection::open(door).await?;
        let mut polls = Vec::new();
        for _ in 0..count {
            let (from, pass) = newcomer(&mut connection, show).await?;
            polls.push(status(show, &from, &pass).into_bytes());
        }
        Ok(polls)
    })
    .await
}

/// So many new fans of a show, called and inside; what each says to the shop.
pub(super) async fn admitted(
    door: SocketAddr,
    show: &'static str,
    fans: usize,
) -> anyhow::Result<Arc<Vec<Vec<u8>>>> {
    prepare(fans, move |count| async move {
        let mut connection = Connection::open(door).await?;
        let mut line = Vec::new();
        for _ in 0..count {
            line.push(newcomer(&mut connection, show).await?);
        }
        let mut requests = Vec::new();
        for (from, pass) in line {
            let poll = status(show, &from, &pass);
            let ticket = ticket(&mut connection, &poll).await?;
            requests.push(enter(&from, &pass, &ticket).into_bytes());
        }
        Ok(requests)
    })
    .await
}

/// So many fans inside the handmade room; what each says to the shop.
pub(super) async fn handmade(door: SocketAddr, fans: usize) -> anyhow::Result<Arc<Vec<Vec<u8>>>> {
    prepare(fans, move |count| async move {
        let mut connection = Connection::open(door).await?;
        let mut requests = Vec::new();
        for _ in 0..count {
            let admit = b"GET /admit HTTP/1.1\r\nhost: bench\r\n\r\n";
            let (status, ticket) = connection.ask(admit).await?;
            ensure!(status == 200, "the handmade room answers {status}");
            let ticket = std::str::from_utf8(ticket)?;
            let request = format!(
                "GET /shop/seats HTTP/1.1\r\nhost: bench\r\ncookie: ticket={ticket}\r\n\r\n"
            );
            requests.push(request.into_bytes());
        }
        Ok(requests)
    })
    .await
}

async fn prepare<F>(fans: usize, some: impl Fn(usize) -> F) -> anyhow::Result<Arc<Vec<Vec<u8>>>>
where
    F: Future<Output = anyhow::Result<Vec<Vec<u8>>>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for first in 0..CONNECTIONS {
        tasks.spawn(some((first..fans).step_by(CONNECTIONS).len()));
    }
    let mut all = Vec::with_capacity(fans);
    while let Some(ended) = tasks.join_next().await {
        all.extend(ended??);
    }
    Ok(Arc::new(all))
}

/// Address and pass of a new fan.
async fn newcomer(connection: &mut Connection, show: &str) -> anyhow::Result<(String, String)> {
    let from = fresh_address();
    let (status, body) = connection.ask(join(show, &from).as_bytes()).await?;
    ensure!(status == 201, "a join is answered {status}");
    let body: Value = serde_json::from_slice(body)?;
    let pass = body["pass"].as_str().context("a join without a pass")?;
    Ok((from, pass.to_owned()))
}

/// Asks until the fan is called.
async fn ticket(connection: &mut Connection, poll: &str) -> anyhow::Result<String> {
    for _ in 0..CALLS_AWAITED {
        let (status, body) = connection.ask(poll.as_bytes()).await?;
        ensure!(status == 200, "a poll is answered {status}");
        let body: Value = serde_json::from_slice(body)?;
        if let Some(ticket) = body["ticket"].as_str() {
            return Ok(ticket.to_owned());
        }
        sleep(Duration::from_secs(1)).await;
    }
    anyhow::bail!("a fan is not called within {CALLS_AWAITED} s")
}
