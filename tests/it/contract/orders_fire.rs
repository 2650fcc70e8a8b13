//! Stock under fire: crowds of buyers who want the same seats, give up, crash and come late. The
//! short form runs with the other tests; `./dev drill fire` is the long one. Tests are named after
//! their invariants in docs/invariants.md; those of seats that stay locked are in `orders_locked.rs`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use catraca::orders::rules::Refusal;
use catraca::orders::rules::hold::{PlaceHold, Wish};
use futures_util::future::join3;
use rand::RngExt;
use tokio::time::timeout;

use crate::contract::crowd::{AT_ONCE, buyers, hold, hold_best, order, release, so_many, tell};
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

/// What holds in every committed state: seats that are held are those of live holds and pending orders,
/// seats that are sold are those of confirmed orders. One statement, so one moment.
const SUMS: &str = "select
    (select count(*) from seats where state = 'free') as free,
    (select count(*) from seats where state = 'held') as held,
    (select count(*) from seats where state = 'sold') as sold,
    (select count(distinct show || ' ' || seat) from seats) as seats,
    (select coalesce(sum(length(seats) - length(replace(seats, ',', '')) + 1), 0)
      from holds where state = 'live') as live,
    (select coalesce(sum(length(seats) - length(replace(seats, ',', '')) + 1), 0)
      from orders where status = 'pending') as pending,
    (select coalesce(sum(length(seats) - length(replace(seats, ',', '')) + 1), 0)
      from orders where status = 'confirmed') as confirmed";

/// Looks again and again, through connections of its own, whether the sums are exact, until it is told
/// that all is over. It rests as long as it looked.
async fn watch(home: Home, capacity: u64, over: Arc<AtomicBool>) -> u64 {
    let (eyes, mut looks) = (home.open().await, 0);
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        let row = &eyes.rows(SUMS, &[]).await[0];
        let of = |column| row.number(column).cast_unsigned();
        let (free, held, sold) = (of("free"), of("held"), of("sold"));
        assert_eq!((free + held + sold, of("seats")), (capacity, capacity));
        assert_eq!(held, of("live") + of("pending"), "held seats have owners");
        assert_eq!(sold, of("confirmed"), "sold seats have owners");
        looks += 1;
        tokio::time::sleep(began.elapsed().max(Duration::from_millis(5))).await;
    }
    eyes.close().await;
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
    let (numbered, places, began) = (seats / 3 * 2, seats / 3, Instant::now());
    let sections = [
        ("B", u32::try_from(numbered).unwrap(), true),
        ("GA", u32::try_from(places).unwrap(), false),
    ];
    let capacity = numbered + places;
    let shop = Arc::new(Shop::open(&home, &sections).await);
    let over = Arc::new(AtomicBool::new(false));
    let watching = tokio::spawn(watch(home.clone(), capacity, over.clone()));
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
    buyers(crowd, AT_ONCE, |fan, mut rng| {
        let (shop, sold_out) = (shop.clone(), sold_out.clone());
        async move {
            let section = if rng.random_ratio(2, 3) { "B" } else { "GA" }.to_owned();
            let quantity = rng.random_range(1..=6);
            let hold = match hold(&shop, fan, Wish::Best { section, quantity }).await {
                Ok(hold) => hold,
                Err(Refusal::SoldOut) => {
                    sold_out.fetch_add(1, Ordering::Relaxed);
                    let (free, held, _) = shop.stock().await;
                    // Nothing in this test gives sold seats back.
                    assert_eq!((free, held), (0, 0), "sold out is said where it is true");
                    return;
                }
                Err(Refusal::SeatsTaken(taken)) => {
                    assert!(taken.free < Some(quantity), "too few, or split: {taken:?}");
                    return;
                }
                Err(other) => panic!("{other:?}"),
            };
            if quantity == 1 || rng.random_ratio(6, 10) {
                order(&shop, fan, hold.id).await;
            } else if rng.random_ratio(8, 10) {
                release(&shop, fan, hold.id).await;
            } // else: a crash; the hold runs out
        }
    })
    .await;
    // What the crashed had runs out, and is sold to those who come back.
    shop.clock.advance_ms(HOLD_MS);
    while shop.orders.expire().step().await.unwrap().holds != 0 {}
    over.store(true, Ordering::Relaxed);
    settling.await.unwrap();
    let looks = watching.await.unwrap();
    assert!(looks > 0);
    while shop.orders.settle().step().await.unwrap().settled != 0 {}
    let (free, held, sold) = shop.stock().await;
    assert_eq!((free + sold, held), (capacity, 0));
    assert_eq!(deadlocks(&shop).await, 0);
    shop.audit(capacity).await;
    let told = sold_out.load(Ordering::Relaxed);
    let sums = format!("{sold} seats sold, {free} free, sums exact in {looks} looks");
    let what = format!("H1: {crowd} buyers, {capacity} seats: {sums}; {told} told sold out");
    tell(&home, began, &what);
}

async fn h2_lists_in_any_order_meet_without_deadlock(home: Home) {
    let shop = Arc::new(Shop::open(&home, &[("B", 40, true), ("C", 40, true)]).await);
    let (got, began, count) = (
        Arc::new(AtomicU64::new(0)),
        Instant::now(),
        so_many(&home, 400, 20_000),
    );
    buyers(count, AT_ONCE, |fan, mut rng| {
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
            match hold(&shop, fan, Wish::Named(names)).await {
                Ok(hold) => {
                    got.fetch_add(1, Ordering::Relaxed);
                    release(&shop, fan, hold.id).await;
                }
                Err(Refusal::SeatsTaken(_)) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    })
    .await;
    let got = got.load(Ordering::Relaxed);
    assert!(got > 0);
    assert_eq!(deadlocks(&shop).await, 0);
    assert_eq!(shop.stock().await, (80, 0, 0));
    shop.audit(80).await;
    let what =
        format!("H2: {count} lists of 6 of 80 seats, half reversed: {got} held, no deadlock");
    tell(&home, began, &what);
}

/// All thousand are on their way before the first is answered, 20 times over in the long form.
async fn h3_the_last_seat_has_one_winner_of_a_thousand(home: Home) {
    let (began, rounds) = (Instant::now(), so_many(&home, 1, 20).max(1));
    let mut slowest = Duration::ZERO;
    for numbered in [true, false] {
        let home = home.another().await;
        let shop = Arc::new(Shop::open(&home, &[("B", 1, numbered)]).await);
        for round in 0..rounds {
            let winners = Arc::new(Mutex::new(Vec::new()));
            let asked = Instant::now();
            buyers(1_000, 1_000, |fan, _| {
                let (shop, winners) = (shop.clone(), winners.clone());
                async move {
                    let fan = 1_000 * round + fan;
                    match hold_best(&shop, fan, 1).await {
                        Ok(hold) => winners.lock().unwrap().push((fan, hold.id)),
                        Err(Refusal::SeatsTaken(taken)) => assert!(taken.in_carts, "{taken:?}"),
                        Err(other) => panic!("{other:?}"),
                    }
                }
            })
            .await;
            slowest = slowest.max(asked.elapsed());
            let winners = std::mem::take(&mut *winners.lock().unwrap());
            let [(fan, hold)] = winners[..] else {
                panic!("{winners:?}");
            };
            let released = shop.store.release(&shop.buyer(fan), hold).await;
            released.unwrap().unwrap();
        }
        shop.audit(1).await;
    }
    let slowest = slowest.as_millis();
    let what = format!(
        "H3: the last seat for 1,000 at once, {rounds} times numbered and not: one winner each, all told within {slowest} ms"
    );
    tell(&home, began, &what);
}

async fn h5_an_order_races_the_end_of_its_hold(home: Home) {
    let shop = Shop::open(&home, &[("B", 1, true)]).await;
    let (expire, began) = (shop.orders.expire(), Instant::now());
    let (rounds, mut ordered) = (so_many(&home, 200, 10_000), 0);
    for round in 0..rounds {
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
        match placed {
            Ok(_) => ordered += 1,
            Err(refusal) => assert_eq!(refusal, Refusal::HoldEnded),
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
    let what = format!("H5: {rounds} orders raced the end of their hold: {ordered} came first");
    tell(&home, began, &what);
}

/// Everybody wants two, or three, of one section: all of it is sold, and nobody is sent away before.
/// Three do not fill the blocks that buyers look at, and still nobody stands in another's way.
async fn a_hot_section_is_sold_to_the_last_seat(home: Home) {
    for quantity in [2, 3] {
        let (began, seats) = (Instant::now(), so_many(&home, 400, 20_000) / 6 * 6);
        let size = u32::try_from(seats).unwrap();
        let home = home.another().await;
        let shop = Arc::new(Shop::open(&home, &[("B", size, true)]).await);
        let together = Arc::new(AtomicU64::new(0));
        buyers(seats / u64::from(quantity), AT_ONCE, |fan, _| {
            let (shop, together) = (shop.clone(), together.clone());
            async move {
                let hold = hold_best(&shop, fan, quantity).await.unwrap();
                assert_eq!(hold.seats.len(), quantity as usize);
                let numbers = hold
                    .seats
                    .iter()
                    .map(|seat| seat[2..].parse::<u32>().unwrap());
                let (first, last) = (numbers.clone().min(), numbers.max());
                let is_run = last.unwrap() - first.unwrap() == quantity - 1;
                together.fetch_add(u64::from(is_run), Ordering::Relaxed);
                order(&shop, fan, hold.id).await;
            }
        })
        .await;
        assert_eq!(shop.stock().await, (0, seats, 0));
        assert_eq!(deadlocks(&shop).await, 0);
        shop.audit(seats).await;
        let (holds, together) = (
            seats / u64::from(quantity),
            together.load(Ordering::Relaxed),
        );
        // Of 32 seats, two remain where all take three.
        assert!(holds * 30 / 33 <= together, "{together} of {holds}");
        let what = format!(
            "hot section, {seats} seats by {quantity}: {together} of {holds} holds of neighbours, all sold"
        );
        tell(&home, began, &what);
    }
}

async fn whoever_hangs_up_leaves_nothing_half_done(home: Home) {
    let clients = so_many(&home, 400, 10_000);
    let size = u32::try_from(2 * clients).unwrap();
    let shop = Arc::new(Shop::open(&home, &[("B", size, true)]).await);
    let began = Instant::now();
    buyers(clients, AT_ONCE, |fan, mut rng| {
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
    let what = format!(
        "{clients} clients hung up: {held} of {} seats held, nothing half done",
        2 * clients
    );
    tell(&home, began, &what);
}
