//! The PostgreSQL driver: a pool that nobody can poison, and units that end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use catraca::app::database::Database;
use catraca::base::ids::IdSource;
use catraca::base::limits::PARTITIONS;
use catraca::base::time::{Clock, ManualClock};
use catraca::driver::postgres::Postgres;
use catraca::driver::schema::POSTGRES;
use catraca::driver::sql::SqlError;
use catraca::event::{Envelope, Event};
use catraca::log::Subscriber;
use catraca::log::outbox_in_postgres::append;
use catraca::relay::step::{Relay, Settings};

use sqlx::{AssertSqlSafe, Transaction};

use crate::contract::desk::{Desk, T0, facts};
use crate::support::postgres::{self, Server};
use crate::support::{database, until};

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

/// A pool has sixteen connections, and closes none that is as it was found.
#[tokio::test]
async fn units_one_after_the_other_share_their_connections() {
    let Some(url) = postgres::database().await else {
        return;
    };
    let db = Postgres::open(&url, POSTGRES).await.unwrap();
    let mut sessions = BTreeSet::new();
    for _ in 0..50 {
        let session: Result<i32, SqlError> = db
            .unit(|mut tx| async move {
                let session = sqlx::query_scalar("select pg_backend_pid()");
                let session = session.fetch_one(&mut *tx).await?;
                tx.commit().await?;
                Ok(session)
            })
            .await;
        sessions.insert(session.unwrap());
    }
    assert!(sessions.len() <= 16, "{sessions:?}");
    db.close().await;
}

/// A `begin` that was cancelled gives back a connection with a transaction of which sqlx knows nothing.
#[tokio::test]
async fn a_connection_that_comes_back_inside_a_transaction_is_not_used_again() {
    let Some(url) = postgres::database().await else {
        return;
    };
    let db = Postgres::open(&url, POSTGRES).await.unwrap();
    for round in 0..50 {
        let mut connection = db.pool.acquire().await.unwrap();
        let is_free = "select pg_current_xact_id_if_assigned() is null and
                         not exists (select from notices) as is_free";
        let is_free: bool = sqlx::query_scalar(is_free)
            .fetch_one(&mut *connection)
            .await
            .unwrap();
        assert!(is_free, "round {round}");
        let left_open = "begin; insert into notices values ('x', '', '', '', '', 0)";
        let left_open = sqlx::raw_sql(left_open).execute(&mut *connection);
        left_open.await.unwrap();
    }
    db.close().await;
}

/// Whoever stops in the middle of a transaction is cut off, and what they had locked is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_idles_in_a_transaction_is_cut_off() {
    let Some(url) = postgres::database().await else {
        return;
    };
    let db = Postgres::open(&url, POSTGRES).await.unwrap();
    for (bound, is) in [
        ("idle_in_transaction_session_timeout", "5s"),
        ("statement_timeout", "5s"),
        ("lock_timeout", "2s"),
        ("default_transaction_isolation", "read committed"),
        ("synchronous_commit", "on"), // the server here is told "off"
    ] {
        let setting = sqlx::query_scalar("select current_setting($1)").bind(bound);
        let setting: String = setting.fetch_one(&db.pool).await.unwrap();
        assert_eq!(setting, is, "{bound}");
    }
    let mut idle = db.pool.begin().await.unwrap();
    let stops = "set local idle_in_transaction_session_timeout = 100;
      insert into notices values ('x', 'idle', '', '', '', 0)";
    sqlx::raw_sql(stops).execute(&mut *idle).await.unwrap();
    let waits = |mut tx: Transaction<'static, sqlx::Postgres>| async move {
        let sql = "insert into notices values ('x', 'waits', '', '', '', 0)";
        sqlx::query(sql).execute(&mut *tx).await?;
        Ok::<(), SqlError>(tx.commit().await?)
    };
    db.unit(waits).await.unwrap();
    idle.commit().await.unwrap_err();
    db.close().await;
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
    let mut relay = Relay::new(stores.relay, None, clock, "relay".to_owned(), settings);
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
    // Nobody is left who could come late, once no other test writes who is as old: the floor rises over
    // all of it.
    sqlx::query(AssertSqlSafe(more.replace("n::text", "'m' || n")))
        .execute(&db.pool)
        .await
        .unwrap();
    let rises = async {
        loop {
            relay.step().await.unwrap();
            let floor: i64 = sqlx::query_scalar("select min(floor_seq) from outbox_partitions")
                .fetch_one(&db.pool)
                .await
                .unwrap();
            if 2_402 < floor {
                break;
            }
        }
    };
    let risen = tokio::time::timeout(Duration::from_secs(60), rises).await;
    risen.expect("the floor rises");
}

/// A sale is over, and the last of its events were sent while somebody elsewhere could still have written.
#[tokio::test]
async fn rows_go_where_nothing_more_is_sent() {
    let Some(Database::Postgres(db)) = database::in_postgres().await else {
        return;
    };
    let clock = Arc::new(ManualClock::at(T0));
    let time: Arc<dyn Clock> = clock.clone();
    // Each knows only what it has seen itself.
    let relay = |holder: &str| {
        let ids = Arc::new(IdSource::random());
        let store = Database::Postgres(db.clone()).stores(&time, &ids).relay;
        let settings = Settings { keep_ms: Some(0) };
        Relay::new(store, None, time.clone(), holder.to_owned(), settings)
    };
    let ids = IdSource::seeded(1);
    let mut elsewhere = db.pool.begin().await.unwrap();
    sqlx::query("select pg_current_xact_id()")
        .execute(&mut *elsewhere)
        .await
        .unwrap();
    for _ in 0..100 {
        let mut tx = db.pool.begin().await.unwrap();
        append(&mut tx, &envelope(&ids)).await.unwrap();
        tx.commit().await.unwrap();
    }
    let mut first = relay("first");
    while first.step().await.unwrap().sent != 0 {}
    first.resign().await.unwrap();
    let everything = "insert into log_groups
                      select 'reader', partition, 100, 0 from outbox_partitions";
    sqlx::query(everything).execute(&db.pool).await.unwrap();
    elsewhere.commit().await.unwrap();
    let mut second = relay("second");
    let goes = async {
        loop {
            clock.advance_ms(5_000);
            second.step().await.unwrap();
            let left: i64 = sqlx::query_scalar("select count(*) from outbox")
                .fetch_one(&db.pool)
                .await
                .unwrap();
            if left == i64::from(PARTITIONS) {
                break;
            }
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(60), goes).await;
    gone.expect("only the last row of each partition is left");
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
    // A server says that it ends a connection before it lets go of what that had locked.
    until("nobody has the group", || async {
        let locks = "select count(*) from pg_locks l join pg_database d on d.oid = l.database
            where l.locktype = 'advisory' and d.datname = current_database()";
        (desk.count(locks).await == 0).then_some(())
    })
    .await;
    assert_eq!((read(&second).await, read(&first).await), (1, 0));
}
