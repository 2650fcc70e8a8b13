//! What the sale leaves when gate, shop or log have lost one of their rules: `check` names that
//! promise and no other.

use catraca::check::Promise;
use serde_json::json;

use crate::sim::check::expect;
use crate::sim::check_sale::{Deal, Sale};
use crate::sim::check_trail::{at, line};

#[tokio::test]
async fn without_gate() {
    let mut sale = Sale::clean().await;
    sale.hold(Deal::of(10)).await;
    expect(sale, Promise::Gate, "the ledger never let this fan in").await;
    let mut sale = Sale::clean().await;
    sale.hold(Deal {
        ticket: 4,
        ..Deal::of(9)
    })
    .await;
    expect(sale, Promise::Gate, "which is fan").await;
    let mut sale = Sale::clean().await;
    sale.history
        .push(line("probe", 30, 1_100, json!({"status": 201})));
    expect(sale, Promise::Gate, "answered 201, not 401").await;
}

#[tokio::test]
async fn without_the_lock_on_seats() {
    let mut sale = Sale::clean().await;
    sale.hold(Deal {
        seat: 4,
        ..Deal::of(9)
    })
    .await;
    expect(
        sale,
        Promise::NoOversell,
        "seat A-4 of show gala is taken twice",
    )
    .await;
    let sale = Sale::clean().await;
    sale.run("update seats set state = 'held', hold_id = '00000000-0000-0000-0000-000000000007' where seat = 'A-7'")
        .await;
    expect(
        sale,
        Promise::NoOversell,
        "no live hold and no order has it",
    )
    .await;
}

#[tokio::test]
async fn without_one_order_a_ticket() {
    let mut sale = Sale::clean().await;
    sale.run("drop index orders_ticket_id").await;
    let second = Deal {
        id: 99,
        seat: 9,
        ..Deal::of(1)
    };
    sale.hold(second).await;
    sale.buy(second).await;
    expect(sale, Promise::OneOrder, "and both count").await;
    let mut sale = Sale::clean().await;
    let mut other = sale.answer(Deal::of(1));
    other["seats"] = json!(["A-9"]);
    sale.history.push(other);
    expect(sale, Promise::OneOrder, "was answered seats").await;
}

#[tokio::test]
async fn without_one_transaction_for_order_and_event() {
    let mut sale = Sale::clean().await;
    sale.hold(Deal::of(9)).await;
    sale.order(Deal::of(9)).await;
    sale.pay(Deal::of(9)).await;
    expect(sale, Promise::OrderEvent, "its events end with pending").await;
    let mut sale = Sale::clean().await;
    sale.rumour(Deal::of(9)).await;
    expect(sale, Promise::OrderEvent, "which is none").await;
}

#[tokio::test]
async fn without_inbox() {
    let sale = Sale::clean().await;
    let mail = sale.mail(Deal::of(1).order());
    std::fs::copy(&mail, mail.with_extension("again.eml")).unwrap();
    expect(sale, Promise::EventsDelivered, "had two messages").await;
    let sale = Sale::clean().await;
    sale.run(
        "delete from processed_events where event_id in (select event_id from notices limit 1)",
    )
    .await;
    expect(
        sale,
        Promise::EventsDelivered,
        "neither its inbox nor a dead letter",
    )
    .await;
}

#[tokio::test]
async fn with_marks_before_acks() {
    let sale = Sale::clean().await;
    sale.run(
        "update log_groups set offset = offset - 1 where partition =
             (select partition from outbox where type = 'StockChanged');
         delete from outbox_log where seq = (select seq from outbox where type = 'StockChanged');",
    )
    .await;
    expect(sale, Promise::EventsDelivered, "marked as sent up to there").await;
}

#[tokio::test]
async fn with_two_relays_for_a_key() {
    let sale = Sale::clean().await;
    let order = Deal::of(1).order();
    sale.run(&format!(
        "create temp table two as select seq from outbox where aggregateid = '{order}';
         update outbox_log set seq = -seq where seq in (select seq from two);
         update outbox_log set seq = (select sum(seq) from two) + seq where seq < 0;"
    ))
    .await;
    expect(
        sale,
        Promise::EventsDelivered,
        "with version 1 after version 2",
    )
    .await;
}

#[tokio::test]
async fn with_messages_nobody_retries() {
    let sale = Sale::clean().await;
    let order = Deal::of(2).order();
    sale.run(&format!("delete from notices where order_id = '{order}'"))
        .await;
    std::fs::remove_file(sale.mail(order)).unwrap();
    expect(
        sale,
        Promise::EventsDelivered,
        "neither notice nor dead letter",
    )
    .await;
}

#[tokio::test]
async fn without_dead_letters() {
    let sale = Sale::clean().await;
    let late = at(60_000).as_millis();
    sale.run(&format!(
        "update log_groups as g set offset = (select offset from dead_letters)
         where consumer = 'notify' and partition = (select partition from dead_letters);
         update processed_events set at_ms = {late};
         delete from dead_letters;"
    ))
    .await;
    expect(sale, Promise::PoisonContained, "notify stands at").await;
    let sale = Sale::clean().await;
    sale.run("update dead_letters set reason = ''").await;
    expect(sale, Promise::PoisonContained, "has no reason").await;
}
