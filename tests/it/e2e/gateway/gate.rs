//! No request reaches a gated route without a live ticket.

use std::time::{Duration, Instant};

use catraca::base::ids::{Edition, Generation, Number, TicketId};
use catraca::base::time::Clock;
use catraca::limit::Limit;
use catraca::room::model::command::{AfterRevoke, RoomState};
use catraca::token::pass::Pass;
use catraca::token::ticket::Ticket;

use crate::e2e::gateway::door::{Ana, Answer, Door, PATIENCE, Plan, show};
use crate::model::world::at;

const ORDERS: &str = "/v1/shows/gala/orders";

fn with<'a>(pass: &'a str, ticket: &'a str) -> [(&'a str, &'a str); 2] {
    [("x-catraca-pass", pass), ("x-admission-ticket", ticket)]
}

/// A ticket that we would mint for somebody.
fn minted(door: &Door, ana: &Ana, change: impl FnOnce(&mut Ticket)) -> String {
    let mut ticket = Ticket {
        show: show(),
        fan: ana.fan,
        id: door.keys.ticket_id(&show(), Edition(1), ana.fan),
        edition: Edition(1),
        generation: Generation(1),
        issued_at: at(1_800_000_000_000),
        expires_at: at(1_800_000_300_000),
    };
    change(&mut ticket);
    ticket.mint(&door.keys)
}

/// All of an answer that must not tell one refusal from another: but for its date and its id.
fn alike(answer: Answer) -> (u16, Vec<(String, String)>, String) {
    let mut headers: Vec<_> = answer
        .headers
        .iter()
        .filter(|(name, _)| !["date", "x-request-id"].contains(&name.as_str()))
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    headers.sort();
    (answer.status, headers, answer.text)
}

/// A key whose join was repeated after a loss, and before its pass was shown, has two passes: one fan, who
/// buys once.
#[tokio::test]
async fn whichever_number_a_fan_shows_there_is_one_ticket() {
    let door = Door::open().await;
    let (ana, ticket) = door.admitted().await;
    let mut other = Pass::claimed(&ana.pass).unwrap();
    other.number = Number(ana.number - 1); // whose place has been called as well
    let status = door.status(&other.sign(&door.keys)).await;
    let another = status.json()["ticket"].as_str().unwrap().to_owned();
    let id = |text| Ticket::verify(text, &show(), &door.keys).unwrap().id;
    assert_eq!(id(&ticket), id(&another));
}

/// And whoever asks again with the second is told the first, which the room holds.
#[tokio::test]
async fn whoever_joins_with_a_second_number_is_told_the_first() {
    let door = Door::open().await;
    let (bia, last) = (door.new_fan().await, door.new_fan().await);
    let mut second = Pass::claimed(&bia.pass).unwrap();
    second.number = Number(last.number);
    let second = second.sign(&door.keys);
    let joined = door.join(&[("x-catraca-pass", &second)]).await;
    assert_eq!(joined.status, 200, "{joined:?}");
    let told = joined.json();
    assert_eq!(told["number"], bia.number);
    let pass = Pass::claimed(told["pass"].as_str().unwrap()).unwrap();
    assert_eq!((pass.fan, pass.number), (bia.fan, Number(bia.number)));
    let again = door.join(&[("x-catraca-pass", &bia.pass)]).await;
    assert_eq!(again.json()["number"], bia.number);
}

#[tokio::test]
async fn a_live_ticket_passes_as_header_and_as_cookie() {
    let door = Door::open().await;
    let (ana, ticket) = door.admitted().await;
    let passed = door
        .ask("POST", ORDERS, &with(&ana.pass, &ticket), "{}")
        .await;
    assert_eq!(passed.status, 200, "{passed:?}");
    let cookie = format!(
        "catraca-pass-gala={}; catraca-ticket-gala={ticket}",
        ana.pass
    );
    let passed = door.ask("POST", ORDERS, &[("cookie", &cookie)], "{}").await;
    assert_eq!(passed.status, 200);
    assert_eq!(door.shop.reached().len(), 2);
    let asked = door
        .get("/v1/shows/gala/ticket", &[("cookie", &cookie)])
        .await;
    assert_eq!(
        (asked.status, asked.json()["fan"].clone()),
        (200, ana.fan.to_string().into())
    );
}

#[tokio::test]
async fn whoever_may_not_pass_gets_the_same_answer() {
    let door = Door::open().await;
    let (ana, ticket) = door.admitted().await;
    let (bia, bias) = door.admitted().await;
    let waiting = door.new_fan().await;
    let elsewhere = minted(&door, &ana, |ticket| ticket.show = "other".parse().unwrap());
    let outdated = minted(&door, &ana, |ticket| ticket.edition = Edition(7));
    let early = minted(&door, &waiting, |_| {});
    let mut answers = Vec::new();
    for (why, headers) in [
        ("nothing", vec![]),
        ("no ticket", vec![("x-catraca-pass", ana.pass.as_str())]),
        ("no pass", vec![("x-admission-ticket", ticket.as_str())]),
        ("forged", with(&ana.pass, &format!("{ticket}A")).to_vec()),
        ("cut", with(&ana.pass, &ticket[..ticket.len() - 9]).to_vec()),
        ("no token", with(&ana.pass, "x").to_vec()),
        ("a pass", with(&ana.pass, &ana.pass).to_vec()),
        ("another fan's", with(&ana.pass, &bias).to_vec()),
        ("another's pass", with(&bia.pass, &ticket).to_vec()),
        ("a forged pass", with("c1.k1.AAAA.AAAA", &ticket).to_vec()),
        ("another show's", with(&ana.pass, &elsewhere).to_vec()),
        ("another edition's", with(&ana.pass, &outdated).to_vec()),
        ("not called", with(&waiting.pass, &early).to_vec()),
        (
            "in the authorization",
            vec![("authorization", ticket.as_str())],
        ),
    ] {
        let answer = door.ask("POST", ORDERS, &headers, "{}").await;
        assert_eq!(answer.status, 401, "{why}");
        assert_eq!(answer.word(), "ticket-required", "{why}");
        answers.push(alike(answer));
    }
    let out = AfterRevoke::Out;
    door.rooms
        .revoke(&show(), vec![ana.fan], out)
        .await
        .unwrap();
    let anas = with(&ana.pass, &ticket);
    let revoked = door.ask("POST", ORDERS, &anas, "{}").await;
    answers.push(alike(revoked));
    door.clock.advance_ms(300_000);
    door.gateway.boards().step().await.unwrap();
    let bias_own = with(&bia.pass, &bias);
    let expired = door.ask("POST", ORDERS, &bias_own, "{}").await;
    answers.push(alike(expired));
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    let query = format!("{ORDERS}?ticket={ticket}");
    assert_eq!(door.ask("POST", &query, &[], "{}").await.status, 401);
    assert!(door.shop.reached().is_empty());
}

#[tokio::test]
async fn two_credentials_that_differ_are_refused() {
    let door = Door::open().await;
    let (ana, ticket) = door.admitted().await;
    let other = minted(&door, &ana, |ticket| ticket.id = TicketId([1; 16]));
    let same = minted(&door, &ana, |ticket| {
        ticket.expires_at = at(1_800_000_400_000)
    });
    for (second, status) in [(&other, 400), (&same, 200)] {
        let cookie = format!("catraca-ticket-gala={second}");
        let mut headers = with(&ana.pass, &ticket).to_vec();
        headers.push(("cookie", &cookie));
        assert_eq!(
            door.ask("POST", ORDERS, &headers, "{}").await.status,
            status
        );
    }
    let mut twice = with(&ana.pass, &ticket).to_vec();
    twice.push(("x-admission-ticket", &ticket));
    assert_eq!(door.ask("POST", ORDERS, &twice, "{}").await.status, 400);
    assert_eq!(door.shop.reached().len(), 1);
}

#[tokio::test]
async fn an_admission_that_ended_is_refused_within_a_second() {
    let door = Door::open().await;
    let (ana, ticket) = door.admitted().await;
    let headers = with(&ana.pass, &ticket);
    assert_eq!(door.ask("POST", ORDERS, &headers, "{}").await.status, 200);
    let revoked_at = Instant::now();
    door.rooms
        .revoke(&show(), vec![ana.fan], AfterRevoke::Out)
        .await
        .unwrap();
    // However slow the machine is: what is sent a second later does not pass.
    loop {
        let sent_after = revoked_at.elapsed();
        if door.ask("POST", ORDERS, &headers, "{}").await.status == 401 {
            break;
        }
        assert!(sent_after < Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(door.status(&ana.pass).await.json()["reason"], "revoked");

    let (bia, ticket) = door.admitted().await;
    let headers = with(&bia.pass, &ticket);
    assert_eq!(door.ask("POST", ORDERS, &headers, "{}").await.status, 200);
    door.clock.advance_ms(300_000);
    door.gateway.boards().step().await.unwrap();
    assert_eq!(door.ask("POST", ORDERS, &headers, "{}").await.status, 401);
}

#[tokio::test]
async fn who_leaves_takes_the_ticket_along() {
    let door = Door::open().await;
    let (ana, ticket) = door.admitted().await;
    let headers = with(&ana.pass, &ticket);
    assert_eq!(door.ask("POST", ORDERS, &headers, "{}").await.status, 200);
    assert_eq!(
        door.ask("DELETE", "/v1/shows/gala/place", &headers, "")
            .await
            .status,
        204
    );
    assert_eq!(door.ask("POST", ORDERS, &headers, "{}").await.status, 401);
}

#[tokio::test]
async fn browsers_are_led_to_the_room() {
    let door = Door::open().await;
    let html = [("accept", "text/html,*/*;q=0.8")];
    let led = door.get("/shop/seats", &html).await;
    assert_eq!((led.status, led.header("location")), (303, "/w/gala"));
    assert_eq!(door.ask("POST", "/shop/seats", &html, "").await.status, 401);
    assert_eq!(door.get("/shop/seats", &[]).await.status, 401);
    assert_eq!(door.get("/v1/shows/gala/orders/1", &html).await.status, 401);
    assert!(door.shop.reached().is_empty());
    assert_eq!(door.get("/about", &html).await.status, 200);
    let (ana, ticket) = door.admitted().await;
    assert_eq!(
        door.get("/shop/seats", &with(&ana.pass, &ticket))
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn a_pass_alone_opens_ones_own_order() {
    let door = Door::open().await;
    let ana = door.new_fan().await;
    let headers = [("x-catraca-pass", ana.pass.as_str())];
    assert_eq!(
        door.get("/v1/shows/gala/orders/7", &headers).await.status,
        200
    );
    let reached = door.shop.reached().remove(0);
    assert_eq!(reached.headers["x-catraca-fan"], ana.fan.to_string());
    assert!(!reached.headers.contains_key("x-catraca-ticket-id"));
    assert_eq!(door.ask("POST", ORDERS, &headers, "{}").await.status, 401);
}

#[tokio::test]
async fn off_means_no_gate_and_says_so() {
    let door = Door::open().await;
    let ana = door.new_fan().await;
    door.turn(9, RoomState::Off).await;
    let passed = door.ask("POST", ORDERS, &[], "{}").await;
    assert_eq!((passed.status, passed.header("catraca-room")), (200, "off"));
    let reached = door.shop.reached().remove(0);
    assert!(!reached.headers.contains_key("x-catraca-fan"));
    let passed = door.get("/v1/shows/gala/orders/7", &[]).await;
    assert_eq!((passed.status, passed.header("catraca-room")), (200, "off"));
    let status = door.status(&ana.pass).await;
    assert_eq!((status.status, status.word().as_str()), (409, "off"));
    // Every answer says it: our own, refusals, and routes that are open anyway.
    for (line, says) in [
        ("POST /v1/shows/gala/join", "off"),
        ("GET /v1/shows/gala/status", "off"),
        ("DELETE /v1/shows/gala/place", "off"),
        ("GET /v1/shows/gala/receipt", "off"),
        ("GET /v1/shows/gala/board", "off"),
        ("GET /v1/shows/gala/ticket", "off"),
        ("PUT /v1/shows/gala/join", "off"),
        ("GET /v1/shows/gala/nothing", "off"),
        ("GET /v1/shows/gala/seats", "off"),
        ("GET /w/gala", "off"),
        ("GET /w/gala/place", "off"),
        ("GET /about", "off"),
        ("GET /shop/seats", "off"),
        ("PUT /shop/seats", "off"),
        ("OPTIONS /shop/seats", "off"),
        ("GET /static/x", ""),
        ("GET /v1/shows/other/board", ""),
        ("GET /w/assets/none", ""),
        ("GET /.well-known/jwks.json", ""),
    ] {
        let (method, path) = line.split_once(' ').unwrap();
        let answer = door.ask(method, path, &[], "").await;
        assert_eq!(answer.header("catraca-room"), says, "{line}");
    }
    let stranger = [("origin", "http://evil.example")];
    let refused = door.ask("POST", "/shop/seats", &stranger, "").await;
    assert_eq!(
        (refused.status, refused.header("catraca-room")),
        (403, "off")
    );
    door.turn(10, RoomState::Open).await;
    let status = door.status(&ana.pass).await;
    assert_eq!((status.status, status.header("catraca-room")), (200, ""));
    let gated = door.ask("POST", ORDERS, &[], "{}").await;
    assert_eq!((gated.status, gated.header("catraca-room")), (401, ""));
}

#[tokio::test]
async fn who_asks_too_often_is_told_that_a_room_is_off_too() {
    let mut plan = Plan::default();
    plan.settings.limits.anything = Limit { per_s: 1, burst: 1 };
    let door = Door::planned(plan).await;
    door.turn(9, RoomState::Off).await;
    for (path, says) in [("/shop/seats", "off"), ("/static/x", "")] {
        let refused = async {
            loop {
                let answer = door.get(path, &[]).await;
                if answer.status == 429 {
                    return answer;
                }
            }
        };
        let refused = tokio::time::timeout(PATIENCE, refused).await;
        assert_eq!(refused.unwrap().header("catraca-room"), says, "{path}");
    }
}

#[tokio::test]
async fn whoever_was_extended_is_handed_a_ticket_with_the_new_time() {
    let door = Door::open().await;
    let (ana, ticket) = door.admitted().await;
    let until = door.clock.now().plus_ms(600_000);
    door.rooms.extend(&show(), ana.fan, until).await.unwrap();
    let early = door.get("/shop/seats", &with(&ana.pass, &ticket)).await;
    assert_eq!(
        (early.status, early.header("x-admission-ticket")),
        (200, "")
    );
    door.clock.advance_ms(300_000);
    door.gateway.boards().step().await.unwrap();
    let old = Ticket::verify(&ticket, &show(), &door.keys).unwrap();
    for path in ["/shop/seats", "/v1/shows/gala/ticket"] {
        let answer = door.get(path, &with(&ana.pass, &ticket)).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let new = answer.header("x-admission-ticket");
        let read = Ticket::verify(new, &show(), &door.keys).unwrap();
        assert_eq!((read.fan, read.id), (old.fan, old.id), "{path}");
        assert!(read.covers(door.clock.now()) && !old.covers(door.clock.now()));
        assert_eq!(read.expires_at, until, "{path}");
        let cookies = answer.headers.get_all("set-cookie").iter();
        let ours = format!("catraca-ticket-gala={new}; ");
        let ours = cookies.filter(|line| line.to_str().unwrap().starts_with(&ours));
        assert_eq!(ours.count(), 1, "{path}: {answer:?}");
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        let next = door.get(path, &with(&ana.pass, new)).await;
        assert_eq!((next.status, next.header("x-admission-ticket")), (200, ""));
    }
}

/// Row 81 of the hostile catalogue: what was let in while its ticket was live is served, however long that
/// takes.
#[tokio::test]
async fn a_request_that_was_let_in_outlives_its_ticket() {
    let mut plan = Plan::default();
    plan.settings.upstream_ms = 20_000;
    let door = Door::planned(plan).await;
    let (ana, ticket) = door.admitted().await;
    door.shop.thinks(Duration::from_millis(500));
    let both = with(&ana.pass, &ticket);
    let runs_out = async {
        while door.shop.reached().is_empty() {
            tokio::time::sleep(PATIENCE / 1_000).await;
        }
        door.clock.advance_ms(300_000);
        door.gateway.boards().step().await.unwrap();
    };
    let (served, ()) = tokio::join!(door.ask("POST", ORDERS, &both, "{}"), runs_out);
    assert_eq!(served.status, 200);
    assert_eq!(door.ask("POST", ORDERS, &both, "{}").await.status, 401);
}
