//! The program of an admitter whose own clock is wrong, on scripts whose server's clock can be set.
//!
//! What ships has neither: no switch of ours bends a clock. So the drill starts this test binary once
//! more and tells it, by a variable, to be an admitter until its standard input ends.

use std::env;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use catraca::admitter::Admitter;
use catraca::base::time::{Clock, SystemClock, Timestamp};
use catraca::driver::schema::CATRACA;
use catraca::driver::sqlite::Sqlite;
use catraca::room::Rooms;
use catraca::room::in_redis::InRedis;
use catraca::room::in_redis::scripts::ScriptClock;
use catraca::show::in_sqlite::InSqlite;

/// The test that is the program.
pub(crate) const PROGRAM: &str = "chaos::wrong_clock::an_admitter";
/// The variable with its orders.
pub(crate) const ORDERS: &str = "CATRACA_DRILL_ADMITTER";

/// What it is told, as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) room: String,
    pub(crate) database: PathBuf,
    /// How far its clock is ahead.
    pub(crate) ahead_ms: i64,
}

/// The machine's clock, but for an error.
#[derive(Debug)]
struct Wrong {
    ahead_ms: i64,
}

impl Clock for Wrong {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(SystemClock.now().as_millis() + self.ahead_ms)
    }
}

async fn run(orders: Orders, stop: CancellationToken) {
    let room = InRedis::connect_on(&orders.room, ScriptClock::Stepped).await;
    let database = Sqlite::open(&orders.database, CATRACA).await.unwrap();
    let admitter = Admitter::new(
        Rooms::new(Arc::new(room.unwrap())),
        Arc::new(InSqlite::new(database)),
        Arc::new(Wrong {
            ahead_ms: orders.ahead_ms,
        }),
        format!("admitter-{}-wrong-clock", std::process::id()),
        Arc::new(Notify::new()),
    );
    admitter.run(stop).await.unwrap();
}

/// With orders the program; without, the test that its clock is wrong by what it is told.
#[test]
fn an_admitter() {
    let Ok(orders) = env::var(ORDERS) else {
        let ahead = Wrong {
            ahead_ms: 3_600_000,
        }
        .now();
        assert!(3_599_000 < ahead.ms_since(SystemClock.now()));
        return;
    };
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    // Whoever started this process holds the other end, also by its death.
    std::thread::spawn(move || {
        drop(std::io::stdin().read_to_end(&mut Vec::new()));
        stopping.cancel();
    });
    let runtime = Runtime::new().unwrap();
    runtime.block_on(run(serde_json::from_str(&orders).unwrap(), stop));
}
