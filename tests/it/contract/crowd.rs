//! Crowds of buyers for tests of the shop's stock: how many, how many at once, and what each does.

use std::env;
use std::error::Error;
use std::time::Instant;

use catraca::base::ids::HoldId;
use catraca::orders::rules::hold::{PlaceHold, Wish};
use catraca::orders::rules::{Hold, Refusal};
use catraca::orders::store::StoreError;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use tokio::task::JoinSet;

use crate::contract::shop::Shop;
use crate::contract::shop_home::Home;

/// Set to `long` by `./dev drill fire`.
const LENGTH: &str = "CATRACA_FIRE";
/// Buyers at once.
pub(crate) const AT_ONCE: u64 = 64;

/// So many in the short form, so many in the long one. SQLite, with its one writer, gets a tenth.
pub(crate) fn so_many(home: &Home, short: u64, long: u64) -> u64 {
    match (env::var(LENGTH).as_deref(), home) {
        (Ok("long"), Home::Postgres(_)) => long,
        (Ok("long"), Home::Sqlite(_)) => long / 10,
        (_, Home::Postgres(_)) => short,
        (_, Home::Sqlite(_)) => short / 2,
    }
}

/// Asks again where all connections were taken for too long: what a client does who is told 503.
/// Nothing was begun then. Any other failure is one that a buyer would see.
pub(crate) async fn patiently<T, F>(ask: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, StoreError>>,
{
    loop {
        match ask().await {
            Ok(told) => return told,
            Err(error) => {
                let cause = error.source().map(ToString::to_string);
                let is_busy = format!("{error}: {cause:?}").contains("pool timed out");
                assert!(is_busy, "{error:?}");
            }
        }
    }
}

/// A hold, however many others want one.
pub(crate) async fn hold(shop: &Shop, fan: u64, wish: Wish) -> Result<Hold, Refusal> {
    let buyer = shop.buyer(fan);
    let request = PlaceHold { buyer, wish };
    patiently(|| shop.store.hold(&request, None)).await
}

/// A hold of the best seats of `B`.
pub(crate) async fn hold_best(shop: &Shop, fan: u64, quantity: u32) -> Result<Hold, Refusal> {
    let section = "B".to_owned();
    hold(shop, fan, Wish::Best { section, quantity }).await
}

/// An order, which nothing may stand in the way of.
pub(crate) async fn order(shop: &Shop, fan: u64, hold: HoldId) {
    let request = shop.place_order(fan, hold, None);
    patiently(|| shop.store.place(&request, None))
        .await
        .unwrap();
}

/// A hold that is given back.
pub(crate) async fn release(shop: &Shop, fan: u64, hold: HoldId) {
    let buyer = shop.buyer(fan);
    patiently(|| shop.store.release(&buyer, hold))
        .await
        .unwrap();
}

/// Prints what the long form came to.
pub(crate) fn tell(home: &Home, began: Instant, what: &str) {
    if env::var(LENGTH).is_ok() {
        let seconds = began.elapsed().as_secs();
        eprintln!("{}, {seconds} s: {what}", home.name());
    }
}

/// Runs `count` buyers, so many at a time. Each has a seed of its own.
pub(crate) async fn buyers<F>(count: u64, at_once: u64, buy: impl Fn(u64, SmallRng) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut running = JoinSet::new();
    for fan in 0..count {
        if at_once <= running.len() as u64 {
            running.join_next().await.unwrap().unwrap();
        }
        running.spawn(buy(fan, SmallRng::seed_from_u64(fan)));
    }
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
}
