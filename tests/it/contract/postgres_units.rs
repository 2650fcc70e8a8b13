//! Units of work on PostgreSQL that get in each other's way: they run again, within bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use catraca::app::database::Database;
use catraca::base::ids::IdSource;
use catraca::base::time::{Clock, SystemClock};
use catraca::driver::postgres::Postgres;
use catraca::driver::schema::POSTGRES;
use catraca::driver::sql::SqlError;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::support::cut::{Cut, Still};
use crate::support::{database, postgres, until};

async fn open() -> Option<Postgres> {
    let url = postgres::database().await?;
    let db = Postgres::open(&url, POSTGRES).await.unwrap();
    let tables = "create table t (k text primary key, n bigint not null);
      insert into t values ('a', 0), ('b', 0)";
    sqlx::raw_sql(tables).execute(&db.pool).await.unwrap();
    Some(db)
}

async fn raised(db: &Postgres, key: &str) -> i64 {
    let n = sqlx::query_scalar("select n from t where k = $1").bind(key.to_owned());
    n.fetch_one(&db.pool).await.unwrap()
}

/// Raises two rows in an order that another unit has the other way round; both have the first
/// before either asks for the second.
async fn raise(db: &Postgres, keys: [&'static str; 2], met: Arc<Barrier>) -> u32 {
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let unit = db.unit(move |mut tx| {
        let (met, runs) = (met.clone(), counted.clone());
        async move {
            let is_first = runs.fetch_add(1, Ordering::Relaxed) == 0;
            for key in keys {
                sqlx::query("update t set n = n + 1 where k = $1")
                    .bind(key)
                    .execute(&mut *tx)
                    .await?;
                if is_first && key == keys[0] {
                    met.wait().await;
                }
            }
            Ok::<(), SqlError>(tx.commit().await?)
        }
    });
    unit.await.unwrap();
    runs.load(Ordering::Relaxed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_nobodys_problem() {
    let Some(db) = open().await else { return };
    let met = Arc::new(Barrier::new(2));
    let (one, two) = tokio::join!(
        raise(&db, ["a", "b"], met.clone()),
        raise(&db, ["b", "a"], met)
    );
    assert_eq!(one + two, 3, "one of them ran again");
    assert_eq!((raised(&db, "a").await, raised(&db, "b").await), (2, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_always_collides_is_told_in_the_end() {
    let Some(db) = open().await else { return };
    let runs = Arc::new(AtomicU32::new(0));
    for errcode in ["40001", "40P01"] {
        runs.store(0, Ordering::Relaxed);
        let counted = runs.clone();
        let told: Result<(), SqlError> = db
            .unit(move |mut tx| {
                let runs = counted.clone();
                async move {
                    runs.fetch_add(1, Ordering::Relaxed);
                    sqlx::query("update t set n = n + 1")
                        .execute(&mut *tx)
                        .await?;
                    let raise =
                        format!("do $$ begin raise 'x' using errcode = '{errcode}'; end $$");
                    sqlx::raw_sql(sqlx::AssertSqlSafe(raise))
                        .execute(&mut *tx)
                        .await?;
                    Ok(tx.commit().await?)
                }
            })
            .await;
        assert!(matches!(told, Err(SqlError::Database(_))), "{told:?}");
        assert_eq!(runs.load(Ordering::Relaxed), 5);
    }
    let counted = runs.clone();
    runs.store(0, Ordering::Relaxed);
    let told: Result<(), SqlError> = db
        .outlive(move |_| {
            let runs = counted.clone();
            async move {
                runs.fetch_add(1, Ordering::Relaxed);
                Err(SqlError::Moved)
            }
        })
        .await;
    assert!(matches!(told, Err(SqlError::Moved)));
    assert_eq!(runs.load(Ordering::Relaxed), 5);
    assert_eq!(raised(&db, "a").await, 0, "nothing of it remained");
}

/// A server whose clock shows another time than ours: `now` and what comes of it is the server's.
const AN_HOUR_BEHIND: &str = "create schema bent;
  create function bent.clock_timestamp() returns timestamptz language sql as
    'select pg_catalog.clock_timestamp() - interval ''1 hour''';
  do 'begin execute format(''alter database %I set search_path = bent, pg_catalog, public'',
    current_database()); end'";

/// As of a process whose own clock is an hour ahead of everybody's: it would end all holds at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ends_ends_by_the_servers_clock() {
    let Some(url) = postgres::database().await else {
        return;
    };
    postgres::execute(&mut postgres::connect(&url).await, AN_HOUR_BEHIND).await;
    let database = database::at(&url).await;
    let own: Arc<dyn Clock> = Arc::new(SystemClock);
    let clock = database.clock(&own);
    let behind = || {
        let ms = own.now().ms_since(clock.now());
        Duration::from_millis(ms).as_secs_f64() / 60.0
    };
    let stores = database.stores(&clock, &Arc::new(IdSource::random()));
    assert!((59.0..61.0).contains(&behind()), "{} minutes", behind());
    // Somebody's hold, which that of the server says has a minute to go.
    let ends = clock.now().plus_ms(60_000).as_millis();
    let hold = format!(
        "insert into holds values ('0192f0c1-0000-7000-8000-000000000001', 'show', '{0}', '{0}', '[]', 1,
           'BRL', 'live', {ends}, 0, 1, 1)",
        "0".repeat(32)
    );
    database::run(&database, &hold).await;
    assert_eq!(stores.orders.expire_holds(1).await.unwrap(), 0, "it lives");
    // The server's clock is set, and followed.
    let Database::Postgres(db) = &database else {
        panic!("on PostgreSQL");
    };
    sqlx::raw_sql("drop function bent.clock_timestamp()")
        .execute(&db.pool)
        .await
        .unwrap();
    until("the hold is over", || async {
        (stores.orders.expire_holds(1).await.unwrap() == 1).then_some(())
    })
    .await;
    assert!(behind() < 1.0);
    database.close().await;
}

/// A connection on which nothing comes any more, as after a failover behind a firewall: whoever waits on it is told, and
/// others go on. The bounds are 8 s for a question and 20 s for a unit, and 6 s until the connection is given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_falls_silent_is_given_up() {
    let Some(url) = postgres::database().await else {
        return;
    };
    let mut url = url::Url::parse(&url).unwrap();
    let server = format!("127.0.0.1:{}", url.port().unwrap());
    let cut = Cut::before(server.parse().unwrap()).await;
    url.set_port(Some(cut.address().port())).unwrap();
    let db = Postgres::open(url.as_str(), POSTGRES).await.unwrap();
    cut.mark("nobody hears this");
    cut.stand(Still::Marked);
    let began = Instant::now();
    let mut waiting = JoinSet::new();
    for _ in 0..15 {
        let db = db.clone();
        waiting.spawn(async move {
            let unit = db.unit(|mut tx| async move {
                sqlx::raw_sql("select 'nobody hears this'")
                    .execute(&mut *tx)
                    .await?;
                Ok::<(), SqlError>(tx.commit().await?)
            });
            unit.await
        });
    }
    let asked: Result<(), SqlError> = db
        .within(async {
            let mut connection = db.connection().await?;
            let question = sqlx::raw_sql("select 'nobody hears this'");
            question.execute(&mut *connection).await?;
            Ok(())
        })
        .await;
    assert!(matches!(asked, Err(SqlError::Silent)), "{asked:?}");
    assert!(began.elapsed() < 3 * Duration::from_secs(8));
    for told in waiting.join_all().await {
        assert!(matches!(told, Err(SqlError::Silent)), "{told:?}");
    }
    assert!(began.elapsed() < 3 * Duration::from_secs(20));
    let mut all = Vec::new();
    while all.len() < 16 {
        all.extend(db.connection().await.ok());
        assert!(began.elapsed() < 3 * Duration::from_secs(26));
    }
    cut.stand(Still::None);
    drop(all);
    db.close().await;
}
