//! Row 15: what a connection costs that has asked once and now lies idle.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::ensure;

use crate::bench::gate::{LINE, Site, fans, gateway};
use crate::bench::http::Connection;
use crate::bench::machine::memory;
use crate::bench::table::{Must, Row};

pub(super) fn rows(site: &Site<'_>) -> anyhow::Result<Vec<Row>> {
    if !site.wants(15) {
        return Ok(Vec::new());
    }
    // Processes of their own: memory that earlier rows have freed would be taken again unseen.
    let fresh = gateway(site.args, &site.room, site.folder, &site.shop)?;
    fresh.wait_for_show(LINE)?;
    let count = site.scale.idle;
    let waiting = fans::waiting(fresh.door, LINE, count);
    let polls = site.runtime.block_on(waiting)?;
    let plain = site.peers().plain("idle", &[("STATUS", "x")])?;
    let ours = held(site, fresh.door, fresh.pid(), &polls)?;
    let peer = held(site, plain.door, plain.pid(), &polls)?;
    Ok(vec![Row {
        number: 15,
        what: format!("memory of an idle connection, {count} of them, after one poll each"),
        ours,
        peer,
        ratio: ours,
        unit: "kB resident",
        must: Must::AtMost(12.0),
        note: "the bound is on ours; peer: nginx, whose table of connections is there before the \
               first. Buffers of the kernel are in neither"
            .to_owned(),
    }])
}

/// Kilobytes that the process has grown by, for each connection.
#[expect(clippy::cast_precision_loss, reason = "kilobytes of a test run")]
fn held(
    site: &Site<'_>,
    door: SocketAddr,
    pid: u32,
    polls: &Arc<Vec<Vec<u8>>>,
) -> anyhow::Result<f64> {
    let before = memory(pid)?;
    let open = site.runtime.block_on(open(door, polls))?;
    let after = memory(pid)?;
    Ok(after.saturating_sub(before) as f64 / 1_000.0 / open.len() as f64)
}

/// A connection for each poll, which has been answered.
async fn open(door: SocketAddr, polls: &[Vec<u8>]) -> anyhow::Result<Vec<Connection>> {
    let mut open = Vec::with_capacity(polls.len());
    for poll in polls {
        let mut connection = Connection::open(door).await?;
        let (status, _) = connection.ask(poll).await?;
        ensure!(status == 200, "a poll is answered {status}");
        open.push(connection);
    }
    Ok(open)
}
