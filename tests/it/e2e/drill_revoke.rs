//! An operator ends a fan's turn, and every gateway refuses the ticket.

use std::time::{Duration, Instant};

use catraca::app::alone::Role;
use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::need::REDIS;
use crate::support::process::{Alone, run_in};
use crate::support::redis::Server;
use crate::support::sale::{SHOW, settings};
use crate::support::until;
use crate::support::visitor::Visitor;

/// A revoked ticket is refused within so long. The promise is a second; a test machine may be busy.
const REFUSED_WITHIN: Duration = Duration::from_secs(3);
/// Between two questions with a ticket: as often as one may ask.
const PAUSE: Duration = Duration::from_millis(100);

#[tokio::test]
async fn a_revoked_ticket_is_refused_by_every_gateway_of_a_room() {
    let Some(server) = Server::start(&REDIS) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let room = [("CATRACA__ROOM__URL", server.url())];
    let admitter = Alone::start(Role::Admitter, folder, &room).await;
    let gateways = [
        Alone::start(Role::Gateway, folder, &room).await,
        Alone::start(Role::Gateway, folder, &room).await,
    ];
    let admin = format!("http://{}", admitter.address("admin API"));
    let env = [
        ("CATRACA_ADMIN", admin.as_str()),
        ("CATRACA_TOKEN_FILE", "admin-token"),
    ];
    let tells = async |words: &[&str]| run_in(folder, words, &env).await;
    let document = settings(&json!({ "ticket_ttl_ms": 600_000 }));
    std::fs::write(folder.join("show.json"), document.to_string()).unwrap();
    for words in [
        ["show", "create", SHOW, "show.json"].as_slice(),
        &["show", "open", SHOW],
    ] {
        let done = tells(words).await;
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    let doors = gateways
        .each_ref()
        .map(|gateway| Client::of(format!("http://{}", gateway.address("gateway"))));
    for door in &doors {
        until("every gateway knows the show", || async {
            let line = format!("GET /v1/shows/{SHOW}/board");
            let (_, board) = door.ask(&line, &[], &Value::Null).await;
            (board["state"] == "open").then_some(())
        })
        .await;
    }
    let ana = Visitor::join_by(doors[0].clone()).await.inside().await;
    for door in &doors {
        assert_eq!(asks(door, &ana).await, 200);
    }

    let fan = fan_of(&doors[1], &ana).await;
    let revoked = tells(&["show", "revoke", SHOW, &fan]).await;
    let revoked_at = Instant::now();
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    assert_eq!(revoked.out.trim(), format!("{SHOW}: {fan} revoked now"));
    for door in &doors {
        loop {
            let sent_after = revoked_at.elapsed();
            if asks(door, &ana).await == 401 {
                break;
            }
            assert!(sent_after < REFUSED_WITHIN, "passes after {sent_after:?}");
            tokio::time::sleep(PAUSE).await;
        }
    }
    let told = ana.status().await;
    assert_eq!(
        (&told["state"], &told["reason"]),
        (&json!("gone"), &json!("revoked"))
    );
    let again = tells(&["show", "revoke", SHOW, &fan]).await;
    assert_eq!(again.out.trim(), format!("{SHOW}: {fan} revoked before"));
    let stranger = tells(&["show", "revoke", SHOW, &"0".repeat(32)]).await;
    assert_eq!(stranger.code, Some(1), "{stranger:?}");
    assert!(
        stranger.err.contains("does not know this fan"),
        "{stranger:?}"
    );
}

/// Whether the gate would let a fan pass.
async fn asks(door: &Client, ana: &Visitor) -> u16 {
    let line = format!("GET /v1/shows/{SHOW}/ticket");
    door.ask(&line, &credentials(ana), &Value::Null)
        .await
        .0
        .as_u16()
}

/// Who a fan is, as the gate tells a shop.
async fn fan_of(door: &Client, ana: &Visitor) -> String {
    let line = format!("GET /v1/shows/{SHOW}/ticket");
    let (_, told) = door.ask(&line, &credentials(ana), &Value::Null).await;
    told["fan"].as_str().unwrap().to_owned()
}

fn credentials(ana: &Visitor) -> [(&str, &str); 2] {
    [
        ("x-catraca-pass", ana.pass.as_str()),
        ("x-admission-ticket", ana.ticket.as_str()),
    ]
}
