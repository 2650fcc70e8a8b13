//! Joining, asking how one stands, leaving.

use catraca::room::model::command::{Configure, RoomState};
use http::header::SET_COOKIE;

use crate::e2e::gateway::door::{Ana, Answer, Door, Plan, show};

const KEY: &str = "0123456789abcdefghijkl";

fn cookies(answer: &Answer) -> Vec<String> {
    let lines = answer.headers.get_all(SET_COOKIE).iter();
    lines
        .map(|line| line.to_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_fan_joins_once_however_often_they_ask() {
    let door = Door::open().await;
    let first = door.join(&[]).await;
    assert_eq!(
        (first.status, first.header("cache-control")),
        (201, "no-store")
    );
    let body = first.json();
    assert_eq!(
        (body["number"].as_u64(), body["place"].as_u64()),
        (Some(1), Some(1))
    );
    assert_eq!(
        (body["state"].as_str(), body["position"].as_u64()),
        (Some("waiting"), Some(1))
    );
    assert!(body["eta"]["low"].as_u64() <= body["eta"]["high"].as_u64());
    assert!(0 < body["poll_after_ms"].as_u64().unwrap());
    let pass = body["pass"].as_str().unwrap();
    let cookie = format!("catraca-pass-gala={pass}");
    assert!(
        cookies(&first)[0].starts_with(&format!("{cookie}; Path=/; ")),
        "{first:?}"
    );
    let bearer = format!("Bearer {pass}");
    for headers in [
        ("cookie", cookie.as_str()),
        ("x-catraca-pass", pass),
        ("authorization", bearer.as_str()),
    ] {
        let again = door.join(&[headers]).await;
        assert_eq!(again.status, 200);
        assert_eq!(again.json()["number"], 1);
        assert_eq!(again.json()["pass"], pass, "the range shown at join stays");
    }
    assert_eq!(door.new_fan().await.number, 2);
}

#[tokio::test]
async fn a_lost_answer_makes_no_second_fan() {
    let door = Door::open().await;
    let key = [("idempotency-key", KEY)];
    let (lost, again) = (door.join(&key).await, door.join(&key).await);
    assert_eq!((lost.status, again.status), (201, 200));
    assert_eq!(lost.json()["fan"], again.json()["fan"]);
    assert_eq!(
        (lost.json()["number"].clone(), door.new_fan().await.number),
        (1.into(), 2)
    );
    for bad in ["short", "0123456789abcdefghij/+", &"x".repeat(65)] {
        let refused = door.join(&[("idempotency-key", bad)]).await;
        assert_eq!((refused.status, refused.word().as_str()), (400, "bad-key"));
    }
}

#[tokio::test]
async fn passes_are_not_made_up() {
    let door = Door::open().await;
    let (ana, bia) = (door.new_fan().await, door.new_fan().await);
    for bad in ["", "x", &ana.pass[1..], &format!("{}A", ana.pass)] {
        let refused = door.status(bad).await;
        assert_eq!(
            (refused.status, refused.word().as_str()),
            (401, "no-pass"),
            "{bad}"
        );
        let cookie = format!("catraca-pass-gala={bad}");
        let refused = door.join(&[("cookie", &cookie)]).await;
        assert_eq!(
            (refused.status, refused.word().as_str()),
            (401, "no-pass"),
            "{bad}"
        );
        assert!(
            cookies(&refused)[0].contains("Max-Age=0"),
            "the browser may start anew"
        );
    }
    let missing = door.get("/v1/shows/gala/status", &[]).await;
    assert_eq!(missing.status, 401);
    let cookie = format!("catraca-pass-gala={}", bia.pass);
    let both = [
        ("x-catraca-pass", ana.pass.as_str()),
        ("cookie", cookie.as_str()),
    ];
    let two = door.get("/v1/shows/gala/status", &both).await;
    assert_eq!((two.status, two.word().as_str()), (400, "bad-request"));
    let twins = format!("{cookie}; {cookie}");
    assert_eq!(door.join(&[("cookie", &twins)]).await.status, 400);
}

#[tokio::test]
async fn a_fan_waits_is_called_and_comes_in() {
    let door = Door::open().await;
    let (ana, bia) = (door.new_fan().await, door.new_fan().await);
    let waiting = door.status(&bia.pass).await.json();
    assert_eq!(
        (&waiting["state"], &waiting["position"]),
        (&"waiting".into(), &2.into())
    );
    door.call(1).await;
    let admitted = door.status(&ana.pass).await;
    let body = admitted.json();
    assert_eq!(
        (&body["state"], &body["position"]),
        (&"admitted".into(), &serde_json::Value::Null)
    );
    let left_ms = body["ticket_expires_in_ms"].as_u64().unwrap();
    assert!((290_000..=300_000).contains(&left_ms), "{left_ms}");
    assert!(cookies(&admitted)[0].starts_with("catraca-ticket-gala="));
    let again = door.status(&ana.pass).await.json();
    assert_eq!(again["ticket_expires_at"], body["ticket_expires_at"]);
    let waiting = door.status(&bia.pass).await.json();
    assert_eq!(
        (&waiting["state"], &waiting["position"]),
        (&"waiting".into(), &1.into())
    );
}

#[tokio::test]
async fn a_poll_of_a_fan_in_line_asks_the_room_nothing() {
    let door = Door::open().await;
    let (ana, bia) = (door.new_fan().await, door.new_fan().await);
    door.gateway.boards().step().await.unwrap();
    let before = door.cable.carried();
    for _ in 0..10 {
        for fan in [&ana, &bia] {
            assert_eq!(door.status(&fan.pass).await.json()["state"], "waiting");
        }
    }
    assert_eq!(door.cable.carried(), before);
    // The one whose place is reached asks it, once.
    door.call(1).await;
    let before = door.cable.carried();
    assert_eq!(door.status(&ana.pass).await.json()["state"], "admitted");
    assert_eq!(door.cable.carried(), before + 1);
}

#[tokio::test]
async fn who_is_next_when_the_sale_ends_is_told() {
    let door = Door::open().await;
    let ana = door.new_fan().await;
    door.call(1).await;
    door.clock.advance_ms(61_000);
    assert_eq!(door.status(&ana.pass).await.json()["state"], "standby");
    door.turn(9, RoomState::Closed).await;
    assert_eq!(door.status(&ana.pass).await.json()["state"], "closed");
}

#[tokio::test]
async fn who_sleeps_through_the_call_is_next() {
    let door = Door::open().await;
    let ana = door.new_fan().await;
    door.call(1).await;
    door.clock.advance_ms(61_000);
    let standby = door.status(&ana.pass).await.json();
    assert_eq!(
        (&standby["state"], &standby["place"]),
        (&"standby".into(), &1.into())
    );
    assert!(standby["poll_after_ms"].as_u64().unwrap() <= 20_000);
    door.call(1).await;
    assert_eq!(door.status(&ana.pass).await.json()["state"], "admitted");
    door.clock.advance_ms(301_000);
    let gone = door.status(&ana.pass).await.json();
    assert_eq!(
        (&gone["state"], &gone["reason"]),
        (&"gone".into(), &"expired".into())
    );
    let headers = [("x-catraca-pass", ana.pass.as_str())];
    let anew = door.join(&headers).await;
    assert_eq!(
        (anew.status, anew.json()["number"].as_u64()),
        (201, Some(2))
    );
    assert_ne!(
        anew.json()["fan"],
        ana.fan.to_string(),
        "a fan has one number for ever"
    );
}

#[tokio::test]
async fn who_leaves_is_gone() {
    let door = Door::open().await;
    let ana = door.new_fan().await;
    let headers = [("x-catraca-pass", ana.pass.as_str())];
    for _ in 0..2 {
        let left = door
            .ask("DELETE", "/v1/shows/gala/place", &headers, "")
            .await;
        assert_eq!(left.status, 204);
        assert_eq!(cookies(&left).len(), 2);
    }
    let gone = door.status(&ana.pass).await.json();
    assert_eq!(
        (&gone["state"], &gone["reason"]),
        (&"gone".into(), &"left".into())
    );
    let nobody = door.ask("DELETE", "/v1/shows/gala/place", &[], "").await;
    assert_eq!((nobody.status, nobody.word().as_str()), (401, "no-pass"));
}

#[tokio::test]
async fn the_greatest_serving_that_a_fan_has_seen_counts() {
    let door = Door::open().await;
    let fans: Vec<Ana> = [
        door.new_fan().await,
        door.new_fan().await,
        door.new_fan().await,
    ]
    .into();
    door.gateway.boards().step().await.unwrap();
    let headers = [("x-catraca-pass", fans[2].pass.as_str())];
    let position = async |serving: &str| {
        let path = format!("/v1/shows/gala/status?serving={serving}");
        door.get(&path, &headers).await.json()["position"].clone()
    };
    assert_eq!(
        (position("0").await, position("2").await),
        (3.into(), 1.into())
    );
    assert_eq!(position("99999999999").await, 1);
    let bad = door.get("/v1/shows/gala/status?serving=x", &headers).await;
    assert_eq!((bad.status, bad.word().as_str()), (400, "bad-request"));
}

#[tokio::test]
async fn a_show_that_takes_nobody_says_so() {
    for (state, word) in [
        (RoomState::Scheduled, "scheduled"),
        (RoomState::SoldOut, "sold-out"),
        (RoomState::Closed, "closed"),
        (RoomState::Off, "off"),
    ] {
        let plan = Plan {
            state,
            ..Plan::default()
        };
        let door = Door::planned(plan).await;
        let refused = door.join(&[]).await;
        assert_eq!((refused.status, refused.word().as_str()), (409, word));
    }
}

#[tokio::test]
async fn shows_that_are_not_there_are_not_found() {
    let door = Door::open().await;
    for (method, path) in [
        ("POST", "/v1/shows/other/join"),
        ("GET", "/v1/shows/other/board"),
        ("GET", "/v1/shows/other/status"),
        ("GET", "/v1/shows/other/ticket"),
        ("GET", "/w/other"),
        ("POST", "/v1/shows/other/orders"),
    ] {
        let answer = door.ask(method, path, &[], "").await;
        assert_eq!(
            (answer.status, answer.word().as_str()),
            (404, "no-such-show"),
            "{path}"
        );
    }
    let malformed = door.get("/v1/shows/GALA/board", &[]).await;
    assert_eq!(
        (malformed.status, malformed.word().as_str()),
        (400, "bad-id")
    );
    assert!(door.shop.reached().is_empty());
}

#[tokio::test]
async fn the_board_is_public_and_the_keys_verify() {
    let door = Door::open().await;
    door.new_fan().await;
    door.gateway.boards().step().await.unwrap();
    let board = door.get("/v1/shows/gala/board", &[]).await;
    assert_eq!(board.header("cache-control"), "public, max-age=1");
    let body = board.json();
    assert_eq!(
        (&body["state"], &body["issued"]),
        (&"open".into(), &1.into())
    );
    assert_eq!(
        (&body["rate"], &body["poll"]["board_ms"]),
        (&10.into(), &5_000.into())
    );
    let jwks = door.get("/.well-known/jwks.json", &[]).await.json();
    assert_eq!(jwks["keys"][0]["kid"], "k1");
    let page = door.get("/w/gala", &[]).await;
    assert_eq!(
        (page.status, page.header("cache-control")),
        (200, "public, max-age=60")
    );
    assert_eq!(page.header("set-cookie"), "");
}

#[tokio::test]
async fn the_same_works_without_scripts() {
    let door = Door::open().await;
    let origin = format!("http://{}", door.address);
    let join = async |origin: &str| {
        let headers = [("origin", origin)];
        door.ask("POST", "/w/gala/join?lang=en", &headers, "").await
    };
    assert_eq!(join("https://elsewhere.example").await.status, 403);
    let behind_a_proxy = [
        ("origin", "https://shop.example"),
        ("x-forwarded-host", "shop.example"),
    ];
    let joined = door.ask("POST", "/w/gala/join", &behind_a_proxy, "").await;
    assert_eq!(joined.status, 303);
    let joined = join(&origin).await;
    assert_eq!(
        (joined.status, joined.header("location")),
        (303, "/w/gala/place?lang=en")
    );
    let line = cookies(&joined).remove(0);
    let cookie = line.split(';').next().unwrap();
    let place = door.get("/w/gala/place", &[("cookie", cookie)]).await;
    assert_eq!(
        (place.status, place.header("cache-control")),
        (200, "no-store")
    );
    assert!(
        place.text.contains("data-state=\"waiting\""),
        "{}",
        place.text
    );
    door.call(2).await;
    let place = door.get("/w/gala/place", &[("cookie", cookie)]).await;
    assert!(
        place.text.contains("data-state=\"admitted\""),
        "{}",
        place.text
    );
    assert!(cookies(&place)[0].starts_with("catraca-ticket-gala="));
    let left = door
        .ask("POST", "/w/gala/leave", &[("cookie", cookie)], "")
        .await;
    assert_eq!(left.status, 303);
    let place = door.get("/w/gala/place", &[("cookie", cookie)]).await;
    assert!(place.text.contains("data-state=\"gone\""), "{}", place.text);
}

/// With a script and without, where the line is full and where nobody can be asked.
#[tokio::test]
async fn whoever_is_put_off_hears_for_how_long() {
    let door = Door::open().await;
    door.new_fan().await;
    let board = door.rooms.board(&show()).await.unwrap();
    let mut settings = board.settings;
    settings.waiting_max = 1;
    let full = Configure {
        version: 2,
        settings,
        verb: None,
    };
    door.rooms.configure(&show(), full).await.unwrap();
    door.gateway.boards().step().await.unwrap();
    let put_off = async |seconds: &str| {
        for path in ["/v1/shows/gala/join", "/w/gala/join"] {
            let answer = door.ask("POST", path, &[], "").await;
            let told = (answer.status, answer.header("retry-after"));
            assert_eq!(told, (503, seconds), "{path}: {answer:?}");
        }
    };
    put_off("30").await;
    door.cable.cut();
    put_off("1").await;
}
