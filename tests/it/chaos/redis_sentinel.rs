//! Three servers under three sentinels: the primary dies, and joins and ticks go on at another.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::chaos::deployed::Deployed;
use crate::chaos::site::Site;
use crate::support::free_port;
use crate::support::need::REDIS;
use crate::support::redis::Server;
use crate::support::until;

/// A failover is over in ten seconds; a busy machine may take three times that.
const FAILOVER_MAX: Duration = Duration::from_secs(30);
/// Servers; two of them follow the first.
const SERVERS: usize = 3;

/// One that watches.
struct Sentinel {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to do about either.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Sentinel {
    fn start(primary: u16, deployed: &Deployed) -> Option<Self> {
        let program = REDIS.find()?;
        let folder = tempfile::tempdir().unwrap();
        let (dir, port) = (folder.path().display(), free_port());
        let password = deployed.password("catraca-sentinel");
        let conf = folder.path().join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {dir}\n\
             sentinel monitor main 127.0.0.1 {primary} 2\n\
             sentinel auth-user main catraca-sentinel\nsentinel auth-pass main {password}\n\
             sentinel down-after-milliseconds main 1500\nsentinel failover-timeout main 5000\n"
        );
        fs::write(&conf, text).unwrap();
        let child = Command::new(program)
            .arg(&conf)
            .arg("--sentinel")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Some(Self {
            child,
            port,
            _folder: folder,
        })
    }

    /// Asks the sentinel; none while it does not answer.
    fn ask(&self, words: &[&str]) -> Option<redis::Value> {
        let url = format!("redis://127.0.0.1:{}", self.port);
        let mut connection = redis::Client::open(url).unwrap().get_connection().ok()?;
        redis::cmd("SENTINEL")
            .arg(words)
            .query(&mut connection)
            .ok()
    }

    /// Whether it knows everybody.
    fn has_seen_all(&self) -> bool {
        let many = |what: &str| match self.ask(&[what, "main"]) {
            Some(redis::Value::Array(others)) => others.len(),
            _ => 0,
        };
        (many("replicas"), many("sentinels")) == (SERVERS - 1, 2)
    }
}

/// Servers and sentinels with everything that `deploy/redis/` has.
struct Watched {
    servers: Vec<Server>,
    sentinels: Vec<Sentinel>,
    url: String,
}

impl Watched {
    async fn start() -> Option<Self> {
        let deployed = Deployed::new();
        let settings = deployed.replicated();
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let first = Server::start_with(&REDIS, &settings)?;
        let primary = first.port().to_string();
        let follow = ["--replicaof", "127.0.0.1", &primary];
        let mut servers = vec![first];
        for _ in 1..SERVERS {
            let settings = [&settings[..], &follow].concat();
            servers.push(Server::start_with(&REDIS, &settings)?);
        }
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            sentinels.push(Sentinel::start(servers[0].port(), &deployed)?);
        }
        until("everybody knows everybody", || async {
            sentinels.iter().all(Sentinel::has_seen_all).then_some(())
        })
        .await;
        let places: Vec<String> = sentinels
            .iter()
            .map(|sentinel| format!("127.0.0.1:{}", sentinel.port))
            .collect();
        let login = deployed.login("catraca");
        let url = format!("redis+sentinel://{login}@{}/main", places.join(","));
        Some(Self {
            servers,
            sentinels,
            url,
        })
    }
}

/// Joins without end; numbers and passes, as they were acknowledged.
async fn crowd(site: Arc<Site>, stop: CancellationToken) -> Vec<(u64, String)> {
    let mut joined = Vec::new();
    while !stop.is_cancelled() {
        let answer = site.join().await;
        match answer.status {
            201 => {
                let pass = answer.body["pass"].as_str().unwrap().to_owned();
                joined.push((answer.body["number"].as_u64().unwrap(), pass));
            }
            503 => assert_eq!(answer.retry_after, "1", "{answer:?}"),
            _ => panic!("{answer:?}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    joined
}

/// Waits until joins are answered again, after they were not.
async fn joins_again(site: &Site, since: Instant) {
    until("joins go on", || async {
        (site.join().await.status == 201).then_some(())
    })
    .await;
    let took = since.elapsed();
    eprintln!("joins go on after {took:.1?}");
    assert!(took < FAILOVER_MAX, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_dies_and_everything_goes_on_at_another() {
    let Some(mut watched) = Watched::start().await else {
        return;
    };
    let site = Arc::new(Site::open(&watched.url, &[]).await);
    let stop = CancellationToken::new();
    let joining = tokio::spawn(crowd(Arc::clone(&site), stop.clone()));
    until("a hundred fans are in line", || async {
        (100 <= site.board().await.body["issued"].as_u64()?).then_some(())
    })
    .await;

    let since = Instant::now();
    drop(watched.servers.remove(0)); // kill -9
    until("joins are refused", || async {
        (site.join().await.status == 503).then_some(())
    })
    .await;
    joins_again(&site, since).await;
    until("ticks go on", || async {
        (site.ready().await == (StatusCode::OK, "ok".to_owned())).then_some(())
    })
    .await;

    // A failover that somebody asks for: the old primary lives on as a replica.
    let before = site.board().await.body["generation"].as_u64().unwrap();
    until("the sentinel agrees", || async {
        watched.sentinels[0].ask(&["failover", "main"])
    })
    .await;
    let since = Instant::now();
    until("the room is fenced and mended", || async {
        let generation = site.board().await.body["generation"].as_u64()?;
        (before < generation).then_some(())
    })
    .await;
    joins_again(&site, since).await;

    stop.cancel();
    let joined = joining.await.unwrap();
    let numbers: BTreeSet<u64> = joined.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers.len(), joined.len(), "a number was given twice");
    let in_order = joined.is_sorted_by_key(|(number, _)| *number);
    assert!(in_order, "who joined later has a smaller number");
    for (number, pass) in joined.iter().step_by(1 + joined.len() / 50) {
        let status = until("the status is answered", || async {
            let status = site.status(pass).await;
            (status.status == 200).then_some(status.body)
        })
        .await;
        assert_eq!(status["place"], *number, "{status}");
    }
    Arc::into_inner(site).unwrap().terminate().await;
}
