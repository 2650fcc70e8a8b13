//! Scripts of other sites: those on the list, and all others.

use crate::e2e::gateway::door::{Answer, Door, Plan};

const LISTED: &str = "https://www.example.com";
const ORDERS: &str = "/v1/shows/gala/orders";
const JOIN: &str = "/v1/shows/gala/join";

async fn door() -> Door {
    let mut plan = Plan::default();
    plan.settings.cors_origins = vec![LISTED.to_owned()];
    Door::planned(plan).await
}

async fn preflight(door: &Door, path: &str, origin: &str) -> Answer {
    let asks = [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        (
            "access-control-request-headers",
            "X-Catraca-Pass,idempotency-key",
        ),
    ];
    door.ask("OPTIONS", path, &asks, "").await
}

fn allows(answer: &Answer) -> (&str, &str) {
    let header = |name| answer.header(name);
    (
        header("access-control-allow-origin"),
        header("access-control-allow-credentials"),
    )
}

#[tokio::test]
async fn a_listed_site_may_ask_and_read() {
    let door = door().await;
    for path in [JOIN, ORDERS, "/shop/seats", "/static/x"] {
        let told = preflight(&door, path, LISTED).await;
        assert_eq!(
            (told.status, allows(&told)),
            (204, (LISTED, "true")),
            "{path}"
        );
        assert_eq!(told.header("access-control-allow-methods"), "POST");
        let headers = told.header("access-control-allow-headers");
        assert_eq!(headers, "x-catraca-pass, idempotency-key");
    }
    let joined = door.ask("POST", JOIN, &[("origin", LISTED)], "").await;
    assert_eq!((joined.status, allows(&joined)), (201, (LISTED, "true")));
    let refused = door.ask("POST", ORDERS, &[("origin", LISTED)], "{}").await;
    assert_eq!((refused.status, allows(&refused)), (401, (LISTED, "true")));
    assert!(
        door.shop.reached().is_empty(),
        "a preflight is ours to answer"
    );
    // What an upstream says of a listed site does not count.
    door.shop
        .says(&[("access-control-allow-origin", "*"), ("vary", "accept")]);
    let answer = door.get("/static/x", &[("origin", LISTED)]).await;
    assert_eq!(allows(&answer), (LISTED, "true"));
    let vary: Vec<_> = answer.headers.get_all("vary").iter().collect();
    assert_eq!(vary, ["accept", "origin"]);
}

#[tokio::test]
async fn any_other_site_may_not() {
    let door = door().await;
    for origin in [
        "https://www.example.com.evil",
        "http://www.example.com",
        "null",
        "https://evil",
    ] {
        for path in [JOIN, ORDERS] {
            let told = preflight(&door, path, origin).await;
            assert_eq!((told.status, allows(&told)), (405, ("", "")), "{origin}");
        }
        let acted = door.ask("POST", JOIN, &[("origin", origin)], "").await;
        assert_eq!((acted.status, allows(&acted)), (403, ("", "")), "{origin}");
    }
    let board = door.get("/v1/shows/gala/board", &[]).await;
    assert_eq!((board.header("vary"), allows(&board)), ("origin", ("", "")));
    // An ambiguous target stays one, whoever asks for it.
    let bent = preflight(&door, "/static/%2e%2e/x", LISTED).await;
    assert_eq!(bent.status, 400);
}

#[tokio::test]
async fn without_a_list_upstreams_speak_for_themselves() {
    let door = Door::open().await;
    door.shop.says(&[("access-control-allow-origin", LISTED)]);
    let answer = door.get("/static/x", &[("origin", LISTED)]).await;
    assert_eq!((answer.header("vary"), allows(&answer)), ("", (LISTED, "")));
    let told = preflight(&door, JOIN, LISTED).await;
    assert_eq!((told.status, allows(&told)), (405, ("", "")));
}
