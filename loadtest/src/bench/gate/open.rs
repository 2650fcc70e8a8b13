//! Rows 3, 5 and 6: polls and joins, which need no ticket.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::bench::gate::crowd::{Side, Write, medians, over_and_over};
use crate::bench::gate::{JOINS, LINE, Site, fans};
use crate::bench::http::Connection;
use crate::bench::system::NAIVE;
use crate::bench::table::{Must, Row};

/// Settings of both shows: fans join and wait.
const SETTINGS: &str = r#"{"name": "Bench", "rate": 1, "waiting_max": 20000000}"#;
/// The head of nginx's answers: `Server`, `Date`, `Content-Type`, `Content-Length`, `Connection`.
const NGINX_HEAD_BYTES: usize = 147;

pub(super) fn rows(site: &Site<'_>) -> anyhow::Result<Vec<Row>> {
    if ![3, 5, 6].iter().any(|row| site.wants(*row)) {
        return Ok(Vec::new());
    }
    let gateway = site.gateway.door;
    for show in [LINE, JOINS] {
        site.admitter.create(show, SETTINGS)?;
        site.gateway.wait_for_show(show)?;
    }
    let waiting = fans::waiting(gateway, LINE, site.scale.pollers);
    let polls = over_and_over(&site.runtime.block_on(waiting)?);
    let joins: Write = Arc::new(|_, out| {
        out.extend_from_slice(fans::join(JOINS, &fans::fresh_address()).as_bytes());
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
        let missing = handmade.err().map(|error| format!("{error:#}"));
        rows.push(row6(&spent[0], spent.get(2), missing));
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
    Row {
        number: 3,
        what: "status polls of fans in line, pass checked".to_owned(),
        ours,
        peer,
        ratio: peer / ours,
        unit: "µs of the door's CPU a poll",
        must: Must::AtLeast(0.75),
        note:
            "ours: limits by prefix and fan, the pass's HMAC, position and ETA from the board in \
               memory; peer: nginx `return 200` of as many bytes"
                .to_owned(),
    }
}

fn row5(ours: f64, peer: f64) -> Row {
    Row {
        number: 5,
        what: "joins".to_owned(),
        ours,
        peer,
        ratio: peer / ours,
        unit: "µs of the door's CPU a join",
        must: Must::AtLeast(0.5),
        note: "ours: limits, a new fan, a part of one script call in Redis, position and ETA, a \
               signed pass; peer: nginx `return 201` of as many bytes"
            .to_owned(),
    }
}

fn row6(ours: &[f64], handmade: Option<&Vec<f64>>, missing: Option<String>) -> Row {
    let sum = |parts: &[f64]| parts.iter().sum::<f64>();
    let peer = handmade.map_or(f64::NAN, |parts| sum(parts));
    let parts = |parts: &[f64]| match parts {
        [door, redis] => format!("{door:.1} and {redis:.1}"),
        _ => String::new(),
    };
    let note = match (handmade, missing) {
        (Some(handmade), _) => format!(
            "door and Redis apart: ours {}, peer {}; peer: nginx and Lua, one EVALSHA (ZSCORE, INCR, \
             ZADD) a join by a pooled connection, a cookie signed with HMAC-SHA-1, no limits",
            parts(ours),
            parts(handmade)
        ),
        (None, missing) => format!("peer missing: {}", missing.unwrap_or_default()),
    };
    Row {
        number: 6,
        what: "joins, Redis included".to_owned(),
        ours: sum(ours),
        peer,
        ratio: sum(ours) / peer,
        unit: "µs of door and Redis CPU a join",
        must: Must::AtMost(0.55),
        note,
    }
}
