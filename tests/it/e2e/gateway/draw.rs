//! A show with a draw, and one that asks fans to be there, as its gateway tells of them.

use catraca::base::ids::{DrawSecret, Number, Place};
use catraca::base::limits::PRESENT_MS;
use catraca::room::draw::{Announced, Revealed, Table, commitment, seed};
use catraca::room::model::command::{Configure, DrawOpened, Drawn, Frozen, RoomState};
use catraca::token::receipt::Receipt;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::e2e::gateway::door::{Ana, Door, Plan, show};
use crate::model::world::tick;

const SECRET: DrawSecret = DrawSecret([3; 32]);

impl Door {
    /// An early show that draws, without a beacon.
    async fn drawing() -> Self {
        let early = RoomState::Early;
        let door = Self::planned(Plan {
            state: early,
            ..Plan::default()
        })
        .await;
        door.announce(None, 2).await;
        door
    }

    async fn announce(&self, revealed: Option<Revealed>, version: u64) {
        let mut settings = self.rooms.board(&show()).await.unwrap().settings;
        settings.draw = Some(Announced {
            commitment: commitment(&show(), &SECRET, ""),
            beacon: None,
            revealed,
        });
        let verb = None;
        let configure = Configure {
            version,
            settings,
            verb,
        };
        self.rooms.configure(&show(), configure).await.unwrap();
        self.look().await;
    }

    async fn look(&self) {
        self.gateway.boards().step().await.unwrap();
    }

    /// Freezes the draw; the room stays early.
    async fn freeze(&self, size: u64) {
        self.turn(3, RoomState::Open).await;
        let frozen = self.rooms.freeze(&show()).await.unwrap();
        assert_eq!(frozen, Frozen::At { size });
        self.look().await;
    }

    /// Holds it.
    async fn hold(&self, size: u64) -> Table {
        let drawn = seed(&show(), &SECRET, "", size);
        let revealed = Revealed {
            secret: SECRET,
            beacon_value: None,
        };
        self.announce(Some(revealed), 4).await;
        let opened = self.rooms.open_draw(&show(), size, drawn).await.unwrap();
        assert_eq!(opened, DrawOpened::Now);
        self.look().await;
        Table::new(&drawn, size)
    }

    async fn call_drawn(&self, want: u64, table: &Table) {
        let serving = self.rooms.board(&show()).await.unwrap().serving;
        let drawn = Drawn {
            seed: table.seed(),
            serving,
            numbers: table.next(serving, 100),
        };
        let tick = catraca::room::model::command::Tick {
            drawn: Some(drawn),
            ..tick(want)
        };
        self.rooms.tick(&show(), tick).await.unwrap();
        self.look().await;
    }

    async fn board_json(&self) -> Value {
        self.get("/v1/shows/gala/board", &[]).await.json()
    }

    async fn page(&self, fan: &Ana) -> String {
        let headers = [("x-catraca-pass", fan.pass.as_str())];
        self.get("/w/gala/place?lang=en", &headers).await.text
    }
}

/// Everybody behind them moves up by a share of two.
async fn two_leave(door: &Door, fans: [&Ana; 2]) {
    for fan in fans {
        let pass = [("x-catraca-pass", fan.pass.as_str())];
        let left = door.ask("DELETE", "/v1/shows/gala/place", &pass, "").await;
        assert_eq!(left.status, 204);
    }
    door.look().await;
    assert_eq!(door.board_json().await["draw"]["empty"], 2);
}

#[tokio::test]
async fn a_place_is_drawn_at_the_opening_and_not_before() {
    let door = Door::drawing().await;
    let mut fans = Vec::new();
    for _ in 0..9 {
        fans.push(door.new_fan().await);
    }
    let early = door.status(&fans[4].pass).await.json();
    assert_eq!(early["state"], "early");
    assert_eq!(
        (&early["place"], &early["position"], &early["eta"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    let told = &door.board_json().await["draw"];
    let sealed = commitment(&show(), &SECRET, "").to_string();
    assert_eq!(
        told,
        &json!({"commitment": sealed, "beacon": null, "size": null})
    );
    assert!(
        door.page(&fans[4])
            .await
            .contains("it does not matter who was first")
    );

    door.freeze(9).await;
    assert_eq!(door.board_json().await["draw"]["size"], 9);
    assert_eq!(door.status(&fans[4].pass).await.json()["state"], "early");
    let late = door.new_fan().await;

    let table = door.hold(9).await;
    let told = &door.board_json().await["draw"];
    assert_eq!(told["seed"], table.seed().to_string());
    assert_eq!(told["secret"], SECRET.to_string());
    for (fan, number) in fans.iter().zip(1..) {
        let place = table.place(Number(number));
        let status = door.status(&fan.pass).await.json();
        assert_eq!(
            (&status["place"], &status["position"]),
            (&json!(place), &json!(place))
        );
        assert!(status["eta"]["low"].is_u64());
    }
    let behind = door.status(&late.pass).await.json();
    assert_eq!(
        (&behind["place"], &behind["position"]),
        (&json!(10), &json!(10))
    );

    let by_place = |place: u64| {
        let number = table.number(Place(place)).0;
        &fans[usize::try_from(number).unwrap() - 1]
    };
    two_leave(&door, [by_place(2), by_place(6)]).await;
    assert_eq!(door.status(&late.pass).await.json()["position"], 8);
    assert_eq!(door.status(&by_place(9).pass).await.json()["position"], 8);
    // The first three who are there are called, in the order of the draw.
    door.call_drawn(3, &table).await;
    for place in [1, 3, 4] {
        assert_eq!(
            door.status(&by_place(place).pass).await.json()["state"],
            "admitted",
            "{place}"
        );
    }
    assert_eq!(door.status(&by_place(5).pass).await.json()["position"], 1);
    assert!(
        door.page(by_place(5))
            .await
            .contains("You drew place 5 of 9.")
    );
    // Somebody who was called joins again with the key of their first join.
    let again = door
        .join(&[("x-catraca-pass", by_place(1).pass.as_str())])
        .await;
    assert_eq!(again.status, 200);
}

#[tokio::test]
async fn who_was_called_from_a_draw_keeps_number_and_key() {
    let door = Door::drawing().await;
    let key = [("idempotency-key", "0123456789abcdefghijkl")];
    let number = door.join(&key).await.json()["number"].clone();
    door.new_fan().await;
    door.freeze(2).await;
    let table = door.hold(2).await;
    door.call_drawn(2, &table).await;
    let again = door.join(&key).await;
    assert_eq!((again.status, &again.json()["number"]), (200, &number));
}

#[tokio::test]
async fn a_receipt_proves_a_number_and_the_seal_to_strangers() {
    let door = Door::drawing().await;
    let ana = door.new_fan().await;
    let pass = [("x-catraca-pass", ana.pass.as_str())];
    let answer = door.get("/v1/shows/gala/receipt", &pass).await;
    assert_eq!(
        (answer.status, answer.header("cache-control")),
        (200, "no-store")
    );
    assert_eq!(answer.header(CONTENT_TYPE.as_str()), "application/json");
    let jwks = door.get("/.well-known/jwks.json", &[]).await.text;
    let jwks = serde_json::from_str(&jwks).unwrap();
    let receipt = Receipt::verify(answer.json()["receipt"].as_str().unwrap(), &jwks).unwrap();
    assert_eq!((receipt.fan, receipt.number.0), (ana.fan, ana.number));
    assert_eq!(receipt.show, show());
    assert_eq!(receipt.commitment, Some(commitment(&show(), &SECRET, "")));
    for (path, pass, status) in [
        ("/v1/shows/gala/receipt", "x", 401),
        ("/v1/shows/gala/receipt", "", 401),
        ("/v1/shows/none/receipt", ana.pass.as_str(), 404),
    ] {
        let answer = door.get(path, &[("x-catraca-pass", pass)]).await;
        assert_eq!(answer.status, status, "{path}");
    }
    assert_eq!(door.get("/v1/shows/gala/receipt", &[]).await.status, 401);
}

#[tokio::test]
async fn who_does_not_show_up_is_passed_over_and_next_on_return() {
    let door = Door::open().await;
    let mut settings = door.rooms.board(&show()).await.unwrap().settings;
    settings.require_presence = true;
    let verb = None;
    let configure = Configure {
        version: 2,
        settings,
        verb,
    };
    door.rooms.configure(&show(), configure).await.unwrap();
    door.look().await;
    let near_s = door.board_json().await["poll"]["near_s"].as_u64();
    assert_eq!(near_s, Some(PRESENT_MS / 1_000));
    let (ana, bia) = (door.new_fan().await, door.new_fan().await);
    door.clock.advance_ms(2 * PRESENT_MS);
    door.look().await;
    let waiting = door.status(&bia.pass).await.json(); // shows that she is there
    assert_eq!(waiting["state"], "waiting");
    assert!(
        waiting["poll_after_ms"].as_u64().unwrap() <= PRESENT_MS / 4,
        "{waiting}"
    );
    assert!(door.page(&bia).await.contains("Keep this page open"));

    door.call(1).await;
    assert_eq!(door.status(&bia.pass).await.json()["state"], "admitted");
    assert_eq!(door.status(&ana.pass).await.json()["state"], "standby");
    assert!(
        door.page(&ana)
            .await
            .contains("You were away when your turn came")
    );
    door.new_fan().await;
    door.call(1).await;
    assert_eq!(door.status(&ana.pass).await.json()["state"], "admitted");
}
