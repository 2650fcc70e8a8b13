//! The shop's process alone dies by SIGKILL every second, from the first fan to the last order, and another
//! takes its place, while gateway, admitter, relay and consumers live on. Whoever was told of an order has
//! it, whoever was told nothing asks again and is served, nobody pays twice, and the checker finds every
//! promise kept. Then the show is cancelled, and the shop dies each time it has come a little further with
//! taking everything back: all of it is, and everybody is paid back once.
//!
//! The short form is a sale of some seconds; `./dev drill kills` goes on for two minutes on each database.
//! On SQLite orders is a process of its own, too: all of them have the file open, and each new one finds it
//! as the dead one left it.

mod audit;
mod heard;

use std::env;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use catraca::app::alone::Role;
use catraca::app::database::Database;
use catraca::base::time::{Clock, SystemClock};
use loadtest::report::Report;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::chaos::orders_killed::audit::Ended;
use crate::chaos::orders_killed::heard::Heard;
use crate::support::client::Client;
use crate::support::need::REDIS;
use crate::support::process::{Alone, Variables, run_within};
use crate::support::redis::Server as Redis;
use crate::support::sale::{SHOW, create_by_hand, crowd, settings};
use crate::support::{database, postgres};

/// For how many seconds fans arrive, where `./dev drill kills` says so.
const SECONDS: &str = "CATRACA_DRILL_KILLS_S";
/// From the moment in which it listens to its death.
const LIFE: Duration = Duration::from_secs(1);
/// From the moment in which it has come further with a cancellation to its death, in milliseconds.
const PACE_MS: Range<u64> = 0..60;
/// How long a cancellation may take all the same.
const TAKING_BACK_MAX: Duration = Duration::from_secs(120);
/// How long the provider takes over a third of all cards: long enough to be struck by a death.
const SLOW_MS: u64 = 300;
/// Everybody else.
const OTHERS: [Role; 6] = [
    Role::Admitter,
    Role::Relay,
    Role::Notify,
    Role::Stock,
    Role::Search,
    Role::Analytics,
];

/// How much of it.
#[derive(Debug, Clone, Copy)]
struct Extent {
    /// Fans arrive for so long.
    seconds: u64,
    fans: u64,
    hold_ms: u64,
    /// After so long nobody is waited for.
    patience_s: u64,
    /// Whether each fan has the time to see it through: a key whose request died is free again after 30 s.
    is_patient: bool,
    /// Deaths, and orders begun near one, that it takes to prove something. How many there are in some seconds
    /// is for the machine to say.
    deaths_min: usize,
}

impl Extent {
    fn told() -> Self {
        match env::var(SECONDS) {
            Ok(seconds) => {
                let seconds: u64 = seconds.parse().unwrap();
                Self {
                    seconds,
                    fans: 20 * seconds,
                    hold_ms: 240_000,
                    patience_s: 10 * seconds,
                    is_patient: true,
                    deaths_min: usize::try_from(seconds * 9 / 10).unwrap(),
                }
            }
            Err(_) => Self {
                seconds: 7,
                fans: 100,
                hold_ms: 10_000,
                patience_s: 20,
                is_patient: false,
                deaths_min: 5,
            },
        }
    }
}

/// Where everything is kept.
#[derive(Debug)]
struct Place<'a> {
    folder: &'a Path,
    db: Database,
    /// Where the database is PostgreSQL.
    url: Option<String>,
}

/// One death.
#[derive(Debug, Clone, Copy)]
struct Death {
    /// In microseconds since the Unix epoch.
    at_us: u64,
    /// Until the next process listened.
    away: Duration,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_on_postgres_that_dies_every_second_keeps_its_word() {
    if let Some(url) = postgres::database().await {
        sale(Some(url)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_on_sqlite_that_dies_every_second_keeps_its_word() {
    sale(None).await;
}

/// The whole sale, on the PostgreSQL at this address or in a file.
async fn sale(url: Option<String>) {
    let Some(redis) = Redis::start(&REDIS) else {
        return;
    };
    let extent = Extent::told();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut shared = vec![
        ("CATRACA__ROOM__URL", redis.url()),
        ("CATRACA__ORDERS__SANDBOX_SLOW_MS", SLOW_MS.to_string()),
    ];
    shared.extend(url.clone().map(|url| ("CATRACA__DATABASE__URL", url)));
    let first = Alone::start(Role::Orders, folder, &shared).await;
    let shop = first.address("orders");
    let at_home = ("CATRACA__ORDERS__LISTEN", shop.clone());
    let orders = [&*shared, &[at_home]].concat();
    let upstream = ("CATRACA__UPSTREAMS__ORDERS__URL", format!("http://{shop}"));
    let gateway = Alone::start(Role::Gateway, folder, &[&*shared, &[upstream]].concat()).await;
    let mut others = Vec::new();
    for role in OTHERS {
        others.push(Alone::start(role, folder, &shared).await);
    }
    let admin = format!("http://{}", others[0].address("admin API"));
    let door = gateway.address("gateway");
    others.push(gateway);
    open_the_show(folder, &admin, &door, &extent).await;

    let db = match &url {
        Some(url) => database::at(url).await,
        None => database::in_sqlite(folder).await,
    };
    let (over, is_over) = oneshot::channel();
    let selling = async {
        let report = sell(folder, &door, &extent).await;
        over.send(()).unwrap();
        report
    };
    let killing = kill_every_second(first, &orders, (folder, &db), is_over);
    let (report, (last, deaths, heard)) = tokio::join!(selling, killing);
    assert!(report.is_clean(), "{report}");
    let place = Place { folder, db, url };
    let ended = audit::at_rest(&place, &heard).await;
    judge(&extent, &report, &deaths, (&heard, &ended));

    let (last, struck) = kill_while_it_is_taken_back(last, &orders, &place, &admin).await;
    let refunds = audit::all_is_taken_back(&place, ended.confirmed()).await;
    assert!(3 <= struck, "{struck} deaths while it is taken back");
    others.push(last);
    for process in others {
        assert_eq!(process.terminate().await, Some(0));
    }
    audit::nothing_is_left(place).await;
    eprintln!(
        "  the show was cancelled, and orders killed {struck} times until all was taken back: {} orders paid \
         back, {refunds} refunds asked for; no session left",
        ended.confirmed()
    );
}

/// Creates the show, to open in a moment: there is a seat for everybody, but not always where they ask first.
async fn open_the_show(folder: &Path, admin: &str, door: &str, extent: &Extent) {
    let now = SystemClock.now();
    let price = json!({ "amount": 120.00, "currency": "BRL" });
    let document = settings(&json!({
        "rate": 500,
        "window_ms": 1_000,
        "capacity": extent.fans,
        "claim_ms": 20_000,
        "ticket_ttl_ms": extent.hold_ms,
        "hold_ms": extent.hold_ms,
        "early_at": now,
        "opens_at": now.plus_ms(1_500),
        "sections": [
            { "name": "Floor", "seats": extent.fans, "price": price },
            { "name": "Stand", "seats": 2 * extent.fans, "numbered": true, "price": price },
        ],
    }));
    let client = Client::of(format!("http://{door}"));
    create_by_hand(folder, admin, &client, &document).await;
}

async fn sell(folder: &Path, door: &str, extent: &Extent) -> Report {
    let words = format!(
        "--fans {} --arrive-s {} --connections 64 --think-s 0.3..1.5 --buy 1 --leave 0 --sleep 0 --slow 0.3 \
         --decline 0.05 --claim-ms 20000 --for-s {} --mail-wait-s 120",
        extent.fans, extent.seconds, extent.patience_s
    );
    crowd(door.parse().unwrap(), folder, &words).await
}

/// Kills the shop every second until it is told that all is over: the one that lives then, each death, and what
/// fans had heard. Of what they had heard before a death nothing is missing when it has happened.
async fn kill_every_second(
    first: Alone,
    variables: &Variables,
    (folder, db): (&Path, &Database),
    mut is_over: oneshot::Receiver<()>,
) -> (Alone, Vec<Death>, Heard) {
    let (mut shop, mut deaths, mut heard) = (first, Vec::new(), Heard::in_folder(folder));
    loop {
        tokio::select! {
            _ = &mut is_over => break,
            () = sleep(LIFE) => {}
        }
        heard.read_on();
        let (at, since) = (SystemClock.now(), Instant::now());
        shop.die().await;
        audit::orders(db, &heard).await;
        shop = Alone::start(Role::Orders, folder, variables).await;
        deaths.push(Death {
            at_us: at.as_millis().cast_unsigned() * 1_000,
            away: since.elapsed(),
        });
    }
    heard.read_on();
    (shop, deaths, heard)
}

/// An operator cancels the show, and the shop is killed each time that it has come further, until the verb says
/// that all is done. The one that lives then, and how often.
async fn kill_while_it_is_taken_back(
    first: Alone,
    variables: &Variables,
    place: &Place<'_>,
    admin: &str,
) -> (Alone, usize) {
    let words = ["show", "cancel", SHOW, "--repeat", SHOW];
    let env = [
        ("CATRACA_ADMIN", admin),
        ("CATRACA_TOKEN_FILE", "admin-token"),
    ];
    let verb = run_within(TAKING_BACK_MAX, place.folder, &words, &env);
    tokio::pin!(verb);
    let (mut shop, mut struck, mut stand) = (first, 0, (0, 0));
    loop {
        tokio::select! {
            ended = &mut verb => {
                assert_eq!(ended.code, Some(0), "{ended:?}");
                return (shop, struck);
            }
            further = audit::comes_further(&place.db, stand) => stand = further,
        }
        sleep(Duration::from_millis(rand::random_range(PACE_MS))).await;
        shop.die().await;
        shop = Alone::start(Role::Orders, place.folder, variables).await;
        struck += 1;
    }
}

/// Whether it was enough to prove something, and what it came to.
fn judge(extent: &Extent, report: &Report, deaths: &[Death], (heard, ended): (&Heard, &Ended)) {
    let (counts, tally) = (&report.counts, &report.tally);
    let (near, across) = (heard.begun_near(deaths), ended.paid_across(deaths));
    let away: Duration = deaths.iter().map(|death| death.away).sum();
    eprintln!(
        "{}: {} fans in {:.0} s, orders killed {} times and away for {away:.0?} of it
  {} orders confirmed: {near} begun within 200 ms of a death, {} asked for again, {across} paid across a death
  {} answers 5xx, {} none; {} fans heard 401 in the end, {} gave up, {} were left; {} charges, no attempt twice
  seats free {}, held 0, sold {}\n{}",
        ended.database,
        extent.fans,
        report.seconds,
        deaths.len(),
        ended.confirmed(),
        heard.asked_again(),
        counts.unavailable,
        counts.lost + counts.not_sent,
        tally.ran_out,
        tally.gave_up,
        tally.open(),
        ended.charges,
        ended.free,
        ended.sold,
        ended.verdicts,
    );
    assert_eq!(tally.gave_up, 0);
    assert!(extent.deaths_min <= deaths.len(), "{} deaths", deaths.len());
    assert!(extent.deaths_min <= near, "orders near a death");
    assert!(0 < across, "payments across a death");
    assert!(2 * extent.deaths_min <= ended.confirmed(), "orders");
    assert!(0 < counts.unavailable, "nobody noticed");
    if extent.is_patient {
        assert_eq!(tally.open(), 0, "nobody is left out");
        let fans = usize::try_from(extent.fans);
        assert_eq!(Ok(ended.confirmed()), fans, "everybody has their order");
    }
}
