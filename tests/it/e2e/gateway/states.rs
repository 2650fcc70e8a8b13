//! What the gate does in each state of a room, and that docs/gate.md says so.

use catraca::base::time::Clock;
use catraca::gateway::settings::Degraded;
use catraca::room::model::command::{AfterRevoke, RoomState};

use crate::e2e::gateway::door::{Ana, Door, PATIENCE, Plan, show};

const ORDERS: &str = "/v1/shows/gala/orders";
/// The lines of the page's table begin like this.
const PAGE: &str = include_str!("../../../../docs/gate.md");
/// Of a ticket's five minutes, those after which the others come in.
const APART_MS: u64 = 200_000;

/// How a room can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Is(RoomState),
    Unfenced,
    Away,
    OffAfterALoss,
}

const ROOMS: [(&str, Room, Degraded); 13] = [
    ("early", Room::Is(RoomState::Early), Degraded::Closed),
    ("open", Room::Is(RoomState::Open), Degraded::Closed),
    ("paused", Room::Is(RoomState::Paused), Degraded::Closed),
    ("sold_out", Room::Is(RoomState::SoldOut), Degraded::Closed),
    ("closed", Room::Is(RoomState::Closed), Degraded::Closed),
    (
        "restoring",
        Room::Is(RoomState::Restoring),
        Degraded::Closed,
    ),
    ("unfenced", Room::Unfenced, Degraded::Closed),
    ("away", Room::Away, Degraded::Closed),
    ("off", Room::Is(RoomState::Off), Degraded::Closed),
    ("off after a loss", Room::OffAfterALoss, Degraded::Closed),
    ("degraded: unfenced", Room::Unfenced, Degraded::Signature),
    ("degraded: away", Room::Away, Degraded::Signature),
    (
        "degraded: off after a loss",
        Room::OffAfterALoss,
        Degraded::Signature,
    ),
];

async fn bring(door: &Door, room: Room) {
    match room {
        Room::Is(RoomState::Open) => {}
        Room::Is(state) => {
            door.turn(9, state).await;
            let board = door.rooms.board(&show()).await.unwrap();
            assert_eq!(board.state, state);
        }
        Room::Unfenced => door.cable.unfence(),
        Room::Away => door.cable.cut(),
        Room::OffAfterALoss => {
            door.turn(9, RoomState::Off).await;
            door.cable.unfence();
            let closes = async {
                while buys(door, &[]).await.starts_with("200") {
                    tokio::time::sleep(PATIENCE / 200).await;
                }
            };
            let closed = tokio::time::timeout(PATIENCE, closes).await;
            closed.expect("the gate closes while nobody can be asked");
        }
    }
}

/// The status, whether a new ticket goes with it, and what the answer says of the room.
async fn buys(door: &Door, headers: &[(&str, &str)]) -> String {
    let answer = door.ask("POST", ORDERS, headers, "{}").await;
    if answer.status == 503 {
        assert_eq!(answer.header("retry-after"), "1");
    }
    let new = match answer.header("x-admission-ticket") {
        "" => "",
        _ => " new",
    };
    let said = format!("{}{new} {}", answer.status, answer.header("catraca-room"));
    said.trim().to_owned()
}

/// The line of the table, found out by asking. No gateway has seen these tickets before.
async fn line(name: &str, room: Room, degraded: Degraded) -> String {
    let mut plan = Plan::default();
    plan.settings.degraded = degraded;
    let door = Door::planned(plan).await;
    let (expired, extended) = (door.admitted().await, door.admitted().await);
    door.clock.advance_ms(APART_MS);
    door.gateway.boards().step().await.unwrap();
    let until = door.clock.now().plus_ms(3 * APART_MS);
    door.rooms
        .extend(&show(), extended.0.fan, until)
        .await
        .unwrap();
    let (live, revoked) = (door.admitted().await, door.admitted().await);
    let out = AfterRevoke::Out;
    let fans = vec![revoked.0.fan];
    door.rooms.revoke(&show(), fans, out).await.unwrap();
    door.clock.advance_ms(APART_MS);
    door.gateway.boards().step().await.unwrap();
    bring(&door, room).await;
    let mut cells = vec![buys(&door, &[]).await];
    for (Ana { pass, .. }, ticket) in [&live, &extended, &revoked, &expired] {
        let headers = [
            ("x-catraca-pass", &**pass),
            ("x-admission-ticket", &**ticket),
        ];
        cells.push(buys(&door, &headers).await);
    }
    format!("| {name} | {} |", cells.join(" | "))
}

#[tokio::test]
async fn the_gate_is_as_the_page_says() {
    for (name, room, degraded) in ROOMS {
        let line = line(name, room, degraded).await;
        assert!(PAGE.contains(&line), "docs/gate.md does not say\n{line}");
    }
    let told = PAGE.lines().filter(|line| line.starts_with("| ")).count();
    assert_eq!(told, ROOMS.len() + 2, "every line is asked for");
}
