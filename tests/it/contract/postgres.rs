//! The PostgreSQL driver: a pool that nobody can poison, and units that end.

use catraca::driver::postgres::Postgres;
use catraca::driver::schema::POSTGRES;
use catraca::driver::sql::SqlError;

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
