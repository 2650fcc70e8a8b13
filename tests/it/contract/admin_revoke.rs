//! An operator ends one fan's turn: who may, what it comes to, and that it is written down.

use catraca::room::model::command::{Checked, Joined, Origin, RoomState};
use serde_json::{Value, json};

use crate::contract::admin::{World, settings};
use crate::contract::room::joining;
use crate::model::world::{fan, new_room, settings as room_settings, tick};
use crate::support::database::{self, on_every_database};

on_every_database! {
    World:
    a_fans_turn_is_ended_once_and_by_name,
}

async fn a_fans_turn_is_ended_once_and_by_name(world: World) {
    let made = world.ask("admin", "PUT /admin/v1/shows/s", None, settings());
    assert_eq!(made.await.0, 201);
    let revoke = "POST /admin/v1/shows/s/revoke";
    let (inside, waiting, unknown) = (fan(1), fan(2), fan(3));
    let of = |id| json!({ "fan": id });
    let unfenced = world.ask("operator", revoke, None, of(inside)).await;
    assert_eq!(
        (unfenced.0.as_u16(), word(&unfenced.2)),
        (503, "room-unavailable")
    );

    let show = "s".parse().unwrap();
    for step in new_room(room_settings(), RoomState::Open) {
        world.rooms.mend(&show, step).await.unwrap();
    }
    for n in 1..=2 {
        let joined = world.rooms.join(&show, joining(n, Origin::Minted)).await;
        assert!(matches!(joined.unwrap(), Joined::New { .. }));
    }
    world.rooms.tick(&show, tick(1)).await.unwrap();
    world.rooms.claim(&show, inside).await.unwrap();
    let returned = json!({ "fan": inside, "then": "returned" });
    for (token, body, status, said) in [
        ("viewer", of(inside), 403, "role-too-low"),
        ("operator", json!({}), 422, "unprocessable"),
        ("operator", json!({ "fan": "x" }), 422, "unprocessable"),
        (
            "operator",
            json!({ "fan": inside, "then": "up" }),
            422,
            "unprocessable",
        ),
        (
            "operator",
            json!({ "fan": inside, "why": "x" }),
            422,
            "unprocessable",
        ),
        ("operator", of(unknown), 404, "no-such-fan"),
        ("operator", returned.clone(), 200, "now"),
        ("operator", returned, 200, "before"),
        ("operator", of(inside), 200, "now"), // they were in line again
        ("operator", of(inside), 200, "before"),
        ("admin", of(waiting), 200, "now"),
    ] {
        let (answered, _, told) = world.ask(token, revoke, None, body.clone()).await;
        assert_eq!(answered.as_u16(), status, "{token} {body}: {told}");
        let told = told["revoked"].as_str().unwrap_or_else(|| word(&told));
        assert_eq!(told, said, "{token} {body}");
    }
    let checked = world.rooms.check(&show, inside).await.unwrap();
    assert_eq!(checked, Checked::NotLive);
    let nowhere = "POST /admin/v1/shows/t/revoke";
    let (status, _, told) = world.ask("operator", nowhere, None, of(inside)).await;
    assert_eq!((status.as_u16(), word(&told)), (404, "no-such-show"));

    let rows = "select who, action, detail from audit where action = 'revoke' order by id";
    let rows: Vec<(String, String, String)> = database::all(&world.db, rows).await;
    let acts: Vec<Value> = rows
        .iter()
        .map(|(_, _, detail)| serde_json::from_str(detail).unwrap())
        .collect();
    // Also what came to nothing: it was tried.
    assert_eq!(acts.len(), 7, "{rows:?}");
    assert_eq!(rows[6].0, "a admin");
    assert_eq!(
        acts[2],
        json!({ "show": "s", "fan": inside, "then": "returned" })
    );
}

/// The last part of a problem's type.
fn word(told: &Value) -> &str {
    let all = told["type"].as_str().unwrap_or_default();
    all.rsplit(':').next().unwrap_or_default()
}
