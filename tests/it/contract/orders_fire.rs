//! Stock under fire: crowds of buyers who want the same seats, give up, crash and come late. The
//! short form runs with the other tests; `./dev drill fire` is the long one. Tests are named after
//! their invariants in docs/invariants.md.

use std::collections::BTreeSet;
use std::env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use catraca::orders::rules::Refusal;
use catraca::orders::rules::hold::{PlaceHold, Wish};
use futures_util::future::join3;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::contract::shop::{HOLD_MS, Shop};
use crate::contract::shop_home::{Db, Home, on_every_database};

on_every_database!(
    h1_every_seat_has_one_owner_at_every_moment,
    h2_lists_in_any_order_meet_without_deadlock,
    h3_the_last_seat_has_one_winner_of_a_thousand,
    h5_an_order_races_the_end_of_its_hold,
    a_hot_section_is_sold_to_the_last_seat,
    whoever_hangs_up_leaves_nothing_half_done,
);

/// Set to `long` by `./dev drill fire`.
const LENGTH: &str = "CATRACA_FIRE";
/// Buyers at once.
const AT_ONCE: u64 = 64;

/// So many in the short form, so many in the long one. SQLite, with its one writer, gets a tenth.
fn so_many(home: &Home, short: u64, long: u64) -> u64 {
    match (env::var(LENGTH).as_deref(), home) {
        (Ok("long"), Home::Postgres(_)) => long,
        (Ok("long"), Home::Sqlite(_)) => long / 10,
        (_, Home::Postgres(_)) => short,
        (_, Home::Sqlite(_)) => short / 2,
    }
}

/// Runs `count` buyers, some at a time. Each has a seed of its own.
async fn buyers<F>(count: u64, buy: impl Fn(u64, SmallRng) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut running = JoinSet::new();
    for fan in 0..count {
        if AT_ONCE <= running.len() as u64 {
            running.join_next().await.unwrap().unwrap();
        }
        running.spawn(buy(fan, SmallRng::seed_from_u64(fan)));
    }
    running.join_all().await;
}

/// Looks again and again whether the sums are exact, until it is told that all is over.
async fn watch(shop: Arc<Shop>, capacity: u64, over: Arc<AtomicBool>) -> u64 {
    let mut looks = 0;
    while !over.load(Ordering::Relaxed) {
        let (free, held, sold) = shop.stock().await;
        assert_eq!(free + held + sold, capacity, "{free} + {held} + {sold}");
        looks += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    looks
}

/// Deadlocks that the server had to end in this database.
async fn deadlocks(shop: &Shop) -> i64 {
    match &shop.db {
        Db::Sqlite(_) => 0,
        Db::Postgres(_) => {
            let query = "select deadlocks from pg_stat_database where datname = current_database()";
            shop.db.rows(query, &[]).await[0].number("deadlocks")
        }
    }
}

async fn h1_every_seat_has_one_owner_at_every_moment(home: Home) {
    let (crowd, seats) = (so_many(&home, 2_000, 200_000), so_many(&home, 600, 60_000));
    let (numbered, places) = (seats / 3 * 2, seats / 3);
    let sections = [
        ("B", u32::try_from(numbered).unwrap(), true),
        ("GA", u32::try_from(places).unwrap(), false),
    ];
    let capacity = numbered + places;
    let shop = Arc::new(Shop::open(&home, &sections).await);
    let over = Arc::new(AtomicBool::new(false));
    let watching = tokio::spawn(watch(shop.clone(), capacity, over.clone()));
    let settling = tokio::spawn({
        let (settle, over) = (shop.orders.settle(), over.clone());
        async move {
            while !over.load(Ordering::Relaxed) {
                settle.step().await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    let sold_out = Arc::new(AtomicU64::new(0));
    buyers(crowd, |fan, mut rng| {
        let (shop, sold_out) = (shop.clone(), sold_out.clone());
        async move {
            let section = if rng.random_ratio(2, 3) { "B" } else { "GA" }.to_owned();
            let quantity = rng.random_range(1..=6);
            let hold = match shop.hold_wish(fan, Wish::Best { section, quantity }).await {
                Ok(hold) => hold,
                Err(Refusal::SoldOut) => {
                    sold_out.fetch_add(1, Ordering::Relaxed);
                    let (free, held, _) = shop.stock().await;
                    // Nothing in this test gives sold seats back.
                    assert_eq!((free, held), (0, 0), "sold out is said where it is true");
                    return;
                }
                Err(Refusal::SeatsTaken(_)) => return,
                Err(other) => panic!("{other:?}"),
            };
            if quantity == 1 || rng.random_ratio(6, 10) {
                shop.order(fan, hold.id).await.unwrap();
            } else if rng.random_ratio(8, 10) {
                let released = shop.store.release(&shop.buyer(fan), hold.id).await;
                released.unwrap().unwrap();
            } // else: a crash; the hold runs out
        }
    })
    .await;
    // What the crashed had runs out, and is sold to those who come back.
    shop.clock.advance_ms(HOLD_MS);
    while shop.orders.expire().step().await.unwrap().holds != 0 {}
    over.store(true, Ordering::Relaxed);
    settling.await.unwrap();
    assert!(watching.await.unwrap() > 0);
    while shop.orders.settle().step().await.unwrap().settled != 0 {}
    let (free, held, sold) = shop.stock().await;
    assert_eq!((free + sold, held), (capacity, 0));
    assert_eq!(deadlocks(&shop).await, 0);
    shop.audit(capacity).await;
    eprintln!("H1: {crowd} buyers, {capacity} seats: {sold} sold, {free} free");
}

async fn h2_lists_in_any_order_meet_without_deadlock(home: Home) {
    let shop = Arc::new(Shop::open(&home, &[("B", 40, true), ("C", 40, true)]).await);
    let got = Arc::new(AtomicU64::new(0));
    buyers(so_many(&home, 400, 20_000), |fan, mut rng| {
        let (shop, got) = (shop.clone(), got.clone());
        async move {
            let mut names = BTreeSet::new();
            while names.len() < 6 {
                let section = if rng.random_ratio(1, 2) { "B" } else { "C" };
                names.insert(format!("{section}-{}", rng.random_range(1..=40)));
            }
            let mut names: Vec<String> = names.into_iter().collect();
            if fan % 2 == 0 {
                names.reverse();
            }
            match shop.hold_wish(fan, Wish::Named(names)).await {
                Ok(hold) => {
                    got.fetch_add(1, Ordering::Relaxed);
                    let released = shop.store.release(&shop.buyer(fan), hold.id).await;
                    released.unwrap().unwrap();
                }
                Err(Refusal::SeatsTaken(_)) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    })
    .await;
    assert!(got.load(Ordering::Relaxed) > 0);
    assert_eq!(deadlocks(&shop).await, 0);
    assert_eq!(shop.stock().await, (80, 0, 0));
    shop.audit(80).await;
}

async fn h3_the_last_seat_has_one_winner_of_a_thousand(home: Home) {
    for numbered in [true, false] {
        let shop = Arc::new(Shop::open(&home, &[("B", 1, numbered)]).await);
        let winners = Arc::new(Mutex::new(Vec::new()));
        buyers(so_many(&home, 1_000, 20_000), |fan, _| {
            let (shop, winners) = (shop.clone(), winners.clone());
            async move {
                match shop.hold(fan, 1).await {
                    Ok(hold) => winners.lock().unwrap().push((fan, hold.id)),
                    Err(Refusal::SeatsTaken(taken)) => assert!(taken.in_carts, "{taken:?}"),
                    Err(other) => panic!("{other:?}"),
                }
            }
        })
        .await;
        let winners = std::mem::take(&mut *winners.lock().unwrap());
        let [(fan, hold)] = winners[..] else {
            panic!("{winners:?}");
        };
        let released = shop.store.release(&shop.buyer(fan), hold).await;
        released.unwrap().unwrap();
        shop.audit(1).await;
    }
}

async fn h5_an_order_races_the_end_of_its_hold(home: Home) {
    let shop = Shop::open(&home, &[("B", 1, true)]).await;
    let expire = shop.orders.expire();
    for round in 0..so_many(&home, 200, 10_000) {
        let hold = shop.hold(2 * round, 1).await.unwrap();
        shop.clock.advance_ms(HOLD_MS - 1);
        // The end of the hold comes while all three are on their way.
        let late = async {
            tokio::task::yield_now().await;
            shop.clock.advance_ms(1);
            expire.step().await.unwrap()
        };
        let (placed, ended, next) = join3(
            shop.order(2 * round, hold.id),
            late,
            shop.hold(2 * round + 1, 1),
        )
        .await;
        assert_eq!(placed.is_ok(), ended.holds == 0, "one owner: {placed:?}");
        assert!(placed.is_err() || next.is_err(), "one owner: {next:?}");
        if let Err(refusal) = placed {
            assert_eq!(refusal, Refusal::HoldEnded);
        }
        // Empty the cart for the next round.
        shop.run("update payments set state = 'declined' where state = 'asked'")
            .await
            .unwrap();
        shop.clock.advance_ms(HOLD_MS);
        expire.step().await.unwrap();
        assert_eq!(shop.stock().await, (1, 0, 0));
    }
    shop.audit(1).await;
}

/// Everybody wants two neighbours of one section: all of it is sold, and nobody is sent away before.
async fn a_hot_section_is_sold_to_the_last_seat(home: Home) {
    let seats = so_many(&home, 400, 20_000) / 2 * 2;
    let size = u32::try_from(seats).unwrap();
    let shop = Arc::new(Shop::open(&home, &[("B", size, true)]).await);
    buyers(seats / 2, |fan, _| {
        let shop = shop.clone();
        async move {
            let hold = shop.hold(fan, 2).await.unwrap();
            assert_eq!(hold.seats.len(), 2);
            shop.order(fan, hold.id).await.unwrap();
        }
    })
    .await;
    assert_eq!(shop.stock().await, (0, seats, 0));
    assert_eq!(deadlocks(&shop).await, 0);
    shop.audit(seats).await;
}

async fn whoever_hangs_up_leaves_nothing_half_done(home: Home) {
    let clients = so_many(&home, 400, 10_000);
    let size = u32::try_from(2 * clients).unwrap();
    let shop = Arc::new(Shop::open(&home, &[("B", size, true)]).await);
    buyers(clients, |fan, mut rng| {
        let shop = shop.clone();
        async move {
            let patience = Duration::from_micros(rng.random_range(0..20_000));
            let wish = Wish::Best {
                section: "B".to_owned(),
                quantity: 2,
            };
            let buyer = shop.buyer(fan);
            let request = PlaceHold { buyer, wish };
            let visit = async {
                // So many at once are told that it is too much, and no more than that.
                if let Ok(held) = shop.store.hold(&request, None).await {
                    let request = shop.place_order(fan, held.unwrap().id, None);
                    drop(shop.store.place(&request, None).await);
                }
            };
            drop(timeout(patience, visit).await);
        }
    })
    .await;
    let wish = Wish::Named(vec![format!("B-{size}")]);
    let buyer = shop.buyer(clients);
    let request = PlaceHold { buyer, wish };
    let next = async { while shop.store.hold(&request, None).await.is_err() {} };
    timeout(Duration::from_secs(30), next).await.unwrap();
    // Closing waits for the units that outlived their requests.
    timeout(Duration::from_secs(20), shop.db.close())
        .await
        .unwrap();
    let shop = Shop::open_again(&home).await;
    if let Db::Postgres(_) = &shop.db {
        let open = "select count(*) as open from pg_stat_activity
          where datname = current_database() and xact_start is not null
            and pid <> pg_backend_pid()";
        assert_eq!(shop.db.rows(open, &[]).await[0].number("open"), 0);
    }
    let (free, held, sold) = shop.stock().await;
    assert_eq!((free + held, sold), (2 * clients, 0));
    shop.audit(2 * clients).await;
}

/// A buyer whose seats are locked by somebody who then lets them go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_sold_out_is_never_said_of_a_locked_seat() {
    let Some(home) = Home::postgres().await else {
        return;
    };
    let shop = Arc::new(Shop::open(&home, &[("B", 2, true), ("GA", 2, false)]).await);
    let Db::Postgres(db) = &shop.db else {
        panic!("on PostgreSQL");
    };
    let named = Wish::Named(vec!["B-1".to_owned(), "B-2".to_owned()]);
    let best = |section: &str| Wish::Best {
        section: section.to_owned(),
        quantity: 2,
    };
    for (fan, wish) in (1..).zip([named, best("B"), best("GA")]) {
        let mut other = db.pool.begin().await.unwrap();
        sqlx::query("update seats set state = 'sold', hold_id = 'x'")
            .execute(&mut *other)
            .await
            .unwrap();
        let request = PlaceHold {
            buyer: shop.buyer(fan),
            wish,
        };
        let store = shop.store.clone();
        let asking = tokio::spawn(async move { store.hold(&request, None).await });
        let waits = "select count(*) as waits from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'";
        while shop.db.rows(waits, &[]).await[0].number("waits") == 0 && !asking.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(!asking.is_finished(), "a no before it is certain");
        other.rollback().await.unwrap();
        let hold = asking.await.unwrap().unwrap().unwrap();
        let released = shop.store.release(&shop.buyer(fan), hold.id).await;
        released.unwrap().unwrap();
    }
    shop.audit(4).await;
}

/// Half of a process's connections wait for one show; the buyers of another do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h9_a_hot_section_stops_no_other() {
    let Some(home) = Home::postgres().await else {
        return;
    };
    let shop = Arc::new(Shop::open(&home, &[("B", 2, true), ("GA", 50, false)]).await);
    let Db::Postgres(db) = &shop.db else {
        panic!("on PostgreSQL");
    };
    let mut other = db.pool.begin().await.unwrap();
    sqlx::query("select from seats where section = 'B' for update")
        .execute(&mut *other)
        .await
        .unwrap();
    let mut waiting = JoinSet::new();
    for fan in 0..8 {
        let shop = shop.clone();
        waiting.spawn(async move { shop.hold(fan, 2).await });
    }
    for fan in 100..120 {
        let wish = Wish::Best {
            section: "GA".to_owned(),
            quantity: 2,
        };
        shop.hold_wish(fan, wish).await.unwrap();
    }
    other.rollback().await.unwrap();
    let told = waiting.join_all().await;
    assert_eq!(told.iter().filter(|told| told.is_ok()).count(), 1);
    shop.audit(52).await;
}
