//! Joins are counted alike in this process and in Redis, and by all gateways together.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catraca::driver::redis::Settings as Servers;
use catraca::limit::gcra::{Entry, Ladder};
use catraca::limit::in_memory::InMemory;
use catraca::limit::joins_in_memory::JoinsInMemory;
use catraca::limit::joins_in_redis::{CountingClock, JoinsInRedis};
use catraca::limit::prefix::Prefixes;
use catraca::limit::{Asking, Joiner, Joins, Limit, Limiter, Proof, Settings, Showing, Verdict};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::need::{Need, REDIS, VALKEY};
use crate::support::redis::Server;

const SECOND: u64 = 1_000_000;

pub(crate) fn limits() -> Settings {
    let limit = |per_s, burst| Limit { per_s, burst };
    Settings {
        join: limit(5, 4),
        join_56: limit(8, 6),
        join_48: limit(10, 9),
        join_far: 3,
        show: limit(200, 60),
        ..Settings::default()
    }
}

pub(crate) fn show() -> catraca::base::ids::ShowId {
    "gala".parse().unwrap()
}

pub(crate) fn from(address: &str) -> Joiner {
    Joiner {
        from: Prefixes::of(address.parse().unwrap()),
        shows: Showing::Nothing,
    }
}

fn once(id: u8) -> Proof {
    Proof {
        id: [id; 16],
        ttl_ms: 60_000,
    }
}

pub(crate) fn proven(address: &str, id: u8) -> Joiner {
    Joiner {
        shows: Showing::Proof(once(id)),
        ..from(address)
    }
}

pub(crate) fn counting(server: &Server, limits: &Settings, clock: CountingClock) -> JoinsInRedis {
    let servers = Servers {
        url: server.url(),
        ..Servers::default()
    };
    JoinsInRedis::open(&servers, Ladder::of(limits), 1_000, clock).unwrap()
}

/// A server whose counting goes by a key, and the way to set it.
struct Clocked {
    joins: JoinsInRedis,
    connection: redis::Connection,
}

impl Clocked {
    fn of(server: &Server, limits: &Settings) -> Self {
        Self {
            joins: counting(server, limits, CountingClock::Key),
            connection: server.connection(),
        }
    }

    async fn ask_at(&mut self, now: u64, joiner: Joiner) -> Entry {
        redis::cmd("SET")
            .arg("catraca:{gala}:limit:all:clock")
            .arg(now)
            .exec(&mut self.connection)
            .unwrap();
        self.joins.ask(&show(), joiner).await
    }
}

async fn the_script_counts_as_the_definition_does(need: &Need) {
    let Some(server) = Server::start(need) else {
        return;
    };
    for seed in 0..6 {
        server.tell(&["FLUSHALL"]);
        let mut random = StdRng::seed_from_u64(seed);
        let own = JoinsInMemory::new(Ladder::of(&limits()), 1_000);
        let mut clocked = Clocked::of(&server, &limits());
        // The server's counts go by its own clock when they are empty: begin ahead of it.
        let mut now = 4_000_000_000 * SECOND;
        for step in 0..400 {
            now += [0, 0, 0, 20_000, 150_000][random.random_range(0..5)];
            if step % 97 == 96 {
                now -= 3_600 * SECOND; // somebody puts the clock back
            }
            let address = [
                "1.2.3.4",
                "1.2.3.5",
                "2a00:1:2:300::1",
                "2a00:1:2:301::1",
                "2a00:1:2:400::1",
            ][random.random_range(0..5)];
            let shows = match random.random_range(0..6) {
                0 => Showing::Claim,
                1 => Showing::Wait(once(random.random_range(0..40))),
                2 => Showing::Proof(once(random.random_range(0..40))),
                _ => Showing::Nothing,
            };
            let joiner = Joiner {
                shows,
                ..from(address)
            };
            let says = clocked.ask_at(now, joiner).await;
            let expected = own.ask_at(now, &show(), joiner);
            assert_eq!(says, expected, "seed {seed}, step {step}: {joiner:?}");
        }
    }
}

#[tokio::test]
async fn in_redis_the_script_counts_as_the_definition_does() {
    the_script_counts_as_the_definition_does(&REDIS).await;
}

#[tokio::test]
async fn in_valkey_the_script_counts_as_the_definition_does() {
    the_script_counts_as_the_definition_does(&VALKEY).await;
}

/// Several gateways at once, with connections of their own, never let pass more than one might.
async fn gateways_count_together(need: &Need) {
    let Some(server) = Server::start(need) else {
        return;
    };
    let limits = Settings {
        show: Limit {
            per_s: 100_000,
            burst: 100_000,
        },
        ..limits()
    };
    let gateways: Vec<_> = (0..3)
        .map(|_| Arc::new(counting(&server, &limits, CountingClock::Server)))
        .collect();
    let began = Instant::now();
    let mut fans = tokio::task::JoinSet::new();
    for n in 0..48 {
        let gateway = Arc::clone(&gateways[n % gateways.len()]);
        fans.spawn(async move {
            let (mut free, mut proofs) = (0_u64, 0_u64);
            for step in 0..40_u64 {
                let is_proof = (n + 1) % 3 == 0;
                let id = u8::try_from(n).unwrap();
                let mut joiner = from("1.2.3.4");
                if is_proof {
                    let mut proof = once(id);
                    proof.id[..8].copy_from_slice(&step.to_be_bytes());
                    joiner.shows = Showing::Proof(proof);
                }
                match gateway.ask(&show(), joiner).await {
                    Entry::Pass { .. } if is_proof => proofs += 1,
                    Entry::Pass { .. } => free += 1,
                    Entry::Challenge { .. } => assert!(!is_proof),
                    Entry::TooMany { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            (free, proofs)
        });
    }
    let (mut free, mut all) = (0, 0);
    while let Some(fan) = fans.join_next().await {
        let (without, with) = fan.unwrap();
        free += without;
        all += without + with;
    }
    let most = |limit: Limit, times: u64| {
        let passed_ms = u64::try_from(began.elapsed().as_millis()).unwrap();
        times * u64::from(limit.burst) + times * u64::from(limit.per_s) * passed_ms / 1_000 + 1
    };
    let bounds = (
        most(limits.join, 1),
        most(limits.join, limits.join_far.into()),
    );
    assert!(
        free <= bounds.0 && all <= bounds.1,
        "{free} of {all}, {bounds:?}"
    );
    assert!(12 <= all, "the burst passes: {free} of {all}");
    // One proof counts once, wherever it is shown.
    let other = proven("5.6.7.8", 200);
    assert!(matches!(
        gateways[0].ask(&show(), other).await,
        Entry::Pass { .. }
    ));
    for gateway in &gateways {
        assert_eq!(gateway.ask(&show(), other).await, Entry::Spent);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_redis_gateways_count_together() {
    gateways_count_together(&REDIS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_valkey_gateways_count_together() {
    gateways_count_together(&VALKEY).await;
}

type Joining = Pin<Box<dyn Future<Output = Entry> + Send>>;

/// Begins a join and goes as far as it can: to the server, or into the queue.
async fn asking(joins: &Arc<JoinsInRedis>, joiner: Joiner) -> Joining {
    let joins = Arc::clone(joins);
    let mut asking: Joining = Box::pin(async move { joins.ask(&show(), joiner).await });
    go(&mut asking).await;
    asking
}

/// Goes as far as it can: whoever leads lets others in first, once. It must not be done yet.
async fn go(asking: &mut Joining) {
    std::future::poll_fn(|context| {
        for _ in ["lets others in", "asks the server"] {
            assert!(asking.as_mut().poll(context).is_pending());
        }
        std::task::Poll::Ready(())
    })
    .await;
}

/// Whoever asks for others and hangs up costs them neither a proof nor a count.
#[tokio::test]
async fn who_leads_and_hangs_up_harms_nobody() {
    let Some(server) = Server::start(&REDIS) else {
        return;
    };
    let limits = Settings {
        join: Limit { per_s: 1, burst: 4 },
        ..limits()
    };
    let joins = Arc::new(counting(&server, &limits, CountingClock::Server));
    let passes = |entry: Entry| assert!(matches!(entry, Entry::Pass { .. }), "{entry:?}");
    passes(joins.ask(&show(), from("9.9.9.9")).await); // connects
    let first = asking(&joins, from("9.9.9.9")).await;
    let mut leader = asking(&joins, proven("9.9.9.9", 1)).await;
    let mates = [
        asking(&joins, proven("1.2.3.4", 2)).await,
        asking(&joins, from("5.6.7.8")).await,
        asking(&joins, from("5.6.7.8")).await,
    ];
    passes(first.await);
    server.tell(&["CLIENT", "PAUSE", "150"]);
    go(&mut leader).await;
    // What it asks is on its way, and is not answered yet.
    tokio::time::sleep(Duration::from_millis(50)).await;
    go(&mut leader).await;
    drop(leader);
    for mate in mates {
        passes(mate.await);
    }
    // Two of four are counted: two more are free, and no more.
    passes(joins.ask(&show(), from("5.6.7.8")).await);
    passes(joins.ask(&show(), from("5.6.7.8")).await);
    let spent = joins.ask(&show(), proven("1.2.3.4", 2)).await;
    assert_eq!(spent, Entry::Spent);
}

#[tokio::test]
async fn counts_go_when_they_are_empty() {
    let Some(server) = Server::start(&REDIS) else {
        return;
    };
    let joins = counting(&server, &limits(), CountingClock::Server);
    joins.ask(&show(), from("2a00:1:2:300::1")).await;
    let mut connection = server.connection();
    let mut keys = || {
        redis::cmd("KEYS")
            .arg("*")
            .query::<Vec<String>>(&mut connection)
            .unwrap()
    };
    for key in keys() {
        assert!(key.starts_with("catraca:{gala}:limit:"), "{key}");
    }
    // How many joined from where stays until it is told.
    let told_later = ["catraca:{gala}:limit:joined"];
    let end = Instant::now() + Duration::from_secs(10);
    while keys() != told_later {
        assert!(Instant::now() < end, "{:?}", keys());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// When an honest client joins: so often on average, and each a little early or late.
fn honest(per_s: u32, joins: u32, seed: u64) -> impl Iterator<Item = u64> {
    let mut random = StdRng::seed_from_u64(seed);
    let interval = SECOND / u64::from(per_s);
    (0..joins).map(move |n| {
        let jitter = random.random_range(0..interval);
        (4_000_000_000 + 1) * SECOND + u64::from(n) * interval + jitter
    })
}

#[tokio::test]
async fn an_honest_client_at_its_rate_is_never_refused() {
    let limits = limits();
    for seed in 0..20 {
        let own = JoinsInMemory::new(Ladder::of(&limits), 1_000);
        let address = format!("10.0.0.{seed}");
        for now in honest(limits.join.per_s, 500, seed) {
            let entry = own.ask_at(now, &show(), from(&address));
            assert!(matches!(entry, Entry::Pass { .. }), "{entry:?}");
        }
    }
    let Some(server) = Server::start(&REDIS) else {
        return;
    };
    let mut clocked = Clocked::of(&server, &limits);
    for now in honest(limits.join.per_s, 500, 99) {
        let entry = clocked.ask_at(now, from("2a00:1:2:300::1")).await;
        assert!(matches!(entry, Entry::Pass { .. }), "{entry:?}");
    }
}

#[tokio::test]
async fn governor_refuses_no_honest_fan_either() {
    // In real time, so at a rate that makes it short; 200 a second stand for 4.
    let fan = Limit {
        per_s: 200,
        burst: 5,
    };
    let limiter = InMemory::new(&Settings { fan, ..limits() });
    let asking = Asking::Fan(catraca::base::ids::FanId([1; 16]));
    let mut due = honest(fan.per_s, 200, 5);
    let mut last = due.next().unwrap();
    for next in due {
        assert_eq!(limiter.ask(asking), Verdict::Pass);
        // Whoever wakes up late does not hurry.
        tokio::time::sleep(Duration::from_micros(next - last)).await;
        last = next;
    }
}

#[tokio::test]
async fn where_redis_is_away_a_gateway_counts_by_itself() {
    let Some(mut server) = Server::start(&REDIS) else {
        return;
    };
    let joins = counting(&server, &limits(), CountingClock::Server);
    assert!(matches!(
        joins.ask(&show(), from("9.9.9.9")).await,
        Entry::Pass { .. }
    ));
    server.die();
    let mut passed = 0;
    for _ in 0..20 {
        match joins.ask(&show(), from("1.2.3.4")).await {
            Entry::Pass { .. } => passed += 1,
            Entry::Challenge { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert!((4..20).contains(&passed), "{passed}");
    assert!(matches!(
        joins.ask(&show(), proven("1.2.3.4", 1)).await,
        Entry::Pass { .. }
    ));
    assert_eq!(joins.ask(&show(), proven("1.2.3.4", 1)).await, Entry::Spent);
}
