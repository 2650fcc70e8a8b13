//! The admin API over either database: versions, roles, rules, audit.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use catraca::admin::access::{Access, Operator, Role};
use catraca::admin::health::Health;
use catraca::admin::{Admin, router};
use catraca::app::database::Database;
use catraca::base::ids::IdSource;
use catraca::base::time::{Clock, SystemClock};
use catraca::room::Rooms;
use catraca::room::in_memory::InMemory;
use catraca::telemetry::Exposition;
use catraca::telemetry::phase::Phase;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tower::ServiceExt;

use crate::support::database::{self, on_every_database};

on_every_database! {
    World:
    a_show_is_created_changed_and_versioned,
    a_rate_above_the_ceiling_is_refused_with_what_it_would_mean,
    verbs_need_a_role_and_leave_an_audit_row,
    readiness_names_what_fails,
    what_was_sold_keeps_its_currency_and_something_stays_for_sale,
    a_section_that_is_taken_out_keeps_its_currency_until_it_is_gone,
    twenty_operators_at_once_all_get_their_change,
    a_show_is_cancelled_by_an_admin_who_means_it,
}

pub(super) struct World {
    router: Router,
    pub(super) db: Database,
    pub(super) rooms: Rooms,
    phase: watch::Sender<Phase>,
    _folder: tempfile::TempDir,
}

/// Status, ETag, body.
pub(super) type Answer = (StatusCode, Option<String>, Value);

impl World {
    pub(super) async fn open(db: Database, folder: tempfile::TempDir) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let room = InMemory::open(&folder.path().join("room.db"), clock.clone())
            .await
            .unwrap();
        let mut access = Access::default();
        for role in [Role::Viewer, Role::Operator, Role::Admin] {
            let name = format!("a {role}");
            access.allow(Access::hash(&role.to_string()), Operator { name, role });
        }
        let (phase, seen) = watch::channel(Phase::Ready);
        let shows = db.stores(&clock, &Arc::new(IdSource::random())).shows;
        let rooms = Rooms::new(Arc::new(room));
        let admin = Admin {
            access: Arc::new(access),
            shows: Arc::clone(&shows),
            rooms: rooms.clone(),
            clock,
            changed: Arc::new(Notify::new()),
            health: Arc::new(Health {
                phase: seen,
                exposition: Exposition::detached().unwrap(),
                rooms: rooms.clone(),
                shows: Some(shows),
                log: None,
            }),
        };
        Self {
            router: router(admin, Router::new()),
            db,
            rooms,
            phase,
            _folder: folder,
        }
    }

    pub(super) async fn ask(
        &self,
        token: &str,
        line: &str,
        if_match: Option<&str>,
        body: Value,
    ) -> Answer {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {token}"));
        if let Some(version) = if_match {
            request = request.header("if-match", version);
        }
        let request = request.body(Body::from(body.to_string())).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let etag = head
            .headers
            .get("etag")
            .map(|value| value.to_str().unwrap().to_owned());
        let bytes = body.collect().await.unwrap().to_bytes();
        (
            head.status,
            etag,
            serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        )
    }
}

pub(super) fn settings() -> Value {
    serde_json::from_str(
        r#"{"name": "Show", "rate": 30, "sections":
            [{"name": "B", "seats": 600, "price": {"amount": 390.10, "currency": "BRL"}}]}"#,
    )
    .unwrap()
}

async fn a_show_is_created_changed_and_versioned(world: World) {
    let (status, etag, body) = world
        .ask("admin", "PUT /admin/v1/shows/s", None, settings())
        .await;
    assert_eq!(
        (status, etag.as_deref()),
        (StatusCode::CREATED, Some("\"1\"")),
        "{body}"
    );
    assert_eq!(body["settings"]["rate_max"], 60);
    let stored = database::all::<(String,)>(&world.db, "select settings from shows").await;
    let (stored,) = &stored[0];
    assert!(stored.contains(r#""amount":390.10,"#), "{stored}");

    let again = world
        .ask("admin", "PUT /admin/v1/shows/s", None, settings())
        .await;
    assert_eq!(again.0, StatusCode::CONFLICT);
    let stale = world
        .ask("admin", "PUT /admin/v1/shows/s", Some("\"7\""), settings())
        .await;
    assert_eq!(
        (stale.0, &stale.2["version"]),
        (StatusCode::PRECONDITION_FAILED, &json!(1))
    );

    let faster = json!({"rate": 45, "message": {"en": "Hello"}});
    let (status, etag, body) = world
        .ask("operator", "PATCH /admin/v1/shows/s", None, faster)
        .await;
    assert_eq!(
        (status, etag.as_deref()),
        (StatusCode::OK, Some("\"2\"")),
        "{body}"
    );
    assert_eq!(
        (&body["settings"]["rate"], &body["settings"]["name"]),
        (&json!(45), &json!("Show"))
    );

    let (_, _, list) = world
        .ask("viewer", "GET /admin/v1/shows", None, json!({}))
        .await;
    assert_eq!(list["shows"][0]["version"], 2);
    assert_eq!(list["shows"][0]["room"]["state"], "unfenced");
}

async fn a_rate_above_the_ceiling_is_refused_with_what_it_would_mean(world: World) {
    world
        .ask("admin", "PUT /admin/v1/shows/s", None, settings())
        .await;
    let too_fast = world
        .ask(
            "operator",
            "PATCH /admin/v1/shows/s",
            None,
            json!({"rate": 61}),
        )
        .await;
    assert_eq!(
        (too_fast.0, &too_fast.2["rate_max"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!(60))
    );
    assert_eq!(too_fast.2["would_sell_out_in_s"], 4);
    let meant = json!({"rate": 61, "rate_max": 100});
    let (status, _, body) = world
        .ask("operator", "PATCH /admin/v1/shows/s", None, meant)
        .await;
    assert_eq!(status, StatusCode::OK, "{body}");
    for (bad, word) in [
        (json!({"rate": -1}), "settings-refused"),
        (json!({"colour": "red"}), "settings-refused"),
        (
            json!({"early_at": "0026-12-01T10:00:00Z"}),
            "settings-refused",
        ),
        (
            json!({"rate": 101, "window_ms": u64::MAX}),
            "rate-above-max",
        ),
        (json!([1]), "bad-json"),
    ] {
        let (_, _, body) = world
            .ask("operator", "PATCH /admin/v1/shows/s", None, bad)
            .await;
        assert_eq!(body["type"], format!("urn:catraca:problem:{word}"));
    }
}

async fn verbs_need_a_role_and_leave_an_audit_row(world: World) {
    world
        .ask("admin", "PUT /admin/v1/shows/s", None, settings())
        .await;
    let (status, _, body) = world
        .ask("operator", "POST /admin/v1/shows/s/open", None, json!({}))
        .await;
    assert_eq!(
        (status, &body["state"], &body["version"]),
        (StatusCode::OK, &json!("open"), &json!(2))
    );
    for (token, line, expected) in [
        (
            "viewer",
            "POST /admin/v1/shows/s/pause",
            StatusCode::FORBIDDEN,
        ),
        ("operator", "PUT /admin/v1/shows/t", StatusCode::FORBIDDEN),
        ("stranger", "GET /admin/v1/shows", StatusCode::UNAUTHORIZED),
        ("admin", "GET /admin/v1/shows/t", StatusCode::NOT_FOUND),
        (
            "admin",
            "POST /admin/v1/shows/t/open",
            StatusCode::NOT_FOUND,
        ),
        (
            "admin",
            "POST /admin/v1/shows/s/burn",
            StatusCode::NOT_FOUND,
        ),
        ("admin", "GET /admin/v1/shows/Bad!", StatusCode::BAD_REQUEST),
        ("admin", "GET /nowhere", StatusCode::NOT_FOUND),
    ] {
        let (status, _, body) = world.ask(token, line, None, settings()).await;
        assert_eq!(status, expected, "{token} {line}: {body}");
    }
    let rows: Vec<(String, String, String)> =
        database::all(&world.db, "select who, role, action from audit order by id").await;
    let row = |who: &str, role: &str, action: &str| (who.into(), role.into(), action.into());
    assert_eq!(
        rows,
        [
            row("a admin", "admin", "create"),
            row("a operator", "operator", "open")
        ]
    );
}

async fn readiness_names_what_fails(world: World) {
    let ready = world.ask("", "GET /readyz", None, json!({})).await;
    assert_eq!(
        (ready.0, &ready.2["database"]),
        (StatusCode::OK, &json!("ok"))
    );
    for open_to_all in ["GET /livez", "GET /metrics"] {
        let answer = world.ask("", open_to_all, None, json!({})).await;
        assert_eq!(answer.0, StatusCode::OK, "{open_to_all}");
    }
    world.phase.send_replace(Phase::Draining);
    let draining = world.ask("", "GET /readyz", None, json!({})).await;
    assert_eq!(draining.0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(draining.2["process"], "draining");
    world.phase.send_replace(Phase::Ready);
    world.db.close().await;
    let broken = world.ask("", "GET /readyz", None, json!({})).await;
    assert_eq!(
        (broken.0, &broken.2["database"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("failing"))
    );
}

async fn what_was_sold_keeps_its_currency_and_something_stays_for_sale(world: World) {
    let made = world.ask("admin", "PUT /admin/v1/shows/s", None, settings());
    assert_eq!(made.await.0, StatusCode::CREATED);
    let dollars = r#"{"sections": [{"name": "B", "seats": 600, "price": {"amount": 90.00, "currency": "USD"}}]}"#;
    let dollars: Value = serde_json::from_str(dollars).unwrap();
    for (change, says) in [
        (dollars, "must keep its currency, BRL"),
        (json!({"sections": []}), "must keep at least one"),
        (json!({"sections": null}), "must keep at least one"),
    ] {
        let line = "PATCH /admin/v1/shows/s";
        let (status, _, body) = world.ask("operator", line, None, change).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body}");
        let detail = body["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{detail}");
    }
}

/// Two changes do not do what one may not: the shop has the section, in its currency, until its last seat is free.
async fn a_section_that_is_taken_out_keeps_its_currency_until_it_is_gone(world: World) {
    let made = world.ask("admin", "PUT /admin/v1/shows/s", None, settings());
    assert_eq!(made.await.0, StatusCode::CREATED);
    database::run(
        &world.db,
        "insert into sections (show, section, position, numbered, price_minor, currency)
         values ('s', 'B', 0, 1 = 0, 39010, 'BRL')",
    )
    .await;
    let one = |name: &str, currency: &str| {
        let price = json!({"amount": 90, "currency": currency});
        json!({"sections": [{"name": name, "seats": 600, "price": price}]})
    };
    let set = async |change| {
        let line = "PATCH /admin/v1/shows/s";
        let (status, _, body) = world.ask("operator", line, None, change).await;
        (status, body["detail"].to_string())
    };
    assert_eq!(set(one("A", "BRL")).await.0, StatusCode::OK);
    let (status, why) = set(one("B", "USD")).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(why.contains("must keep its currency, BRL"), "{why}");
    assert_eq!(set(one("C", "USD")).await.0, StatusCode::OK);
    database::run(&world.db, "delete from sections").await;
    assert_eq!(set(one("B", "USD")).await.0, StatusCode::OK);
}

/// Row 103 of the hostile catalogue: changes at once, each applied to what the others wrote.
async fn twenty_operators_at_once_all_get_their_change(world: World) {
    let made = world.ask("admin", "PUT /admin/v1/shows/s", None, settings());
    assert_eq!(made.await.0, StatusCode::CREATED);
    let changes = (1..=20).map(|capacity| {
        let change = json!({ "capacity": capacity });
        world.ask("operator", "PATCH /admin/v1/shows/s", None, change)
    });
    for (status, _, body) in futures_util::future::join_all(changes).await {
        assert_eq!(status, StatusCode::OK, "{body}");
    }
    let (_, etag, _) = world
        .ask("viewer", "GET /admin/v1/shows/s", None, json!({}))
        .await;
    assert_eq!(etag.as_deref(), Some("\"21\""));
}

/// Row 105 of the hostile catalogue: what nothing undoes is said twice.
async fn a_show_is_cancelled_by_an_admin_who_means_it(world: World) {
    let made = world.ask("admin", "PUT /admin/v1/shows/s", None, settings());
    assert_eq!(made.await.0, StatusCode::CREATED);
    let cancel = "POST /admin/v1/shows/s/cancel";
    for (token, body, expected) in [
        ("operator", json!({"show": "s"}), 403),
        ("admin", json!({}), 422),
        ("admin", json!({"show": "t"}), 422),
        ("admin", json!({"show": "s"}), 200),
        ("admin", json!({"show": "s"}), 200),
    ] {
        let (status, etag, told) = world.ask(token, cancel, None, body).await;
        assert_eq!(status.as_u16(), expected, "{told}");
        if expected == 200 {
            assert_eq!(
                (&told["state"], etag.as_deref()),
                (&json!("closed"), Some("\"2\""))
            );
            assert!(told["cancelled_at"].is_string(), "{told}");
        }
    }
    let nowhere = "POST /admin/v1/shows/t/cancel";
    let (status, _, _) = world
        .ask("admin", nowhere, None, json!({"show": "t"}))
        .await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    for verb in ["open", "pause", "off"] {
        let line = format!("POST /admin/v1/shows/s/{verb}");
        let (status, _, body) = world.ask("admin", &line, None, json!({})).await;
        assert_eq!(
            (status.as_u16(), &body["type"]),
            (409, &json!("urn:catraca:problem:show-cancelled"))
        );
    }
}
