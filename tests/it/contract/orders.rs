//! Holds and orders: nobody gets a seat twice, whoever races whom.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use catraca::orders::rules::hold::Wish;
use catraca::orders::rules::order::Placed;
use catraca::orders::rules::{Refusal, SeatsTaken};
use catraca::orders::store::Reconciled;
use futures_util::future::{join, join_all, join3};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::contract::payment_provider::{Manner, Provider};
use crate::contract::shop::{HOLD_MS, Shop, sections_of};
use crate::contract::shop_home::{Home, on_every_database};

on_every_database!(
    the_last_seat_has_one_winner,
    seats_by_name_are_all_or_nothing_in_any_order,
    the_best_seats_are_neighbours_wherever_there_are_any,
    one_hold_is_one_order,
    one_ticket_is_one_order_that_counts,
    a_ticket_has_no_more_holds_than_it_may,
    a_hold_is_decided_by_what_is_so_now,
    a_hold_ends_once_however_often_it_is_ended,
    an_order_races_the_end_of_its_hold_and_the_next_buyer,
    seats_follow_the_settings_but_never_leave_their_owner,
    a_dropped_request_leaves_no_transaction_open,
    a_show_that_is_not_there_sells_nothing,
);

async fn the_last_seat_has_one_winner(home: Home) {
    let shop = Shop::open(&home, &[("B", 1, false)]).await;
    let held = join_all((0..100).map(|fan| shop.hold(fan, 1))).await;
    let winner = held.iter().position(Result::is_ok).unwrap();
    let in_a_cart = Refusal::SeatsTaken(SeatsTaken {
        taken: Vec::new(),
        free: Some(0),
        in_carts: true,
    });
    let losers = held.iter().filter(|told| **told == Err(in_a_cart.clone()));
    assert_eq!(
        losers.count(),
        99,
        "a cart may lapse: nothing is sold out yet"
    );
    shop.audit(1).await;

    let hold = held[winner].clone().unwrap();
    shop.order(winner as u64, hold.id).await.unwrap();
    assert_eq!(shop.hold(200, 1).await, Err(in_a_cart));
    shop.orders.settle().step().await.unwrap();
    assert_eq!(shop.hold(200, 1).await, Err(Refusal::SoldOut));
    shop.audit(1).await;
}

async fn seats_by_name_are_all_or_nothing_in_any_order(home: Home) {
    let shop = Shop::open(&home, &[("B", 4, true), ("GA", 2, false)]).await;
    let names = |names: &[&str]| Wish::Named(names.iter().map(|n| (*n).to_owned()).collect());
    let held = join_all((0..40).map(|fan| {
        let wish = match fan % 2 {
            0 => names(&["B-1", "B-2", "B-3"]),
            _ => names(&["B-3", "B-2", "B-1"]),
        };
        shop.hold_wish(fan, wish)
    }))
    .await;
    assert_eq!(held.iter().filter(|told| told.is_ok()).count(), 1);
    shop.audit(6).await;

    let overlapping = shop.hold_wish(50, names(&["B-3", "B-4"])).await;
    let taken = SeatsTaken {
        taken: vec!["B-3".to_owned()],
        free: None,
        in_carts: true,
    };
    assert_eq!(overlapping, Err(Refusal::SeatsTaken(taken)));
    for unknown in [names(&["B-9"]), names(&["GA-1"]), names(&["B-4", "B"])] {
        assert_eq!(shop.hold_wish(50, unknown).await, Err(Refusal::NotOnSale));
    }
    assert_eq!(shop.stock().await, (3, 3, 0));
    assert!(shop.hold_wish(50, names(&["B-4"])).await.is_ok());
    shop.audit(6).await;
}

async fn the_best_seats_are_neighbours_wherever_there_are_any(home: Home) {
    let shop = Shop::open(&home, &[("B", 2_500, true)]).await;
    shop.run(
        "insert into holds values ('x', 'show', '', '', '[]', 0, 'BRL', 'live', 0, 0, 1, 1);
         update seats set state = 'held', hold_id = 'x' where ordinal % 2 = 0 and ordinal < 2400",
    )
    .await
    .unwrap();
    // No run of two among the first thousand free seats: the whole section is looked at.
    let hold = shop.hold(1, 2).await.unwrap();
    assert_eq!(hold.seats, ["B-2399", "B-2400"]);
    assert_eq!(shop.hold(2, 1).await.unwrap().seats, ["B-1"]);
}

async fn one_hold_is_one_order(home: Home) {
    let shop = Shop::open(&home, &[("B", 10, false)]).await;
    let hold = shop.hold(1, 2).await.unwrap();
    let placed = join_all((0..50).map(|_| shop.order(1, hold.id))).await;
    let first = placed.iter().filter(|p| matches!(p, Ok(Placed::First(_))));
    assert_eq!(first.count(), 1);
    let facts = placed[0].as_ref().unwrap().order();
    assert!(placed.iter().all(|p| p.as_ref().unwrap().order() == facts));
    assert_eq!(shop.events(&facts.id.to_string()).await, ["OrderPlaced"]);
    assert_eq!(facts.total.decimal(), "780.00");
    shop.audit(10).await;

    assert_eq!(shop.order(2, hold.id).await, Err(Refusal::NoSuchHold));
    let released = shop.store.release(&shop.buyer(1), hold.id).await.unwrap();
    assert_eq!(released, Err(Refusal::HoldOrdered));
}

async fn one_ticket_is_one_order_that_counts(home: Home) {
    let shop = Shop::open(&home, &[("B", 10, false)]).await;
    shop.set(&[("B", 10, false)], 3).await;
    let mut holds = Vec::new();
    for _ in 0..3 {
        holds.push(shop.hold(1, 1).await.unwrap().id);
    }
    let placed = join_all(holds.iter().map(|hold| shop.order(1, *hold))).await;
    let first = placed.iter().filter(|p| matches!(p, Ok(Placed::First(_))));
    assert_eq!(first.count(), 1);
    let over = placed.iter().filter(|p| **p == Err(Refusal::TurnOver));
    assert_eq!(over.count(), 2);
    assert_eq!(shop.hold(1, 1).await, Err(Refusal::TurnOver));
    shop.audit(10).await;
    let second = "insert into orders select 'x', 'x', show, fan, ticket_id, email, locale, seats,
        total_minor, currency, 'confirmed', reason, 0, 0, 0, 1 from orders limit 1";
    let refused = shop.run(second).await.unwrap_err();
    assert!(refused.to_string().contains("ticket_id"), "{refused}");
}

async fn a_ticket_has_no_more_holds_than_it_may(home: Home) {
    let shop = Shop::open(&home, &[("B", 100, false)]).await;
    shop.set(&[("B", 100, false)], 2).await;
    let held = join_all((0..50).map(|_| shop.hold(1, 4))).await;
    let holds: Vec<_> = held.iter().flatten().map(|hold| hold.id).collect();
    assert_eq!(holds.len(), 2);
    assert_eq!(shop.stock().await, (92, 8, 0));
    // A lapsed hold no longer counts, even before the loop has ended it.
    shop.clock.advance_ms(HOLD_MS);
    assert!(shop.hold(1, 4).await.is_ok());
    shop.orders.expire().step().await.unwrap();
    assert_eq!(shop.stock().await, (96, 4, 0));
    shop.audit(100).await;

    // By name, each asks for other seats.
    shop.set(&[("B", 100, true)], 2).await;
    let named = |n: u64| Wish::Named(vec![format!("B-{}", n + 51)]);
    let held = join_all((0..20).map(|n| shop.hold_wish(2, named(n)))).await;
    assert_eq!(held.iter().filter(|told| told.is_ok()).count(), 2);
    let many = |told: &&Result<_, _>| matches!(told, Err(Refusal::TooManyHolds(_)));
    assert_eq!(held.iter().filter(many).count(), 18);
    shop.audit(100).await;
}

/// Whatever was seen by those who came before.
async fn a_hold_is_decided_by_what_is_so_now(home: Home) {
    let shop = Shop::open(&home, &[("B", 12, true)]).await;
    let first = shop.hold(1, 2).await.unwrap();
    assert_eq!(first.seats, ["B-1", "B-2"]);
    shop.run("update sections set price_minor = 100")
        .await
        .unwrap();
    let cheap = shop.hold(2, 2).await.unwrap();
    assert_eq!(cheap.total.decimal(), "2.00");
    let again = shop.hold(2, 2).await;
    assert!(matches!(again, Err(Refusal::TooManyHolds(_))), "{again:?}");
    shop.set(&[("B", 12, true)], 2).await;
    let second = shop.hold(2, 2).await.unwrap();
    assert_eq!(second.total.decimal(), "780.00");
    // Somebody else's process took all but the last.
    let other = Shop::open_again(&home).await;
    let left = [7, 8, 9, 10, 11].map(|n| format!("B-{n}"));
    other
        .hold_wish(3, Wish::Named(left.to_vec()))
        .await
        .unwrap();
    let last = shop.hold(4, 1).await.unwrap();
    assert_eq!(last.seats, ["B-12"]);
    let none = shop.hold(5, 1).await;
    assert!(matches!(none, Err(Refusal::SeatsTaken(_))), "{none:?}");
    let buyer = shop.buyer(1);
    shop.store.release(&buyer, first.id).await.unwrap().unwrap();
    assert_eq!(shop.hold(6, 2).await.unwrap().seats, ["B-1", "B-2"]);
    shop.audit(12).await;
    let buyer = shop.buyer(4);
    shop.store.release(&buyer, last.id).await.unwrap().unwrap();
    shop.cancel().await;
    assert_eq!(shop.hold(7, 1).await, Err(Refusal::ShowCancelled));
}

async fn a_hold_ends_once_however_often_it_is_ended(home: Home) {
    let shop = Shop::open(&home, &[("B", 4, false)]).await;
    let (one, two) = (
        shop.hold(1, 2).await.unwrap(),
        shop.hold(2, 2).await.unwrap(),
    );
    for _ in 0..5 {
        assert_eq!(
            shop.store.release(&shop.buyer(1), one.id).await.unwrap(),
            Ok(())
        );
        assert_eq!(shop.stock().await, (2, 2, 0));
    }
    let foreign = shop.store.release(&shop.buyer(1), two.id).await.unwrap();
    assert_eq!(foreign, Err(Refusal::NoSuchHold));
    shop.clock.advance_ms(HOLD_MS - 1);
    assert_eq!(shop.orders.expire().step().await.unwrap().holds, 0);
    shop.clock.advance_ms(1);
    assert_eq!(shop.order(2, two.id).await, Err(Refusal::HoldEnded));
    assert_eq!(shop.orders.expire().step().await.unwrap().holds, 1);
    assert_eq!(shop.orders.expire().step().await.unwrap().holds, 0);
    assert_eq!(shop.order(2, two.id).await, Err(Refusal::HoldEnded));
    assert_eq!(shop.stock().await, (4, 0, 0));
    shop.audit(4).await;
}

/// Row 119 of the hostile catalogue: of an order and the end of its hold one wins.
async fn an_order_races_the_end_of_its_hold_and_the_next_buyer(home: Home) {
    let shop = Shop::open(&home, &[("B", 1, true)]).await;
    for round in 0..60 {
        let hold = shop.hold(2 * round, 1).await.unwrap();
        shop.clock.advance_ms(HOLD_MS - 1 + round % 3);
        let expire = shop.orders.expire();
        let (placed, ended, next) = join3(
            shop.order(2 * round, hold.id),
            expire.step(),
            shop.hold(2 * round + 1, 1),
        )
        .await;
        assert_eq!(placed.is_ok(), round % 3 == 0, "{placed:?}");
        assert!(placed.is_err() || next.is_err(), "one owner");
        assert_eq!(placed.is_ok(), ended.unwrap().holds == 0);
        shop.audit(1).await;
        // Empty the cart for the next round: what was ordered is declined for good by time.
        shop.run("update payments set state = 'declined'")
            .await
            .unwrap();
        shop.clock.advance_ms(HOLD_MS);
        expire.step().await.unwrap();
        assert_eq!(shop.stock().await, (1, 0, 0));
    }
}

async fn seats_follow_the_settings_but_never_leave_their_owner(home: Home) {
    let shop = Shop::open(&home, &[("B", 4, true), ("GA", 3, false)]).await;
    let reconcile = async |sections: &[(&str, u32, bool)]| {
        let sections = sections_of(sections);
        let done = shop.reconcile(&sections).await;
        (done, shop.stock().await)
    };
    let all = |seats, kept| Reconciled { seats, kept };
    let same = reconcile(&[("B", 4, true), ("GA", 3, false)]).await;
    assert_eq!(same, (all(7, 0), (7, 0, 0)));
    let more = reconcile(&[("B", 6, true), ("GA", 3, false), ("C", 1, true)]).await;
    assert_eq!(more, (all(10, 0), (10, 0, 0)));

    let wish = Wish::Named(vec!["B-5".to_owned(), "B-6".to_owned()]);
    let hold = shop.hold_wish(1, wish).await.unwrap();
    assert_eq!(reconcile(&[("B", 3, true)]).await, (all(3, 0), (1, 2, 0)));
    assert_eq!(reconcile(&[("B", 1, true)]).await, (all(2, 1), (0, 2, 0)));
    assert_eq!(reconcile(&[]).await, (all(2, 2), (0, 2, 0)));
    shop.audit(2).await;
    shop.store
        .release(&shop.buyer(1), hold.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(reconcile(&[("B", 3, true)]).await, (all(3, 0), (3, 0, 0)));
    let wish = Wish::Named(["B-1", "B-5", "B-6"].map(str::to_owned).to_vec());
    assert!(
        shop.hold_wish(1, wish).await.is_ok(),
        "the lowest that were missing came back"
    );
    assert_eq!(reconcile(&[("B", 0, true)]).await.0, all(3, 3));
}

async fn a_dropped_request_leaves_no_transaction_open(home: Home) {
    let shop = Shop::open(&home, &[("B", 1_000, false)]).await;
    for fan in 0..200 {
        // Dropped after so many polls: waiting for the writer, beginning, writing, done.
        let mut request = pin!(shop.hold(fan, 1));
        for _ in 0..fan % 20 {
            let polled = poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx))).await;
            if polled.is_ready() {
                break;
            }
            yield_now().await;
        }
        // What was dropped goes on. Fewer than there are connections are left to it, so that the next one
        // waits for none, however slow the machine is.
        if fan % 10 == 9 {
            let next = timeout(Duration::from_secs(10), shop.hold(1_000 + fan, 1)).await;
            assert!(next.unwrap().is_ok(), "the writer is free");
        }
    }
    // Closing waits for the units that outlived their requests.
    timeout(Duration::from_secs(10), shop.db.close())
        .await
        .unwrap();
    let shop = shop.reopen(Arc::new(Provider::new(Manner::Approves))).await;
    let (_, held, _) = shop.stock().await;
    assert!(20 < held && held <= 220);
    shop.audit(1_000).await;
}

async fn a_show_that_is_not_there_sells_nothing(home: Home) {
    let shop = Shop::open(&home, &[("B", 1, false)]).await;
    let wish = Wish::Best {
        section: "Z".to_owned(),
        quantity: 1,
    };
    assert_eq!(shop.hold_wish(1, wish).await, Err(Refusal::NotOnSale));
    shop.run("delete from shows").await.unwrap();
    let (held, ordered) = join(
        shop.hold(1, 1),
        shop.order(1, catraca::base::ids::IdSource::seeded(1).hold(shop.now())),
    )
    .await;
    assert_eq!(held, Err(Refusal::NoSuchShow));
    assert_eq!(ordered, Err(Refusal::NoSuchShow));
}
