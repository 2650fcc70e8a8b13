//! Units of work on PostgreSQL that get in each other's way: they run again, within bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use catraca::driver::postgres::Postgres;
use catraca::driver::schema::POSTGRES;
use catraca::driver::sql::SqlError;
use tokio::sync::Barrier;

use crate::support::postgres;

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
