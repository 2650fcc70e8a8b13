//! Three servers under three sentinels, with everything that `deploy/redis/` has.

use std::fs;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::chaos::deployed::Deployed;
use crate::support::free_port;
use crate::support::need::Need;
use crate::support::redis::Server;
use crate::support::until;

/// Servers; all but the first follow.
const SERVERS: usize = 3;

/// One that watches.
#[derive(Debug)]
pub(crate) struct Sentinel {
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
    fn start(need: &Need, primary: u16, deployed: &Deployed) -> Option<Self> {
        let program = need.find()?;
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

    /// Asks the sentinel; none while it does not answer, or refuses.
    pub(crate) fn ask(&self, words: &[&str]) -> Option<redis::Value> {
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

/// Servers and sentinels.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) deployed: Deployed,
    /// The first is the primary in the beginning.
    pub(crate) servers: Vec<Server>,
    pub(crate) sentinels: Vec<Sentinel>,
    /// `room.url` for whoever asks the sentinels.
    pub(crate) url: String,
}

/// A primary that nobody follows or watches yet.
#[derive(Debug)]
pub(crate) struct Lone<'a> {
    need: &'a Need,
    deployed: Deployed,
    more: &'a [&'a str],
    pub(crate) primary: Server,
}

impl<'a> Lone<'a> {
    /// Starts it, with these settings more. `None` where this machine has no such server.
    pub(crate) fn start(need: &'a Need, more: &'a [&'a str]) -> Option<Self> {
        let deployed = Deployed::new();
        let primary = server(need, &deployed, more)?;
        Some(Self {
            need,
            deployed,
            more,
            primary,
        })
    }

    /// Everybody else. They know the primary by this port.
    pub(crate) async fn watched_at(self, port: u16) -> Watched {
        let Self {
            need,
            deployed,
            more,
            primary,
        } = self;
        let known = port.to_string();
        let follow = [more, &["--replicaof", "127.0.0.1", &known]].concat();
        let mut servers = vec![primary];
        for _ in 1..SERVERS {
            servers.push(server(need, &deployed, &follow).expect("as the first"));
        }
        let sentinels: Vec<Sentinel> = (0..3)
            .map(|_| Sentinel::start(need, port, &deployed).expect("as the servers"))
            .collect();
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
        Watched {
            deployed,
            servers,
            sentinels,
            url,
        }
    }
}

impl Watched {
    /// Which server the sentinels call the primary.
    pub(crate) fn primary(&self) -> usize {
        let asked = self.sentinels[0].ask(&["get-master-addr-by-name", "main"]);
        let (_, port): (String, u16) = redis::from_redis_value(asked.unwrap()).unwrap();
        let at = self.servers.iter().position(|server| server.port() == port);
        at.expect("a server of ours")
    }
}

fn server(need: &Need, deployed: &Deployed, more: &[&str]) -> Option<Server> {
    let settings = deployed.replicated();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    Server::start_with(need, &[&settings[..], more].concat())
}
