//! The same in the middle of a whole sale: a process for each role, orders in PostgreSQL, a crowd that
//! buys, and a few fans who are followed. All of the room's data is lost, and later its last moments.
//!
//! `CATRACA_LOSS_BUYERS` says how large the crowd is; `./dev drill loss` sends a thousand.

use std::env;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use catraca::app::alone::Role;
use catraca::base::time::{Clock, SystemClock};
use loadtest::judge::Fault;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::chaos::loss::fans::claim;
use crate::chaos::loss::place::within;
use crate::support::client::Client;
use crate::support::need::{Need, REDIS, VALKEY};
use crate::support::postgres;
use crate::support::process::{Alone, run_in};
use crate::support::redis::Server;
use crate::support::sale::{SHOW, crowd, settings};
use crate::support::signpost::Signpost;
use crate::support::visitor::Visitor;

/// How many fans the crowd has, where nobody says.
const BUYERS: u64 = 250;
/// The variable that says.
const BUYERS_VARIABLE: &str = "CATRACA_LOSS_BUYERS";
/// The deadline that the promise names, times three.
const MENDED_MAX: Duration = Duration::from_secs(3 * 15);
/// For everything else that must come about on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lost {
    Everything,
    /// What the primary was told since the replica that takes over was cut off.
    LastMoments,
}

/// The fans who are followed through one loss. All of them are inside.
struct Cast {
    /// Buy, and SQL knows that they have.
    early: Vec<Visitor>,
    /// Buy at the last moment.
    late: Vec<Visitor>,
    /// Have seats set aside, and pay afterwards.
    holding: Vec<Visitor>,
}

/// A show, what it stands on, and those who serve it.
struct Sale {
    need: &'static Need,
    way: Signpost,
    /// The primary.
    server: Server,
    database: String,
    folder: tempfile::TempDir,
    door: SocketAddr,
    client: Client,
    seats: u64,
    _served_by: Vec<Alone>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_on_redis_goes_on_after_losses() {
    play(&REDIS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_on_valkey_goes_on_after_losses() {
    play(&VALKEY).await;
}

async fn play(need: &'static Need) {
    let buyers = env::var(BUYERS_VARIABLE).map_or(BUYERS, |buyers| buyers.parse().unwrap());
    let Some(mut sale) = Sale::open(need, buyers).await else {
        return;
    };
    let casts = [sale.cast().await, sale.cast().await];
    let (door, folder) = (sale.door, sale.folder.path().to_owned());
    let words = format!("--fans {buyers} --claim-ms 5000 --for-s 240");
    let followed = async {
        let waiting = sale.those_who_wait().await;
        for (cast, lost, left) in [
            (&casts[0], Lost::Everything, sale.seats * 4 / 5),
            (&casts[1], Lost::LastMoments, sale.seats * 3 / 5),
        ] {
            let left_so_few = async || (sale.left().await? <= left).then_some(());
            within("enough is sold", PATIENCE, left_so_few).await;
            sale.lose(cast, lost, &waiting).await;
        }
        sale.sells_out().await;
        sale
    };
    let (report, sale) = tokio::join!(crowd(door, &folder, &words), followed);
    // A call of the last moments is repeated, under the same ticket.
    let is_known = |fault: &Fault| matches!(fault, Fault::TicketLost | Fault::ExpiryChanged);
    assert!(report.faults.found.keys().all(is_known), "{report}");
    for ticket in casts.iter().flat_map(Cast::tickets) {
        let orders = format!(
            "select count(*) from orders where ticket_id = '{ticket}' and status = 'confirmed'"
        );
        assert_eq!(sale.count(&orders).await, 1, "ticket {ticket}");
    }
    let sold = sale
        .count("select count(*) from seats where state = 'sold'")
        .await;
    assert_eq!(sold, i64::try_from(sale.seats).unwrap());
    sale.is_judged().await;
}

impl Sale {
    /// Opens the show. `None` where a server is missing that this machine may do without.
    async fn open(need: &'static Need, buyers: u64) -> Option<Self> {
        let (server, database) = (Server::start(need)?, postgres::database().await?);
        let way = Signpost::to(server.address()).await;
        let folder = tempfile::tempdir().unwrap();
        let stores = [
            ("CATRACA__ROOM__URL", format!("redis://{}/", way.address)),
            ("CATRACA__DATABASE__URL", database.clone()),
        ];
        let start = async |role, more: &[(&str, String)]| {
            Alone::start(role, folder.path(), &[&stores[..], more].concat()).await
        };
        let orders = start(Role::Orders, &[]).await;
        let shop = format!("http://{}", orders.address("orders"));
        let gateway = start(Role::Gateway, &[("CATRACA__UPSTREAMS__ORDERS__URL", shop)]).await;
        let door = gateway.address("gateway");
        let admitter = start(Role::Admitter, &[]).await;
        let admin = format!("http://{}", admitter.address("admin API"));
        let mut served_by = vec![orders, gateway, admitter];
        for role in [Role::Admitter, Role::Relay, Role::Notify, Role::Stock] {
            served_by.push(start(role, &[]).await);
        }
        let seats = create(folder.path(), &admin, buyers).await;
        let sale = Self {
            need,
            way,
            server,
            database,
            client: Client::of(format!("http://{door}")),
            door: door.parse().unwrap(),
            folder,
            seats,
            _served_by: served_by,
        };
        let shows_seats = async || sale.left().await;
        within("the board shows the seats", PATIENCE, shows_seats).await;
        Some(sale)
    }

    /// The board, where the gateway has one.
    async fn board(&self) -> Option<Value> {
        let line = format!("GET /v1/shows/{SHOW}/board");
        let (status, board) = self.client.ask(&line, &[], &Value::Null).await;
        (status == 200).then_some(board)
    }

    async fn left(&self) -> Option<u64> {
        self.board().await?["stock"]["left"].as_u64()
    }

    /// Fans who come before the crowd, so that they are inside when it arrives.
    async fn cast(&self) -> Cast {
        Cast {
            early: self.inside(3).await,
            late: self.inside(2).await,
            holding: self.inside(2).await,
        }
    }

    async fn inside(&self, count: usize) -> Vec<Visitor> {
        let mut fans = Vec::new();
        for _ in 0..count {
            let fan = Visitor::join_by(self.client.clone()).await;
            fans.push(fan.inside().await);
        }
        fans
    }

    /// The crowd buys the rest. Of those whose end was lost with the last moments, the stock guard keeps
    /// seats until their time is over.
    async fn sells_out(&self) {
        let is_sold_out = async || (self.board().await?["state"] == "sold_out").then_some(());
        within("everything is sold", PATIENCE, is_sold_out).await;
    }

    /// Fans who come behind the crowd, with the numbers they were told.
    async fn those_who_wait(&self) -> Vec<Visitor> {
        let is_crowded = async || (50 <= self.board().await?["waiting"].as_u64()?).then_some(());
        within("the crowd has come", PATIENCE, is_crowded).await;
        let mut fans = Vec::new();
        for _ in 0..3 {
            fans.push(Visitor::join_by(self.client.clone()).await);
        }
        fans
    }

    /// It happens, and is mended. Nobody of those who are followed notices more than a pause.
    async fn lose(&mut self, cast: &Cast, lost: Lost, waiting: &[Visitor]) {
        let mut orders = Vec::new();
        for fan in &cast.early {
            orders.push(buy(fan, &fan.hold().await).await);
            self.has_copied_the_end_of(fan).await;
        }
        let mut holds = Vec::new();
        for fan in &cast.holding {
            holds.push(fan.hold().await);
        }
        let replica = match lost {
            Lost::Everything => None,
            Lost::LastMoments => Some(self.server.copied(self.need).await),
        };
        if let Some((_, cable)) = &replica {
            // A primary takes a new replication id with its first replica.
            self.is_whole(PATIENCE).await;
            cable.cut();
        }
        let mut last = Vec::new();
        for fan in &cast.late {
            last.push(buy(fan, &fan.hold().await).await);
        }
        let struck = Instant::now();
        match replica {
            None => self.server.tell(&["FLUSHALL"]),
            Some((replica, _)) => {
                self.server.die();
                replica.tell(&["REPLICAOF", "NO", "ONE"]);
                self.way.turn(replica.address());
                self.server = replica;
            }
        }
        self.is_whole(MENDED_MAX).await;
        eprintln!(
            "{lost:?} on {}: mended in {:.1?}",
            self.need.what,
            struck.elapsed()
        );

        for fan in &cast.early {
            is_gone(fan).await;
        }
        for (fan, order) in cast.late.iter().zip(&last) {
            cannot_buy_again(fan, order).await;
        }
        for (fan, hold) in cast.holding.iter().zip(&holds) {
            pays_for(fan, hold).await;
        }
        for fan in waiting {
            let told = fan.status().await;
            assert_eq!(told["place"], fan.number, "{told}");
        }
    }

    /// Waits until the room answers on the server that it is on.
    async fn is_whole(&self, most: Duration) {
        let asks = "return redis.call('HGET', KEYS[1], 'replid') == \
            string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')";
        within("the room is whole", most, async || {
            let mut connection = self.server.connection();
            let room = format!("catraca:{{{SHOW}}}:room");
            let script = redis::Script::new(asks);
            let is_whole: Option<bool> = script.key(room).invoke(&mut connection).unwrap();
            is_whole.filter(|is_whole| *is_whole).map(drop)
        })
        .await;
    }

    /// Waits until SQL has the end of a fan's turn.
    async fn has_copied_the_end_of(&self, fan: &Visitor) {
        let id = claim(&fan.ticket, "sub");
        let ends =
            format!("select count(*) from room_ledger where kind = 'ended' and body like '%{id}%'");
        let is_there = async || (0 < self.count(&ends).await).then_some(());
        within("the end is copied", PATIENCE, is_there).await;
    }

    async fn count(&self, sql: &str) -> i64 {
        let mut connection = postgres::connect(&self.database).await;
        let sql = sqlx::AssertSqlSafe(sql.to_owned());
        let count = sqlx::query_scalar(sql).fetch_one(&mut connection).await;
        count.unwrap()
    }

    /// `catraca check` finds nothing broken, and says of both losses what it cannot prove.
    async fn is_judged(&self) {
        let words = ["check", "--data-dir", ".", "--history", "history.ndjson"];
        let words = [&words[..], &["--database", &self.database]].concat();
        let clean = async || {
            let checked = run_in(self.folder.path(), &words, &[]).await;
            (checked.code == Some(0)).then_some(checked.out)
        };
        let said = within("every promise is kept", PATIENCE, clean).await;
        for generation in [1, 2] {
            let lost = format!("generation {generation} was lost");
            assert!(said.contains(&lost), "{lost}: {said}");
        }
    }
}

impl Cast {
    fn tickets(&self) -> impl Iterator<Item = String> {
        let all = self.early.iter().chain(&self.late).chain(&self.holding);
        all.map(|fan| claim(&fan.ticket, "jti"))
    }
}

/// Creates the show with the command line, to open in a moment; how many seats it has.
async fn create(folder: &Path, admin: &str, buyers: u64) -> u64 {
    let now = SystemClock.now();
    let mut document = settings(&json!({
        "rate": 2 * buyers,
        "capacity": 18 + buyers / 30,
        "claim_ms": 5_000,
        "ticket_ttl_ms": 90_000,
        "hold_ms": 60_000,
        "restore_per_s": 1_000,
    }));
    let (floor, stand) = (buyers * 2 / 5, buyers / 10);
    document["sections"][0]["seats"] = json!(floor);
    document["sections"][1]["seats"] = json!(stand);
    document["early_at"] = json!(now);
    document["opens_at"] = json!(now.plus_ms(500));
    std::fs::write(folder.join("show.json"), document.to_string()).unwrap();
    let env = [
        ("CATRACA_ADMIN", admin),
        ("CATRACA_TOKEN_FILE", "admin-token"),
    ];
    let created = run_in(folder, &["show", "create", SHOW, "show.json"], &env).await;
    assert_eq!(created.code, Some(0), "{created:?}");
    floor + stand
}

/// Pays for a hold; the order, once it is confirmed.
async fn buy(fan: &Visitor, hold: &str) -> String {
    let (status, placed) = fan.order(hold, "approve").await;
    assert!(status.is_success(), "{status}: {placed}");
    fan.confirmed(&placed).await
}

/// Whoever has bought stays out.
async fn is_gone(fan: &Visitor) {
    let told = within("the fan is told", PATIENCE, async || {
        let told = fan.status().await;
        assert_eq!(told["ticket"], Value::Null, "{told}");
        (told["state"] == "gone").then_some(told)
    })
    .await;
    assert_eq!(told["reason"], "used");
    let (status, answer) = fan.try_hold().await;
    assert_eq!(status, 401, "{answer}");
}

/// The room may have forgotten that they bought; the shop has not.
async fn cannot_buy_again(fan: &Visitor, order: &str) {
    let told = within("the fan is told", PATIENCE, async || {
        let told = fan.status().await;
        let is_told = told["state"] == "gone" || told["state"] == "admitted";
        is_told.then_some(told)
    })
    .await;
    if let Some(ticket) = told["ticket"].as_str() {
        assert_eq!(claim(ticket, "jti"), claim(&fan.ticket, "jti"), "{told}");
        let (status, answer) = fan.try_hold().await;
        assert!(status == 409 || status == 401, "{status}: {answer}");
        // The first answer that shows the order says so again.
        fan.confirmed(&json!({ "order_id": order })).await;
    }
    is_gone(fan).await;
}

/// Who was about to pay, pays.
async fn pays_for(fan: &Visitor, hold: &str) {
    let told = within("the fan is inside again", PATIENCE, async || {
        let told = fan.status().await;
        (told["state"] == "admitted").then_some(told)
    })
    .await;
    let ticket = told["ticket"].as_str().unwrap();
    assert_eq!(claim(ticket, "jti"), claim(&fan.ticket, "jti"), "{told}");
    buy(fan, hold).await;
    is_gone(fan).await;
}
