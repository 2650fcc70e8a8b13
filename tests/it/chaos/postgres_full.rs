//! PostgreSQL cannot write: whoever asks is told so soon, what was answered stays, and once there is
//! space again nobody has to lend a hand.

use http::StatusCode;
use serde_json::Value;

use crate::chaos::postgres::{Shop, holds_again, nothing_is_half, try_hold};
use crate::support::postgres::{self, Server as Postgres};
use crate::support::until;
use crate::support::visitor::Visitor;

/// As large as a piece of the log is. What grows beyond meets a full disk; the log itself does not.
const LOG_PIECE: u64 = 16 << 20;
/// Smaller than that: there is no space for the log either.
const NOTHING: u64 = 64 << 10;
/// Makes the outbox's file larger than that. Nobody ever sees these rows, and between them there is no
/// room for an event.
const FILL: &str = "begin;
  insert into outbox (id, aggregatetype, aggregateid, aggregate_version, type, payload, partition,
                      occurred_at_ms)
  select n::text, 'order', n::text, 1, 'OrderPlaced',
         (select string_agg(md5(n::text || m::text), '') from generate_series(1, 8) m), 0, 0
  from generate_series(1, 60000) n;
  rollback";

/// Takes seats and gives them back until that cannot be written. Some events may still find a place.
async fn until_it_is_full(visitor: &Visitor) {
    until("the disk is full", || async {
        match try_hold(visitor).await {
            StatusCode::SERVICE_UNAVAILABLE => return Some(()),
            StatusCode::CONFLICT => visitor.release_all().await,
            status => assert!(
                [StatusCode::CREATED, StatusCode::TOO_MANY_REQUESTS].contains(&status),
                "{status}"
            ),
        }
        None
    })
    .await;
}

/// Who has bought is inside no more, and still sees their order.
async fn reads_as_confirmed(visitor: &Visitor, placed: &Value) {
    let what = format!("GET orders/{}", placed["order_id"].as_str().unwrap());
    let (status, read) = visitor.try_ask(&what, &Value::Null).await.unwrap();
    let expected = (StatusCode::OK, &"confirmed".into());
    assert_eq!((status, &read["status"]), expected);
    assert_eq!(read["seats"], placed["seats"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_told_and_costs_nobody_what_they_have() {
    let Some(mut postgres) = Postgres::start(&["autovacuum=off"]) else {
        return;
    };
    let url = postgres.database().await;
    let shop = Shop::open(&url).await;
    let visitor = shop.visitor().await;
    let hold = visitor.hold().await;
    let (status, placed) = visitor.order(&hold, "approve").await;
    assert_eq!(status, StatusCode::CREATED, "{placed}");
    visitor.confirmed(&placed).await;
    let other = visitor.another().await;

    let mut meddler = postgres::connect(&url).await;
    postgres::execute(&mut meddler, FILL).await;
    postgres.limit_files(Some(LOG_PIECE));
    until_it_is_full(&other).await;
    reads_as_confirmed(&visitor, &placed).await;
    nothing_is_half(&mut meddler).await;

    postgres.limit_files(None);
    holds_again(&other).await;
    shop.is_ready().await;

    // Without space for its log the server dies, and somebody starts it again once there is some.
    postgres.limit_files(Some(NOTHING));
    until_it_is_full(&other).await;
    postgres.end();
    assert!(postgres.begin());
    holds_again(&other).await;
    reads_as_confirmed(&visitor, &placed).await;
    nothing_is_half(&mut postgres::connect(&url).await).await;
    shop.is_ready().await;
    assert_eq!(shop.server.terminate().await, Some(0));
}
