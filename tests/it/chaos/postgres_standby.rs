//! A standby takes the primary's place: only a primary is ever used, nothing that was answered is lost,
//! and where the address leads to the new one, nobody has to lend a hand.

use std::net::SocketAddr;

use http::StatusCode;
use serde_json::Value;
use sqlx::PgConnection;

use crate::chaos::postgres::{Shop, holds_again, nothing_is_half, try_hold};
use crate::support::postgres::{self, Server as Postgres};
use crate::support::process::run_in;
use crate::support::signpost::Signpost;
use crate::support::until;

fn address(server: &Postgres) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], server.port))
}

/// The one number that a statement finds.
async fn number(connection: &mut PgConnection, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
}

/// A process that is led to a standby does not start, and says why.
async fn is_refused(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let env = [("CATRACA__DATABASE__URL", url)];
    let refused = run_in(folder.path(), &["migrate", "--data-dir", "."], &env).await;
    assert_eq!(refused.code, Some(69), "{refused:?}");
    assert!(
        refused.err.contains("only a primary will do"),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_over_and_every_answer_stands() {
    let settings = ["fsync=off", "wal_level=replica"];
    let Some(mut primary) = Postgres::start(&settings) else {
        return;
    };
    let url = primary.database().await;
    let standby = primary.follow(&settings);
    let mut meddler = postgres::connect(&url).await;
    until("the standby follows", || async {
        let mut meddler = postgres::connect(&url).await;
        let follows = "select count(*) from pg_stat_replication where state = 'streaming'";
        (number(&mut meddler, follows).await == 1).then_some(())
    })
    .await;
    // What is answered is on both.
    let both = "alter system set synchronous_standby_names = '*'";
    postgres::execute(&mut meddler, both).await;
    postgres::execute(&mut meddler, "select pg_reload_conf()").await;
    let name = url.rsplit('/').next().unwrap();
    is_refused(&standby.url(name)).await;

    let signpost = Signpost::to(address(&primary)).await;
    let through = format!("postgres://catraca@{}/{name}", signpost.address);
    let shop = Shop::open(&through).await;
    let visitor = shop.visitor().await;
    let hold = visitor.hold().await;
    let (status, placed) = visitor.order(&hold, "approve").await;
    assert_eq!(status, StatusCode::CREATED, "{placed}");

    primary.end();
    signpost.turn(address(&standby));
    for _ in 0..2 {
        assert_eq!(try_hold(&visitor).await, StatusCode::SERVICE_UNAVAILABLE);
    }
    let mut meddler = postgres::connect(&standby.url(name)).await;
    postgres::execute(&mut meddler, "select pg_promote()").await;
    holds_again(&visitor).await;
    let what = format!("GET orders/{}", placed["order_id"].as_str().unwrap());
    until("the order is there and paid", || async {
        let (status, read) = visitor.try_ask(&what, &Value::Null).await.unwrap();
        assert_ne!(status, StatusCode::NOT_FOUND, "{read}");
        (read["status"] == "confirmed" && read["seats"] == placed["seats"]).then_some(())
    })
    .await;
    nothing_is_half(&mut meddler).await;
    assert_eq!(number(&mut meddler, "select count(*) from orders").await, 1);
    shop.is_ready().await;
    assert_eq!(shop.server.terminate().await, Some(0));
}
