//! Seats follow the show's settings while they are sold: never fewer than somebody has, and what was
//! sold keeps its price.

use catraca::orders::rules::Refusal;
use catraca::orders::rules::hold::Wish;
use catraca::orders::store::{Reconciled, StoreError};

use crate::contract::shop::{Shop, sections_of};
use crate::contract::shop_home::{Home, on_every_database};

on_every_database!(
    seats_come_and_go_and_nobody_loses_one,
    a_section_with_sales_keeps_its_currency,
    whoever_follows_old_settings_changes_nothing,
    what_comes_back_of_a_withdrawn_section_is_sold_to_nobody,
    availability_knows_which_shows_there_are,
);

async fn seats_come_and_go_and_nobody_loses_one(home: Home) {
    let shop = Shop::open(&home, &[("B", 6, true)]).await;
    let sold = shop.bought(1, 2, None).await;
    shop.orders.settle().step().await.unwrap();
    let held = shop.hold(2, 2).await.unwrap();
    for (sections, seats, kept, stock) in [
        (&[("B", 8, true)][..], 8, 0, (4, 2, 2)),
        (&[("B", 8, true), ("C", 5, false)], 13, 0, (9, 2, 2)),
        (&[("B", 5, true), ("C", 5, false)], 10, 0, (6, 2, 2)),
        (&[("B", 3, true), ("C", 5, false)], 9, 1, (5, 2, 2)),
        (&[("C", 5, false)], 9, 4, (5, 2, 2)),
        (&[("B", 4, true)], 4, 0, (0, 2, 2)),
        (&[("C", 1, false)], 5, 4, (1, 2, 2)),
    ] {
        let done = shop.reconcile(&sections_of(sections)).await;
        assert_eq!(done, Reconciled { seats, kept }, "{sections:?}");
        assert_eq!(shop.stock().await, stock, "{sections:?}");
        shop.audit(seats).await;
    }
    // What comes back of a section that is not for sale any more goes.
    let buyer = shop.buyer(2);
    shop.store.release(&buyer, held.id).await.unwrap().unwrap();
    shop.store.cancel(sold.id).await.unwrap().unwrap();
    let done = shop.reconcile(&sections_of(&[("C", 1, false)])).await;
    assert_eq!(done, Reconciled { seats: 1, kept: 0 });
    shop.audit(1).await;
}

async fn a_section_with_sales_keeps_its_currency(home: Home) {
    let shop = Shop::open(&home, &[("B", 6, true)]).await;
    let hold = shop.hold(1, 2).await.unwrap();
    let mut dollars = sections_of(&[("B", 6, true), ("C", 2, true)]);
    for section in &mut dollars {
        section.price = serde_json::from_str(r#"{"amount":5.00,"currency":"USD"}"#).unwrap();
    }
    shop.decide(&dollars, 1).await;
    shop.reconcile(&dollars).await;
    let more = shop.hold(2, 1).await.unwrap();
    assert_eq!(
        more.total.currency.code(),
        "BRL",
        "somebody has seats of it"
    );
    let mixed = Wish::Named(vec!["B-5".to_owned(), "C-1".to_owned()]);
    assert_eq!(shop.hold_wish(3, mixed).await, Err(Refusal::NotOnSale));
    for (fan, hold) in [(1, hold), (2, more)] {
        let buyer = shop.buyer(fan);
        shop.store.release(&buyer, hold.id).await.unwrap().unwrap();
    }
    shop.reconcile(&dollars).await;
    let new = shop.hold(4, 1).await.unwrap();
    assert_eq!(new.total.currency.code(), "USD", "nobody had any");
    shop.audit(8).await;
}

/// Two processes follow the settings; one of them read them before they were changed, and comes last.
async fn whoever_follows_old_settings_changes_nothing(home: Home) {
    let shop = Shop::open(&home, &[("B", 6, true), ("C", 2, true)]).await;
    let old = shop.version().await;
    shop.set(&[("B", 4, true)], 1).await;
    let slow = sections_of(&[("B", 6, true), ("C", 2, true)]);
    let late = shop.store.reconcile(&shop.show, old, &slow).await;
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    assert_eq!(shop.stock().await, (4, 0, 0));
    // Nor does the one who has not heard yet that the show was called off.
    let old = shop.version().await;
    shop.cancel().await;
    let late = shop.store.reconcile(&shop.show, old, &slow[..1]).await;
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    assert_eq!(shop.reconcile(&slow).await.seats, 0);
}

/// Whether the loop that follows the settings has come by since or not.
async fn what_comes_back_of_a_withdrawn_section_is_sold_to_nobody(home: Home) {
    let shop = Shop::open(&home, &[("B", 4, true), ("C", 1, true)]).await;
    let best = |section: &str| Wish::Best {
        section: section.to_owned(),
        quantity: 1,
    };
    let hold = shop.hold(1, 2).await.unwrap();
    // Somebody sees the rest of it, which another buyer of the process would be given.
    let other = shop.hold(2, 1).await.unwrap();
    let left = sections_of(&[("C", 1, true)]);
    shop.decide(&left, 1).await;
    let by_name = || Wish::Named(vec![hold.seats[0].clone()]);
    for is_reconciled in [false, true] {
        if is_reconciled {
            assert_eq!(shop.reconcile(&left).await.kept, 3);
            let buyer = shop.buyer(1);
            shop.store.release(&buyer, hold.id).await.unwrap().unwrap();
        }
        for wish in [best("B"), by_name(), Wish::Named(vec!["B-4".to_owned()])] {
            let told = shop.hold_wish(3, wish.clone()).await;
            assert_eq!(told, Err(Refusal::NotOnSale), "{wish:?}");
        }
    }
    shop.hold_wish(3, best("C")).await.unwrap();
    let placed = shop.order(2, other.id).await;
    placed.expect("what is held may still be bought");
    shop.audit(4).await;
    let gone = Reconciled { seats: 2, kept: 1 };
    assert_eq!(shop.reconcile(&left).await, gone);
    shop.audit(2).await;
}

async fn availability_knows_which_shows_there_are(home: Home) {
    let shop = Shop::open(&home, &[("B", 2, true)]).await;
    let nowhere = "nowhere".parse().unwrap();
    assert_eq!(shop.store.availability(&nowhere).await.unwrap(), None);
    shop.reconcile(&[]).await;
    let empty = shop.store.availability(&shop.show).await.unwrap();
    assert_eq!(empty.unwrap().sections, [], "a show without seats");
}
