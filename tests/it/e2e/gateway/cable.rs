//! The cable between gateway and shop is cut after the request, or in the middle of the reply: the
//! buyer asks again, and there is one hold, one order, one answer, and time enough to buy.

use serde_json::Value;

use crate::e2e::gateway::till::{HOLD_MS, Till};
use crate::support::cut::Fault;
use crate::support::database::on_every_database;

on_every_database! {
    Till:
    an_order_whose_answer_was_lost_is_one_order,
    a_hold_whose_answer_was_lost_is_told_again_and_can_be_ordered,
    whoever_comes_back_after_their_time_still_has_what_they_hold,
    beyond_their_ticket_only_those_who_hold_seats_may_order,
    another_attempt_to_pay_whose_answer_was_lost_is_one_attempt,
    seats_are_told_to_everybody_and_to_caches,
}

const HOLD: &str = r#"{"section":"B","quantity":2}"#;
/// How long a ticket lasts by itself.
const TICKET_MS: u64 = 300_000;
/// What the shop gives a buyer beyond the end of their hold.
const GRACE_MS: u64 = 60_000;

fn order(hold: &Value) -> String {
    let hold = hold.as_str().unwrap();
    format!(r#"{{"hold_id":"{hold}","customer":{{"email":"ana@example.com"}}}}"#)
}

fn is_lost(status: u16) -> bool {
    matches!(status, 502..=504)
}

/// Every place where an answer gets lost, and whether the shop had heard the question.
const FAULTS: [(Fault, bool); 4] = [
    (Fault::BeforeRequest, false),
    (Fault::AfterRequest, true),
    (Fault::MidReply(1), true),
    (Fault::MidReply(60), true),
];

async fn an_order_whose_answer_was_lost_is_one_order(till: Till) {
    for (fault, is_heard) in FAULTS {
        let ana = till.buyer().await;
        let held = till.ask(&ana, "POST holds", &[], HOLD).await.json();
        let order = order(&held["hold_id"]);
        till.cut.once(fault);
        let lost = till.ask(&ana, "POST orders", &[], &order).await;
        assert!(is_lost(lost.status), "{fault:?}: {lost:?}");

        let placed = till.ask(&ana, "POST orders", &[], &order).await;
        let expected = if is_heard { 200 } else { 201 };
        assert_eq!(placed.status, expected, "{fault:?}: {placed:?}");
        let again = till.ask(&ana, "POST orders", &[], &order).await;
        assert_eq!((again.status, &again.text), (200, &placed.text));
        let own = till.ask(&ana, "GET orders", &[], "").await.json();
        assert_eq!(own["orders"].as_array().unwrap().len(), 1);
        assert_eq!(own["orders"][0]["order_id"], placed.json()["order_id"]);
    }
    let placed = "select count(*) from outbox where type = 'OrderPlaced'";
    assert_eq!(till.count(placed).await, 4);
    assert_eq!(till.count("select count(*) from payments").await, 4);
    assert_eq!(till.cut.done(), 4);
}

async fn a_hold_whose_answer_was_lost_is_told_again_and_can_be_ordered(till: Till) {
    for (fault, is_heard) in FAULTS {
        for key in [None, Some(("idempotency-key", "a-key"))] {
            let ana = till.buyer().await;
            let headers: Vec<_> = key.into_iter().collect();
            till.cut.once(fault);
            let lost = till.ask(&ana, "POST holds", &headers, HOLD).await;
            assert!(is_lost(lost.status), "{fault:?}: {lost:?}");

            let again = till.ask(&ana, "POST holds", &headers, HOLD).await;
            let body = again.json();
            let hold = match (is_heard, key) {
                // Without a key the hold that nobody heard of is named.
                (true, None) => {
                    assert_eq!(again.word(), "too-many-holds");
                    &body["holds"][0]
                }
                (_, Some(_)) | (false, None) => {
                    assert_eq!(again.status, 201, "{fault:?}: {again:?}");
                    let is_replayed = again.header("idempotent-replayed") == "true";
                    assert_eq!(is_replayed, is_heard && key.is_some());
                    &body["hold_id"]
                }
            };
            // The `until` that got lost was told again: the admission outlives the hold.
            let status = till.door.status(&ana.pass).await.json();
            let left_ms = status["ticket_expires_in_ms"].as_u64().unwrap();
            assert!(
                HOLD_MS < left_ms && left_ms <= HOLD_MS + GRACE_MS,
                "{status}"
            );
            till.door.clock.advance_ms(HOLD_MS - 30_000);
            till.door.gateway.boards().step().await.unwrap();
            let placed = till.ask(&ana, "POST orders", &[], &order(hold)).await;
            assert_eq!(placed.status, 201, "{fault:?}: {placed:?}");
            till.give_back(&placed.json()["order_id"]).await;
        }
    }
    assert_eq!(till.count("select count(*) from holds").await, 8);
    assert_eq!(till.count("select count(*) from orders").await, 8);
}

/// The answer to a hold is lost, and with it what the shop said of the admission. The buyer comes back
/// only when their ticket would be over: the event of the hold has told the room.
async fn whoever_comes_back_after_their_time_still_has_what_they_hold(till: Till) {
    let ana = till.buyer().await;
    till.cut.once(Fault::AfterRequest);
    let lost = till.ask(&ana, "POST holds", &[], HOLD).await;
    assert!(is_lost(lost.status), "{lost:?}");
    till.tell_the_room().await;
    till.wait_ms(TICKET_MS + 30_000).await;
    let again = till.ask(&ana, "POST holds", &[], HOLD).await;
    assert_eq!(again.word(), "too-many-holds");
    till.wait_ms(HOLD_MS - TICKET_MS - 40_000).await;
    let order = order(&again.json()["holds"][0]);
    let placed = till.ask(&ana, "POST orders", &[], &order).await;
    assert_eq!(placed.status, 201, "{placed:?}");
}

/// Time is given for what is held, and for nothing else.
async fn beyond_their_ticket_only_those_who_hold_seats_may_order(till: Till) {
    let ana = till.buyer().await;
    let held = till.ask(&ana, "POST holds", &[], HOLD).await.json();
    let bia = till.buyer().await;
    till.wait_ms(TICKET_MS + 1_000).await;
    till.tell_the_room().await;
    let refused = till.ask(&bia, "POST holds", &[], HOLD).await;
    assert_eq!(
        (refused.status, refused.word().as_str()),
        (401, "ticket-required")
    );
    let order = order(&held["hold_id"]);
    let placed = till.ask(&ana, "POST orders", &[], &order).await;
    assert_eq!(placed.status, 201, "{placed:?}");
}

async fn another_attempt_to_pay_whose_answer_was_lost_is_one_attempt(till: Till) {
    let ana = till.buyer().await;
    let held = till.ask(&ana, "POST holds", &[], HOLD).await.json();
    let order = order(&held["hold_id"]).replace("}}", r#"},"payment":{"token":"decline"}}"#);
    let placed = till.ask(&ana, "POST orders", &[], &order).await.json();
    till.orders.settle().step().await.unwrap();
    let line = format!(
        "POST orders/{}/payment",
        placed["order_id"].as_str().unwrap()
    );
    till.cut.once(Fault::AfterRequest);
    let lost = till.ask(&ana, &line, &[], r#"{"token":"approve"}"#).await;
    assert!(is_lost(lost.status), "{lost:?}");
    let again = till.ask(&ana, &line, &[], r#"{"token":"approve"}"#).await;
    assert_eq!(again.word(), "in-progress");
    till.orders.settle().step().await.unwrap();
    let paid = till.ask(&ana, &line, &[], r#"{"token":"approve"}"#).await;
    assert_eq!(paid.json()["status"], "confirmed");
    assert_eq!(till.count("select count(*) from payments").await, 2);
}

async fn seats_are_told_to_everybody_and_to_caches(till: Till) {
    let ana = till.buyer().await;
    till.ask(&ana, "POST holds", &[], HOLD).await;
    let seats = till.door.get("/v1/shows/gala/seats", &[]).await;
    assert_eq!(seats.status, 200, "{seats:?}");
    assert_eq!(seats.header("cache-control"), "public, max-age=1");
    let expected = r#"{"show":"gala","sections":[{"name":"B","free":8,"held":2,"sold":0},{"name":"GA","free":10,"held":0,"sold":0}],"free":18,"as_of":"#;
    assert!(seats.text.starts_with(expected), "{}", seats.text);
    let again = till.door.get("/v1/shows/gala/seats", &[]).await;
    assert_eq!(again.text, seats.text, "one count for all who ask at once");
    for (path, word) in [
        ("/v1/shows/nowhere/seats", "no-such-show"),
        ("/v1/shows/gala/seats/B", "not-found"),
    ] {
        assert_eq!(till.door.get(path, &[]).await.word(), word, "{path}");
    }
    let posted = till
        .door
        .ask("POST", "/v1/shows/gala/seats", &[], "{}")
        .await;
    assert_eq!(posted.word(), "no-such-method");
}
