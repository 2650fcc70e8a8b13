//! `check` on a sale that was kept to the rules, and on data that is incomplete, in use or foreign.

use std::collections::BTreeSet;

use catraca::check::{CheckError, Finding, Promise, Verdict, render};
use serde_json::json;

use crate::sim::check_sale::Sale;

/// The promises that are broken.
fn broken(verdicts: &[Verdict]) -> BTreeSet<Promise> {
    let broken = verdicts
        .iter()
        .filter(|verdict| verdict.finding() == Finding::Broken);
    broken.map(|verdict| verdict.promise).collect()
}

/// Fails unless `check` names this promise, no other, and says this.
pub(crate) async fn expect(sale: Sale, promise: Promise, says: &str) {
    let verdicts = sale.verdicts().await;
    assert_eq!(
        broken(&verdicts),
        BTreeSet::from([promise]),
        "{}",
        render(&verdicts)
    );
    let example = verdicts
        .iter()
        .find_map(|verdict| verdict.broken.as_deref())
        .unwrap();
    assert!(example.contains(says), "{example:?} should say {says:?}");
}

#[tokio::test]
async fn a_faultless_sale_is_clean() {
    let sale = Sale::clean().await;
    let verdicts = sale.verdicts().await;
    let findings: Vec<Finding> = verdicts.iter().map(Verdict::finding).collect();
    assert_eq!(findings, [Finding::Clean; 12], "{}", render(&verdicts));
    insta::assert_snapshot!(render(&verdicts), @r"
     1  one place         clean     36 turns of clients, 30 calls
     2  real-time order   clean     36 joins
     3  nothing lost      clean     1 restarts, 30 answers with JavaScript, 26 answers without, 2 answers about holds and orders
     4  exact rate        clean     30 calls, 2 s in which only the rate limited
     5  in turn           clean     30 calls, 1 of them to fans who had come back
     6  capacity          clean     30 ticks with calls
     7  gate              clean     6 holds, 4 orders, 1 requests without a good ticket refused
     9  no oversell       clean     6 seats free, 1 held, 3 sold
    10  one order         clean     4 orders, 3 tickets with an order that counts, 1 repeated answers
    11  order and event   clean     16 events, 6 holds, 4 orders
    12  events delivered  clean     16 events, 16 in the log, 0 in quarantine, 16 read by notify, 16 read by stock, 3 orders confirmed, 3 notices, 3 messages
    13  poison contained  clean     1 dead letters, 0 of them replayed, 0 events in quarantine, 2 consumers

    12 promises: 12 clean, 0 unproved, 0 broken
    ");
}

#[tokio::test]
async fn what_is_missing_is_never_clean() {
    let sale = Sale::clean().await;
    sale.run("delete from room_ledger where seq > 8").await;
    std::fs::remove_dir_all(sale.path("mailbox")).unwrap();
    std::fs::remove_file(sale.path("room.db")).unwrap();
    let verdicts = sale.verdicts().await;
    assert_eq!(broken(&verdicts), BTreeSet::new(), "{verdicts:#?}");
    for promise in [
        Promise::NothingLost,
        Promise::Gate,
        Promise::EventsDelivered,
    ] {
        let verdict = verdicts
            .iter()
            .find(|verdict| verdict.promise == promise)
            .unwrap();
        assert_eq!(verdict.finding(), Finding::Unproved, "{verdict:?}");
    }
}

#[tokio::test]
async fn a_lost_generation_is_unproved_with_its_length() {
    let sale = Sale::clean().await;
    sale.run(
        "update room_ledger set generation = 2, seq = seq - 30 where seq > 30;
         update shows set generation = 2",
    )
    .await;
    let verdicts = sale.verdicts().await;
    assert_eq!(broken(&verdicts), BTreeSet::new(), "{verdicts:#?}");
    let text = render(&verdicts);
    assert!(
        text.contains("generation 1 was lost after its entry 30: entries of the"),
        "{text}"
    );
}

#[tokio::test]
async fn data_in_use_is_read_as_it_was_last_committed() {
    let sale = Sale::clean().await;
    let mut tx = sale.db.begin().await.unwrap();
    sqlx::query("delete from orders")
        .execute(&mut *tx)
        .await
        .unwrap();
    assert_eq!(broken(&sale.verdicts().await), BTreeSet::new());
    tx.commit().await.unwrap();
    assert!(broken(&sale.verdicts().await).contains(&Promise::OrderEvent));
}

#[tokio::test]
async fn what_cannot_be_read_is_said() {
    let mut sale = Sale::clean().await;
    sale.history = vec![json!({"op": "join"})];
    let error = sale.load().await.unwrap_err();
    assert!(
        matches!(&error, CheckError::Foreign { what, .. } if what.starts_with("line 1")),
        "{error}"
    );

    let sale = Sale::clean().await;
    sale.run("update orders set fan = 'nobody' where seats like '%A-1\"%'")
        .await;
    let error = sale.load().await.unwrap_err();
    assert!(
        matches!(&error, CheckError::Foreign { what, .. } if what.contains("fan")),
        "{error}"
    );

    let sale = Sale::clean().await;
    std::fs::remove_file(sale.path("catraca.db")).unwrap();
    let error = sale.load().await.unwrap_err();
    assert!(matches!(error, CheckError::Database { .. }), "{error}");
}
