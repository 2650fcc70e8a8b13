//! Crowds of buyers for tests of the shop's stock: how many, how many at once, and what each does.

use std::env;
use std::error::Error;
use std::time::Instant;

use catraca::base::ids::HoldId;
use catraca::orders::store::StoreError;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use tokio::task::JoinSet;

use crate::contract::shop::Shop;
use crate::contract::shop_home::Home;

/// How many buyers the crowd of the long form has, and of everything else as many in proportion: set by
/// `./dev drill fire`.
const LENGTH: &str = "CATRACA_FIRE";
/// For so many buyers the counts of the long form are given.
const WHOLE: u64 = 200_000;
/// Buyers at once.
pub(crate) const AT_ONCE: u64 = 64;

/// So many in the short form, so many in the long one, should that be whole. SQLite, with its one writer,
/// gets a tenth.
pub(crate) fn so_many(home: &Home, short: u64, long: u64) -> u64 {
    let length = env::var(LENGTH).map(|buyers| buyers.parse::<u64>().unwrap());
    let count = match (length, home) {
        (Ok(buyers), Home::Postgres(_)) => long * buyers / WHOLE,
        (Ok(buyers), Home::Sqlite(_)) => long * buyers / WHOLE / 10,
        (Err(_), Home::Postgres(_)) => short,
        (Err(_), Home::Sqlite(_)) => short / 2,
    };
    count.max(1)
}

/// Whether all connections were taken for too long, so that nothing was begun: a buyer is told 503 with
/// `Retry-After`.
pub(crate) fn is_busy(error: &StoreError) -> bool {
    let mut next: Option<&dyn Error> = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref() {
            return matches!(error, sqlx::Error::PoolTimedOut);
        }
        next = error.source();
    }
    false
}

/// A hold that is given back.
pub(crate) async fn release(shop: &Shop, fan: u64, hold: HoldId) {
    let released = shop.store.release(&shop.buyer(fan), hold).await;
    released.unwrap().unwrap();
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
