//! Processes that die by SIGKILL in the middle of a sale, and what a repeat of the request finds.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use catraca::base::limits::KEY_IN_FLIGHT_MS;
use catraca::orders::idempotency::{Begun, Claimed, Key};
use catraca::orders::rules::order::Placed;
use futures_util::future::join;

use crate::contract::shop::{Shop, fan_id};
use crate::contract::shop_home::{Db, Home, on_every_database};
use crate::support::postgres::connect;
use crate::support::until;

on_every_database!(
    i7_of_two_at_once_neither_is_told_that_there_is_nothing,
    i8_a_hold_that_is_over_stays_its_order,
);

/// The URL of the database, for a process that is to die.
const URL: &str = "CATRACA_CRASH_URL";
/// Where it is to die.
const WHERE: &str = "CATRACA_CRASH_WHERE";

fn key(round: u64) -> Key {
    Key {
        show: "show".parse().unwrap(),
        fan: fan_id(1),
        route: "orders",
        key: format!("k{round}"),
        fingerprint: "f".to_owned(),
    }
}

async fn begin(shop: &Shop, round: u64) -> Claimed {
    match shop.store.begin(&key(round)).await.unwrap() {
        Begun::Proceed(claimed) => claimed,
        other => panic!("{other:?}"),
    }
}

/// Killed before the statement, the same request succeeds once its mark has lapsed; killed after it,
/// before the answer went out, the same request gets the same answer. Killed while the statement runs,
/// it is one or the other, for the server may finish what nobody waits for. One order in any case.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i1_a_killed_process_is_one_order() {
    let Some(home) = Home::postgres().await else {
        return;
    };
    let Home::Postgres(url) = &home else {
        panic!("on PostgreSQL");
    };
    let shop = Shop::open(&home, &[("B", 10, false)]).await;
    let hold = shop.hold(1, 2).await.unwrap();
    let request = shop.place_order(1, hold.id, None);

    killed(url, "before").await;
    assert_eq!(shop.store.begin(&key(0)).await.unwrap(), Begun::InProgress);
    let orders = "select count(*) as orders from orders";
    assert_eq!(shop.db.rows(orders, &[]).await[0].number("orders"), 0);
    shop.clock.advance_ms(KEY_IN_FLIGHT_MS);
    let claimed = begin(&shop, 0).await;
    shop.store.release_key(&claimed).await.unwrap();

    killed(url, "after").await;
    let Begun::Replay(answer) = shop.store.begin(&key(0)).await.unwrap() else {
        panic!("what was committed is kept");
    };
    assert_eq!(answer.status, 201);
    let again = shop.store.place(&request, None).await.unwrap().unwrap();
    assert!(matches!(again, Placed::Again(_)));
    assert!(answer.body.contains(&again.order().id.to_string()));
    shop.audit(10).await;
}

/// The same for a process that dies while its statement waits for the row that somebody has locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_killed_inside_its_statement_is_one_order() {
    let Some(home) = Home::postgres().await else {
        return;
    };
    let Home::Postgres(url) = &home else {
        panic!("on PostgreSQL");
    };
    let shop = Shop::open(&home, &[("B", 10, false)]).await;
    let hold = shop.hold(1, 2).await.unwrap();
    let Db::Postgres(db) = &shop.db else {
        panic!("on PostgreSQL");
    };
    let mut other = db.pool.begin().await.unwrap();
    sqlx::query("select from holds for update")
        .execute(&mut *other)
        .await
        .unwrap();
    killed(url, "inside").await;
    other.rollback().await.unwrap();

    // The mark lapses, or the answer is there: the same request is answered in the end, with one order.
    shop.clock.advance_ms(KEY_IN_FLIGHT_MS);
    let request = shop.place_order(1, hold.id, None);
    let answered = match shop.store.begin(&key(0)).await.unwrap() {
        Begun::Proceed(claimed) => shop.store.place(&request, Some(&claimed)).await,
        Begun::Replay(_) => shop.store.place(&request, None).await,
        other => panic!("{other:?}"),
    };
    let order = answered.unwrap().unwrap().order().id;
    assert_eq!(shop.events(&order.to_string()).await, ["OrderPlaced"]);
    let orders = "select count(*) as orders from orders";
    assert_eq!(shop.db.rows(orders, &[]).await[0].number("orders"), 1);
    shop.audit(10).await;
}

/// And for one that dies inside a transaction: nothing of it remains.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_killed_inside_its_transaction_leaves_nothing() {
    let Some(home) = Home::postgres().await else {
        return;
    };
    let Home::Postgres(url) = &home else {
        panic!("on PostgreSQL");
    };
    let shop = Shop::open(&home, &[("B", 10, true)]).await;
    let hold = shop.hold(1, 2).await.unwrap();
    killed(url, "holding").await;
    let before = (8, 2, 0);
    let free = || async { (shop.stock().await == before).then_some(()) };
    until("its transaction is gone", free).await;
    shop.hold(2, 8).await.unwrap();
    shop.order(1, hold.id).await.unwrap();
    shop.audit(10).await;
}

/// Whether a statement waits for somebody's lock.
async fn waits(url: &str) -> Option<()> {
    let waits = "select count(*) from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'";
    let mut watching = connect(url).await;
    let waits: i64 = sqlx::query_scalar(waits)
        .fetch_one(&mut watching)
        .await
        .unwrap();
    (0 < waits).then_some(())
}

/// Starts a process that goes as far as it is told, and kills it there.
async fn killed(url: &str, place: &str) {
    let mut child: Child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "contract::orders_crash::the_process_that_dies"])
        .args(["--nocapture", "--test-threads=1"])
        .env(URL, url)
        .env(WHERE, place)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let reached = lines.any(|line| line.unwrap().contains(place));
    if place == "inside" {
        until("its statement waits", || waits(url)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(reached, "it came as far as that");
}

/// Nothing by itself: [`killed`] runs it in a process of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_process_that_dies() {
    let (Ok(url), Ok(place)) = (env::var(URL), env::var(WHERE)) else {
        return;
    };
    let shop = Shop::open_again(&Home::Postgres(url)).await;
    let hold = shop.db.rows("select hold_id from holds", &[]).await[0].text("hold_id");
    let request = shop.place_order(1, hold.parse().unwrap(), None);
    if place == "holding" {
        return hold_and_wait(&shop, &place).await;
    }
    let claimed = begin(&shop, 0).await;
    if place == "inside" {
        eprintln!("\n{place}");
        drop(shop.store.place(&request, Some(&claimed)).await);
    }
    if place == "after" {
        let placed = shop.store.place(&request, Some(&claimed)).await;
        assert!(matches!(placed, Ok(Ok(Placed::First(_)))), "{placed:?}");
    }
    eprintln!("\n{place}");
    std::future::pending::<()>().await;
}

/// Takes seats in a transaction that never ends.
async fn hold_and_wait(shop: &Shop, place: &str) {
    let Db::Postgres(db) = &shop.db else {
        panic!("on PostgreSQL");
    };
    let mut tx = db.pool.begin().await.unwrap();
    sqlx::query("update seats set state = 'held', hold_id = 'x' where state = 'free'")
        .execute(&mut *tx)
        .await
        .unwrap();
    eprintln!("\n{place}");
    std::future::pending::<()>().await;
}

async fn i7_of_two_at_once_neither_is_told_that_there_is_nothing(home: Home) {
    let shop = Shop::open(&home, &[("B", 200, false)]).await;
    for round in 0..100 {
        let (first, second) = (key(round), key(round));
        let (one, two) = join(shop.store.begin(&first), shop.store.begin(&second)).await;
        let mut begun = [one.unwrap(), two.unwrap()].into_iter();
        let proceeds = begun
            .clone()
            .filter(|begun| matches!(begun, Begun::Proceed(_)));
        assert_eq!(proceeds.count(), 1);
        assert!(begun.any(|begun| begun == Begun::InProgress));

        let hold = shop.hold(round, 1).await.unwrap();
        let (one, two) = join(shop.order(round, hold.id), shop.order(round, hold.id)).await;
        let (one, two) = (one.unwrap(), two.unwrap());
        assert_eq!(one.order().id, two.order().id);
        let first = [one, two]
            .into_iter()
            .filter(|p| matches!(p, Placed::First(_)));
        assert_eq!(first.count(), 1);
    }
    shop.audit(200).await;
}

/// The answer to a repeated order holds what never changes, and never makes a second sale; how the
/// order stands now is read with GET.
async fn i8_a_hold_that_is_over_stays_its_order(home: Home) {
    let shop = Shop::open(&home, &[("B", 2, true)]).await;
    let order = shop.bought(1, 2, Some("decline")).await;
    shop.orders.settle().step().await.unwrap();
    shop.clock.advance_ms(crate::contract::shop::HOLD_MS);
    shop.orders.expire().step().await.unwrap();
    let again = shop.order(1, order.hold).await.unwrap();
    assert!(matches!(&again, Placed::Again(same) if same.id == order.id));
    assert_eq!(shop.stock().await, (2, 0, 0));
    shop.audit(2).await;
}
