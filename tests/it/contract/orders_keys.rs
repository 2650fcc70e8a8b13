//! Idempotency keys: one execution, the same answer again, and nobody locked out.

use std::time::Duration;

use catraca::base::limits::{KEY_IN_FLIGHT_MS, KEY_KEPT_MS};
use catraca::orders::idempotency::{Begun, Claimed, Key};
use catraca::orders::rules::hold::{PlaceHold, Wish};
use catraca::orders::store::StoreError;
use futures_util::future::join_all;
use tokio::time::timeout;

use crate::contract::gate::{Ask, post};
use crate::contract::shop::{HOLD_MS, Shop, fan_id};
use crate::contract::shop_home::{Home, on_every_database};
use crate::support::until;

on_every_database!(
    the_same_request_gets_the_same_answer,
    malformed_keys_are_refused,
    a_hundred_requests_with_one_key_are_one,
    a_request_that_died_blocks_its_key_for_seconds,
    a_client_who_hangs_up_leaves_no_key_blocked,
    what_may_pass_does_not_stick_to_the_key,
    what_lasts_is_replayed_and_forgotten_after_a_day,
    rules_that_change_change_no_answer_and_wear_out_no_key,
);

const ONE: &str = r#"{"section":"B","quantity":1}"#;
const TWO: &str = r#"{"quantity":2,"section":"B"}"#;

fn key() -> Key {
    Key {
        show: "show".parse().unwrap(),
        fan: fan_id(1),
        route: "holds",
        key: "k".to_owned(),
        fingerprint: "f".to_owned(),
    }
}

async fn claimed(shop: &Shop) -> Claimed {
    match shop.store.begin(&key()).await.unwrap() {
        Begun::Proceed(claimed) => claimed,
        other => panic!("{other:?}"),
    }
}

async fn the_same_request_gets_the_same_answer(home: Home) {
    let shop = Shop::open(&home, &[("B", 10, false)]).await;
    let keyed = |fan, body| post(fan, "holds", body).header("idempotency-key", "\"a-key\"");
    let first = shop.send(keyed(1, TWO)).await;
    assert_eq!(
        (first.status.as_u16(), first.header("idempotent-replayed")),
        (201, None)
    );
    shop.clock.advance_ms(1_000);
    // The same members in another order are the same request.
    let again = shop
        .send(keyed(1, r#"{"section":"B",  "quantity":2}"#))
        .await;
    assert_eq!((again.status.as_u16(), &again.text), (201, &first.text));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(
        again.header("catraca-admission"),
        first.header("catraca-admission")
    );
    let reused = shop.send(keyed(1, ONE)).await;
    assert_eq!((reused.status.as_u16(), reused.word()), (422, "key-reused"));
    // Nor does it stand for the same wish at another show.
    let calm = shop.beside("calm", &[("B", 5, false)]).await;
    let elsewhere = Ask {
        path: "/v1/shows/calm/holds".to_owned(),
        show: calm.show.clone(),
        ..keyed(1, TWO)
    };
    let reused = shop.send(elsewhere).await;
    assert_eq!((reused.status.as_u16(), reused.word()), (422, "key-reused"));
    assert_eq!(calm.stock().await, (5, 0, 0));
    // Another fan's key is another key.
    assert_eq!(shop.send(keyed(2, ONE)).await.status, 201);
    assert_eq!(shop.stock().await, (7, 3, 0));

    // On another route it is another key too.
    let hold = first.body["hold_id"].as_str().unwrap();
    let body = format!(r#"{{"hold_id":"{hold}","customer":{{"email":"ana@example.com"}}}}"#);
    let order = post(1, "orders", &body).header("idempotency-key", "\"a-key\"");
    let placed = shop.send(order.clone()).await;
    assert_eq!(placed.status, 201);
    let order = post(1, "orders", &body).header("idempotency-key", "\"a-key\"");
    let replayed = shop.send(order).await;
    assert_eq!(
        replayed.status, 201,
        "a replay is the first answer, where a repeat is 200"
    );
    assert_eq!(shop.send(post(1, "orders", &body)).await.status, 200);
    shop.audit(10).await;
}

async fn malformed_keys_are_refused(home: Home) {
    let shop = Shop::open(&home, &[("B", 10, false)]).await;
    let long = "k".repeat(256);
    for bad in ["", "a b", &long] {
        let told = shop
            .send(post(1, "holds", ONE).header("idempotency-key", bad))
            .await;
        assert_eq!(
            (told.status.as_u16(), told.word()),
            (400, "bad-key"),
            "{bad:?}"
        );
    }
    let twice = post(1, "holds", ONE)
        .header("idempotency-key", "a")
        .header("idempotency-key", "b");
    assert_eq!(shop.send(twice).await.word(), "bad-key");
    assert_eq!(shop.stock().await, (10, 0, 0));
}

/// Row 117 of the hostile catalogue; the tests below have crashes, and the day after which a key is free.
async fn a_hundred_requests_with_one_key_are_one(home: Home) {
    let shop = Shop::open(&home, &[("B", 100, false)]).await;
    shop.set(&[("B", 100, false)], 10).await;
    let keyed = || post(1, "holds", TWO).header("idempotency-key", "k");
    let told = join_all((0..100).map(|_| shop.send(keyed()))).await;
    let mut bodies: Vec<_> = told
        .iter()
        .filter(|t| t.status == 201)
        .map(|t| &t.text)
        .collect();
    bodies.dedup();
    assert_eq!(bodies.len(), 1);
    for other in told.iter().filter(|t| t.status != 201) {
        assert_eq!((other.status.as_u16(), other.word()), (409, "in-progress"));
        assert_eq!(other.header("retry-after"), Some("1"));
    }
    assert_eq!(shop.stock().await, (98, 2, 0));
    shop.audit(100).await;
}

async fn a_request_that_died_blocks_its_key_for_seconds(home: Home) {
    let shop = Shop::open(&home, &[("B", 10, false)]).await;
    let sleeper = claimed(&shop).await;
    shop.clock.advance_ms(KEY_IN_FLIGHT_MS - 1);
    assert_eq!(shop.store.begin(&key()).await.unwrap(), Begun::InProgress);
    shop.clock.advance_ms(1);
    let next = claimed(&shop).await;

    // The first one was not dead, only slow: it finds its mark gone and writes nothing.
    let buyer = shop.buyer(1);
    let wish = Wish::Best {
        section: "B".to_owned(),
        quantity: 1,
    };
    let request = PlaceHold { buyer, wish };
    let late = shop.store.hold(&request, Some(&sleeper)).await;
    assert!(matches!(late, Err(StoreError::Overtaken)), "{late:?}");
    shop.store.release_key(&sleeper).await.unwrap();
    assert_eq!(shop.stock().await, (10, 0, 0));
    let held = shop.store.hold(&request, Some(&next)).await.unwrap();
    assert!(held.is_ok());
    assert!(matches!(
        shop.store.begin(&key()).await.unwrap(),
        Begun::Replay(_)
    ));
    let twice = shop.store.hold(&request, Some(&next)).await;
    assert!(
        matches!(twice, Ok(Err(_)) | Err(StoreError::Overtaken)),
        "{twice:?}"
    );
    shop.audit(10).await;
}

/// The clock stands still, so that no mark lapses.
async fn a_client_who_hangs_up_leaves_no_key_blocked(home: Home) {
    let shop = Shop::open(&home, &[("B", 100, false)]).await;
    for fan in 1..=40 {
        let keyed = || post(fan, "holds", ONE).header("idempotency-key", "k");
        let patience = Duration::from_micros(400 * fan);
        drop(timeout(patience, shop.send(keyed())).await);
        until("the key is free, or the answer is told again", async || {
            let again = shop.send(keyed()).await;
            (again.status.as_u16() == 201).then_some(())
        })
        .await;
    }
    assert_eq!(shop.stock().await, (60, 40, 0));
}

async fn what_may_pass_does_not_stick_to_the_key(home: Home) {
    let shop = Shop::open(&home, &[("B", 1, false)]).await;
    let keyed = || post(1, "holds", ONE).header("idempotency-key", "k");
    let other = shop.hold(2, 1).await.unwrap();
    assert_eq!(shop.send(keyed()).await.word(), "seats-taken");
    shop.store
        .release(&shop.buyer(2), other.id)
        .await
        .unwrap()
        .unwrap();
    // A failure does not stick either.
    shop.run("update shows set settings = '!' || settings")
        .await
        .unwrap();
    let failed = shop.send(keyed()).await;
    assert_eq!(
        (failed.status.as_u16(), failed.word()),
        (500, "store-corrupt")
    );
    shop.run("update shows set settings = substr(settings, 2)")
        .await
        .unwrap();
    let held = shop.send(keyed()).await;
    assert_eq!(
        (held.status.as_u16(), held.header("idempotent-replayed")),
        (201, None)
    );
}

async fn what_lasts_is_replayed_and_forgotten_after_a_day(home: Home) {
    let shop = Shop::open(&home, &[("B", 2, false)]).await;
    let hold = shop.hold(1, 1).await.unwrap();
    shop.clock.advance_ms(HOLD_MS);
    let body = format!(
        r#"{{"hold_id":"{}","customer":{{"email":"a@example.com"}}}}"#,
        hold.id
    );
    let order = || post(1, "orders", &body).header("idempotency-key", "k");
    for replayed in [None, Some("true")] {
        let told = shop.send(order()).await;
        assert_eq!((told.status.as_u16(), told.word()), (409, "hold-ended"));
        assert_eq!(told.header("idempotent-replayed"), replayed);
    }
    shop.clock.advance_ms(KEY_KEPT_MS - 1);
    assert_eq!(shop.orders.expire().step().await.unwrap().keys, 0);
    shop.clock.advance_ms(1);
    assert_eq!(shop.orders.expire().step().await.unwrap().keys, 1);
    assert_eq!(shop.send(order()).await.header("idempotent-replayed"), None);
}

/// What was answered is answered again, also where the shop would say otherwise by now; and what was
/// refused for its form, or by a rule that has changed since, may be sent again with the same key.
async fn rules_that_change_change_no_answer_and_wear_out_no_key(home: Home) {
    let shop = Shop::open(&home, &[("B", 10, false)]).await;
    let keyed = |key, body| post(1, "holds", body).header("idempotency-key", key);
    let held = shop.send(keyed("held", ONE)).await;
    assert_eq!(held.status, 201);
    let malformed = r#"{"section":"C","quantity":11}"#;
    assert_eq!(shop.send(keyed("again", malformed)).await.status, 422);
    let elsewhere = r#"{"section":"C","quantity":1}"#;
    let refused = shop.send(keyed("again", elsewhere)).await;
    assert_ne!(refused.status, 201, "{}", refused.text);

    shop.set(&[("C", 10, false)], 2).await;
    let again = shop.send(keyed("held", ONE)).await;
    assert_eq!((again.status.as_u16(), &again.text), (201, &held.text));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let taken = shop.send(keyed("again", elsewhere)).await;
    assert_eq!(
        (taken.status.as_u16(), taken.header("idempotent-replayed")),
        (201, None),
        "{}",
        taken.text
    );
}
