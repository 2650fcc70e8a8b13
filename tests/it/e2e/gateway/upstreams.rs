//! Several upstreams and hosts, and what each route grants.

use std::collections::BTreeMap;

use catraca::gateway::upstreams::{Gate, HostSent, Route, RouteGate, Upstream};
use catraca::room::model::command::RoomState;

use crate::e2e::gateway::door::{Door, Plan, show};
use crate::e2e::gateway::shop::Shop;

fn upstream(address: &str, gate: Gate) -> Upstream {
    Upstream {
        show: Some(show()),
        ..Upstream::new(format!("http://{address}").parse().unwrap(), gate)
    }
}

fn named(host: &str, route: Route) -> Route {
    Route {
        host: Some(host.to_owned()),
        ..route
    }
}

/// A gateway before two shops: one is gated and is told the name that was asked, one is open to all.
async fn two_shops() -> (Door, Shop, Shop) {
    let ((shop, its), (blog, blogs)) = (Shop::open().await, Shop::open().await);
    let gated = Upstream {
        host: HostSent::Asked,
        ..upstream(&its, Gate::Room)
    };
    let all = &["GET", "POST"];
    let door = Door::planned(Plan {
        upstreams: Some(BTreeMap::from([
            ("shop".to_owned(), gated),
            ("blog".to_owned(), upstream(&blogs, Gate::Open)),
        ])),
        routes: Some(vec![
            named(
                "shop.example.com",
                Route::new("/help", all, "shop").with_gate(RouteGate::Open),
            ),
            named("shop.example.com", Route::new("/{*rest}", all, "shop")),
            named("Blog.Example.com", Route::new("/{*rest}", all, "blog")),
        ]),
        ..Plan::default()
    })
    .await;
    (door, shop, blog)
}

/// The same name in every spelling is one host, and leads to one upstream.
#[tokio::test]
async fn a_host_is_a_host_however_it_is_written() {
    let (door, shop, blog) = two_shops().await;
    for (target, host, status, reaches) in [
        ("/help", "shop.example.com", "200", "shop"),
        ("/help", "SHOP.example.com:8080", "200", "shop"),
        ("/help", "shop.example.com.", "200", "shop"),
        (
            "http://shop.example.com/help",
            "shop.example.com",
            "200",
            "shop",
        ),
        ("/seats", "shop.example.com.", "401", ""),
        ("/seats", "sHop.example.com:80", "401", ""),
        (
            "http://shop.example.com/seats",
            "shop.example.com",
            "401",
            "",
        ),
        (
            "http://blog.example.com/seats",
            "shop.example.com",
            "400",
            "",
        ),
        ("/seats", "blog.example.com", "200", "blog"),
        ("/seats", "blog.example.com.shop.example.com", "404", ""),
        ("/seats", "example.com", "404", ""),
        ("/seats", "xshop.example.com", "404", ""),
        ("/seats", "shop.example.com..", "404", ""),
        ("/seats", "127.0.0.1", "404", ""),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        let answer = door.raw(request.as_bytes()).await;
        assert_eq!(answer.split(' ').nth(1), Some(status), "{target} {host}");
        let at = |who: &Shop| who.reached().len();
        assert_eq!(at(&shop), usize::from(reaches == "shop"), "{target} {host}");
        assert_eq!(at(&blog), usize::from(reaches == "blog"), "{target} {host}");
    }
}

#[tokio::test]
async fn an_upstream_is_told_its_own_name_or_the_one_that_was_asked() {
    let (door, shop, blog) = two_shops().await;
    for (who, host, own) in [
        (&shop, "shop.example.com:8080", false),
        (&blog, "blog.example.com", true),
    ] {
        door.raw(
            format!("GET /help HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").as_bytes(),
        )
        .await;
        let headers = who.reached().remove(0).headers;
        let told = headers["host"].to_str().unwrap();
        assert_eq!(told.starts_with("127.0.0.1:"), own, "{told}");
        assert!(own || told == host, "{told}");
        assert_eq!(headers["x-forwarded-host"], host);
        assert_eq!(headers["via"], "1.1 catraca");
    }
}

/// Routes to one shop, each with terms of its own.
async fn with_terms() -> (Door, Shop) {
    let (shop, its) = Shop::open().await;
    let route = |path: &str| Route::new(path, &["GET", "POST"], "shop");
    let mut plan = Plan {
        upstreams: Some(BTreeMap::from([(
            "shop".to_owned(),
            upstream(&its, Gate::Open),
        )])),
        routes: Some(vec![
            Route {
                body_bytes_max: Some(1_000),
                ..route("/upload")
            },
            Route {
                body_bytes_max: Some(0),
                ..route("/nothing")
            },
            Route {
                answer_ms: Some(5_000),
                ..route("/report")
            },
            Route {
                per_s: Some(1),
                burst: Some(2),
                ..route("/search")
            },
            Route {
                in_flight_max: Some(1),
                answer_ms: Some(5_000),
                ..route("/narrow")
            },
            route("/{*rest}"),
        ]),
        ..Plan::default()
    };
    plan.settings.forward_body_bytes_max = 100;
    (Door::planned(plan).await, shop)
}

#[tokio::test]
async fn a_route_has_a_longest_body_of_its_own() {
    let (door, shop) = with_terms().await;
    for (path, bytes, status) in [
        ("/upload", 1_000, 200),
        ("/upload", 1_001, 413),
        ("/x", 100, 200),
        ("/x", 101, 413),
        ("/nothing", 0, 200),
        ("/nothing", 1, 413),
    ] {
        let answer = door.ask("POST", path, &[], &"x".repeat(bytes)).await;
        assert_eq!(answer.status, status, "{path} {bytes}");
        let reached = shop.reached().len();
        assert_eq!(reached, usize::from(status == 200), "{path} {bytes}");
    }
}

#[tokio::test]
async fn a_route_has_a_patience_a_rate_and_places_of_its_own() {
    let (door, shop) = with_terms().await;
    let mut statuses = Vec::new();
    for _ in 0..3 {
        let answer = door.get("/search", &[]).await;
        statuses.push((answer.status, answer.header("retry-after").to_owned()));
    }
    assert_eq!(statuses[..2], [(200, String::new()), (200, String::new())]);
    // A slow machine may have waited out the second.
    let third = (503, "1".to_owned());
    assert!(statuses[2].0 == 200 || statuses[2] == third, "{statuses:?}");

    // The shop's patience of this gateway is 300 ms; two routes have more.
    shop.thinks(std::time::Duration::from_millis(600));
    assert_eq!(door.get("/x", &[]).await.status, 504);
    assert_eq!(door.get("/report", &[]).await.status, 200);
    shop.reached();
    let first = door.get("/narrow", &[]);
    let second = async {
        while shop.reached().is_empty() {
            tokio::task::yield_now().await;
        }
        door.get("/narrow", &[]).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.status, second.status), (200, 503));
    let told = (second.word(), second.header("retry-after"));
    assert_eq!(told, ("busy".to_owned(), "1"));
}

/// A gate that stands open says so in every answer, refusals and failures among them.
#[tokio::test]
async fn off_is_loud() {
    let (door, shop, _) = two_shops().await;
    let ask = async |path: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: shop.example.com\r\nconnection: close\r\n\r\n");
        door.raw(request.as_bytes()).await
    };
    assert!(!ask("/seats").await.contains("catraca-room"));
    door.turn(9, RoomState::Off).await;
    let passed = ask("/seats").await;
    assert!(
        passed.starts_with("HTTP/1.1 200") && passed.contains("catraca-room: off"),
        "{passed}"
    );
    shop.thinks(std::time::Duration::from_secs(60));
    let late = ask("/seats").await;
    assert!(
        late.starts_with("HTTP/1.1 504") && late.contains("catraca-room: off"),
        "{late}"
    );
    let board = door.get("/v1/shows/gala/board", &[]).await.json();
    assert_eq!(board["state"], "off");
    door.turn(10, RoomState::Open).await;
    assert!(ask("/seats").await.starts_with("HTTP/1.1 401"));
}
