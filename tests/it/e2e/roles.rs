//! A whole sale by processes of one role each, over one room and one database.

use catraca::app::alone::Role;
use catraca::base::time::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::kafka;
use crate::support::need::REDIS;
use crate::support::process::{Alone, SECRET, run_in};
use crate::support::redis::Server;
use crate::support::sale::{create_by_hand, crowd, expect, settings};

#[tokio::test]
async fn processes_of_one_role_each_are_one_sale() {
    sale(Vec::new()).await;
}

#[tokio::test]
async fn a_sale_is_the_same_with_its_events_in_kafka() {
    let Some(topic) = kafka::topic().await else {
        return;
    };
    let url = kafka::broker().unwrap().url();
    let topic_name = topic.topic().to_owned();
    let log = [
        ("CATRACA__LOG__URL", url),
        ("CATRACA__LOG__TOPIC", topic_name),
    ];
    if sale(log.to_vec()).await {
        assert!(
            24 <= kafka::ends(&topic).iter().sum::<usize>(),
            "two events an order"
        );
    }
}

/// A whole sale with these variables. False where this machine may do without Redis.
async fn sale(more: Vec<(&'static str, String)>) -> bool {
    let Some(server) = Server::start(&REDIS) else {
        return false;
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let shared = [vec![("CATRACA__ROOM__URL", server.url())], more].concat();
    let start = async |role, more: &[(&str, String)]| {
        let env: Vec<_> = [&*shared, more].concat();
        Alone::start(role, folder, &env).await
    };
    let orders = start(Role::Orders, &[]).await;
    let shop = format!("http://{}", orders.address("orders"));
    let gateway = start(Role::Gateway, &[("CATRACA__UPSTREAMS__ORDERS__URL", shop)]).await;
    let mut others = Vec::new();
    for role in [
        Role::Admitter,
        Role::Admitter,
        Role::Relay,
        Role::Notify,
        Role::Stock,
        Role::Search,
        Role::Analytics,
    ] {
        others.push(start(role, &[]).await);
    }

    let now = SystemClock.now();
    let mut document = settings(&json!({}));
    document["early_at"] = json!(now);
    document["opens_at"] = json!(now.plus_ms(1_500));
    let admin = format!("http://{}", others[0].address("admin API"));
    let door = gateway.address("gateway");
    let client = Client::of(format!("http://{door}"));
    create_by_hand(folder, &admin, &client, &document).await;
    crowd(door.parse().unwrap(), folder, "").await;
    // The sale is too short to judge the rate from below.
    expect(folder, &[], &[4]).await.unwrap();

    let health = Client::of(format!("http://{}", gateway.address("health")));
    let (status, ready) = health.ask("GET /readyz", &[], &Value::Null).await;
    assert_eq!(
        (status.as_u16(), ready),
        (200, json!({ "process": "ready", "room": "ok" }))
    );
    let (status, _) = health.ask("GET /admin/v1/shows", &[], &Value::Null).await;
    assert_eq!(status, 404, "a gateway has no SQL to answer operators from");
    true
}

#[tokio::test]
async fn a_role_alone_needs_a_room_and_a_secret_that_others_have() {
    let folder = tempfile::tempdir().unwrap();
    let secret = ("CATRACA__KEYS__SECRET", SECRET);
    for role in Role::ALL {
        let refused = run_in(folder.path(), &[role.word()], &[secret]).await;
        assert_eq!(refused.code, Some(78), "{refused:?}");
        let says = "catraca: room.url (memory:) keeps the room inside one process";
        assert!(refused.err.starts_with(says), "{refused:?}");
        let room = ("CATRACA__ROOM__URL", "redis://127.0.0.1:1/");
        let refused = run_in(folder.path(), &[role.word()], &[room]).await;
        assert_eq!(refused.code, Some(78), "{refused:?}");
        assert!(
            refused.err.starts_with("catraca: keys.secret"),
            "{refused:?}"
        );
    }
}

/// Rows 106 and 107 of the hostile catalogue: rings and lists of networks that cannot be meant are among
/// them.
#[tokio::test]
async fn a_gateway_that_cannot_be_meant_is_refused_before_it_listens() {
    let shop = "[upstreams.shop]\nurl = \"http://127.0.0.1:1\"\ngate = \"ticket\"\n[[routes]]\nmethods = [\"GET\"]\n\
        upstream = \"shop\"\npath = ";
    for (text, says) in [
        (
            "[gateway]\nin_flight_max = 0\n".to_owned(),
            "gateway.in_flight_max (0) must be between 1 and 100000000, or nothing would be answered",
        ),
        (
            "[gateway]\nstall_ms = 0\n".to_owned(),
            "gateway.stall_ms (0) must be between 1 and 86400000, or every reader would be too slow",
        ),
        (
            "[gateway.limits]\njoin_far = 1\n".to_owned(),
            "gateway.limits.join_far (1) must be",
        ),
        (
            "[gateway.limits]\nstrangers_max = 0\n".to_owned(),
            "gateway.limits.strangers_max (0) must be between 1000 and 100000000",
        ),
        (
            "[gateway.seller]\nrefresh_ms = 0\n".to_owned(),
            "gateway.seller.refresh_ms (0) must be between 5000 and 86400000",
        ),
        (
            "[gateway.seller]\njwks = \"http://shop.example/jwks\"\n".to_owned(),
            "gateway.seller.jwks (http://shop.example/jwks): it must begin with https://",
        ),
        (
            "[gateway]\ntrusted_proxies = [\"10.0.0.0/33\"]\n".to_owned(),
            "key gateway.trusted_proxies",
        ),
        (
            "[keys]\nsecret = \"short\"\n".to_owned(),
            "keys.secret has 5 bytes; it must have at least 32",
        ),
        (
            "[keys]\nactive = \"k1\"\naccepted = [\"k1\"]\n".to_owned(),
            "key label \"k1\" is given twice",
        ),
        (
            "[keys]\nactive = \"\"\n".to_owned(),
            "key label \"\" must be 1 to 32 of",
        ),
        (
            format!("{shop}\"/buy\""),
            "route \"/buy\" needs {show}, or upstream \"shop\" a show",
        ),
        (
            format!("{shop}\"/{{show}}/buy\"\nanswer_ms = 0"),
            "route \"/{show}/buy\" answer_ms (0) must be between 1 and 86400000, or nothing would pass",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("catraca.toml");
        std::fs::write(&file, &text).unwrap();
        for verb in [&["up"][..], &["config", "check"]] {
            let words = [verb, &["--config", file.to_str().unwrap()]].concat();
            let refused = run_in(folder.path(), &words, &[]).await;
            assert_eq!(refused.code, Some(78), "{text}: {refused:?}");
            assert!(refused.err.contains(says), "{text}: {refused:?}");
        }
    }
}
