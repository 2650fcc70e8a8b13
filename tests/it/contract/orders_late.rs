//! A provider's word that comes late, at the very moment in which something else becomes of its order; and a
//! process that slept over a payment which another one brought to its end. Wherever they meet, money is kept
//! for an order that is confirmed, and for no other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use catraca::base::limits::DOUBT_MS_MAX;
use catraca::orders::payment::settle::{Settle, Step};
use catraca::orders::payment::via_sandbox::{Record, ViaSandbox};
use catraca::orders::payment::{Charge, PaymentError, Payments};
use catraca::orders::rules::hold::Wish;
use catraca::orders::rules::payment::Verdict;
use catraca::orders::rules::{Hold, Order, PaymentId, Status};
use futures_util::future::join3;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::contract::payment_provider::{Manner, Provider};
use crate::contract::shop::{HOLD_MS, Shop};
use crate::contract::shop_home::{Home, on_every_database};

on_every_database!(
    a_late_approval_races_the_end_of_its_order_and_who_wants_its_seats,
    a_late_approval_races_the_next_order_of_its_ticket,
    whoever_slept_over_a_payment_changes_nothing_of_how_it_ended,
);

/// Races of each kind.
const ROUNDS: u64 = 60;
/// Within so many microseconds of each other they set out.
const APART_US: u64 = 4_000;

fn first(order: &Order) -> PaymentId {
    PaymentId {
        order: order.id,
        attempt: 1,
    }
}

/// A moment of an unknown length.
async fn a_moment() {
    sleep(Duration::from_micros(rand::random_range(0..APART_US))).await;
}

async fn settle_all(settle: &Settle) {
    let settling = async { while settle.step().await.unwrap() != Step::default() {} };
    let settled = timeout(Duration::from_secs(20), settling).await;
    settled.expect("there is an end to it");
}

/// Money was taken once, and is kept if and only if the order is confirmed: how it ended.
async fn ended(shop: &Shop, fan: u64, order: &Order, provider: &Provider) -> Status {
    let status = shop.read(fan, order.id).await.status;
    let back = match status {
        Status::Confirmed => 0,
        Status::Refunded => 1,
        Status::Pending | Status::Declined | Status::Cancelled => panic!("{order:?} is {status:?}"),
    };
    assert_eq!(provider.moved(first(order)), (1, back), "{status:?}");
    status
}

/// The house is empty again, for the next round.
async fn empty(shop: &Shop, settle: &Settle, orders: &[&Order]) {
    for order in orders {
        let _over = shop.store.cancel(order.id).await.unwrap();
    }
    shop.clock.advance_ms(HOLD_MS);
    shop.orders.expire().step().await.unwrap();
    settle_all(settle).await;
}

async fn a_late_approval_races_the_end_of_its_order_and_who_wants_its_seats(home: Home) {
    let shop = Shop::open(&home, &[("B", 2, true)]).await;
    let expire = shop.orders.expire();
    let mut seen: BTreeMap<(bool, bool), u64> = BTreeMap::new();
    for round in 0..ROUNDS {
        let (fan, next) = (2 * round, 2 * round + 1);
        let provider = Arc::new(Provider::new(Manner::Approves));
        let settle = shop.settle_with(provider.clone());
        let order = shop.bought(fan, 2, None).await;
        provider.take(first(&order));
        shop.clock.advance_ms(HOLD_MS + DOUBT_MS_MAX);
        let approval = async {
            a_moment().await;
            settle.step().await.unwrap()
        };
        let end = async {
            a_moment().await;
            expire.step().await.unwrap().orders
        };
        let other = async {
            sleep(Duration::from_micros(APART_US / 2)).await;
            a_moment().await;
            shop.hold(next, 2).await
        };
        let (_, ended_first, held) = join3(approval, end, other).await;
        settle_all(&settle).await;
        let is_confirmed = ended(&shop, fan, &order, &provider).await == Status::Confirmed;
        assert!(!is_confirmed || held.is_err(), "one owner: {held:?}");
        assert!(is_confirmed || held.is_ok(), "who has its seats?");
        *seen.entry((ended_first == 1, is_confirmed)).or_default() += 1;
        shop.audit(2).await;
        empty(&shop, &settle, &[&order]).await;
        assert_eq!(shop.stock().await, (2, 0, 0));
    }
    eprintln!("{}: given up first, confirmed: {seen:?}", home.name());
    assert!(2 <= seen.len(), "it was no race: {seen:?}");
}

async fn a_late_approval_races_the_next_order_of_its_ticket(home: Home) {
    let shop = Shop::open(&home, &[("B", 2, true), ("C", 1, true)]).await;
    let (mut late, mut next) = (0, 0);
    for fan in 0..ROUNDS {
        let provider = Arc::new(Provider::new(Manner::Approves));
        let settle = shop.settle_with(provider.clone());
        let order = shop.bought(fan, 2, None).await;
        provider.take(first(&order));
        shop.clock.advance_ms(HOLD_MS + DOUBT_MS_MAX);
        shop.orders.expire().step().await.unwrap();
        let hold: Hold = {
            let wish = Wish::Named(vec!["C-1".to_owned()]);
            shop.hold_wish(fan, wish).await.unwrap()
        };
        let approval = async {
            a_moment().await;
            settle.step().await.unwrap()
        };
        let another = async {
            a_moment().await;
            shop.order(fan, hold.id).await
        };
        let (_, placed) = tokio::join!(approval, another);
        settle_all(&settle).await;
        let status = ended(&shop, fan, &order, &provider).await;
        assert_eq!(status == Status::Confirmed, placed.is_err(), "{placed:?}");
        shop.audit(3).await;
        let mut orders = vec![&order];
        match &placed {
            Ok(placed) => {
                next += 1;
                let second = shop.read(fan, placed.order().id).await;
                assert_eq!(second.status, Status::Confirmed);
                orders.push(placed.order());
            }
            Err(_) => late += 1,
        }
        empty(&shop, &settle, &orders).await;
        assert_eq!(shop.stock().await, (3, 0, 0));
    }
    eprintln!(
        "{}: the late approval {late}, the next order {next}",
        home.name()
    );
    assert!(0 < late && 0 < next, "it was no race: {late} and {next}");
}

/// Where a process falls asleep over a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The provider has never heard of it.
    LookedUp,
    /// The provider has taken the money.
    Charged,
}

/// The sandbox, as a process hears of it that falls asleep.
#[derive(Debug)]
struct Sleepy {
    sandbox: Arc<ViaSandbox>,
    place: Place,
    asleep: Notify,
    awake: Notify,
}

impl Sleepy {
    async fn come_to(&self, place: Place) {
        if place == self.place {
            self.asleep.notify_one();
            self.awake.notified().await;
        }
    }
}

#[async_trait]
impl Payments for Sleepy {
    async fn charge(&self, charge: &Charge) -> Result<Verdict, PaymentError> {
        let answer = self.sandbox.charge(charge).await;
        self.come_to(Place::Charged).await;
        answer
    }

    async fn look_up(&self, id: PaymentId) -> Result<Option<Verdict>, PaymentError> {
        let answer = self.sandbox.look_up(id).await;
        self.come_to(Place::LookedUp).await;
        answer
    }

    async fn void(&self, id: PaymentId) -> Result<Verdict, PaymentError> {
        self.sandbox.void(id).await
    }

    async fn refund(&self, id: PaymentId) -> Result<(), PaymentError> {
        self.sandbox.refund(id).await
    }
}

/// What becomes of the order meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    /// An operator takes it back.
    Cancelled,
    /// It is given up.
    GivenUp,
    /// It is given up, and somebody else has its seats.
    Lost,
}

async fn whoever_slept_over_a_payment_changes_nothing_of_how_it_ended(home: Home) {
    use Meanwhile::{Cancelled, GivenUp, Lost};
    use Place::{Charged, LookedUp};
    let shop = Shop::open(&home, &[("B", 2, true)]).await;
    for (round, (place, meanwhile, status, record)) in (0..).zip([
        (LookedUp, Cancelled, Status::Cancelled, (1, 0, false)),
        (LookedUp, GivenUp, Status::Declined, (1, 0, false)),
        (LookedUp, Lost, Status::Declined, (1, 0, false)),
        (Charged, Cancelled, Status::Refunded, (1, 1, true)),
        (Charged, GivenUp, Status::Confirmed, (1, 0, true)),
        (Charged, Lost, Status::Refunded, (1, 1, true)),
    ]) {
        let fan = 2 * round;
        let sandbox = Arc::new(ViaSandbox::new(Duration::ZERO));
        let sleepy = Arc::new(Sleepy {
            sandbox: sandbox.clone(),
            place,
            asleep: Notify::new(),
            awake: Notify::new(),
        });
        let order = shop.bought(fan, 2, None).await;
        let (sleeper, other) = (
            shop.settle_with(sleepy.clone()),
            shop.settle_with(sandbox.clone()),
        );
        let sleeper = Settle {
            call_max: Duration::from_secs(60),
            ..sleeper
        };
        let others = async {
            sleepy.asleep.notified().await;
            if meanwhile == Cancelled {
                shop.store.cancel(order.id).await.unwrap().unwrap();
            } else {
                shop.clock.advance_ms(HOLD_MS + DOUBT_MS_MAX);
                shop.orders.expire().step().await.unwrap();
            }
            if meanwhile == Lost {
                shop.hold(fan + 1, 2).await.unwrap();
            }
            settle_all(&other).await;
            let before = shop.read(fan, order.id).await;
            assert_eq!(before.status, status, "{place:?} {meanwhile:?}");
            sleepy.awake.notify_one();
            before
        };
        let (_, before) = tokio::join!(sleeper.step(), others);
        settle_all(&other).await;
        assert_eq!(shop.read(fan, order.id).await, before);
        let (charges, refunds, is_taken) = record;
        let expected = Record {
            charges,
            refunds,
            is_taken,
            is_returned: 0 < refunds,
        };
        assert_eq!(sandbox.records()[&first(&order)], expected);
        shop.audit(2).await;
        empty(&shop, &other, &[&order]).await;
        assert_eq!(shop.stock().await, (2, 0, 0));
    }
}
