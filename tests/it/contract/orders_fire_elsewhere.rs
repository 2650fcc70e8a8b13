//! Stock under fire somewhere else: a crowd at one show, and buyers of another that the same process sells.
//! H9 of `docs/invariants.md`. `./dev drill fire` is the long form, and prints how long they waited: how long
//! that may be is not for a test to say, for it depends on the machine.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::contract::crowd::{AT_ONCE, buyers, release, so_many, tell};
use crate::contract::shop::Shop;
use crate::contract::shop_home::{Home, on_every_database};

on_every_database!(h9_a_hot_show_stops_no_other,);

/// Holds that the crowd wants in a second, as far as the machine can do it.
const A_SECOND: u32 = 2_000;
/// A buyer of the other show comes so long after the one before was answered.
const PAUSE: Duration = Duration::from_millis(5);

/// Buyers who come one after the other, each of whom gets a seat and gives it back, until it is over: how
/// long each waited for it.
async fn come(shop: &Shop, fans: Range<u64>, over: &AtomicBool) -> Vec<Duration> {
    let mut waits = Vec::new();
    for fan in fans {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let asked = Instant::now();
        let hold = shop.hold(fan, 1).await.unwrap();
        waits.push(asked.elapsed());
        release(shop, fan, hold.id).await;
        sleep(PAUSE).await;
    }
    waits
}

/// So long waited 99 of 100 at most, in milliseconds.
fn p99(mut waits: Vec<Duration>) -> f64 {
    waits.sort_unstable();
    let most = waits.len() * 99 / 100;
    waits[most.min(waits.len() - 1)].as_secs_f64() * 1_000.0
}

async fn h9_a_hot_show_stops_no_other(home: Home) {
    let (crowd, few) = (so_many(&home, 400, 20_000), so_many(&home, 20, 1_000));
    let size = u32::try_from(crowd).unwrap();
    let hot = Arc::new(Shop::open(&home, &[("B", size, true)]).await);
    let calm = hot.beside("calm", &[("B", 100, true)]).await;
    let (began, over) = (std::time::Instant::now(), AtomicBool::new(false));
    let alone = come(&calm, crowd..crowd + few, &over).await;

    let first = Instant::now();
    let rushing = async {
        buyers(crowd, AT_ONCE, |fan, _| {
            let hot = hot.clone();
            let turn = Duration::from_secs(fan) / A_SECOND;
            async move {
                sleep_until(first + turn).await;
                hot.hold(fan, 1).await.unwrap();
            }
        })
        .await;
        over.store(true, Ordering::Relaxed);
        crowd as f64 / first.elapsed().as_secs_f64()
    };
    let (a_second, beside) = tokio::join!(rushing, come(&calm, crowd + few..u64::MAX, &over));
    assert!(!beside.is_empty(), "nobody came");
    assert_eq!(hot.stock().await, (0, crowd, 0));
    assert_eq!(calm.stock().await, (100, 0, 0));
    hot.audit(crowd).await;
    let (many, alone, beside) = (beside.len(), p99(alone), p99(beside));
    let what = format!(
        "H9: {crowd} holds of a hot show, {a_second:.0} a second; 99 % of {many} buyers of another had theirs within {beside:.1} ms, {alone:.1} ms without"
    );
    tell(&home, began, &what);
}
