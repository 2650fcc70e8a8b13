//! The database cannot write, for its disk is full: whoever asks is told so soon, what was answered
//! stays, and once there is space again nobody has to lend a hand. PostgreSQL where no file may grow, and
//! either database on a disk that is really full.

use std::cell::RefCell;

use catraca::app::database::Database;
use catraca::driver::postgres::Postgres as Db;
use catraca::driver::schema::{CATRACA, POSTGRES};
use catraca::driver::sqlite::Sqlite;
use http::StatusCode;
use serde_json::Value;

use crate::chaos::postgres::{HALF, Shop, holds_again, try_hold_of};
use crate::support::client::Client;
use crate::support::postgres::{self, Server as Postgres};
use crate::support::small_disk::SmallDisk;
use crate::support::visitor::Visitor;
use crate::support::{database, until};

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
/// Mebibytes for PostgreSQL, its log and a sale; and for SQLite and a sale.
const POSTGRES_DISK: u32 = 256;
const SQLITE_DISK: u32 = 32;

/// Two visitors inside, and what they were told.
struct Sale {
    /// Has bought, and so is inside no more.
    first: Visitor,
    paid: Value,
    second: Visitor,
    holds: RefCell<Vec<String>>,
}

impl Sale {
    async fn begin(shop: &Shop) -> Self {
        let first = shop.visitor().await;
        let hold = first.hold().await;
        let (status, paid) = first.order(&hold, "approve").await;
        assert_eq!(status, StatusCode::CREATED, "{paid}");
        first.confirmed(&paid).await;
        Self {
            second: first.another().await,
            first,
            paid,
            holds: RefCell::new(vec![hold]),
        }
    }

    /// Somebody takes seats and gives them back until that cannot be written. Some events may still find
    /// a place.
    async fn until_it_is_full(&self) {
        until("the disk is full", || async {
            let (status, told) = try_hold_of(&self.second).await;
            match status {
                StatusCode::SERVICE_UNAVAILABLE => return Some(()),
                StatusCode::CREATED => {
                    let hold = told["hold_id"].as_str().unwrap();
                    self.holds.borrow_mut().push(hold.to_owned());
                }
                StatusCode::CONFLICT => self.second.release_all().await,
                StatusCode::TOO_MANY_REQUESTS => {}
                other => panic!("{other} {told}"),
            }
            None
        })
        .await;
    }

    /// Nothing that was answered is lost, and nothing else is half there.
    async fn is_kept(&self, database: &Database) {
        let what = format!("GET orders/{}", self.paid["order_id"].as_str().unwrap());
        let (status, read) = self.first.try_ask(&what, &Value::Null).await.unwrap();
        let expected = (StatusCode::OK, &"confirmed".into());
        assert_eq!((status, &read["status"]), expected, "{read}");
        assert_eq!(read["seats"], self.paid["seats"]);
        assert_eq!(database::count(database, HALF).await, 0);
        let holds = self.holds.borrow().clone();
        let named = holds.join("', '");
        let kept = format!("select count(*) from holds where hold_id in ('{named}')");
        assert_eq!(database::count(database, &kept).await, holds.len() as i64);
    }

    async fn goes_on(&self, shop: &Shop) {
        holds_again(&self.second).await;
        shop.is_ready().await;
    }

    /// The same visitors at another gateway.
    fn at(self, gateway: &Client) -> Self {
        Self {
            first: self.first.at(gateway.clone()),
            second: self.second.at(gateway.clone()),
            ..self
        }
    }
}

async fn database_at(url: &str) -> Database {
    Database::Postgres(Db::open(url, POSTGRES).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_whose_files_may_not_grow_keeps_what_was_said() {
    let Some(mut postgres) = Postgres::start(&["autovacuum=off"]) else {
        return;
    };
    let url = postgres.database().await;
    let shop = Shop::open(&url).await;
    let (sale, database) = (Sale::begin(&shop).await, database_at(&url).await);
    postgres::execute(&mut postgres::connect(&url).await, FILL).await;
    postgres.limit_files(Some(LOG_PIECE));
    sale.until_it_is_full().await;
    sale.is_kept(&database).await;
    postgres.limit_files(None);
    sale.goes_on(&shop).await;

    // Without space for its log the server dies, and somebody starts it again once there is some.
    postgres.limit_files(Some(NOTHING));
    sale.until_it_is_full().await;
    postgres.end();
    assert!(postgres.begin());
    sale.goes_on(&shop).await;
    // Our own sessions died with the server.
    sale.is_kept(&database_at(&url).await).await;
    assert_eq!(shop.server.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_on_a_full_disk_keeps_what_was_said() {
    let Some(disk) = SmallDisk::mount(POSTGRES_DISK) else {
        return;
    };
    let Some(mut postgres) = Postgres::start_in(disk.path(), &["max_wal_size=64MB"]) else {
        return;
    };
    let url = postgres.database().await;
    let shop = Shop::open(&url).await;
    let (sale, database) = (Sale::begin(&shop).await, database_at(&url).await);
    disk.fill();
    sale.until_it_is_full().await;
    sale.is_kept(&database).await;
    disk.clear();
    sale.goes_on(&shop).await;

    // The log needs its next piece: the server dies of it, as of anything that it cannot undo, and can be
    // started again once there is space.
    disk.fill();
    let mut meddler = postgres::connect(&url).await;
    let next_piece = "select pg_switch_wal(), txid_current(); checkpoint";
    let died = sqlx::raw_sql(next_piece).execute(&mut meddler).await;
    died.expect_err("there is no space");
    sale.until_it_is_full().await;
    postgres.end();
    disk.clear();
    assert!(postgres.begin());
    sale.goes_on(&shop).await;
    // Our own sessions died with the server.
    sale.is_kept(&database_at(&url).await).await;
    assert_eq!(shop.server.terminate().await, Some(0));
}

/// The room's journal is on the same disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_on_a_full_disk_keeps_what_was_said() {
    let Some(disk) = SmallDisk::mount(SQLITE_DISK) else {
        return;
    };
    let shop = Shop::open_in(disk.path(), &[]).await;
    let file = Sqlite::open(&disk.path().join("catraca.db"), CATRACA).await;
    let (sale, database) = (Sale::begin(&shop).await, Database::Sqlite(file.unwrap()));
    disk.fill();
    sale.until_it_is_full().await;
    sale.is_kept(&database).await;
    shop.says("read-only").await;
    disk.clear();
    sale.goes_on(&shop).await;
    sale.first.another().await;

    // Killed while it is full, and started again once there is space.
    disk.fill();
    sale.until_it_is_full().await;
    shop.server.die().await;
    disk.clear();
    let shop = Shop::open_in(disk.path(), &[]).await;
    let sale = sale.at(&shop.gateway());
    sale.goes_on(&shop).await;
    sale.is_kept(&database).await;
    sale.first.another().await;
    assert_eq!(shop.server.terminate().await, Some(0));
}
