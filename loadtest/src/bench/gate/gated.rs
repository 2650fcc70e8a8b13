//! Rows 7 and 8: requests to the shop, past a ticket check.

use std::sync::Arc;

use crate::bench::gate::crowd::{Side, TURNS, apart, middles, over_and_over, sum};
use crate::bench::gate::peers::Nginx;
use crate::bench::gate::{SHOP, Site, fans, row};
use crate::bench::system::NAIVE;
use crate::bench::table::{Must, Row};

/// Everybody is called at once, and stays inside for as long as the bench takes.
const SETTINGS: &str = r#"{"name": "Bench", "rate": 5000, "stock_guard": false,
    "ticket_ttl_ms": 900000, "waiting_max": 20000000}"#;

/// What is told of each door.
const UNIT: &str = "µs of CPU a request";

/// The doors to the shop.
struct Doors {
    plain: Nginx,
    handmade: anyhow::Result<Nginx>,
    haproxy: anyhow::Result<Nginx>,
}

/// One turn of every door: microseconds for one operation, the door's and Redis'.
#[derive(Default)]
struct Turns {
    first: Vec<Vec<f64>>,
    ours: Vec<Vec<f64>>,
    plain: Vec<Vec<f64>>,
    handmade: Vec<Vec<f64>>,
    haproxy: Vec<Vec<f64>>,
}

pub(super) fn rows(site: &Site<'_>) -> anyhow::Result<Vec<Row>> {
    if !site.wants(7) && !site.wants(8) {
        return Ok(Vec::new());
    }
    site.admitter.create(SHOP, SETTINGS)?;
    site.admitter.verb(SHOP, "open")?;
    site.gateway.wait_for_show(SHOP)?;
    let doors = Doors {
        plain: site.peers().plain("proxy", &[])?,
        handmade: site.peers().handmade(&site.room, NAIVE),
        haproxy: site.peers().haproxy(),
    };
    let mut turns = Turns::default();
    for _ in 0..TURNS {
        turn(site, &doors, &mut turns)?;
    }
    let mut rows = Vec::new();
    if site.wants(7) {
        rows.extend(forwarding(site, &doors, &turns));
    }
    if site.wants(8) {
        rows.extend(checked(&doors, &turns));
    }
    Ok(rows)
}

/// Every turn has tickets that no gateway has seen.
fn turn(site: &Site<'_>, doors: &Doors, turns: &mut Turns) -> anyhow::Result<()> {
    let (tickets, uses, later) = (site.scale.tickets, site.scale.uses, site.scale.later);
    let (gateway, redis) = (site.gateway.door, site.room.pid());
    let requests = fans::admitted(gateway, SHOP, tickets);
    let requests = site.runtime.block_on(requests)?;
    let side = |door, pids, requests: &Arc<Vec<Vec<u8>>>| Side {
        door,
        pids,
        status: 200,
        write: over_and_over(requests),
    };
    let ours = side(gateway, vec![site.gateway.pid(), redis], &requests);
    let first = ours.turn(&site.runtime, tickets)?;
    let others = ours.turn(&site.runtime, tickets * later)?;
    turns.ours.push(together(&first, &others, uses));
    turns.first.push(first);
    let plain = side(doors.plain.door, vec![doors.plain.pid()], &requests);
    turns
        .plain
        .push(plain.turn(&site.runtime, tickets * later)?);
    if let Ok(handmade) = &doors.handmade {
        let requests = fans::handmade(handmade.door, tickets);
        let requests = site.runtime.block_on(requests)?;
        let side = side(handmade.door, vec![handmade.pid(), redis], &requests);
        turns
            .handmade
            .push(side.turn(&site.runtime, tickets * later)?);
    }
    if let Ok(haproxy) = &doors.haproxy {
        let side = side(haproxy.door, vec![haproxy.pid()], &requests);
        let turn = side.turn(&site.runtime, tickets * later)?;
        turns.haproxy.push(turn);
    }
    Ok(())
}

/// One first use and all later ones of a ticket, for one use.
#[expect(clippy::cast_precision_loss, reason = "a count of uses")]
fn together(first: &[f64], later: &[f64], uses: usize) -> Vec<f64> {
    let uses = uses as f64;
    let parts = first.iter().zip(later);
    parts
        .map(|(first, later)| (first + later * (uses - 1.0)) / uses)
        .collect()
}

/// Row 7, and what is told beside it.
fn forwarding(site: &Site<'_>, doors: &Doors, turns: &Turns) -> Vec<Row> {
    let (ours, plain) = (middles(&turns.ours), middles(&turns.plain)[0]);
    let first = middles(&turns.first);
    let apart = |parts: &[f64]| format!("door and Redis apart: {}", apart(parts));
    let note = format!(
        "{} tickets, {} uses each; {}; ours: limits, signature (once), pass, liveness in Redis \
         (batched, reused ≤ 500 ms), headers, assertion; peer: nginx proxy_pass alone",
        site.scale.tickets,
        site.scale.uses,
        apart(&ours)
    );
    let beside_haproxy = |peer| {
        let note = "peer: haproxy, one thread, no check".to_owned();
        let what = ("the same beside haproxy", UNIT);
        row(7, what, (sum(&ours), peer), Must::Nothing, note)
    };
    vec![
        row(
            7,
            ("requests past the gate", UNIT),
            (sum(&ours), plain),
            Must::AtLeast(0.72),
            note,
        ),
        row(
            7,
            ("the first use of a ticket", UNIT),
            (sum(&first), plain),
            Must::Nothing,
            apart(&first),
        ),
        match &doors.haproxy {
            Ok(_) => beside_haproxy(middles(&turns.haproxy)[0]),
            Err(why) => beside_haproxy(f64::NAN).without_peer(why),
        },
    ]
}

/// Row 8, and the same without Redis.
fn checked(doors: &Doors, turns: &Turns) -> Vec<Row> {
    let note = "peer: nginx and Lua, HMAC-SHA-1 of a cookie, one ZSCORE a request by a pooled \
                connection, proxy_pass; no limits";
    let ours = middles(&turns.ours);
    let with_redis = |peer| {
        let what = ("requests past a ticket check", UNIT);
        let pair = (sum(&ours), peer);
        row(8, what, pair, Must::AtLeast(1.3), note.to_owned())
    };
    if let Err(why) = &doors.handmade {
        return vec![with_redis(f64::NAN).without_peer(why)];
    }
    let handmade = middles(&turns.handmade);
    let alone = "the same without Redis on either side".to_owned();
    let (what, pair) = (("the doors alone", UNIT), (ours[0], handmade[0]));
    vec![
        with_redis(sum(&handmade)),
        row(8, what, pair, Must::Nothing, alone),
    ]
}
