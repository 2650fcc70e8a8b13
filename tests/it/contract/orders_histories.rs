//! Random histories of buyers, time and a provider that misbehaves: after each step every seat has
//! one owner and every state its event, and at the end the money is where it belongs.

use std::collections::BTreeMap;
use std::sync::Arc;

use catraca::base::ids::{HoldId, OrderId};
use catraca::base::limits::DOUBT_MS_MAX;
use catraca::orders::payment::settle::Step;
use catraca::orders::rules::hold::Wish;
use catraca::orders::rules::order::Pay;
use catraca::orders::rules::{PaymentId, Status};
use catraca::orders::store::Swept;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tokio::runtime::{Builder, Runtime};

use crate::contract::payment_provider::{Manner, Provider};
use crate::contract::shop::{HOLD_MS, Shop};
use crate::contract::shop_home::Home;

const FANS: u64 = 6;

#[derive(Debug, Clone)]
enum Act {
    Hold {
        fan: u64,
        quantity: u32,
    },
    HoldNamed {
        fan: u64,
        seats: Vec<u32>,
    },
    Release {
        fan: u64,
    },
    Order {
        fan: u64,
        declined: bool,
    },
    Pay {
        fan: u64,
        declined: bool,
    },
    /// The operator takes an order back.
    Cancel {
        fan: u64,
    },
    Settle(Manner),
    Expire,
    Advance(u64),
    /// The operator changes how many numbered seats there are.
    Resize(u32),
}

fn act() -> impl Strategy<Value = Act> {
    let manner = prop_oneof![
        Just(Manner::Approves),
        Just(Manner::IsAway),
        Just(Manner::LosesAnswers)
    ];
    let time = prop_oneof![
        Just(1),
        Just(HOLD_MS / 2),
        Just(HOLD_MS),
        Just(DOUBT_MS_MAX)
    ];
    prop_oneof![
        4 => (0..FANS, 1..5_u32).prop_map(|(fan, quantity)| Act::Hold { fan, quantity }),
        2 => (0..FANS, prop::collection::btree_set(1..9_u32, 1..4)).prop_map(|(fan, seats)| {
            Act::HoldNamed { fan, seats: seats.into_iter().collect() }
        }),
        1 => (0..FANS).prop_map(|fan| Act::Release { fan }),
        4 => (0..FANS, any::<bool>()).prop_map(|(fan, declined)| Act::Order { fan, declined }),
        1 => (0..FANS, any::<bool>()).prop_map(|(fan, declined)| Act::Pay { fan, declined }),
        1 => (0..FANS).prop_map(|fan| Act::Cancel { fan }),
        3 => manner.prop_map(Act::Settle),
        2 => Just(Act::Expire),
        2 => time.prop_map(Act::Advance),
        1 => (0..9_u32).prop_map(Act::Resize),
    ]
}

/// How a history ends.
#[derive(Debug, Clone, Copy)]
enum End {
    OfTheSale,
    /// The operator cancels the show.
    OfTheShow,
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![Just(End::OfTheSale), Just(End::OfTheShow)]
}

/// A shop with what its fans were given so far.
struct World {
    shop: Shop,
    provider: Arc<Provider>,
    holds: BTreeMap<u64, HoldId>,
    orders: BTreeMap<u64, Vec<OrderId>>,
    seats: u64,
}

impl World {
    async fn open(home: &Home) -> Self {
        let shop = Shop::open(home, &[]).await;
        let mut world = Self {
            shop,
            provider: Arc::new(Provider::new(Manner::Approves)),
            holds: BTreeMap::new(),
            orders: BTreeMap::new(),
            seats: 0,
        };
        world.resize(8).await;
        world
    }

    async fn resize(&mut self, numbered: u32) {
        let sections = [("B", numbered, true), ("GA", 3, false)];
        self.seats = self.shop.set(&sections, 2).await.seats;
    }

    async fn hold(&mut self, fan: u64, wish: Wish) {
        if let Ok(hold) = self.shop.hold_wish(fan, wish).await {
            self.holds.insert(fan, hold.id);
        }
    }

    async fn apply(&mut self, act: &Act) {
        match act {
            Act::Hold { fan, quantity } => {
                let section = if fan % 2 == 0 { "B" } else { "GA" }.to_owned();
                let quantity = *quantity;
                self.hold(*fan, Wish::Best { section, quantity }).await;
            }
            Act::HoldNamed { fan, seats } => {
                let names = seats.iter().map(|seat| format!("B-{seat}")).collect();
                self.hold(*fan, Wish::Named(names)).await;
            }
            Act::Release { fan } => {
                if let Some(hold) = self.holds.get(fan) {
                    let buyer = self.shop.buyer(*fan);
                    let _ = self.shop.store.release(&buyer, *hold).await.unwrap();
                }
            }
            Act::Order { fan, declined } => {
                let Some(hold) = self.holds.get(fan) else {
                    return;
                };
                let placed = self.shop.order_paying(*fan, *hold, token(*declined)).await;
                if let Ok(placed) = placed {
                    self.orders.entry(*fan).or_default().push(placed.order().id);
                }
            }
            Act::Pay { fan, declined } => {
                let Some(order) = self.orders.get(fan).and_then(|orders| orders.last()) else {
                    return;
                };
                let pay = Pay {
                    buyer: self.shop.buyer(*fan),
                    order: *order,
                    token: token(*declined).map(str::to_owned),
                };
                let _ = self.shop.store.pay(&pay, None).await.unwrap();
            }
            Act::Cancel { fan } => {
                if let Some(order) = self.orders.get(fan).and_then(|orders| orders.last()) {
                    let _ = self.shop.store.cancel(*order).await.unwrap();
                }
            }
            Act::Settle(manner) => {
                self.provider.turn(*manner);
                self.settle().await;
            }
            Act::Expire => {
                self.shop.orders.expire().step().await.unwrap();
            }
            Act::Advance(ms) => self.shop.clock.advance_ms(*ms),
            Act::Resize(numbered) => self.resize(*numbered).await,
        }
    }

    async fn settle(&self) -> Step {
        let settle = self.shop.settle_with(self.provider.clone());
        settle.step().await.unwrap()
    }

    /// The provider is well again and time passes: everything must come to an end.
    async fn calm_down(&self) {
        self.provider.turn(Manner::Approves);
        for _ in 0..4 {
            while self.settle().await != Step::default() {}
            self.shop.orders.expire().step().await.unwrap();
            self.shop.clock.advance_ms(HOLD_MS + DOUBT_MS_MAX);
        }
    }

    /// The operator cancels the show: whatever the history was, nobody keeps a seat.
    async fn cancel_show(&mut self) {
        self.shop.cancel().await;
        let show = self.shop.show.clone();
        while self.shop.store.cancel_show(&show, 2).await.unwrap() != Swept::default() {
            self.shop.audit(self.seats).await;
        }
        self.resize(0).await;
        let stock = self.shop.stock().await;
        assert_eq!((stock.1, stock.2), (0, 0));
    }

    /// Whoever paid has the seats, and nobody else was charged for good.
    async fn check_money(&self) -> Result<(), TestCaseError> {
        for (fan, orders) in &self.orders {
            for order in orders {
                let status = self.shop.read(*fan, *order).await.status;
                let moved = (1..4).map(|attempt| {
                    let order = *order;
                    self.provider.moved(PaymentId { order, attempt })
                });
                let moved: Vec<_> = moved.filter(|moved| *moved != (0, 0)).collect();
                let expected = match status {
                    Status::Confirmed => vec![(1, 0)],
                    Status::Declined | Status::Cancelled => vec![],
                    Status::Refunded => vec![(1, 1)],
                    Status::Pending => panic!("{order} never ends"),
                };
                prop_assert_eq!(moved, expected, "{} is {:?}", order, status);
            }
        }
        let (_, held, _) = self.shop.stock().await;
        prop_assert_eq!(held, 0);
        Ok(())
    }
}

const fn token(declined: bool) -> Option<&'static str> {
    if declined { Some("decline") } else { None }
}

async fn check(home: Home, acts: &[Act], end: End) -> Result<(), TestCaseError> {
    let mut world = World::open(&home).await;
    for act in acts {
        world.apply(act).await;
        world.shop.audit(world.seats).await;
    }
    match end {
        End::OfTheSale => {}
        End::OfTheShow => world.cancel_show().await,
    }
    world.calm_down().await;
    world.shop.audit(world.seats).await;
    world.check_money().await
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_history_sells_a_seat_twice(
        acts in prop::collection::vec(act(), 1..60),
        end in end(),
    ) {
        runtime().block_on(check(Home::sqlite(), &acts, end))?;
    }
}

proptest! {
    // A database each: fewer.
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn no_history_sells_a_seat_twice_on_postgres(
        acts in prop::collection::vec(act(), 1..60),
        end in end(),
    ) {
        runtime().block_on(async {
            match Home::postgres().await {
                Some(home) => check(home, &acts, end).await,
                None => Ok(()),
            }
        })?;
    }
}
