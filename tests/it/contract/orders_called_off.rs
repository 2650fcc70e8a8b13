//! Buyers who place an order in the moment in which an operator takes it back, or its whole show: each is
//! refused, or gets an order that is taken back and paid back once.
//!
//! Who holds or orders asks whether the show is cancelled before anything is written, and locks nothing for
//! that: what was on its way is written after the cancellation, and found by whoever takes back what was
//! sold. It takes a seat to be written at all, so nobody is told that all is done while there is one.

use std::sync::Arc;
use std::time::Duration;

use catraca::orders::cancel::Cancel;
use catraca::orders::payment::settle::{Settle, Step};
use catraca::orders::reconcile::Reconcile;
use catraca::orders::rules::hold::Wish;
use catraca::orders::rules::{Order, PaymentId, Reason, Refusal, Status};
use catraca::orders::store::{Cancellation, Swept};
use catraca::show::{self, Change};
use futures_util::future::join_all;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::time::sleep;

use crate::contract::payment_provider::{Manner, Provider};
use crate::contract::shop::{Shop, T0, sections_of};
use crate::contract::shop_home::{Db, Home, on_every_database};

on_every_database!(
    whoever_orders_while_the_show_is_called_off_is_refused_or_paid_back_once,
    an_order_that_is_taken_back_as_it_is_placed_is_paid_back_once,
    what_is_said_to_be_done_stays_so,
);

/// Orders that are taken back, each as it is placed.
const ORDERS: u64 = 200;
/// Shows that are called off.
const ROUNDS: u64 = 100;
/// Shows that are called off while buyers come again and again.
const RUSHES: u64 = 25;
/// How many want seats meanwhile with a hold, and how many without: two each.
const BUYERS: u64 = 2;
/// Nobody comes later than that, in microseconds: as long as it takes to place an order.
const LATE_US: u64 = 5_000;

/// Everybody who has a hand in it.
struct Race {
    shop: Shop,
    shows: Arc<dyn show::Store>,
    provider: Arc<Provider>,
    settle: Settle,
    cancel: Cancel,
    capacity: u64,
}

/// What buyers came to.
#[derive(Debug, Default)]
struct Tally {
    refused: u64,
    cancelled: u64,
    refunded: u64,
}

impl Race {
    async fn open(home: &Home) -> Self {
        let capacity = 4 * u32::try_from(BUYERS).unwrap();
        let shop = Shop::open(home, &[("B", capacity, true)]).await;
        let shows: Arc<dyn show::Store> = match &shop.db {
            Db::Sqlite(db) => Arc::new(show::in_sqlite::InSqlite::new(db.clone())),
            Db::Postgres(db) => Arc::new(show::in_postgres::InPostgres::new(db.clone())),
        };
        let provider = Arc::new(Provider::new(Manner::Approves));
        Self {
            settle: shop.settle_with(provider.clone()),
            cancel: shop.orders.cancel(shows.clone()),
            capacity: u64::from(capacity),
            shop,
            shows,
            provider,
        }
    }

    /// The operator calls the show off, and what was sold is taken back, as far as it is to be seen.
    async fn call_off(&self, wait: Duration) {
        sleep(wait).await;
        let act = Change {
            who: "ana".to_owned(),
            role: "admin".to_owned(),
            action: "cancel".to_owned(),
            detail: "{}".to_owned(),
            at: T0,
        };
        let called_off = self.shows.cancel(&self.shop.show, &act).await.unwrap();
        assert!(called_off.unwrap().cancelled_at.is_some());
        self.cancel.step().await.unwrap();
    }

    /// Everything that goes on by itself once a show is called off, until it is said to be done; what was
    /// said then, and how many events there were just before.
    async fn until_it_is_done(&self) -> (Cancellation, i64) {
        let mut reconcile = Reconcile::new(self.shop.store.clone(), self.shows.clone());
        loop {
            self.cancel.step().await.unwrap();
            self.settle.step().await.unwrap();
            // Where somebody else has the section for too long, this is repeated.
            drop(reconcile.step().await);
            let events = self.events().await;
            let progress = self.progress().await;
            if progress.is_done() {
                return (progress, events);
            }
        }
    }

    async fn progress(&self) -> Cancellation {
        let progress = self.shop.store.cancellation(&self.shop.show).await;
        progress.unwrap()
    }

    /// How many events were ever written.
    async fn events(&self) -> i64 {
        let count = "select count(*) as n from outbox";
        self.shop.db.rows(count, &[]).await[0].number("n")
    }

    /// Somebody who wants two seats, and comes again as somebody else until the show is called off.
    async fn buys_until_it_is_called_off(&self, first: u64) {
        for fan in first.. {
            // Half of the time by name.
            let pair = fan / 2 % (self.capacity / 2);
            let names = vec![format!("B-{}", 2 * pair + 1), format!("B-{}", 2 * pair + 2)];
            let held = match fan % 2 {
                0 => self.shop.hold(fan, 2).await,
                _ => self.shop.hold_wish(fan, Wish::Named(names)).await,
            };
            match held {
                Ok(hold) => {
                    if let Err(refused) = self.shop.order(fan, hold.id).await {
                        let known = [Refusal::ShowCancelled, Refusal::HoldEnded];
                        assert!(known.contains(&refused), "{refused:?}");
                    }
                }
                Err(Refusal::ShowCancelled) => return,
                Err(Refusal::SeatsTaken(_) | Refusal::SoldOut) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    }

    async fn settles(&self, wait: Duration) {
        sleep(wait).await;
        self.settle.step().await.unwrap();
    }

    /// For the next round. No act of an operator does that.
    async fn call_on(&self) {
        let again = "update shows set cancelled_at_ms = null, version = version + 1";
        self.shop.run(again).await.unwrap();
        let sections = sections_of(&[("B", u32::try_from(self.capacity).unwrap(), true)]);
        let there = self.shop.reconcile(&sections).await;
        assert_eq!(there.seats, self.capacity);
    }

    /// Takes back and pays back until there is nothing left to do.
    async fn until_it_is_quiet(&self) {
        loop {
            let swept = self.cancel.step().await.unwrap();
            let settled = self.settle.step().await.unwrap();
            if swept == Swept::default() && settled == Step::default() {
                return;
            }
        }
    }

    /// An order is over, for this reason, and its money went back as often as it was taken.
    async fn is_taken_back(&self, fan: u64, order: &Order, why: Reason, tally: &mut Tally) {
        let now = self.shop.read(fan, order.id).await;
        assert_eq!(now.reason, Some(why), "{now:?}");
        let first = PaymentId {
            order: order.id,
            attempt: 1,
        };
        let moved = self.provider.moved(first);
        match now.status {
            Status::Cancelled => tally.cancelled += 1,
            Status::Refunded => tally.refunded += 1,
            Status::Pending | Status::Confirmed | Status::Declined => panic!("{now:?}"),
        }
        let expected = u32::from(now.status == Status::Refunded);
        assert_eq!(moved, (expected, expected), "{now:?}");
        let paid_and_back = [
            "OrderPlaced",
            "OrderConfirmed",
            "OrderCancelled",
            "OrderRefunded",
        ];
        let told = self.shop.events(&order.id.to_string()).await;
        let mut told = told.iter().map(String::as_str).peekable();
        for event in paid_and_back {
            told.next_if_eq(&event);
        }
        assert_eq!(told.next(), None, "each at most once, in this order");
    }

    /// Some time at which somebody may come.
    fn late(rng: &mut SmallRng) -> Duration {
        Duration::from_micros(rng.random_range(0..LATE_US))
    }
}

async fn whoever_orders_while_the_show_is_called_off_is_refused_or_paid_back_once(home: Home) {
    let (race, mut tally) = (Race::open(&home).await, Tally::default());
    let mut rng = SmallRng::seed_from_u64(1);
    for round in 0..ROUNDS {
        let fans = 2 * BUYERS * round..2 * BUYERS * (round + 1);
        let mut buying = Vec::new();
        for fan in fans {
            // Half of them have seats when the operator begins.
            let held = if fan % 2 == 0 {
                Some(race.shop.hold(fan, 2).await.unwrap())
            } else {
                None
            };
            let (wait, race) = (Race::late(&mut rng), &race);
            buying.push(async move {
                sleep(wait).await;
                let hold = match held {
                    Some(hold) => Ok(hold),
                    None => race.shop.hold(fan, 2).await,
                };
                match hold {
                    Ok(hold) => (fan, race.shop.order(fan, hold.id).await),
                    Err(refusal) => (fan, Err(refusal)),
                }
            });
        }
        let settling = race.settles(Race::late(&mut rng));
        let calling_off = race.call_off(Race::late(&mut rng));
        let (told, (), ()) = tokio::join!(join_all(buying), calling_off, settling);
        race.until_it_is_quiet().await;
        for (fan, placed) in told {
            match placed {
                Ok(placed) => {
                    let order = placed.order();
                    let why = Reason::ShowCancelled;
                    race.is_taken_back(fan, order, why, &mut tally).await;
                }
                Err(Refusal::ShowCancelled | Refusal::HoldEnded) => tally.refused += 1,
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(race.shop.stock().await, (race.capacity, 0, 0));
        race.until_it_is_done().await;
        race.call_on().await;
    }
    assert!(0 < tally.refused && 0 < tally.cancelled && 0 < tally.refunded);
    race.shop.audit(race.capacity).await;
    eprintln!("{}: {ROUNDS} shows called off: {tally:?}", home.name());
}

/// The operator sees an order as soon as it is written, and its buyer says again what they want.
async fn an_order_that_is_taken_back_as_it_is_placed_is_paid_back_once(home: Home) {
    let (race, mut tally) = (Race::open(&home).await, Tally::default());
    let mut rng = SmallRng::seed_from_u64(2);
    for fan in 0..ORDERS {
        let hold = race.shop.hold(fan, 2).await.unwrap();
        let (shop, id) = (&race.shop, hold.id.to_string());
        let taking_back = async {
            let seen = "select order_id from orders where hold_id = $1";
            loop {
                if let [row] = &shop.db.rows(seen, &[&id]).await[..] {
                    let order = row.text("order_id").parse().unwrap();
                    return shop.store.cancel(order).await.unwrap().unwrap();
                }
            }
        };
        let (wait, settling) = (Race::late(&mut rng), race.settles(Race::late(&mut rng)));
        let again = async {
            sleep(wait).await;
            shop.order(fan, hold.id).await.unwrap()
        };
        let (placed, again, cancelled, ()) =
            tokio::join!(shop.order(fan, hold.id), again, taking_back, settling);
        let order = placed.unwrap().order().clone();
        assert_eq!([again.order().id, cancelled.id], [order.id; 2], "one order");
        race.until_it_is_quiet().await;
        let why = Reason::CancelledByOperator;
        race.is_taken_back(fan, &order, why, &mut tally).await;
        assert_eq!(race.shop.stock().await, (race.capacity, 0, 0));
    }
    assert!(0 < tally.cancelled && 0 < tally.refunded);
    race.shop.audit(race.capacity).await;
    eprintln!("{}: {ORDERS} orders taken back: {tally:?}", home.name());
}

/// Whatever was under way when the show was called off is seen to before anybody is told that all is done:
/// nothing comes after that.
async fn what_is_said_to_be_done_stays_so(home: Home) {
    let race = Race::open(&home).await;
    let mut rng = SmallRng::seed_from_u64(3);
    for round in 0..RUSHES {
        let buyers = 2 * BUYERS * round..2 * BUYERS * (round + 1);
        let buying = buyers.map(|buyer| race.buys_until_it_is_called_off(buyer << 32));
        let wait = Race::late(&mut rng);
        let ending = async {
            race.call_off(wait).await;
            race.until_it_is_done().await
        };
        let (_, said) = tokio::join!(join_all(buying), ending);
        race.until_it_is_quiet().await;
        assert_eq!((race.progress().await, race.events().await), said);
        race.call_on().await;
    }
    race.shop.audit(race.capacity).await;
}

/// Whoever reads what a show sells makes a pause at the end, as long as the test wants.
const PAUSE: &str = "alter table sections rename to all_sections;
  create function wait() returns boolean language plpgsql set lock_timeout = 0 as
    'begin
       if current_query() like ''%is_left%'' then perform pg_advisory_xact_lock_shared(1); end if;
       return true;
     end';
  create view sections as select * from all_sections where wait()";

/// Whoever asks for seats by name reads twice: what the show sells, and the seats. Where the show was called
/// off in between, and its seats have gone, that is what they are told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_by_name_while_the_show_is_called_off_is_told_so() {
    let Some(home) = Home::postgres().await else {
        return;
    };
    let shop = Arc::new(Shop::open(&home, &[("B", 2, true)]).await);
    let Db::Postgres(db) = &shop.db else {
        panic!("on PostgreSQL");
    };
    shop.run(PAUSE).await.unwrap();
    let mut gate = db.pool.begin().await.unwrap();
    let close = "select pg_advisory_xact_lock(1)";
    sqlx::query(close).execute(&mut *gate).await.unwrap();
    let wish = Wish::Named(vec!["B-1".to_owned(), "B-2".to_owned()]);
    let buyer = shop.clone();
    let holding = tokio::spawn(async move { buyer.hold_wish(1, wish).await });
    until_somebody_waits(&shop).await;
    shop.cancel().await;
    assert_eq!(shop.reconcile(&[]).await.seats, 0);
    assert!(!holding.is_finished(), "it waits");
    gate.rollback().await.unwrap();
    assert_eq!(holding.await.unwrap(), Err(Refusal::ShowCancelled));
}

/// Somebody waits for the lock that the test has.
async fn until_somebody_waits(shop: &Shop) {
    let waits = "select count(*) as waits from pg_locks l join pg_database d on d.oid = l.database
      where not l.granted and l.locktype = 'advisory' and d.datname = current_database()";
    while shop.db.rows(waits, &[]).await[0].number("waits") == 0 {
        sleep(Duration::from_millis(5)).await;
    }
}

/// Of a hold that takes its time: nobody is told that all is done until it is written, and taken back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_takes_its_time_is_not_overlooked() {
    let Some(home) = Home::postgres().await else {
        return;
    };
    let race = Arc::new(Race::open(&home).await);
    let Db::Postgres(db) = &race.shop.db else {
        panic!("on PostgreSQL");
    };
    let slow = "create function wait() returns trigger language plpgsql set lock_timeout = 0 as
        'begin perform pg_advisory_xact_lock_shared(1); return new; end';
      create trigger waits before insert on holds for each row execute function wait()";
    race.shop.run(slow).await.unwrap();
    let mut gate = db.pool.begin().await.unwrap();
    let close = "select pg_advisory_xact_lock(1)";
    sqlx::query(close).execute(&mut *gate).await.unwrap();
    let buyer = race.clone();
    let holding = tokio::spawn(async move { buyer.shop.hold(1, 2).await });
    until_somebody_waits(&race.shop).await;
    assert!(!holding.is_finished(), "it waits");
    race.call_off(Duration::ZERO).await;
    let looking = async {
        for _ in 0..10 {
            assert!(!race.progress().await.is_done(), "a hold is under way");
            sleep(Duration::from_millis(10)).await;
        }
        gate.rollback().await.unwrap();
    };
    let (said, ()) = tokio::join!(race.until_it_is_done(), looking);
    drop(holding.await.unwrap());
    assert_eq!((race.progress().await, race.events().await), said);
    race.shop.audit(0).await;
}
