//! Seats that somebody has locked, and does not let go yet: H4 and H9 of `docs/invariants.md`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use catraca::orders::rules::hold::{PlaceHold, Wish};
use http::StatusCode;
use tokio::task::JoinSet;

use crate::contract::gate::{get, post};
use crate::contract::shop::Shop;
use crate::contract::shop_home::{Db, Home};

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
        while waiting(&shop).await == 0 && !asking.is_finished() {
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

/// How many sessions of the database wait for a lock.
async fn waiting(shop: &Shop) -> i64 {
    let waits = "select count(*) as waits from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'";
    shop.db.rows(waits, &[]).await[0].number("waits")
}

/// More buyers of one show than a process has connections want what somebody has locked, by section, by name
/// and with keys. Buyers of another show are served meanwhile; the crowd is told to ask again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h9_a_show_that_waits_keeps_nobody_from_another() {
    let Some(home) = Home::postgres().await else {
        return;
    };
    let hot = Arc::new(Shop::open(&home, &[("B", 50, true)]).await);
    let calm = hot.beside("calm", &[("B", 20, true)]).await;
    let Db::Postgres(db) = &hot.db else {
        panic!("on PostgreSQL");
    };
    let mut other = db.pool.begin().await.unwrap();
    for lock in [
        "select from seats where show = 'show' for update",
        "insert into idempotency_keys (fan, route, key, fingerprint, in_flight_until_ms, at_ms)
         select lpad(to_hex(n), 32, '0'), 'holds', 'k', 'f', 0, 0 from generate_series(2, 61) n",
    ] {
        sqlx::query(lock).execute(&mut *other).await.unwrap();
    }
    let mut crowd = JoinSet::new();
    for fan in 1..=60 {
        let hot = hot.clone();
        let ask = match fan % 3 {
            0 => post(fan, "holds", r#"{"section":"B","quantity":1}"#),
            1 => post(fan, "holds", r#"{"seats":["B-1"]}"#),
            _ => {
                post(fan, "holds", r#"{"section":"B","quantity":2}"#).header("idempotency-key", "k")
            }
        };
        crowd.spawn(async move { hot.send(ask).await });
    }
    while waiting(&hot).await < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for fan in 100..103 {
        let hold = calm.hold(fan, 2).await.unwrap();
        calm.order(fan, hold.id).await.unwrap();
    }
    assert!(crowd.try_join_next().is_none(), "somebody was served first");
    for told in crowd.join_all().await {
        assert_eq!(told.status, StatusCode::SERVICE_UNAVAILABLE, "{told:?}");
        assert!(told.headers.contains_key("retry-after"));
    }
    other.rollback().await.unwrap();
    hot.hold(1, 1).await.unwrap();
}

/// All seats are locked, and many ask how many are left: a count is given up after 2 s, and nobody waits for more than two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_a_count_that_fails_is_told_with_it() {
    let Some(home) = Home::postgres().await else {
        return;
    };
    let shop = Arc::new(Shop::open(&home, &[("B", 2, true)]).await);
    let Db::Postgres(db) = &shop.db else {
        panic!("on PostgreSQL");
    };
    assert_eq!(shop.send(get(1, "seats")).await.status, StatusCode::OK);
    tokio::time::sleep(Duration::from_secs(1)).await; // that count is not told again
    let mut other = db.pool.begin().await.unwrap();
    let lock = "lock table seats in access exclusive mode";
    sqlx::query(lock).execute(&mut *other).await.unwrap();
    let mut asking = JoinSet::new();
    let began = Instant::now();
    for fan in 1..=10 {
        let shop = Arc::clone(&shop);
        asking.spawn(async move { shop.send(get(fan, "seats")).await });
    }
    for told in asking.join_all().await {
        let status = (told.status, told.header("retry-after").is_some());
        assert_eq!(status, (StatusCode::SERVICE_UNAVAILABLE, true));
    }
    // One after the other they would have waited 20 s.
    assert!(began.elapsed() < 3 * Duration::from_secs(4));
    other.rollback().await.unwrap();
    assert_eq!(shop.send(get(1, "seats")).await.status, StatusCode::OK);
}
