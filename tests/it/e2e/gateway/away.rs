//! While the room is away: the gate stays shut, the line stands still, and the board tells on.

use catraca::base::ids::FanId;
use catraca::base::limits::BATCH_QUEUE_MAX;
use catraca::base::time::Timestamp;
use catraca::room::model::command::{Joining, Origin};
use tokio::task::JoinSet;

use crate::e2e::gateway::door::{Answer, Door, show};

const ORDERS: &str = "/v1/shows/gala/orders";

fn is_away(answer: &Answer) -> bool {
    let says = (answer.status, answer.header("retry-after"));
    says == (503, "1") && answer.word() == "room-unavailable"
}

#[tokio::test]
async fn the_gate_stays_shut_and_the_board_tells_on() {
    let door = Door::open().await;
    let (ana, ticket) = door.admitted().await;
    let bia = door.new_fan().await;
    door.gateway.boards().step().await.unwrap();
    door.cable.cut();
    door.gateway.boards().step().await.unwrap_err();

    let headers = [
        ("x-catraca-pass", ana.pass.as_str()),
        ("x-admission-ticket", ticket.as_str()),
    ];
    assert!(is_away(&door.ask("POST", ORDERS, &headers, "{}").await));
    assert!(is_away(&door.join(&[]).await));
    assert!(is_away(
        &door
            .ask("DELETE", "/v1/shows/gala/place", &headers, "")
            .await
    ));
    assert!(door.shop.reached().is_empty());
    assert_eq!(door.get("/v1/shows/gala/board", &[]).await.status, 200);
    let waiting = door.status(&bia.pass).await;
    assert_eq!(
        (waiting.status, waiting.json()["state"].clone()),
        (200, "waiting".into())
    );
    let called = door.status(&ana.pass).await;
    assert_eq!(
        (called.status, called.json()["position"].clone()),
        (200, 1.into())
    );

    door.cable.mend();
    assert_eq!(door.ask("POST", ORDERS, &headers, "{}").await.status, 200);
    assert_eq!(door.status(&ana.pass).await.json()["state"], "admitted");
}

#[tokio::test]
async fn what_an_upstream_said_is_done_when_the_room_is_back() {
    let door = Door::open().await;
    let (ana, ticket) = door.admitted().await;
    let headers = [
        ("x-catraca-pass", ana.pass.as_str()),
        ("x-admission-ticket", ticket.as_str()),
    ];
    assert_eq!(door.ask("POST", ORDERS, &headers, "{}").await.status, 200); // live, and known to be
    for (says, waits) in [("until=1800000500000", 1), ("consumed", 2), ("nonsense", 2)] {
        door.shop.says(&[("catraca-admission", says)]);
        door.cable.cut();
        let status = door.ask("POST", ORDERS, &headers, "{}").await.status;
        let follow_ups = door.gateway.follow_ups();
        if says == "nonsense" {
            assert_eq!(
                status, 503,
                "a used admission is not taken for live from memory"
            );
        } else {
            assert_eq!((status, follow_ups.step().await), (200, waits), "{says}");
        }
    }
    door.cable.mend();
    assert_eq!(door.gateway.follow_ups().step().await, 0);
    assert_eq!(door.status(&ana.pass).await.json()["reason"], "used");
}

#[tokio::test]
async fn an_extension_is_worth_nothing_after_its_end() {
    let door = Door::open().await;
    let (ana, ticket) = door.admitted().await;
    let headers = [
        ("x-catraca-pass", ana.pass.as_str()),
        ("x-admission-ticket", ticket.as_str()),
    ];
    let past = Timestamp::from_unix_ms(1_800_000_000_000)
        .minus_ms(1)
        .as_millis();
    assert_eq!(door.ask("POST", ORDERS, &headers, "{}").await.status, 200);
    door.shop
        .says(&[("catraca-admission", &format!("until={past}"))]);
    door.cable.cut();
    assert_eq!(door.ask("POST", ORDERS, &headers, "{}").await.status, 200);
    assert_eq!(door.gateway.follow_ups().step().await, 0);
}

#[tokio::test]
async fn when_too_many_wait_for_one_answer_the_next_is_told_when_to_come() {
    let door = Door::open().await;
    let hold = door.cable.held.write().await;
    let mut asking = JoinSet::new();
    let ask = |n: u128| {
        let rooms = door.rooms.clone();
        let (fan, origin) = (FanId(n.to_be_bytes()), Origin::Minted);
        async move { rooms.join(&show(), Joining { fan, origin }).await }
    };
    // One is on its way to the room, having let others in first; these wait for the next batches.
    asking.spawn(ask(0));
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    for n in 1..=BATCH_QUEUE_MAX as u128 {
        asking.spawn(ask(n));
    }
    tokio::task::yield_now().await; // each has asked when it has run once
    let refused = door.join(&[]).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, "1"));
    assert_eq!(refused.word(), "busy");

    drop(hold);
    let answers = asking.join_all().await;
    assert_eq!(answers.len(), BATCH_QUEUE_MAX + 1);
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(door.join(&[]).await.status, 201);
}
