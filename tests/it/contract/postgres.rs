//! The PostgreSQL driver: a pool that nobody can poison, and units that end.

use std::sync::Arc;

use catraca::app::database::Database;
use catraca::base::ids::IdSource;
use catraca::base::time::{Clock, ManualClock};
use catraca::driver::postgres::Postgres;
use catraca::driver::schema::POSTGRES;
use catraca::driver::sql::SqlError;
use catraca::event::{Envelope, Event};
use catraca::log::Subscriber;
use catraca::log::outbox_in_postgres::append;
use catraca::relay::step::{Relay, Settings};

use sqlx::AssertSqlSafe;

use crate::contract::desk::{Desk, T0, facts};
use crate::support::database;
use crate::support::postgres::{self, Server};

#[tokio::test]
async fn a_schema_is_brought_up_to_date_once() {
    let Some(url) = postgres::database().await else {
        return;
    };
    let (first, second) = tokio::join!(
        Postgres::open(&url, POSTGRES),
        Postgres::open(&url, POSTGRES)
    );
    let names: Vec<String> = sqlx::query_scalar("select name from migrations order by name")
        .fetch_all(&second.unwrap().pool)
        .await
        .unwrap();
    let ours: Vec<&str> = POSTGRES.iter().map(|migration| migration.name).collect();
    assert_eq!(names, ours);
    first.unwrap().close().await;
}

#[tokio::test]
async fn a_pool_finds_its_server_again_and_everything_committed() {
    let Some(mut server) = Server::start(&[]) else {
        return;
    };
    let db = Postgres::open(&server.database().await, POSTGRES).await;
    let db = db.unwrap();
    let write = async |id: &'static str| {
        db.unit(move |mut tx| async move {
            let sql = "insert into notices values ($1, '', '', '', '', 0)";
            sqlx::query(sql).bind(id).execute(&mut *tx).await?;
            Ok(tx.commit().await?)
        })
        .await as Result<(), SqlError>
    };
    write("before").await.unwrap();
    server.end();
    write("while away").await.unwrap_err();
    assert!(server.begin());
    write("after").await.unwrap();
    let ids: Vec<String> = sqlx::query_scalar("select event_id from notices order by 1")
        .fetch_all(&db.pool)
        .await
        .unwrap();
    assert_eq!(ids, ["after", "before"]);
}

fn envelope(ids: &IdSource) -> Envelope {
    let order = ids.order(T0);
    Envelope {
        id: ids.event(T0),
        version: 1,
        at: T0,
        trace: None,
        event: Event::OrderPlaced(facts(order)),
    }
}

/// The order of events in which a floor by the row's own transaction loses one: an older transaction
/// takes a later number and commits first.
#[tokio::test]
async fn an_event_that_is_committed_late_is_sent_all_the_same() {
    let Some(Database::Postgres(db)) = database::in_postgres().await else {
        return;
    };
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(T0));
    let stores = Database::Postgres(db.clone()).stores(&clock, &Arc::new(IdSource::random()));
    let settings = Settings::default();
    let mut relay = Relay::new(stores.relay.clone(), clock, "relay".to_owned(), settings);
    let ids = IdSource::seeded(1);

    let mut older = db.pool.begin().await.unwrap();
    sqlx::query("select pg_current_xact_id()")
        .execute(&mut *older)
        .await
        .unwrap();
    let mut late = db.pool.begin().await.unwrap();
    append(&mut late, &envelope(&ids)).await.unwrap();
    append(&mut older, &envelope(&ids)).await.unwrap();
    older.commit().await.unwrap();
    let mut sent = 0;
    for _ in 0..3 {
        sent += relay.step().await.unwrap().sent;
    }
    assert_eq!(sent, 1, "the one that can be seen");
    let more =
        "insert into outbox (id, aggregatetype, aggregateid, aggregate_version, type, payload,
                                    partition, occurred_at_ms)
                select n::text, 'order', n::text, 1, 'OrderPlaced', '{}', n % 6, 0
                from generate_series(1, 2400) n";
    sqlx::query(more).execute(&db.pool).await.unwrap();
    while relay.step().await.unwrap().sent != 0 {}
    relay.step().await.unwrap();
    late.commit().await.unwrap();
    assert_eq!(relay.step().await.unwrap().sent, 1, "the late one");
    // Nobody is left who could come late: the floor rises over all of it.
    sqlx::query(AssertSqlSafe(more.replace("n::text", "'m' || n")))
        .execute(&db.pool)
        .await
        .unwrap();
    while relay.step().await.unwrap().sent != 0 {}
    relay.step().await.unwrap();
    let floor: i64 = sqlx::query_scalar("select min(floor_seq) from outbox_partitions")
        .fetch_one(&db.pool)
        .await
        .unwrap();
    assert!(2_402 < floor, "{floor}");
}

#[tokio::test]
async fn of_two_processes_that_run_a_group_one_reads() {
    let Some(database) = database::in_postgres().await else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let desk = Desk::open(database, folder).await;
    let order = desk.order_in(0);
    desk.write(Event::OrderPlaced(facts(order)), 1).await;
    desk.relay_all().await;
    let first = desk.log();
    let second = desk
        .db
        .stores(&desk.time(), &Arc::new(IdSource::random()))
        .log;
    let read = async |log: &Arc<dyn Subscriber>| log.poll("notify", 0, 10).await.unwrap().len();
    assert_eq!((read(&first).await, read(&second).await), (1, 0));
    assert_eq!((read(&first).await, read(&second).await), (1, 0));
    // Other tests have databases of their own on the same server, and locks in them.
    desk.run(
        "select pg_terminate_backend(l.pid) from pg_locks l join pg_database d on d.oid = l.database
         where l.locktype = 'advisory' and d.datname = current_database()",
    )
    .await;
    first.poll("notify", 0, 10).await.unwrap_err();
    assert_eq!((read(&second).await, read(&first).await), (1, 0));
}
