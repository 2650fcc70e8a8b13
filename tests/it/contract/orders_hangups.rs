//! Clients that hang up: in the middle of their request, while it is being done, in the middle of the
//! answer. Each has a hold and an order whole or not at all, no transaction stays open, and everybody
//! else is served. `./dev drill hangups` is the long form.

use std::env;
use std::net::SocketAddr;
use std::ops::AddAssign;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use catraca::base::time::Timestamp;
use catraca::http::server::{ServerSettings, serve};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::contract::gate::{Ask, post};
use crate::contract::shop::Shop;
use crate::contract::shop_home::{Db, Home, on_every_database};

on_every_database!(whoever_hangs_up_has_all_or_nothing,);

/// How many clients, where `./dev drill hangups` says so.
const COUNT: &str = "CATRACA_HANGUPS";
/// How many otherwise.
const SHORT: u64 = 300;
/// Clients at once. What one who hangs up has asked for is done all the same, so more of them would
/// only be more than the shop can do, and nobody would hear anything.
const AT_ONCE: usize = 8;
/// The most that anybody waits before hanging up, in microseconds: half of them hardly at all, the
/// others about as long as an answer takes when so many ask at once.
const PATIENCE_US: [u64; 2] = [20_000, 600_000];
const WISH: &str = r#"{"section":"B","quantity":2}"#;

/// What became of clients.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    /// Hung up before their request was whole.
    unasked: u64,
    /// Hung up while it was being done or answered.
    unanswered: u64,
    /// Heard that their seats are held, and went on to order.
    held: u64,
    /// Heard of their order.
    ordered: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.unasked += other.unasked;
        self.unanswered += other.unanswered;
        self.held += other.held;
        self.ordered += other.ordered;
    }
}

/// How one request ended for its client.
enum Heard {
    Unasked,
    Unanswered,
    Whole(Value),
}

/// Sends as much of a request as the client has patience for, and hangs up; half of them without a
/// word of goodbye.
async fn ask(shop: SocketAddr, ask: Ask, now: Timestamp, rng: &mut SmallRng) -> Heard {
    let bytes = Ask {
        signed_at: now,
        ..ask
    }
    .bytes()
    .await;
    let sent = match rng.random_range(0..4) {
        0 => rng.random_range(0..bytes.len()),
        _ => bytes.len(),
    };
    let mut stream = TcpStream::connect(shop).await.unwrap();
    if rng.random_bool(0.5) {
        stream.set_zero_linger().unwrap();
    }
    stream.write_all(&bytes[..sent]).await.unwrap();
    let most = PATIENCE_US[rng.random_range(0..2)];
    let patience = Duration::from_micros(rng.random_range(0..most));
    let mut answer = Vec::new();
    let read = timeout(patience, stream.read_to_end(&mut answer)).await;
    if sent < bytes.len() {
        return Heard::Unasked;
    }
    let text = String::from_utf8(answer).unwrap();
    match (read, text.split_once("\r\n\r\n")) {
        (Ok(Ok(_)), Some((_, body))) => {
            Heard::Whole(serde_json::from_str(body).unwrap_or_default())
        }
        _ => Heard::Unanswered,
    }
}

/// A client who holds two seats and orders them, for as long as their patience lasts.
async fn visit(shop: SocketAddr, fan: u64, now: Timestamp) -> Tally {
    let mut rng = SmallRng::seed_from_u64(fan);
    let mut tally = Tally::default();
    let held = match ask(shop, post(fan, "holds", WISH), now, &mut rng).await {
        Heard::Whole(held) => held,
        Heard::Unasked => {
            return Tally {
                unasked: 1,
                ..tally
            };
        }
        Heard::Unanswered => {
            return Tally {
                unanswered: 1,
                ..tally
            };
        }
    };
    let Some(hold) = held["hold_id"].as_str() else {
        return tally; // told that it is too much
    };
    tally.held += 1;
    let order = format!(r#"{{"hold_id":"{hold}","customer":{{"email":"ana@example.com"}}}}"#);
    match ask(shop, post(fan, "orders", &order), now, &mut rng).await {
        Heard::Whole(placed) => tally.ordered += u64::from(placed["order_id"].is_string()),
        Heard::Unasked => tally.unasked += 1,
        Heard::Unanswered => tally.unanswered += 1,
    }
    tally
}

/// Everybody, some at a time.
async fn crowd(shop: SocketAddr, clients: u64, now: Timestamp) -> Tally {
    let total = Arc::new(Mutex::new(Tally::default()));
    let mut running = JoinSet::new();
    for fan in 0..clients {
        if AT_ONCE <= running.len() {
            running.join_next().await.unwrap().unwrap();
        }
        let total = total.clone();
        running.spawn(async move {
            let tally = visit(shop, fan, now).await;
            *total.lock().unwrap() += tally;
        });
    }
    running.join_all().await;
    *total.lock().unwrap()
}

/// Transactions that are open in this database, besides the one that asks.
async fn open_transactions(shop: &Shop) -> i64 {
    match &shop.db {
        Db::Sqlite(_) => 0, // its one writer answers the next client, or does not
        Db::Postgres(_) => {
            let open = "select count(*) as n from pg_stat_activity
              where datname = current_database() and xact_start is not null
                and pid <> pg_backend_pid()";
            shop.db.rows(open, &[]).await[0].number("n")
        }
    }
}

/// Row 120 of the hostile catalogue: clients that go at any byte, of the request or of the answer.
async fn whoever_hangs_up_has_all_or_nothing(home: Home) {
    let count = env::var(COUNT).map_or(SHORT, |count| count.parse().unwrap());
    let seats = 2 * (count + 1);
    let size = u32::try_from(seats).unwrap();
    let shop = Shop::open(&home, &[("B", size, false)]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let router = shop.orders.router();
    let server = tokio::spawn(serve(
        listener,
        router,
        ServerSettings::default(),
        stop.clone(),
    ));
    let tally = crowd(address, count, shop.now()).await;

    let next = timeout(Duration::from_secs(20), shop.hold(count, 2)).await;
    assert!(next.unwrap().is_ok(), "the next one is served");
    stop.cancel();
    server.await.unwrap().unwrap();
    // Closing waits for the units that outlived their requests.
    timeout(Duration::from_secs(20), shop.db.close())
        .await
        .unwrap();
    let shop = Shop::open_again(&home).await;
    let open = open_transactions(&shop).await;
    assert_eq!(open, 0);
    shop.audit(seats).await;
    let rows =
        "select (select count(*) from holds) as holds, (select count(*) from orders) as orders";
    let rows = &shop.db.rows(rows, &[]).await[0];
    let (holds, orders) = (rows.number("holds"), rows.number("orders"));
    let heard = |count: u64| i64::try_from(count).unwrap();
    assert!(
        heard(tally.held) < holds && heard(tally.ordered) <= orders,
        "{tally:?}"
    );
    assert!(
        0 < tally.unasked && 0 < tally.unanswered && 0 < tally.ordered,
        "{tally:?}"
    );
    let name = match home {
        Home::Sqlite(_) => "SQLite",
        Home::Postgres(_) => "PostgreSQL",
    };
    eprintln!(
        "{name}: {count} clients; hung up before the request was whole {}, before the answer was {}
  holds heard of {}, made {holds}; orders heard of {}, made {orders}; transactions left open {open}",
        tally.unasked, tally.unanswered, tally.held, tally.ordered
    );
}
