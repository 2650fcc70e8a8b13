//! Seats that somebody has locked, and does not let go yet: H4 and H9 of `docs/invariants.md`.

use std::sync::Arc;
use std::time::Duration;

use catraca::orders::rules::hold::{PlaceHold, Wish};
use tokio::task::JoinSet;

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
