//! Payments: whatever the provider does and wherever we die, an order ends in one state
//! and the money where it belongs.

use std::sync::Arc;
use std::time::Duration;

use catraca::base::limits::DOUBT_MS_MAX;
use catraca::orders::payment::Payments;
use catraca::orders::payment::settle::{Settle, Step};
use catraca::orders::payment::via_sandbox::ViaSandbox;
use catraca::orders::rules::hold::Wish;
use catraca::orders::rules::{Order, PaymentId, Reason, Refusal, Status};
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::contract::payment_provider::{Manner, Provider};
use crate::contract::shop::{HOLD_MS, Shop};
use crate::contract::shop_home::{Home, on_every_database};
use crate::support::until;

on_every_database!(
    an_approved_order_sells_its_seats,
    a_declined_payment_may_be_tried_again,
    three_declined_payments_end_the_order,
    a_declined_order_ends_with_its_hold,
    a_lost_answer_is_looked_up,
    an_order_in_doubt_keeps_its_seats_past_its_hold,
    an_order_in_doubt_can_be_seen_until_it_is_none,
    a_late_approval_takes_the_seats_again,
    a_late_approval_without_seats_is_paid_back_once,
    a_late_approval_is_paid_back_where_the_ticket_has_bought_since,
    nobody_is_charged_for_an_order_that_is_over,
    a_crash_before_the_provider_is_asked_loses_nothing,
    a_crash_after_the_charge_charges_once,
    two_loops_at_once_settle_once,
    the_loops_run_by_themselves_and_stop_when_told,
);

const ONE: Step = Step {
    settled: 1,
    in_doubt: 0,
};
const DOUBT: Step = Step {
    settled: 0,
    in_doubt: 1,
};

fn attempt(order: &Order, attempt: u32) -> PaymentId {
    PaymentId {
        order: order.id,
        attempt,
    }
}

async fn pay(shop: &Shop, order: &Order, token: Option<&str>) -> Result<Order, Refusal> {
    shop.pay(1, order.id, token).await
}

async fn an_approved_order_sells_its_seats(home: Home) {
    let shop = Shop::open(&home, &[("B", 4, true)]).await;
    let order = shop.bought(1, 2, None).await;
    assert_eq!(shop.stock().await, (2, 2, 0), "held until it is paid");
    assert_eq!(shop.orders.settle().step().await.unwrap(), ONE);
    assert_eq!(shop.orders.settle().step().await.unwrap(), Step::default());
    assert_eq!(shop.read(1, order.id).await.status, Status::Confirmed);
    assert_eq!(shop.stock().await, (2, 0, 2));
    shop.audit(4).await;
    let traces = "select count(distinct traceparent) as traces from outbox";
    let traces = shop.db.rows(traces, &[]).await[0].number("traces");
    assert_eq!(
        traces, 1,
        "what our loops do belongs to the request that began it"
    );
    let paid = pay(&shop, &order, None).await.unwrap();
    assert_eq!(
        paid.status,
        Status::Confirmed,
        "paying again changes nothing"
    );
    shop.clock.advance_ms(HOLD_MS + DOUBT_MS_MAX);
    shop.orders.expire().step().await.unwrap();
    assert_eq!(shop.stock().await, (2, 0, 2));
    shop.audit(4).await;
}

async fn a_declined_payment_may_be_tried_again(home: Home) {
    let shop = Shop::open(&home, &[("B", 4, true)]).await;
    let order = shop.bought(1, 2, Some("decline")).await;
    assert_eq!(
        pay(&shop, &order, None).await,
        Err(Refusal::PaymentInProgress)
    );
    shop.orders.settle().step().await.unwrap();
    let waiting = shop.read(1, order.id).await;
    assert_eq!(waiting.status, Status::Pending);
    assert_eq!(waiting.reason, Some(Reason::PaymentDeclined));
    assert_eq!(shop.stock().await, (2, 2, 0));
    shop.audit(4).await;

    assert_eq!(
        pay(&shop, &order, Some("approve")).await.unwrap().reason,
        None
    );
    assert_eq!(
        pay(&shop, &order, None).await,
        Err(Refusal::PaymentInProgress)
    );
    shop.orders.settle().step().await.unwrap();
    let confirmed = shop.read(1, order.id).await;
    assert_eq!(
        (confirmed.status, confirmed.reason),
        (Status::Confirmed, None)
    );
    shop.audit(4).await;
}

async fn three_declined_payments_end_the_order(home: Home) {
    let shop = Shop::open(&home, &[("B", 4, true)]).await;
    let order = shop.bought(1, 2, Some("decline")).await;
    for _ in 0..2 {
        shop.orders.settle().step().await.unwrap();
        pay(&shop, &order, Some("decline")).await.unwrap();
    }
    shop.orders.settle().step().await.unwrap();
    let declined = shop.read(1, order.id).await;
    assert_eq!(declined.status, Status::Declined);
    assert_eq!(declined.reason, Some(Reason::PaymentDeclined));
    assert_eq!(pay(&shop, &order, None).await, Err(Refusal::HoldEnded));
    assert_eq!(shop.stock().await, (4, 0, 0));
    shop.audit(4).await;
    let again = shop.order(1, order.hold).await.unwrap();
    assert_eq!(
        again.order().id,
        order.id,
        "the hold's order stays its order"
    );
    assert!(shop.hold(1, 1).await.is_ok(), "the ticket may try again");
    shop.audit(4).await;
}

async fn a_declined_order_ends_with_its_hold(home: Home) {
    let shop = Shop::open(&home, &[("B", 4, true)]).await;
    let order = shop.bought(1, 2, Some("decline")).await;
    shop.orders.settle().step().await.unwrap();
    shop.clock.advance_ms(HOLD_MS - 1);
    assert_eq!(shop.orders.expire().step().await.unwrap().orders, 0);
    shop.clock.advance_ms(1);
    assert_eq!(pay(&shop, &order, None).await, Err(Refusal::HoldEnded));
    assert_eq!(shop.orders.expire().step().await.unwrap().orders, 1);
    assert_eq!(shop.orders.expire().step().await.unwrap().orders, 0);
    assert_eq!(shop.read(1, order.id).await.status, Status::Declined);
    assert_eq!(shop.stock().await, (4, 0, 0));
    shop.audit(4).await;
}

async fn a_lost_answer_is_looked_up(home: Home) {
    let shop = Shop::open(&home, &[("B", 4, true)]).await;
    let providers = [
        (
            Arc::new(ViaSandbox::new(Duration::ZERO)) as Arc<dyn Payments>,
            Some("lost"),
        ),
        (Arc::new(Provider::new(Manner::LosesAnswers)), None),
    ];
    for (fan, (payments, token)) in (1..).zip(providers) {
        let settle = shop.settle_with(payments);
        let order = shop.bought(fan, 2, token).await;
        assert_eq!(settle.step().await.unwrap(), DOUBT);
        assert_eq!(shop.read(fan, order.id).await.status, Status::Pending);
        assert_eq!(settle.step().await.unwrap(), ONE);
        assert_eq!(shop.read(fan, order.id).await.status, Status::Confirmed);
        shop.audit(4).await;
    }
}

async fn an_order_in_doubt_keeps_its_seats_past_its_hold(home: Home) {
    let shop = Shop::open(&home, &[("B", 2, true)]).await;
    let provider = Arc::new(Provider::new(Manner::IsAway));
    let settle = shop.settle_with(provider.clone());
    let order = shop.bought(1, 2, None).await;
    assert_eq!(settle.step().await.unwrap(), DOUBT);
    shop.clock.advance_ms(HOLD_MS + DOUBT_MS_MAX - 1);
    shop.orders.expire().step().await.unwrap();
    assert_eq!(shop.stock().await, (0, 2, 0));
    assert!(matches!(shop.hold(2, 1).await, Err(Refusal::SeatsTaken(_))));
    provider.turn(Manner::Approves);
    assert_eq!(settle.step().await.unwrap(), ONE);
    assert_eq!(shop.read(1, order.id).await.status, Status::Confirmed);
    shop.audit(2).await;
}

async fn an_order_in_doubt_can_be_seen_until_it_is_none(home: Home) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let shop = Shop::open(&home, &[("B", 2, true)]).await;
    let provider = Arc::new(Provider::new(Manner::IsAway));
    let settle = Settle {
        every: Duration::from_millis(500),
        ..shop.settle_with(provider.clone())
    };
    let order = shop.bought(1, 2, None).await;
    let stop = CancellationToken::new();
    let looking = async {
        for (is_known, seen) in [(false, "1"), (true, "0")] {
            if is_known {
                provider.turn(Manner::Approves);
            }
            let line = format!("catraca_payments_in_doubt {seen}");
            until(&line, || async {
                let lines = recorder.handle().render();
                let is_paid = shop.read(1, order.id).await.status == Status::Confirmed;
                (is_paid == is_known && lines.lines().any(|is| is == line)).then_some(())
            })
            .await;
        }
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(settle.run(stop.clone()), looking);
    ended.unwrap();
}

/// An order whose money was taken without a word, and whose seats were given up long after.
async fn given_up(shop: &Shop, provider: &Arc<Provider>) -> Order {
    let settle = shop.settle_with(provider.clone());
    let order = shop.bought(1, 2, None).await;
    provider.turn(Manner::IsAway);
    assert_eq!(settle.step().await.unwrap(), DOUBT);
    provider.take(attempt(&order, 1));
    shop.clock.advance_ms(HOLD_MS + DOUBT_MS_MAX);
    assert_eq!(shop.orders.expire().step().await.unwrap().orders, 1);
    let declined = shop.read(1, order.id).await;
    assert_eq!(declined.status, Status::Declined);
    assert_eq!(declined.reason, Some(Reason::PaymentUnknown));
    order
}

async fn a_late_approval_takes_the_seats_again(home: Home) {
    let shop = Shop::open(&home, &[("B", 2, true)]).await;
    let provider = Arc::new(Provider::new(Manner::Approves));
    let order = given_up(&shop, &provider).await;
    provider.turn(Manner::Approves);
    assert_eq!(
        shop.settle_with(provider.clone()).step().await.unwrap(),
        ONE
    );
    assert_eq!(shop.read(1, order.id).await.status, Status::Confirmed);
    assert_eq!(shop.stock().await, (0, 0, 2));
    assert_eq!(
        shop.events(&order.id.to_string()).await,
        ["OrderPlaced", "OrderDeclined", "OrderConfirmed"]
    );
    assert_eq!(provider.moved(attempt(&order, 1)), (1, 0));
    shop.audit(2).await;
}

async fn a_late_approval_without_seats_is_paid_back_once(home: Home) {
    let shop = Shop::open(&home, &[("B", 2, true)]).await;
    let provider = Arc::new(Provider::new(Manner::Approves));
    let order = given_up(&shop, &provider).await;
    shop.hold(2, 1).await.unwrap();
    let settle = shop.settle_with(provider.clone());
    provider.turn(Manner::LosesAnswers);
    assert_eq!(settle.step().await.unwrap(), ONE, "the approval is known");
    assert_eq!(
        settle.step().await.unwrap(),
        DOUBT,
        "paid back, but the answer is lost"
    );
    assert_eq!(shop.read(1, order.id).await.status, Status::Declined);
    provider.turn(Manner::Approves);
    for _ in 0..5 {
        settle.step().await.unwrap();
        shop.orders.expire().step().await.unwrap();
        assert!(!shop.store.refunded(attempt(&order, 1)).await.unwrap());
    }
    let refunded = shop.read(1, order.id).await;
    assert_eq!(refunded.status, Status::Refunded);
    assert_eq!(refunded.reason, Some(Reason::ApprovedTooLate));
    assert_eq!(
        shop.events(&order.id.to_string()).await,
        ["OrderPlaced", "OrderDeclined", "OrderRefunded"]
    );
    assert_eq!(provider.moved(attempt(&order, 1)), (1, 1));
    shop.audit(2).await;
}

async fn a_late_approval_is_paid_back_where_the_ticket_has_bought_since(home: Home) {
    let shop = Shop::open(&home, &[("B", 2, true), ("C", 1, true)]).await;
    let provider = Arc::new(Provider::new(Manner::Approves));
    let order = given_up(&shop, &provider).await;
    let hold = shop.hold_wish(1, Wish::Named(vec!["C-1".to_owned()])).await;
    let second = shop.order(1, hold.unwrap().id).await.unwrap();
    provider.turn(Manner::Approves);
    let settle = shop.settle_with(provider.clone());
    while settle.step().await.unwrap() != Step::default() {}
    assert_eq!(shop.read(1, order.id).await.status, Status::Refunded);
    let second = shop.read(1, second.order().id).await;
    assert_eq!(second.status, Status::Confirmed);
    assert_eq!(provider.moved(attempt(&order, 1)), (1, 1));
    shop.audit(3).await;
}

async fn nobody_is_charged_for_an_order_that_is_over(home: Home) {
    let shop = Shop::open(&home, &[("B", 2, true)]).await;
    let provider = Arc::new(Provider::new(Manner::IsAway));
    let settle = shop.settle_with(provider.clone());
    let order = shop.bought(1, 2, None).await;
    shop.clock.advance_ms(HOLD_MS + DOUBT_MS_MAX);
    shop.orders.expire().step().await.unwrap();
    provider.turn(Manner::Approves);
    assert_eq!(settle.step().await.unwrap(), ONE);
    assert_eq!(settle.step().await.unwrap(), Step::default());
    assert_eq!(provider.moved(attempt(&order, 1)), (0, 0));
    assert_eq!(shop.read(1, order.id).await.status, Status::Declined);
    shop.audit(2).await;
}

async fn a_crash_before_the_provider_is_asked_loses_nothing(home: Home) {
    let shop = Shop::open(&home, &[("B", 2, true)]).await;
    let order = shop.bought(1, 2, None).await;
    let provider = Arc::new(Provider::new(Manner::Approves));
    let shop = shop.reopen(provider.clone()).await;
    assert_eq!(shop.orders.settle().step().await.unwrap(), ONE);
    assert_eq!(provider.moved(attempt(&order, 1)), (1, 0));
    assert_eq!(shop.read(1, order.id).await.status, Status::Confirmed);
    shop.audit(2).await;
}

async fn a_crash_after_the_charge_charges_once(home: Home) {
    let shop = Shop::open(&home, &[("B", 2, true)]).await;
    let order = shop.bought(1, 2, None).await;
    let provider = Arc::new(Provider::new(Manner::HangsAfterTheEffect));
    let settle = shop.settle_with(provider.clone());
    let mut step = Box::pin(settle.step());
    let id = attempt(&order, 1);
    while provider.moved(id) == (0, 0) {
        let _ = timeout(Duration::from_millis(5), &mut step).await;
    }
    drop(step);
    assert_eq!(shop.read(1, order.id).await.status, Status::Pending);
    provider.turn(Manner::Approves);
    let shop = shop.reopen(provider.clone()).await;
    assert_eq!(shop.orders.settle().step().await.unwrap(), ONE);
    assert_eq!(provider.moved(id), (1, 0));
    assert_eq!(shop.read(1, order.id).await.status, Status::Confirmed);
    shop.audit(2).await;
}

async fn two_loops_at_once_settle_once(home: Home) {
    let shop = Shop::open(&home, &[("B", 40, true)]).await;
    for fan in 0..10 {
        shop.bought(fan, 2, (fan % 3 == 0).then_some("decline"))
            .await;
    }
    let (one, two) = (shop.orders.settle(), shop.orders.settle());
    let (one, two) = tokio::join!(one.step(), two.step());
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(shop.stock().await, (20, 8, 12));
    shop.audit(40).await;
}

async fn the_loops_run_by_themselves_and_stop_when_told(home: Home) {
    let shop = Shop::open(&home, &[("B", 4, true)]).await;
    let stop = CancellationToken::new();
    let settle = tokio::spawn(shop.orders.settle().run(stop.clone()));
    let expire = tokio::spawn(shop.orders.expire().run(stop.clone()));
    let order = shop.bought(1, 2, Some("slow")).await;
    let lapsing = shop.hold(2, 1).await.unwrap();
    shop.clock.advance_ms(HOLD_MS);
    let done = async {
        while shop.read(1, order.id).await.status != Status::Confirmed
            || shop.events(&lapsing.id.to_string()).await.len() < 2
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(20), done).await.unwrap();
    stop.cancel();
    let stopped = async { (settle.await, expire.await) };
    let (settle, expire) = timeout(Duration::from_secs(20), stopped).await.unwrap();
    assert!(settle.unwrap().is_ok() && expire.unwrap().is_ok());
    shop.audit(4).await;
}
