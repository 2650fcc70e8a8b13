//! Several gateways before one room: what one signs every other reads, and what is revoked is refused
//! by all.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use catraca::base::ids::IdSource;
use catraca::base::secret::Secret;
use catraca::base::time::{Clock, Timestamp};
use catraca::gateway::settings::Settings;
use catraca::gateway::{Gateway, Parts, router};
use catraca::http::server::{ServerSettings, serve};
use catraca::limit::in_memory::InMemory as Limits;
use catraca::limit::joins_in_memory::JoinsInMemory;
use catraca::room::Rooms;
use catraca::room::model::command::AfterRevoke;
use catraca::token::keyring::KeyRing;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::e2e::gateway::door::{Ana, Door, routes, show, upstreams};

const ORDERS: &str = "/v1/shows/gala/orders";
/// A revoked ticket is refused within so long. The promise is a second; a test machine may be busy.
const REFUSED_WITHIN: Duration = Duration::from_secs(3);

/// How a ring is rotated: every gateway reads the new key before any signs with it.
const STAGES: [(&str, &[&str]); 2] = [("k1", &["k2"]), ("k2", &["k1"])];

/// One more gateway before the room of a door.
struct Sibling {
    address: SocketAddr,
    _stops: DropGuard,
}

fn keys(active: &str, accepted: &[&str]) -> KeyRing {
    let secret = Secret::new("a secret for tests, of some length");
    let accepted: Vec<String> = accepted.iter().map(|&label| label.to_owned()).collect();
    KeyRing::new(&secret, active, &accepted).unwrap()
}

/// A clock that is ahead of another, or behind it.
#[derive(Debug)]
struct Ahead {
    of: Arc<dyn Clock>,
    ms: i64,
}

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.of.now().as_millis() + self.ms)
    }
}

async fn sibling(door: &Door, keys: KeyRing) -> Sibling {
    sibling_ahead(door, keys, 0).await
}

/// One whose own clock is wrong.
async fn sibling_ahead(door: &Door, keys: KeyRing, ms: i64) -> Sibling {
    let settings = Settings {
        trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()],
        ..Settings::default()
    };
    let of = door.clock.clone();
    let clock = Arc::new(Ahead { of, ms });
    let gateway = Gateway::new(Parts {
        rooms: Rooms::new(door.cable.clone()),
        keys: Arc::new(keys),
        limits: Arc::new(Limits::new(&settings.limits)),
        joins: Arc::new(JoinsInMemory::new(
            settings.ladder(),
            settings.limits.strangers_max,
        )),
        accounts: None,
        ids: Arc::new(IdSource::random()),
        clock,
        settings,
        upstreams: upstreams(&door.shop_address),
        routes: routes(),
    });
    let gateway = gateway.unwrap();
    gateway.boards().step().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let stops = stop.clone().drop_guard();
    let (boards, until) = (gateway.boards(), stop.clone());
    tokio::spawn(async move { boards.run(until).await });
    tokio::spawn(serve(
        listener,
        router(gateway),
        ServerSettings::default(),
        stop,
    ));
    Sibling {
        address,
        _stops: stops,
    }
}

async fn buys(door: &Door, at: SocketAddr, ana: &Ana, ticket: &str) -> u16 {
    let headers = [
        ("x-catraca-pass", ana.pass.as_str()),
        ("x-admission-ticket", ticket),
    ];
    let answer = door.ask_at(at, ("POST", ORDERS), &headers, "{}").await;
    answer.status
}

#[tokio::test]
async fn a_revoked_ticket_is_refused_by_every_gateway() {
    let door = Door::open().await;
    let others = [
        sibling(&door, keys("k1", &[])).await,
        sibling(&door, keys("k1", &[])).await,
    ];
    let gateways = [door.address, others[0].address, others[1].address];
    let (ana, ticket) = door.admitted().await;
    for at in gateways {
        assert_eq!(buys(&door, at, &ana, &ticket).await, 200);
    }
    let revoked_at = Instant::now();
    let out = AfterRevoke::Out;
    door.rooms
        .revoke(&show(), vec![ana.fan], out)
        .await
        .unwrap();
    for at in gateways {
        loop {
            let sent_after = revoked_at.elapsed();
            if buys(&door, at, &ana, &ticket).await == 401 {
                break;
            }
            assert!(
                sent_after < REFUSED_WITHIN,
                "{at} lets pass after {sent_after:?}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// What a gateway's own clock says decides nothing: passes, tickets and their ends go by the room's time.
#[tokio::test]
async fn gateways_whose_clocks_are_hours_apart_agree() {
    const HOUR_MS: i64 = 3_600_000;
    let door = Door::open().await;
    let mut gateways = Vec::new();
    for ahead in [-HOUR_MS, 0, HOUR_MS] {
        gateways.push(sibling_ahead(&door, keys("k1", &[]), ahead).await);
    }
    let mut inside = Vec::new();
    for minting in &gateways {
        inside.push(admitted_at(&door, minting.address).await);
    }
    let ask_all = async |expected: u16, within: Duration| {
        for (ana, ticket) in &inside {
            for gateway in &gateways {
                let from = Instant::now();
                let mut status = buys(&door, gateway.address, ana, ticket).await;
                while status != expected && from.elapsed() < within {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    status = buys(&door, gateway.address, ana, ticket).await;
                }
                assert_eq!(status, expected, "{}", gateway.address);
            }
        }
    };
    ask_all(200, Duration::ZERO).await;
    let ttl_ms = door
        .rooms
        .board(&show())
        .await
        .unwrap()
        .settings
        .ticket_ttl_ms;
    door.clock.advance_ms(ttl_ms / 2);
    ask_all(200, Duration::ZERO).await;
    door.clock.advance_ms(ttl_ms);
    ask_all(401, REFUSED_WITHIN).await;
}

/// Buys at either gateway, again and again, with a ticket of before and with new ones.
#[tokio::test]
async fn keys_rotate_and_nobody_is_refused() {
    let door = Arc::new(Door::open().await);
    let mut pair = [
        Arc::new(sibling(&door, keys("k1", &[])).await),
        Arc::new(sibling(&door, keys("k1", &[])).await),
    ];
    let addresses = |pair: &[Arc<Sibling>; 2]| [pair[0].address, pair[1].address];
    let (told, at) = tokio::sync::watch::channel(addresses(&pair));
    let (stop, passed) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let old = door.admitted().await;
    let mut retired = Vec::new();
    let load = tokio::spawn({
        let (door, stop, passed) = (Arc::clone(&door), Arc::clone(&stop), Arc::clone(&passed));
        async move {
            while !stop.load(Ordering::SeqCst) {
                let [one, other] = *at.borrow();
                let (ana, ticket) = admitted_at(&door, one).await;
                for at in [one, other] {
                    assert_eq!(buys(&door, at, &ana, &ticket).await, 200, "a new ticket");
                    assert_eq!(buys(&door, at, &old.0, &old.1).await, 200, "an old ticket");
                    passed.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(250)).await; // as often as a fan may
                }
            }
        }
    });
    for (active, accepted) in STAGES {
        for half in 0..2 {
            let next = Arc::new(sibling(&door, keys(active, accepted)).await);
            retired.push(std::mem::replace(&mut pair[half], next)); // its requests end in peace
            told.send_replace(addresses(&pair));
            let before = passed.load(Ordering::SeqCst);
            let went_on = async {
                while passed.load(Ordering::SeqCst) < before + 3 && !load.is_finished() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            let waited = tokio::time::timeout(Duration::from_secs(20), went_on).await;
            waited.expect("fans buy meanwhile");
        }
    }
    stop.store(true, Ordering::SeqCst);
    load.await.expect("nobody was refused");
}

/// A new fan whose turn it is, at this gateway.
async fn admitted_at(door: &Door, at: SocketAddr) -> (Ana, String) {
    let join = ("POST", "/v1/shows/gala/join");
    let joined = door.ask_at(at, join, &[], "").await.json();
    let ana = Ana {
        fan: joined["fan"].as_str().unwrap().parse().unwrap(),
        number: joined["number"].as_u64().unwrap(),
        pass: joined["pass"].as_str().unwrap().to_owned(),
    };
    door.rooms
        .tick(&show(), crate::model::world::tick(1))
        .await
        .unwrap();
    let headers = [("x-catraca-pass", ana.pass.as_str())];
    let status = ("GET", "/v1/shows/gala/status");
    let restart = Instant::now();
    loop {
        let told = door.ask_at(at, status, &headers, "").await.json();
        if let Some(ticket) = told["ticket"].as_str() {
            return (ana, ticket.to_owned());
        }
        assert!(restart.elapsed() < Duration::from_secs(20), "{told}");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}
