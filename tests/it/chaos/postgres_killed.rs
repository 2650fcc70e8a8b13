//! A session of PostgreSQL dies by SIGKILL in the middle of a statement, and with it, for a moment, the
//! whole server: who repeats their order has one order.

use std::process::Command;

use http::StatusCode;
use sqlx::{Connection, PgConnection};

use crate::chaos::postgres::{Shop, nothing_is_half};
use crate::support::postgres::{self, Server as Postgres};
use crate::support::until;

/// Rounds; each takes the server a second.
const ROUNDS: usize = 3;

/// The sessions that wait for somebody else's lock.
async fn waiting(connection: &mut PgConnection) -> Vec<i32> {
    let waits = "select pid from pg_stat_activity where wait_event_type = 'Lock'
                 and datname = current_database() and query like '%placed as%'";
    sqlx::query_scalar(waits)
        .fetch_all(connection)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_whose_session_dies_inside_its_statement_is_one_order() {
    let Some(postgres) = Postgres::start(&[]) else {
        return;
    };
    let url = postgres.database().await;
    let shop = Shop::open(&url).await;
    let mut visitor = shop.visitor().await;
    for round in 1..=ROUNDS {
        let hold = visitor.hold().await;
        let mut locking = postgres::connect(&url).await;
        let mut lock = locking.begin().await.unwrap();
        let locked = "select from holds where hold_id = $1 for update";
        sqlx::query(locked)
            .bind(&hold)
            .execute(&mut *lock)
            .await
            .unwrap();
        // It waits inside the statement that would write all of it, until its session is gone, and is
        // repeated by the client until somebody has the time to answer.
        let ordering = visitor.order(&hold, "approve");
        let killing = async {
            let pid = until("the order waits", || async {
                let mut watching = postgres::connect(&url).await;
                waiting(&mut watching).await.first().copied()
            })
            .await;
            let killed = Command::new("kill").args(["-9", &pid.to_string()]).status();
            assert!(killed.unwrap().success());
        };
        let ((status, placed), ()) = tokio::join!(ordering, killing);
        drop(lock); // its server has forgotten it
        assert!(
            [StatusCode::CREATED, StatusCode::OK].contains(&status),
            "{status} {placed}"
        );
        visitor.confirmed(&placed).await;
        let mut looking = postgres::connect(&url).await;
        let orders: i64 = sqlx::query_scalar("select count(*) from orders")
            .fetch_one(&mut looking)
            .await
            .unwrap();
        assert_eq!(usize::try_from(orders).unwrap(), round);
        nothing_is_half(&mut looking).await;
        visitor = visitor.another().await;
    }
    shop.is_ready().await;
    assert_eq!(shop.server.terminate().await, Some(0));
}
