//! What an operator decides of a draw, and what nobody but we may know of it.

use http::StatusCode;
use serde_json::{Value, json};

use crate::contract::admin::{World, settings};
use crate::support::database::{self, on_every_database};

on_every_database! {
    World:
    a_draw_is_decided_at_creation_and_its_secret_is_nobody_elses,
}

async fn a_draw_is_decided_at_creation_and_its_secret_is_nobody_elses(world: World) {
    let mut draw = settings();
    draw["draw"] = json!(true);
    draw["beacon"] = json!("drand quicknet, round 912");
    let line = "PUT /admin/v1/shows/gala";
    let (status, _, body) = world.ask("admin", line, None, draw.clone()).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    for change in [
        json!({"draw": false}),
        json!({"beacon": null}),
        json!({"beacon": "other"}),
    ] {
        let line = "PATCH /admin/v1/shows/gala";
        let (status, _, body) = world.ask("admin", line, None, change.clone()).await;
        assert_eq!(status, 422, "{change}: {body}");
        let detail = body["detail"].as_str().unwrap();
        assert!(detail.contains("fixed at creation"), "{body}");
    }
    let beacon = |value: &str| json!({ "value": value });
    let enter = "POST /admin/v1/shows/gala/beacon";
    for (token, value, status, word) in [
        ("viewer", "5f", 403, "role-too-low"),
        ("operator", " 5f", 422, "settings-refused"),
        ("operator", "5f", 409, "no-beacon"), // nobody has sealed it yet
    ] {
        let (answered, _, body) = world.ask(token, enter, None, beacon(value)).await;
        assert_eq!(answered, status, "{body}");
        assert!(body["type"].as_str().unwrap().ends_with(word), "{body}");
    }
    let (secret, seal) = ("5e".repeat(32), "c0".repeat(32));
    let draw = format!(
        "insert into draws (show, edition, secret, commitment) values ('gala', 1, '{secret}', '{seal}')"
    );
    database::run(&world.db, &draw).await;
    let (answered, _, body) = world.ask("operator", enter, None, beacon("5f")).await;
    assert_eq!(answered, 409);
    assert!(
        body["type"].as_str().unwrap().ends_with("draw-not-frozen"),
        "{body}"
    );
    database::run(&world.db, "update draws set size = 9").await;
    for (value, status) in [("5f", 200), ("5f", 200), ("60", 409)] {
        let (answered, _, body) = world.ask("operator", enter, None, beacon(value)).await;
        assert_eq!(answered, status, "{body}");
    }
    let read = "GET /admin/v1/shows/gala";
    let (_, _, body) = world.ask("viewer", read, None, Value::Null).await;
    assert_eq!(
        body["draw"],
        json!({"commitment": seal, "secret": "***", "size": 9, "beacon_value": "5f", "seed": null})
    );
    database::run(&world.db, "update draws set seed = commitment").await;
    let (_, _, body) = world.ask("viewer", read, None, Value::Null).await;
    assert_eq!(
        body["draw"]["secret"],
        json!(secret),
        "it is public with the seed"
    );
}
