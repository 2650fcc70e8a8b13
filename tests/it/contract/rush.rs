//! A crowd that wants all seats of a show, and whoever watches it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use catraca::orders::rules::hold::Wish;
use catraca::orders::rules::{Hold, Refusal};
use rand::RngExt;
use rand::rngs::SmallRng;

use crate::contract::crowd::release;
use crate::contract::shop::Shop;
use crate::contract::shop_home::Home;

/// What holds in every committed state: seats that are held are those of live holds and pending orders,
/// seats that are sold are those of confirmed orders. One statement, so one moment.
const SUMS: &str = "select free, held, sold, seats, live, pending, confirmed from
    (select count(*) filter (where state = 'free') as free,
       count(*) filter (where state = 'held') as held,
       count(*) filter (where state = 'sold') as sold from seats) states,
    (select count(*) as seats from (select show, seat from seats group by show, seat) once) names,
    (select coalesce(sum(length(seats) - length(replace(seats, ',', '')) + 1), 0) as live
       from holds where state = 'live') carts,
    (select coalesce(sum(many) filter (where status = 'pending'), 0) as pending,
       coalesce(sum(many) filter (where status = 'confirmed'), 0) as confirmed
     from (select status, length(seats) - length(replace(seats, ',', '')) + 1 as many
           from orders) bought) purchases";

/// How many times as long as a look took the watch rests after it, so that who is watched has the
/// machine.
const REST: u32 = 4;

/// Looks again and again, through connections of its own, whether the sums are exact, until it is told
/// that all is over.
pub(crate) async fn watch(home: Home, capacity: u64, over: Arc<AtomicBool>) -> u64 {
    let (eyes, mut looks) = (home.open().await, 0);
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        let row = &eyes.rows(SUMS, &[]).await[0];
        let of = |column| row.number(column).cast_unsigned();
        let (free, held, sold) = (of("free"), of("held"), of("sold"));
        assert_eq!((free + held + sold, of("seats")), (capacity, capacity));
        assert_eq!(held, of("live") + of("pending"), "held seats have owners");
        assert_eq!(sold, of("confirmed"), "sold seats have owners");
        looks += 1;
        tokio::time::sleep((REST * began.elapsed()).max(Duration::from_millis(5))).await;
    }
    eyes.close().await;
    looks
}

/// A crowd at the seats, and what it was told.
#[derive(Debug)]
pub(crate) struct Rush {
    shop: Arc<Shop>,
    /// How many were told so.
    sold_out: AtomicU64,
    taken: AtomicU64,
    /// It was seen that every seat is sold: nothing here gives sold seats back, so it stays true.
    is_over: AtomicBool,
}

impl Rush {
    pub(crate) fn at(shop: Arc<Shop>) -> Self {
        Self {
            shop,
            sold_out: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// Wants seats, and orders them, gives them back, or dies with them.
    pub(crate) async fn comes(&self, fan: u64, mut rng: SmallRng) {
        let section = if rng.random_ratio(2, 3) { "B" } else { "GA" };
        let quantity = rng.random_range(1..=6);
        let Some(hold) = self.asks(fan, section, quantity).await else {
            return;
        };
        if quantity == 1 || rng.random_ratio(6, 10) {
            self.shop.order(fan, hold.id).await.unwrap();
        } else if rng.random_ratio(8, 10) {
            release(&self.shop, fan, hold.id).await;
        } // else: a crash; the hold runs out
    }

    /// Comes late, and takes whatever seat is left.
    pub(crate) async fn comes_late(&self, fan: u64) {
        for section in ["B", "GA"] {
            if let Some(hold) = self.asks(fan, section, 1).await {
                self.shop.order(fan, hold.id).await.unwrap();
                return;
            }
        }
    }

    /// The hold; or what was told instead is true.
    pub(crate) async fn asks(&self, fan: u64, section: &str, quantity: u32) -> Option<Hold> {
        let is_over = self.is_over.load(Ordering::Relaxed);
        let section = section.to_owned();
        let told = self.shop.hold_wish(fan, Wish::Best { section, quantity });
        match told.await {
            Ok(hold) => {
                assert_eq!(hold.seats.len(), quantity as usize);
                assert!(!is_over, "a seat that was sold is sold again");
                return Some(hold);
            }
            Err(Refusal::SoldOut) => {
                self.sold_out.fetch_add(1, Ordering::Relaxed);
                if !is_over {
                    let (free, held, _) = self.shop.stock().await;
                    assert_eq!((free, held), (0, 0), "sold out is said where it is true");
                    self.is_over.store(true, Ordering::Relaxed);
                }
            }
            Err(Refusal::SeatsTaken(taken)) => {
                self.taken.fetch_add(1, Ordering::Relaxed);
                assert!(taken.free < Some(quantity), "too few, or split: {taken:?}");
                assert!(!is_over, "some are in carts: {taken:?}");
            }
            Err(other) => panic!("{other:?}"),
        }
        None
    }

    /// How many were told that their seats are taken, and that all are sold, which somebody was.
    pub(crate) fn told(&self) -> (u64, u64) {
        assert!(self.is_over.load(Ordering::Relaxed), "nobody was told");
        let told = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (told(&self.taken), told(&self.sold_out))
    }
}

/// Settles payments until all is over, and then what is left of them.
pub(crate) async fn settle(shop: Arc<Shop>, over: Arc<AtomicBool>) {
    let settle = shop.orders.settle();
    while settle.step().await.unwrap().settled != 0 || !over.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
