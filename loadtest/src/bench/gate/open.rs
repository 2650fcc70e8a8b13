//! Rows 3, 5 and 6: polls and joins, which need no ticket.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::bench::gate::crowd::{Side, Write, apart, medians, over_and_over, sum};
use crate::bench::gate::{JOINS, LINE, Site, fans, row};
use crate::bench::http::{Connection, fresh_address};
use crate::bench::system::NAIVE;
use crate::bench::table::{Must, Row};

/// The head of nginx's answers: `Server`, `Date`, `Content-Type`, `Content-Length`, `Connection`.
const NGINX_HEAD_BYTES: usize = 147;

pub(super) fn rows(site: &Site<'_>) -> anyhow::Result<Vec<Row>> {
    if ![3, 5, 6].iter().any(|row| site.wants(*row)) {
        return Ok(Vec::new());
    }
    let gateway = site.gateway.door;
    let waiting = fans::waiting(gateway, LINE, site.scale.pollers);
    let polls = over_and_over(&site.runtime.block_on(waiting)?);
    let joins: Write = Arc::new(|_, out| {
        out.extend_from_slice(fans::join(JOINS, &fresh_address()).as_bytes());
    });
    let like = |write: &Write| -> anyhow::Result<String> {
        let bytes = site.runtime.block_on(bytes_of_answer(gateway, write))?;
        Ok("x".repeat(bytes.saturating_sub(NGINX_HEAD_BYTES)))
    };
    let (like_status, like_joined) = (like(&polls)?, like(&joins)?);
    let words = [("STATUS", &*like_status), ("JOINED", &*like_joined)];
    let plain = site.peers().plain("plain", &words)?;
    let side = |door, pids, status, write: &Write| Side {
        door,
        pids,
        status,
        write: Arc::clone(write),
    };
    let (ours, redis) = (site.gateway.pid(), site.room.pid());
    let mut rows = Vec::new();
    if site.wants(3) {
        let sides = [
            side(gateway, vec![ours], 200, &polls),
            side(plain.door, vec![plain.pid()], 200, &polls),
        ];
        let spent = medians(&site.runtime, &sides, site.scale.polls)?;
        rows.push(row3(spent[0][0], spent[1][0]));
    }
    if site.wants(5) || site.wants(6) {
        let mut sides = vec![
            side(gateway, vec![ours, redis], 201, &joins),
            side(plain.door, vec![plain.pid()], 201, &joins),
        ];
        let handmade = site.peers().handmade(&site.room, NAIVE);
        if let Ok(handmade) = &handmade {
            let pids = vec![handmade.pid(), redis];
            sides.push(side(handmade.door, pids, 201, &joins));
        }
        let spent = medians(&site.runtime, &sides, site.scale.joins)?;
        rows.push(row5(spent[0][0], spent[1][0]));
        rows.push(match handmade {
            Ok(_) => row6(&spent[0], &spent[2]),
            Err(why) => row6(&spent[0], &[]).without_peer(&why),
        });
    }
    Ok(rows)
}

/// How long a whole answer is, its head included.
async fn bytes_of_answer(door: SocketAddr, write: &Write) -> anyhow::Result<usize> {
    let mut request = Vec::new();
    write(0, &mut request);
    let mut connection = Connection::open(door).await?;
    connection.ask(&request).await?;
    Ok(connection.heard())
}

fn row3(ours: f64, peer: f64) -> Row {
    let note = "ours: limits by prefix and fan, the pass's HMAC, position and ETA from the board in \
                memory; peer: nginx `return 200` of as many bytes";
    let what = "status polls of fans in line, pass checked";
    let what = (what, "µs of the door's CPU a poll");
    row(3, what, (ours, peer), Must::AtLeast(0.75), note.to_owned())
}

fn row5(ours: f64, peer: f64) -> Row {
    let note = "ours: limits, a new fan, a part of one script call in Redis, position and ETA, a \
                signed pass; peer: nginx `return 201` of as many bytes";
    let what = ("joins", "µs of the door's CPU a join");
    row(5, what, (ours, peer), Must::AtLeast(0.5), note.to_owned())
}

/// The one row that tells how much of the peer's CPU we need.
fn row6(ours: &[f64], handmade: &[f64]) -> Row {
    let note = format!(
        "door and Redis apart: ours {}, peer {}; peer: nginx and Lua, one EVALSHA (ZSCORE, INCR, \
         ZADD) a join by a pooled connection, a cookie signed with HMAC-SHA-1, no limits",
        apart(ours),
        apart(handmade)
    );
    let pair = (sum(ours), sum(handmade));
    let what = ("joins, Redis included", "µs of door and Redis CPU a join");
    Row {
        ratio: pair.0 / pair.1,
        ..row(6, what, pair, Must::AtMost(0.55), note)
    }
}
