//! What operators take back: an order, or everything that was sold of a show. Seats return once, money
//! goes back once, and whoever dies in the middle is followed by somebody who goes on.

use std::sync::Arc;
use std::time::Duration;

use catraca::base::ids::IdSource;
use catraca::base::limits::DOUBT_MS_MAX;
use catraca::orders::payment::settle::Step;
use catraca::orders::reconcile::Reconcile;
use catraca::orders::rules::payment::Verdict;
use catraca::orders::rules::{Order, PaymentId, Reason, Refusal, Status};
use catraca::orders::store::{Cancellation, Reconciled, Swept};
use catraca::show::{self, Change};
use tokio::time::timeout;

use crate::contract::payment_provider::{Manner, Provider};
use crate::contract::shop::{HOLD_MS, Shop, T0, sections_of};
use crate::contract::shop_home::{Db, Home, on_every_database};

on_every_database!(
    an_order_is_taken_back_once_however_often_it_is_said,
    what_is_over_is_not_taken_back,
    a_charge_under_way_while_the_order_is_taken_back_is_paid_back_once,
    a_show_is_taken_back_whole_whoever_dies_in_between,
    nothing_of_a_cancelled_show_is_for_sale_and_it_stays_closed,
);

async fn settle_all(shop: &Shop, provider: &Arc<Provider>) {
    let settle = shop.settle_with(provider.clone());
    while settle.step().await.unwrap() != Step::default() {}
}

fn first(order: &Order) -> PaymentId {
    PaymentId {
        order: order.id,
        attempt: 1,
    }
}

async fn an_order_is_taken_back_once_however_often_it_is_said(home: Home) {
    let shop = Shop::open(&home, &[("B", 8, true)]).await;
    for (fan, is_paid, moved, events) in [
        (1, false, (0, 0), &["OrderPlaced", "OrderCancelled"][..]),
        (
            2,
            true,
            (1, 1),
            &[
                "OrderPlaced",
                "OrderConfirmed",
                "OrderCancelled",
                "OrderRefunded",
            ],
        ),
    ] {
        let provider = Arc::new(Provider::new(Manner::Approves));
        let order = shop.bought(fan, 2, None).await;
        if is_paid {
            settle_all(&shop, &provider).await;
            assert_eq!(shop.stock().await, (6, 0, 2));
        }
        for _ in 0..5 {
            let cancelled = shop.store.cancel(order.id).await.unwrap().unwrap();
            assert_eq!(cancelled.reason, Some(Reason::CancelledByOperator));
            assert_eq!(shop.stock().await, (8, 0, 0), "free at once");
            shop.audit(8).await;
            settle_all(&shop, &provider).await;
            shop.orders.expire().step().await.unwrap();
        }
        let status = shop.read(fan, order.id).await.status;
        let ended = if is_paid {
            Status::Refunded
        } else {
            Status::Cancelled
        };
        assert_eq!(status, ended);
        assert_eq!(shop.events(&order.id.to_string()).await, events);
        assert_eq!(provider.moved(first(&order)), moved);
        let again = shop.order(fan, order.hold).await.unwrap();
        assert_eq!(
            again.order().id,
            order.id,
            "and the hold makes no new order"
        );
        shop.audit(8).await;
    }
    assert!(shop.hold(3, 8).await.is_ok(), "somebody else may have them");
}

async fn what_is_over_is_not_taken_back(home: Home) {
    let shop = Shop::open(&home, &[("B", 4, true)]).await;
    let order = shop.bought(1, 2, Some("decline")).await;
    shop.orders.settle().step().await.unwrap();
    shop.clock.advance_ms(HOLD_MS);
    shop.orders.expire().step().await.unwrap();
    let refused = shop.store.cancel(order.id).await.unwrap();
    assert_eq!(refused, Err(Refusal::OrderOver));
    let nobodys = IdSource::seeded(1).order(T0);
    let unknown = shop.store.cancel(nobodys).await.unwrap();
    assert_eq!(unknown, Err(Refusal::NoSuchOrder));
    shop.audit(4).await;
}

async fn a_charge_under_way_while_the_order_is_taken_back_is_paid_back_once(home: Home) {
    let shop = Shop::open(&home, &[("B", 4, true)]).await;
    let provider = Arc::new(Provider::new(Manner::HangsAfterTheEffect));
    let order = shop.bought(1, 2, None).await;
    let settle = shop.settle_with(provider.clone());
    let mut step = Box::pin(settle.step());
    while provider.moved(first(&order)) == (0, 0) {
        let _ = timeout(Duration::from_millis(5), &mut step).await;
    }
    let cancelled = shop.store.cancel(order.id).await.unwrap().unwrap();
    assert_eq!(cancelled.status, Status::Cancelled);
    drop(step);
    provider.turn(Manner::LosesAnswers);
    for _ in 0..3 {
        settle.step().await.unwrap();
    }
    provider.turn(Manner::Approves);
    settle_all(&shop, &provider).await;
    assert_eq!(shop.read(1, order.id).await.status, Status::Refunded);
    assert_eq!(provider.moved(first(&order)), (1, 1));
    shop.audit(4).await;
}

/// Fans 1 to 5: a hold, an order that waits, one that is paid, one that was declined, one whose
/// money was taken without a word and whose seats were given up.
async fn a_day_of_sale(shop: &Shop, provider: &Arc<Provider>) -> [Order; 4] {
    let given_up = shop.bought(5, 2, None).await;
    let settle = shop.settle_with(provider.clone());
    provider.turn(Manner::IsAway);
    settle.step().await.unwrap();
    shop.clock.advance_ms(HOLD_MS + DOUBT_MS_MAX);
    shop.orders.expire().step().await.unwrap();
    // The provider is away for that one; what it says of the others is told here.
    let declined = shop.bought(4, 2, None).await;
    for attempt in 1..=3 {
        let id = PaymentId {
            attempt,
            ..first(&declined)
        };
        shop.store.answered(id, &Verdict::Declined).await.unwrap();
        let _ = shop.pay(4, declined.id, None).await;
    }
    let paid = shop.bought(3, 2, None).await;
    provider.take(first(&paid));
    let reference = String::new();
    let approved = Verdict::Approved { reference };
    shop.store.answered(first(&paid), &approved).await.unwrap();
    let waiting = shop.bought(2, 2, None).await;
    shop.hold(1, 2).await.unwrap();
    [waiting, paid, declined, given_up]
}

async fn a_show_is_taken_back_whole_whoever_dies_in_between(home: Home) {
    let sections = [("B", 20, true)];
    let shop = Shop::open(&home, &sections).await;
    let provider = Arc::new(Provider::new(Manner::Approves));
    let [waiting, paid, declined, given_up] = a_day_of_sale(&shop, &provider).await;
    let nothing = shop.store.cancel_show(&shop.show, 100).await.unwrap();
    assert_eq!(nothing, Swept::default(), "the show is not cancelled");
    let hold = shop.hold(9, 1).await.unwrap();

    shop.cancel().await;
    assert_eq!(shop.hold(8, 1).await, Err(Refusal::ShowCancelled));
    assert_eq!(shop.order(9, hold.id).await, Err(Refusal::ShowCancelled));
    let mut shop = shop;
    let mut swept = Swept::default();
    loop {
        let step = shop.store.cancel_show(&shop.show, 1).await.unwrap();
        shop.audit(20).await;
        if step == Swept::default() {
            break;
        }
        swept.holds += step.holds;
        swept.orders += step.orders;
        shop = shop.reopen(provider.clone()).await;
    }
    assert_eq!(
        swept,
        Swept {
            holds: 2,
            orders: 2
        }
    );
    // Only now the provider says what it did with the order that was given up: the seats are free,
    // and yet it gets none.
    provider.take(first(&given_up));
    provider.turn(Manner::Approves);
    settle_all(&shop, &provider).await;
    for (fan, order, status, moved) in [
        (2, waiting, Status::Cancelled, (0, 0)),
        (3, paid, Status::Refunded, (1, 1)),
        (4, declined, Status::Declined, (0, 0)),
        (5, given_up, Status::Refunded, (1, 1)),
    ] {
        assert_eq!(shop.read(fan, order.id).await.status, status, "fan {fan}");
        assert_eq!(provider.moved(first(&order)), moved, "fan {fan}");
    }
    shop.audit(20).await;
    let expected = |seats_free| Cancellation {
        seats_free,
        seats_held: 0,
        seats_sold: 0,
        orders_cancelled: 1,
        orders_refunded: 2,
        payments_open: 0,
    };
    let progress = shop.store.cancellation(&shop.show).await.unwrap();
    assert_eq!(progress, expected(20));
    assert!(!progress.is_done(), "somebody may be about to take one");
    let decided = sections_of(&sections);
    let withdrawn = shop.reconcile(&decided).await;
    assert_eq!(withdrawn, Reconciled { seats: 0, kept: 0 });
    let progress = shop.store.cancellation(&shop.show).await.unwrap();
    assert_eq!(progress, expected(0));
    assert!(progress.is_done());
    shop.audit(0).await;
}

async fn nothing_of_a_cancelled_show_is_for_sale_and_it_stays_closed(home: Home) {
    let shop = Shop::open(&home, &[("B", 4, true)]).await;
    let shows: Arc<dyn show::Store> = match &shop.db {
        Db::Sqlite(db) => Arc::new(show::in_sqlite::InSqlite::new(db.clone())),
        Db::Postgres(db) => Arc::new(show::in_postgres::InPostgres::new(db.clone())),
    };
    let order = shop.bought(1, 2, None).await;
    shop.orders.settle().step().await.unwrap();
    let mut reconcile = Reconcile::new(shop.store.clone(), shows.clone());
    let loops = shop.orders.cancel(shows.clone());
    assert_eq!(loops.step().await.unwrap(), Swept::default());

    let act = |action: &str| Change {
        who: "ana".to_owned(),
        role: "admin".to_owned(),
        action: action.to_owned(),
        detail: "{}".to_owned(),
        at: T0,
    };
    let cancelled = shows.cancel(&shop.show, &act("cancel")).await.unwrap();
    let cancelled = cancelled.unwrap();
    assert_eq!(cancelled.state, "closed");
    assert_eq!(cancelled.cancelled_at, Some(T0));
    reconcile.step().await.unwrap();
    assert_eq!(
        shop.stock().await,
        (0, 0, 2),
        "what is sold waits for its turn"
    );
    let swept = loops.step().await.unwrap();
    assert_eq!(
        swept,
        Swept {
            holds: 0,
            orders: 1
        }
    );
    let all = shop.reconcile(&[]).await;
    assert_eq!(all, Reconciled { seats: 0, kept: 0 });
    shop.orders.settle().step().await.unwrap();
    assert_eq!(shop.read(1, order.id).await.status, Status::Refunded);
    assert_eq!(loops.step().await.unwrap(), Swept::default());

    let opened = shows.verb(&shop.show, &act("open"), "open").await.unwrap();
    assert_eq!(opened.unwrap(), cancelled, "no verb leads out");
    let again = shows.cancel(&shop.show, &act("cancel")).await.unwrap();
    assert_eq!(again.unwrap(), cancelled);
    let rows = shop.db.rows("select action from audit", &[]).await;
    let acts: Vec<String> = rows.iter().map(|row| row.text("action")).collect();
    assert_eq!(acts, ["cancel"], "what changed nothing leaves no row");
}
