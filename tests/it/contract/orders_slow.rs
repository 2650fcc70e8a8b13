//! A payment provider that takes its time, by the real clock and with the loop at work: an order that
//! waits, one that was given up and gets its seats again, and one whose seats somebody else has by then.
//! `./dev drill slow` is the long form: half a minute.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use catraca::base::limits::DOUBT_MS_MAX;
use catraca::orders::payment::settle::Settle;
use catraca::orders::payment::via_sandbox::{Record, ViaSandbox};
use catraca::orders::rules::hold::Wish;
use catraca::orders::rules::{Order, PaymentId, Status};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::contract::shop::{HOLD_MS, Shop};
use crate::contract::shop_home::{Home, on_every_database};

on_every_database!(each_is_charged_once_and_whoever_lost_their_seats_is_paid_back_once,);

/// How many milliseconds the provider takes, where `./dev drill slow` says so.
const SLOW: &str = "CATRACA_SLOW_MS";
/// How many otherwise.
const SHORT_MS: u64 = 3_000;
/// What part of that the shop waits for one answer: 5 s of 30, as it does by default.
const PARTS: u64 = 6;
/// Beyond that nothing is under way any more.
const PATIENCE: Duration = Duration::from_secs(30);

/// Orders the seats of these names.
async fn order(shop: &Shop, fan: u64, seats: &[String], token: Option<&str>) -> Order {
    let wish = Wish::Named(seats.to_vec());
    let hold = shop.hold_wish(fan, wish).await.unwrap();
    let placed = shop.order_paying(fan, hold.id, token).await.unwrap();
    placed.order().clone()
}

async fn reaches(shop: &Shop, fan: u64, order: &Order, status: Status) {
    while shop.read(fan, order.id).await.status != status {
        sleep(Duration::from_millis(20)).await;
    }
}

async fn each_is_charged_once_and_whoever_lost_their_seats_is_paid_back_once(home: Home) {
    let slow_ms = env::var(SLOW).map_or(SHORT_MS, |ms| ms.parse().unwrap());
    let slow = Duration::from_millis(slow_ms);
    let shop = Shop::open(&home, &[("B", 6, true)]).await;
    let sandbox = Arc::new(ViaSandbox::new(slow));
    let settle = Settle {
        call_max: Duration::from_millis(slow_ms / PARTS),
        every: Duration::from_millis(50),
        ..shop.settle_with(sandbox.clone())
    };
    let seats = |from: u32| [format!("B-{from}"), format!("B-{}", from + 1)];
    let began = Instant::now();
    let story = async {
        let retaken = order(&shop, 1, &seats(1), Some("slow")).await;
        let repaid = order(&shop, 2, &seats(3), Some("slow")).await;
        while sandbox.records().len() < 2 {
            sleep(Duration::from_millis(5)).await;
        }
        shop.clock.advance_ms(HOLD_MS + DOUBT_MS_MAX);
        assert_eq!(shop.orders.expire().step().await.unwrap().orders, 2);
        let faster = order(&shop, 3, &seats(3), None).await;
        let waiting = order(&shop, 4, &seats(5), Some("slow")).await;
        assert!(began.elapsed() < slow, "the provider still thinks about it");
        for (fan, order, status) in [
            (3, &faster, Status::Confirmed),
            (1, &retaken, Status::Confirmed),
            (2, &repaid, Status::Refunded),
            (4, &waiting, Status::Confirmed),
        ] {
            reaches(&shop, fan, order, status).await;
        }
        [retaken, repaid, faster, waiting].map(|order| order.id)
    };
    let stop = CancellationToken::new();
    let story = async {
        let orders = timeout(slow + PATIENCE, story).await.unwrap();
        stop.cancel();
        orders
    };
    let (ended, orders) = tokio::join!(settle.run(stop.clone()), story);
    ended.unwrap();
    assert!(slow <= began.elapsed());
    assert_eq!(shop.stock().await, (0, 0, 6));
    shop.audit(6).await;
    let moved = orders.map(|order| {
        let records = sandbox.records();
        let Record {
            charges, refunds, ..
        } = records[&PaymentId { order, attempt: 1 }];
        (charges, refunds)
    });
    assert_eq!(moved, [(1, 0), (1, 1), (1, 0), (1, 0)]);
    eprintln!("a provider that took {slow_ms} ms: 4 orders, charges and refunds {moved:?}");
}
