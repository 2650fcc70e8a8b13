//! A private Redis or Valkey: its own port, its own folder, nothing on disk, gone with the value.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::free_port;
use crate::support::need::Need;

/// How long a server may take to answer for the first time.
const START_MAX: Duration = Duration::from_secs(20);
/// Ports to try: between finding one free and using it, somebody else may take it.
const STARTS_MAX: u32 = 5;

/// A server that runs.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Starts one. `None` where this machine has no such server and may do without.
    pub(crate) fn start(need: &Need) -> Option<Self> {
        Self::start_with(need, &["--maxmemory-policy", "noeviction"])
    }

    /// Starts one with these settings beside the usual ones.
    pub(crate) fn start_with(need: &Need, settings: &[&str]) -> Option<Self> {
        let program = need.find()?;
        for _ in 0..STARTS_MAX {
            let port = free_port();
            let folder = tempfile::tempdir().unwrap();
            let child = Command::new(&program)
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
                .args(["--save", "", "--appendonly", "no", "--dir"])
                .arg(folder.path())
                .args(settings)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let mut server = Self {
                child,
                port,
                _folder: folder,
            };
            if server.answers() {
                return Some(server);
            }
        }
        panic!("{} does not start", need.what);
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A plain connection, to look inside and to meddle.
    pub(crate) fn connection(&self) -> redis::Connection {
        redis::Client::open(self.url())
            .unwrap()
            .get_connection()
            .unwrap()
    }

    /// Stops it as it stands: connections stay open, nothing is answered.
    pub(crate) fn pause(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(status.success(), "kill {signal} {pid}");
    }

    fn answers(&mut self) -> bool {
        let end = Instant::now() + START_MAX;
        while Instant::now() < end && self.child.try_wait().unwrap().is_none() {
            let client = redis::Client::open(self.url()).unwrap();
            if let Ok(mut connection) = client.get_connection()
                && redis::cmd("PING").query::<String>(&mut connection).is_ok()
            {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to do about either.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
