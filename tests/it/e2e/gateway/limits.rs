//! Whoever asks too often is told when to come back, and whoever joins too often is asked for a proof;
//! others are served.

use catraca::app::openapi::bodies::TooMany;
use catraca::base::ids::{Edition, ShowId};
use catraca::base::time::Timestamp;
use catraca::limit::Limit;
use catraca::token::challenge::{Challenge, solve};
use serde_json::Value;

use crate::e2e::gateway::door::{Answer, Door, Plan};

async fn planned(change: impl FnOnce(&mut Plan)) -> Door {
    let mut plan = Plan::default();
    let limit = Limit { per_s: 1, burst: 2 };
    let limits = &mut plan.settings.limits;
    (limits.join, limits.fan, limits.gated) = (limit, limit, limit);
    plan.settings.challenge.level_min = 0;
    change(&mut plan);
    Door::planned(plan).await
}

pub(super) async fn strict() -> Door {
    planned(|_| {}).await
}

/// A join from this address, with this answer if any.
pub(super) async fn join(door: &Door, address: &str, proof: Option<&str>) -> Answer {
    let mut headers = vec![("x-forwarded-for", address)];
    headers.extend(proof.map(|proof| ("x-catraca-proof", proof)));
    door.join(&headers).await
}

/// How a door answers: the status and, where it is a problem, its word.
fn said(answer: &Answer) -> (u16, String) {
    let word = match answer.status {
        200..400 => String::new(),
        _ => answer.word(),
    };
    (answer.status, word)
}

fn refused(status: u16, word: &str) -> (u16, String) {
    (status, word.to_owned())
}

/// Uses up what is free, and takes the challenge that follows.
pub(super) async fn challenged(door: &Door, address: &str) -> Value {
    for _ in 0..3 {
        let answer = join(door, address, None).await;
        if answer.status == 429 {
            assert_eq!(answer.word(), "challenge-required");
            serde_json::from_str::<TooMany>(&answer.text).unwrap(); // as the document tells it
            return answer.json()["challenge"].clone();
        }
    }
    panic!("nobody is challenged");
}

#[tokio::test]
async fn joins_are_counted_by_the_client_that_the_proxy_names() {
    let door = strict().await;
    let first = join(&door, "1.2.3.4", None).await;
    assert_eq!(first.status, 201);
    assert_eq!(first.header("ratelimit-policy"), "\"join\";q=2;w=2");
    assert_eq!(first.header("ratelimit"), "\"join\";r=1");
    assert_eq!(join(&door, "1.2.3.4", None).await.status, 201);
    // The hop that our proxy wrote counts, whatever stands to its left.
    for hops in [
        "6.6.6.6, 1.2.3.4",
        "1.2.3.4:99",
        "::ffff:1.2.3.4",
        ", ,,[::1], 1.2.3.4",
    ] {
        let over = join(&door, hops, None).await;
        assert_eq!(said(&over), refused(429, "challenge-required"), "{hops}");
        assert_eq!(over.header("retry-after"), "1");
        assert_eq!(over.header("ratelimit"), "\"join\";r=0;t=1");
    }
    assert_eq!(join(&door, "1.2.3.5", None).await.status, 201);
    assert_eq!(join(&door, "2001:db8:1:2::1", None).await.status, 201);
}

#[tokio::test]
async fn a_whole_site_of_addresses_is_no_way_around() {
    // A /64 has its limit, a /56 a larger one, a /48 a larger one still.
    let door = planned(|plan| {
        let limits = &mut plan.settings.limits;
        limits.join_56 = Limit { per_s: 1, burst: 4 };
        limits.join_48 = Limit { per_s: 1, burst: 6 };
    })
    .await;
    let mut passed = [0, 0];
    for subnet in 0..40 {
        let near = join(&door, &format!("2a00:1:2:3{subnet:02x}::1"), None).await;
        let far = join(&door, &format!("2a00:1:2:{subnet:02x}00::1"), None).await;
        for (count, answer) in passed.iter_mut().zip([near, far]) {
            *count += u32::from(answer.status == 201);
        }
    }
    // A second may pass meanwhile, and bring one more each.
    assert!((6..20).contains(&(passed[0] + passed[1])), "{passed:?}");
    assert_eq!(join(&door, "2a00:1:3:300::1", None).await.status, 201);
}

#[tokio::test]
async fn an_answer_lets_join_once() {
    let door = strict().await;
    let challenge = challenged(&door, "1.2.3.4").await;
    let proof = solve(&challenge).unwrap();
    assert_eq!(join(&door, "1.2.3.4", Some(&proof)).await.status, 201);
    let again = join(&door, "1.2.3.4", Some(&proof)).await;
    assert_eq!(said(&again), refused(403, "bad-proof"));
    // Elsewhere, where joins are free, it is used as well.
    let elsewhere = join(&door, "1.2.3.9", Some(&proof)).await;
    assert_eq!(said(&elsewhere), refused(403, "bad-proof"));
    // Who has a place needs no proof to keep it.
    let kept = join(&door, "1.2.3.8", None).await.json();
    let pass = kept["pass"].as_str().unwrap();
    let headers = [("x-forwarded-for", "1.2.3.4"), ("x-catraca-pass", pass)];
    assert_eq!(door.join(&headers).await.status, 200);
}

#[tokio::test]
async fn who_has_a_place_keeps_it_whatever_else_they_show() {
    let fan = Limit {
        per_s: 10,
        burst: 20,
    };
    let door = planned(|plan| plan.settings.limits.fan = fan).await;
    let proof = solve(&challenged(&door, "1.2.3.4").await).unwrap();
    let joined = join(&door, "1.2.3.4", Some(&proof)).await.json();
    for more in [
        vec![("x-catraca-proof", proof.as_str())], // it is used
        vec![("x-catraca-proof", "no answer at all")],
        vec![("x-catraca-proof", "a"), ("x-catraca-proof", "b")],
        vec![("x-catraca-account", "a"), ("x-catraca-account", "b")],
    ] {
        let pass = ("x-catraca-pass", joined["pass"].as_str().unwrap());
        let headers = [vec![("x-forwarded-for", "1.2.3.4"), pass], more].concat();
        let kept = door.join(&headers).await;
        assert_eq!(kept.status, 200, "{headers:?}: {kept:?}");
        assert_eq!(kept.json()["number"], joined["number"], "{headers:?}");
    }
}

/// A proof that counts in a door's show; another for each `n`.
pub(super) async fn proof(door: &Door, n: u8) -> String {
    let board = door.get("/v1/shows/gala/board", &[]).await.json();
    let challenge = Challenge {
        show: "gala".parse().unwrap(),
        edition: Edition(board["edition"].as_u64().unwrap()),
        level: 0,
        until: Timestamp::from_unix_ms(1_900_000_000_000),
    };
    solve(&challenge.sign(&door.keys, [n; 32])).unwrap()
}

#[tokio::test]
async fn an_answer_is_looked_at_only_where_the_limits_leave_room() {
    let door = planned(|plan| {
        plan.settings.limits.join_far = 2;
        plan.settings.limits.show = Limit { per_s: 1, burst: 9 };
    })
    .await;
    let bad = Some("no answer at all");
    let answer = join(&door, "1.2.3.4", bad).await;
    assert_eq!(said(&answer), refused(403, "bad-proof"));
    // Two are free, and four with proofs are far.
    let mut proofs = Vec::new();
    for n in 0..9 {
        proofs.push(proof(&door, n).await);
    }
    let mut passed = 0;
    for proof in &proofs {
        passed += u32::from(join(&door, "1.2.3.4", Some(proof)).await.status == 201);
    }
    assert!((4..9).contains(&passed), "{passed}");
    let answer = join(&door, "1.2.3.4", bad).await;
    assert_eq!(said(&answer), refused(429, "too-many-requests"));
    // Nor is it where the show takes nobody.
    for n in 0..9 {
        join(&door, &format!("5.6.7.{n}"), None).await;
    }
    let answer = join(&door, "5.6.7.9", bad).await;
    assert_eq!(said(&answer), refused(503, "busy"));
}

#[tokio::test]
async fn whatever_is_wrong_with_an_answer_the_refusal_is_the_same() {
    let door = strict().await;
    let good = challenged(&door, "1.2.3.4").await;
    let sign = |show: &str, edition: u64, until: Timestamp| {
        let show: ShowId = show.parse().unwrap();
        let challenge = Challenge {
            show,
            edition: Edition(edition),
            level: 0,
            until,
        };
        solve(&challenge.sign(&door.keys, [9; 32])).unwrap()
    };
    let board = door.get("/v1/shows/gala/board", &[]).await.json();
    let edition = board["edition"].as_u64().unwrap();
    let later = Timestamp::from_unix_ms(1_900_000_000_000);
    let mut easier = good.clone();
    easier["parameters"]["keyPrefix"] = "0".into();
    let mut forged = good.clone();
    forged["signature"] = "f".repeat(64).into();
    let proofs = [
        sign("ball", edition, later),
        sign("gala", edition + 1, later),
        sign("gala", edition, Timestamp::from_unix_ms(1_700_000_000_000)),
        solve(&easier).unwrap(),
        solve(&forged).unwrap(),
        "A".repeat(4_000),
        "not base64".to_owned(),
        String::new(),
    ];
    let mut bodies = Vec::new();
    for proof in &proofs {
        let answer = join(&door, "1.2.3.4", Some(proof)).await;
        assert_eq!(said(&answer), refused(403, "bad-proof"), "{proof:.60}");
        bodies.push(answer.text);
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1);
    assert_eq!(
        join(&door, "1.2.3.4", Some(&sign("gala", edition, later)))
            .await
            .status,
        201
    );
}

#[tokio::test]
async fn an_answer_runs_out() {
    let door = strict().await;
    let proof = solve(&challenged(&door, "1.2.3.4").await).unwrap();
    door.clock.advance_ms(121_000);
    door.gateway.boards().step().await.unwrap();
    let late = join(&door, "1.2.3.4", Some(&proof)).await;
    assert_eq!(said(&late), refused(403, "bad-proof"));
}

#[tokio::test]
async fn far_above_the_limit_no_answer_helps_and_before_that_they_get_harder() {
    let door = planned(|plan| {
        plan.settings.limits.join_far = 2;
        plan.settings.limits.join.burst = 4;
        plan.settings.challenge.level_max = 3;
    })
    .await;
    let mut levels = Vec::new();
    for _ in 0..40 {
        let asked = join(&door, "1.2.3.4", None).await;
        match said(&asked) {
            (201, _) => continue,
            (429, word) if word == "challenge-required" => {}
            other => {
                assert_eq!(other, refused(429, "too-many-requests"));
                assert!(asked.json()["challenge"].is_null());
                assert!(levels.is_sorted() && 1 < levels.len(), "{levels:?}");
                assert!(levels[0] < *levels.last().unwrap(), "{levels:?}");
                return;
            }
        }
        let challenge = &asked.json()["challenge"];
        levels.push(challenge["parameters"]["data"]["level"].as_u64().unwrap());
        let answer = join(&door, "1.2.3.4", Some(&solve(challenge).unwrap())).await;
        assert!([201, 429].contains(&answer.status), "{answer:?}");
    }
    panic!("nobody is refused: {levels:?}");
}

#[tokio::test]
async fn a_show_may_ask_everybody() {
    let door = planned(|plan| plan.settings.challenge.always = true).await;
    let asked = join(&door, "1.2.3.4", None).await;
    assert_eq!(said(&asked), refused(429, "challenge-required"));
    assert_eq!(asked.header("retry-after"), "20");
    let proof = solve(&asked.json()["challenge"]).unwrap();
    assert_eq!(join(&door, "1.2.3.4", Some(&proof)).await.status, 201);
}

#[tokio::test]
async fn a_show_takes_no_more_than_it_should() {
    let door = planned(|plan| plan.settings.limits.show = Limit { per_s: 1, burst: 3 }).await;
    for n in 0..3 {
        assert_eq!(join(&door, &format!("1.2.3.{n}"), None).await.status, 201);
    }
    let over = join(&door, "1.2.3.9", None).await;
    assert_eq!(said(&over), refused(503, "busy"));
    assert_eq!(over.header("retry-after"), "1");
}

#[tokio::test]
async fn polls_are_counted_by_fan_and_gated_requests_by_ticket() {
    let door = strict().await;
    let (ana, ticket) = door.admitted().await; // one poll
    assert_eq!(door.status(&ana.pass).await.status, 200);
    let over = door.status(&ana.pass).await;
    assert_eq!((over.status, over.header("retry-after")), (429, "1"));
    assert_eq!(over.header("ratelimit-policy"), "\"fan\";q=2;w=2");
    assert_eq!(over.header("ratelimit"), "\"fan\";r=0;t=1");
    let headers = [
        ("x-catraca-pass", ana.pass.as_str()),
        ("x-admission-ticket", &ticket),
    ];
    for status in [200, 200, 429] {
        let path = "/v1/shows/gala/orders";
        assert_eq!(door.ask("POST", path, &headers, "{}").await.status, status);
    }
    assert_eq!(door.shop.reached().len(), 2);
}
