//! An upstream with five times as much to do as it can.

use std::collections::BTreeMap;
use std::env;
use std::sync::Arc;
use std::time::Duration;

use catraca::gateway::upstreams::{Gate, Route, Upstream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::e2e::gateway::door::{Door, Plan};
use crate::e2e::gateway::script::Script;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// So many workers of an upstream, each so long at a request, whether or not anybody waits for it.
const WORKERS: usize = 4;
const WORK: Duration = Duration::from_millis(40);
/// How long the drill lasts where nobody asks for more, in seconds.
const OVERLOAD_S: u64 = 4;
/// The variable that asks for more.
const OVERLOAD_VARIABLE: &str = "CATRACA_OVERLOAD_S";

/// What came of requests.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    ok: u64,
    told_to_wait: u64,
    other: u64,
    slowest: Duration,
}

impl Tally {
    fn count(&mut self, (status, took, waits): (u16, Duration, bool)) {
        match status {
            200 => {
                self.ok += 1;
                self.slowest = self.slowest.max(took);
            }
            429 | 503 if waits => self.told_to_wait += 1,
            _ => self.other += 1,
        }
    }
}

async fn look(door: &Door) -> (u16, Duration, bool) {
    let since = Instant::now();
    let answer = door.get("/x", &[]).await;
    let waits = !answer.header("retry-after").is_empty();
    (answer.status, since.elapsed(), waits)
}

/// A shop of so many workers, which finish what they have begun, whoever waits.
async fn slow_shop() -> Script {
    let workers = Arc::new(Semaphore::new(WORKERS));
    Script::play(move |_, mut wire| {
        let workers = Arc::clone(&workers);
        async move {
            while wire.head().await.is_some() {
                let workers = Arc::clone(&workers);
                let work = async move {
                    let _worker = workers.acquire_owned().await.unwrap();
                    tokio::time::sleep(WORK).await;
                };
                tokio::spawn(work).await.unwrap();
                wire.say(OK).await;
            }
        }
    })
    .await
}

async fn before(shop: &Script) -> Arc<Door> {
    let url = format!("http://{}", shop.address).parse().unwrap();
    let route = Route {
        answer_ms: Some(6_000),
        ..Route::new("/x", &["GET"], "slow")
    };
    let plan = Plan {
        upstreams: Some(BTreeMap::from([(
            "slow".to_owned(),
            Upstream::new(url, Gate::Open),
        )])),
        routes: Some(vec![route]),
        ..Plan::default()
    };
    Arc::new(Door::planned(plan).await)
}

/// Answers a second to as many clients as there are workers, one request after the other.
async fn peak_of(door: &Arc<Door>, for_s: f64) -> f64 {
    let mut clients = JoinSet::new();
    let ends_at = Instant::now() + Duration::from_secs_f64(for_s);
    for _ in 0..WORKERS {
        let door = Arc::clone(door);
        clients.spawn(async move {
            let mut tally = Tally::default();
            while Instant::now() < ends_at {
                tally.count(look(&door).await);
            }
            tally.ok
        });
    }
    let done: u64 = clients.join_all().await.into_iter().sum();
    done as f64 / for_s
}

/// Promise 15: an upstream still does most of what it can, and everybody else is told to wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overload_is_refused_and_what_was_accepted_is_served() {
    let for_s = env::var(OVERLOAD_VARIABLE).map_or(OVERLOAD_S, |text| text.parse().unwrap());
    let door = before(&slow_shop().await).await;
    let peak = peak_of(&door, for_s.min(10) as f64 / 2.0).await;

    // Five times that, at fixed times, whatever becomes of the others.
    let mut due = tokio::time::interval(Duration::from_secs_f64(1.0 / (5.0 * peak)));
    let (mut fans, mut sent) = (JoinSet::new(), 0_u64);
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(for_s) {
        due.tick().await;
        let door = Arc::clone(&door);
        fans.spawn(async move { look(&door).await });
        sent += 1;
    }
    let offered = sent as f64 / since.elapsed().as_secs_f64();
    let mut tally = Tally::default();
    let answers = fans.join_all().await;
    let goodput = {
        answers.into_iter().for_each(|answer| tally.count(answer));
        tally.ok as f64 / since.elapsed().as_secs_f64()
    };
    eprintln!(
        "peak {peak:.0}/s; offered {offered:.0}/s for {for_s} s; answered {goodput:.0}/s, {:.0} % of the \
         peak, the slowest after {} ms; told to wait {}; anything else {}",
        100.0 * goodput / peak,
        tally.slowest.as_millis(),
        tally.told_to_wait,
        tally.other,
    );
    assert!(0.8 / 3.0 * peak <= goodput, "{tally:?}");
    assert!(sent * 2 / 3 <= tally.ok + tally.told_to_wait, "{tally:?}");
}
