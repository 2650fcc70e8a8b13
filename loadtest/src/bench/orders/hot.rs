//! Buyers of one show while a crowd rushes another that the same process sells: what docs/invariants.md
//! calls H9.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, interval, interval_at};

use crate::bench::http::Connection as Http;
use crate::bench::orders::server::Server;
use crate::bench::orders::shop::{Shop, hold};
use crate::bench::orders::{OrdersArgs, p99_ms};
use crate::bench::table::{Must, Row};

/// Holds of the hot show a second, as far as the machine can do them.
const A_SECOND: u32 = 2_000;
/// Buyers of the other show a second at most, one after the other.
const PER_S: u32 = 100;
/// How long a turn lasts. Each round has one of each kind.
const TURN: Duration = Duration::from_secs(4);
/// The hot show has seats for so many.
const TURNS_MAX: u32 = 7;
const HOT: &str = "hot";
const CALM: &str = "calm";

/// # Errors
/// Where a process does not start, or a hold was not taken.
pub(super) async fn row(
    server: &Server,
    settings: &OrdersArgs,
    folder: &Path,
) -> anyhow::Result<Row> {
    let mut shop = Shop::start((server, settings), (folder, "hot"), "").await?;
    shop.open(HOT).await?;
    shop.open(CALM).await?;
    let (door, fans) = (shop.door, Arc::new(AtomicU64::new(1)));
    come(door, &fans).await?; // warm
    let (mut alone, mut beside, mut rushed) = (Vec::new(), Vec::new(), 0);
    let turns = settings.rounds.min(TURNS_MAX);
    for _ in 0..turns {
        alone.extend(come(door, &fans).await?);
        let rushing = rush(door, &fans, settings.clients);
        let (crowd, others) = tokio::join!(rushing, come(door, &fans));
        rushed += crowd?;
        beside.extend(others?);
    }
    let (alone, beside) = (p99_ms(alone), p99_ms(beside));
    let a_second = rushed / u64::from(turns) / TURN.as_secs();
    Ok(Row {
        number: 0,
        what: "99 % of holds within, another show hot".to_owned(),
        ratio: beside / alone,
        ours: beside,
        peer: alone,
        unit: "ms",
        must: Must::AtMost(2.0),
        note: format!(
            "POST holds, at most {PER_S} a second, while {a_second} a second of another show are held, against \
             the same alone; {turns} turns of {} s each",
            TURN.as_secs()
        ),
    })
}

/// Buyers of the calm show, one after the other: how long each waited for a seat.
async fn come(door: SocketAddr, fans: &AtomicU64) -> anyhow::Result<Vec<Duration>> {
    let (mut took, mut http) = (Vec::new(), Http::open(door).await?);
    let mut due = interval(Duration::from_secs(1) / PER_S);
    let end = Instant::now() + TURN;
    while Instant::now() < end {
        due.tick().await;
        let fan = fans.fetch_add(1, Ordering::Relaxed);
        took.push(hold(&mut http, CALM, fan).await?.1);
    }
    Ok(took)
}

/// A crowd at the hot show, on so many connections: how many got a seat.
async fn rush(door: SocketAddr, fans: &Arc<AtomicU64>, clients: u32) -> anyhow::Result<u64> {
    let mut crowd = JoinSet::new();
    let (begin, apart) = (Instant::now(), Duration::from_secs(1) / A_SECOND);
    for client in 0..clients {
        let fans = Arc::clone(fans);
        crowd.spawn(async move {
            let mut http = Http::open(door).await?;
            let mut due = interval_at(begin + client * apart, clients * apart);
            let mut held = 0;
            while begin.elapsed() < TURN {
                due.tick().await;
                let fan = fans.fetch_add(1, Ordering::Relaxed);
                hold(&mut http, HOT, fan).await?;
                held += 1;
            }
            anyhow::Ok(held)
        });
    }
    crowd.join_all().await.into_iter().sum()
}
