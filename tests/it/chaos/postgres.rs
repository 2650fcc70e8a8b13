//! PostgreSQL is away, dies, is locked, or takes nothing: who asks is told so soon, nothing that was
//! answered is lost, and nobody has to lend a hand.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http::StatusCode;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;

use crate::support::client::Client;
use crate::support::postgres::{self, Server as Postgres};
use crate::support::process::{Env, Server, run_in};
use crate::support::sale::{SHOW, settings};
use crate::support::until;
use crate::support::visitor::Visitor;

/// Within which time whoever asks is told that the database cannot be asked: waiting for a connection
/// is the longest of it, 2 s.
const TOLD_MAX: Duration = Duration::from_secs(3 * 2);

/// A whole system over a server of its own.
pub(super) struct Shop {
    folder: PathBuf,
    /// Goes with it.
    _own: Option<TempDir>,
    pub(super) server: Server,
    admin: Client,
}

impl Shop {
    /// With its database at a server.
    pub(super) async fn open(url: &str) -> Self {
        let own = tempfile::tempdir().unwrap();
        let shop = Self::open_in(own.path(), &[("CATRACA__DATABASE__URL", url)]).await;
        let _own = Some(own);
        Self { _own, ..shop }
    }

    /// With all it keeps in a folder, unless `env` says otherwise.
    pub(super) async fn open_in(folder: &Path, env: &Env<'_>) -> Self {
        let server = Server::up(folder, env).await;
        let admin = Client::of(format!("http://{}", server.admin));
        Self {
            folder: folder.to_owned(),
            _own: None,
            server,
            admin,
        }
    }

    /// Its gateway, for fans.
    pub(super) fn gateway(&self) -> Client {
        Client::of(format!("http://{}", self.server.gateway))
    }

    /// What `/readyz` says of the database.
    async fn readiness(&self) -> (StatusCode, String) {
        let (status, body) = self.admin.ask("GET /readyz", &[], &Value::Null).await;
        (status, body["database"].as_str().unwrap().to_owned())
    }

    pub(super) async fn is_ready(&self) {
        until("it is ready", || async {
            (self.readiness().await.0 == StatusCode::OK).then_some(())
        })
        .await;
    }

    pub(super) async fn says(&self, of_database: &str) {
        until("readiness says what is wrong", || async {
            let (status, word) = self.readiness().await;
            (status == StatusCode::SERVICE_UNAVAILABLE && word == of_database).then_some(())
        })
        .await;
    }

    /// A fan who is inside, of a show that has begun.
    pub(super) async fn visitor(&self) -> Visitor {
        let document = settings(&json!({
            "ticket_ttl_ms": 120_000,
            "hold_ms": 60_000,
            "holds_per_ticket": 4,
        }));
        create(&self.folder, &self.server, &document).await;
        let gateway = self.gateway();
        until("the board shows the seats", || async {
            let line = format!("GET /v1/shows/{SHOW}/board");
            let (_, board) = gateway.ask(&line, &[], &Value::Null).await;
            board["stock"]["left"].as_u64()
        })
        .await;
        Visitor::join_by(gateway).await.inside().await
    }
}

async fn create(folder: &Path, server: &Server, document: &Value) {
    std::fs::write(folder.join("show.json"), document.to_string()).unwrap();
    let admin = format!("http://{}", server.admin);
    let env = [
        ("CATRACA_ADMIN", admin.as_str()),
        ("CATRACA_TOKEN_FILE", "admin-token"),
    ];
    for words in [
        &["show", "create", SHOW, "show.json"][..],
        &["show", "open", SHOW],
    ] {
        let done = run_in(folder, words, &env).await;
        assert_eq!(done.code, Some(0), "{done:?}");
    }
}

/// One try to set a seat aside: told soon, whatever the answer.
pub(super) async fn try_hold(visitor: &Visitor) -> StatusCode {
    try_hold_of(visitor).await.0
}

/// The same, with what was told.
pub(super) async fn try_hold_of(visitor: &Visitor) -> (StatusCode, Value) {
    let asked = Instant::now();
    let wish = json!({ "section": "Floor", "quantity": 1 });
    let (status, answer) = visitor.try_ask("POST holds", &wish).await.unwrap();
    assert!(
        asked.elapsed() < TOLD_MAX,
        "{:?}: {answer}",
        asked.elapsed()
    );
    (status, answer)
}

/// Seats are free again for whoever tries until it works.
pub(super) async fn holds_again(visitor: &Visitor) {
    until("a seat can be held", || async {
        (try_hold(visitor).await != StatusCode::SERVICE_UNAVAILABLE).then_some(())
    })
    .await;
}

/// Events and what they tell of stand and fall together: how many do not.
pub(super) const HALF: &str = "select (select count(*) from holds h where not exists
           (select 1 from outbox o where o.aggregateid = h.hold_id))
       + (select count(*) from outbox o where o.aggregatetype = 'hold' and not exists
           (select 1 from holds h where h.hold_id = o.aggregateid))
       + (select count(*) from seats s where s.state <> 'free' and not exists
           (select 1 from holds h where h.hold_id = s.hold_id))";

pub(super) async fn nothing_is_half(connection: &mut PgConnection) {
    let half: i64 = sqlx::query_scalar(HALF)
        .fetch_one(connection)
        .await
        .unwrap();
    assert_eq!(half, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_starts_first_waits_for_its_server() {
    let Some(mut postgres) = Postgres::start(&["fsync=off"]) else {
        return;
    };
    postgres.end();
    let shop = Shop::open(&postgres.url("postgres")).await;
    assert_eq!(
        shop.readiness().await,
        (StatusCode::SERVICE_UNAVAILABLE, "failing".to_owned())
    );
    assert!(postgres.begin());
    shop.is_ready().await;
    let mut connection = postgres.connect("postgres").await;
    let migrations: i64 = sqlx::query_scalar("select count(*) from migrations")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert!(2 < migrations, "its schema came with it");
    assert_eq!(shop.server.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_outlives_a_server_that_dies() {
    let Some(mut postgres) = Postgres::start(&[]) else {
        return;
    };
    let url = postgres.database().await;
    let shop = Shop::open(&url).await;
    let visitor = shop.visitor().await;
    let hold = visitor.hold().await;
    let (status, placed) = visitor.order(&hold, "approve").await;
    assert_eq!(status, StatusCode::CREATED, "{placed}");

    postgres.end();
    assert_eq!(try_hold(&visitor).await, StatusCode::SERVICE_UNAVAILABLE);
    shop.says("failing").await;
    assert!(postgres.begin());
    let (status, again) = visitor.order(&hold, "approve").await;
    assert_eq!(status, StatusCode::OK, "{again}");
    assert_eq!(again, placed, "the order is still the same");
    visitor.confirmed(&placed).await;
    shop.is_ready().await;
    nothing_is_half(&mut postgres::connect(&url).await).await;
    assert_eq!(shop.server.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_are_cut_and_tables_that_are_locked_cost_time_and_nothing_else() {
    let Some(postgres) = Postgres::start(&["fsync=off"]) else {
        return;
    };
    let url = postgres.database().await;
    let shop = Shop::open(&url).await;
    let visitor = shop.visitor().await;
    let mut meddler = postgres::connect(&url).await;

    for _ in 0..10 {
        let cut = "select pg_terminate_backend(pid) from pg_stat_activity
                   where application_name = 'catraca'";
        let (status, _) = tokio::join!(try_hold(&visitor), async {
            sqlx::query(cut).execute(&mut meddler).await.unwrap();
        });
        let known = [
            StatusCode::CREATED,
            StatusCode::CONFLICT,
            StatusCode::SERVICE_UNAVAILABLE,
        ];
        assert!(known.contains(&status), "{status}");
    }
    holds_again(&visitor).await;

    let mut lock = meddler.begin().await.unwrap();
    // The shop's own work may have one table and want the other: it is the shop that has to give way.
    for statement in [
        "set local deadlock_timeout = '1min'",
        "lock table holds, orders in access exclusive mode",
    ] {
        postgres::execute(&mut lock, statement).await;
    }
    let tries = std::iter::repeat_with(|| try_hold(&visitor)).take(24);
    for status in futures_util::future::join_all(tries).await {
        assert!(
            [
                StatusCode::SERVICE_UNAVAILABLE,
                StatusCode::TOO_MANY_REQUESTS
            ]
            .contains(&status),
            "{status}"
        );
    }
    lock.rollback().await.unwrap();
    holds_again(&visitor).await;
    nothing_is_half(&mut meddler).await;
    shop.is_ready().await;
    assert_eq!(shop.server.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_can_only_be_read_is_named() {
    let Some(postgres) = Postgres::start(&["fsync=off"]) else {
        return;
    };
    let url = postgres.database().await;
    let shop = Shop::open(&url).await;
    let visitor = shop.visitor().await;
    let mut meddler = postgres::connect(&url).await;
    let set = async |meddler: &mut PgConnection, to: &str| {
        let set = format!("alter system set default_transaction_read_only = {to}");
        postgres::execute(meddler, &set).await;
        postgres::execute(meddler, "select pg_reload_conf()").await;
    };
    set(&mut meddler, "on").await;
    shop.says("read-only").await;
    assert_eq!(try_hold(&visitor).await, StatusCode::SERVICE_UNAVAILABLE);
    set(&mut meddler, "off").await;
    shop.is_ready().await;
    holds_again(&visitor).await;
    assert_eq!(shop.server.terminate().await, Some(0));
}
