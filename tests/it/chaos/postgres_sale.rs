//! A sale on PostgreSQL and Redis whose one process is killed every second: the checker finds every
//! promise kept.

use std::time::Duration;

use serde_json::Value;

use crate::e2e::drill_restart::{Ports, create_show};
use crate::support::need::REDIS;
use crate::support::postgres;
use crate::support::process::{Server, run_in};
use crate::support::redis::Server as Redis;
use crate::support::sale::crowd;
use crate::support::until;

/// How often it is killed.
const KILLS: usize = 4;
/// Between two kills.
const LIFE: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_on_servers_survives_a_kill_every_second() {
    let (Some(redis), Some(url)) = (Redis::start(&REDIS), postgres::database().await) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (room, database) = (redis.url(), url.clone());
    let stores = [
        ("CATRACA__ROOM__URL", room.as_str()),
        ("CATRACA__DATABASE__URL", database.as_str()),
    ];
    let mut server = Server::up(folder, &stores).await;
    let ports = Ports::of(&server, &stores);
    create_show(folder, &server).await;
    let killing = async {
        for _ in 0..KILLS {
            tokio::time::sleep(LIFE).await;
            server.die().await;
            server = ports.up(folder).await;
        }
        server
    };
    let words = "--fans 80 --claim-ms 5000";
    let (server, report) = tokio::join!(killing, crowd(ports.gateway, folder, words));
    assert!(report.is_clean(), "{report}");

    // Events may still be on their way when the crowd has gone.
    let words = [
        "check",
        "--data-dir",
        ".",
        "--history",
        "history.ndjson",
        "--json",
    ];
    let words = [&words[..], &["--database", &url]].concat();
    let verdicts = until("every promise is kept", || async {
        let checked = run_in(folder, &words, &[]).await;
        eprintln!("{}", checked.err);
        (checked.code == Some(0)).then_some(checked.out)
    })
    .await;
    let verdicts: Value = serde_json::from_str(&verdicts).unwrap();
    eprintln!("{verdicts:#}");
    let sold = "select count(*) from orders where status = 'confirmed'";
    let sold: i64 = sqlx::query_scalar(sold)
        .fetch_one(&mut postgres::connect(&url).await)
        .await
        .unwrap();
    assert!(20 <= sold, "{sold} orders are too few to prove anything");
    assert_eq!(server.terminate().await, Some(0));
}
