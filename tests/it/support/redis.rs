//! A private Redis or Valkey: its own port, its own folder, nothing on disk, gone with the value.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::free_port;
use crate::support::need::Need;
use crate::support::signpost::Signpost;

/// How long a server may take to answer for the first time.
const START_MAX: Duration = Duration::from_secs(20);
/// Ports to try: between finding one free and using it, somebody else may take it.
const STARTS_MAX: usize = 5;

/// A server that runs.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    launch: Launch,
}

/// How it is started, and started again.
#[derive(Debug)]
struct Launch {
    program: PathBuf,
    port: u16,
    folder: tempfile::TempDir,
    settings: Vec<String>,
    /// A library to load before the server's own.
    preload: Option<PathBuf>,
}

impl Launch {
    fn spawn(&self) -> Child {
        let mut command = Command::new(&self.program);
        command
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(self.folder.path())
            .args(&self.settings)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if let Some(library) = &self.preload {
            command.env("LD_PRELOAD", library);
        }
        command.spawn().unwrap()
    }
}

impl Server {
    /// Starts one. `None` where this machine has no such server and may do without.
    pub(crate) fn start(need: &Need) -> Option<Self> {
        Self::start_with(need, &["--maxmemory-policy", "noeviction"])
    }

    /// Starts one with these settings beside the usual ones.
    pub(crate) fn start_with(need: &Need, settings: &[&str]) -> Option<Self> {
        Self::start_on(
            need,
            std::iter::repeat_with(free_port).take(STARTS_MAX),
            settings,
        )
    }

    /// Starts one at the first of these ports that nobody has.
    pub(crate) fn start_on(
        need: &Need,
        ports: impl IntoIterator<Item = u16>,
        settings: &[&str],
    ) -> Option<Self> {
        Self::launch(need, ports, settings, None)
    }

    /// Starts one with a library loaded before its own.
    pub(crate) fn start_under(need: &Need, settings: &[&str], library: PathBuf) -> Option<Self> {
        let ports = std::iter::repeat_with(free_port).take(STARTS_MAX);
        Self::launch(need, ports, settings, Some(library))
    }

    fn launch(
        need: &Need,
        ports: impl IntoIterator<Item = u16>,
        settings: &[&str],
        preload: Option<PathBuf>,
    ) -> Option<Self> {
        let program = need.find()?;
        let settings: Vec<String> = settings.iter().map(|&word| word.to_owned()).collect();
        for port in ports {
            let launch = Launch {
                program: program.clone(),
                port,
                folder: tempfile::tempdir().unwrap(),
                settings: settings.clone(),
                preload: preload.clone(),
            };
            let child = launch.spawn();
            let mut server = Self { child, launch };
            if server.answers() {
                return Some(server);
            }
        }
        panic!("{} does not start", need.what);
    }

    /// Where it listens, on this machine.
    pub(crate) const fn port(&self) -> u16 {
        self.launch.port
    }

    /// Dies at once, as with `kill -9`.
    pub(crate) fn die(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Lives again on the same port, with what is left in its folder.
    pub(crate) fn live_again(&mut self) {
        self.child = self.launch.spawn();
        assert!(self.answers(), "the server does not start again");
    }

    /// The same, while it still reads what is left and answers nothing else.
    pub(crate) fn begin_to_live_again(&mut self) {
        self.child = self.launch.spawn();
    }

    /// Where it keeps its files.
    pub(crate) fn folder(&self) -> &Path {
        self.launch.folder.path()
    }

    /// What is in its folder is gone.
    pub(crate) fn wipe_disk(&self) {
        for entry in std::fs::read_dir(self.launch.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                std::fs::remove_dir_all(path).unwrap();
            } else {
                std::fs::remove_file(path).unwrap();
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.launch.port).into()
    }

    /// Runs a command.
    pub(crate) fn tell(&self, command: &[&str]) {
        let (name, args) = command.split_first().unwrap();
        let mut connection = self.connection();
        redis::cmd(name).arg(args).exec(&mut connection).unwrap();
    }

    /// Copies from the primary at this address from now on, and waits until it has everything.
    pub(crate) fn follow(&self, primary: SocketAddr) {
        self.tell(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
        let end = Instant::now() + START_MAX;
        while Instant::now() < end {
            let mut connection = self.connection();
            let info: String = redis::cmd("INFO")
                .arg("replication")
                .query(&mut connection)
                .unwrap();
            if info.contains("master_link_status:up") {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the replica does not follow");
    }

    /// A second server that copies this one over a cable of its own.
    pub(crate) async fn copied(&self, need: &Need) -> (Self, Signpost) {
        let cable = Signpost::to(self.address()).await;
        let replica = Self::start(need).expect("the primary is of the same kind");
        let primary = cable.address;
        let follows = tokio::task::spawn_blocking(move || {
            replica.follow(primary);
            replica
        });
        (follows.await.unwrap(), cable)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.launch.port)
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
                && is_there(redis::cmd("PING").query::<String>(&mut connection))
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

/// Whether somebody answered, be it that a password is missing.
fn is_there(answer: redis::RedisResult<String>) -> bool {
    match answer {
        Ok(_) => true,
        Err(error) => error.code() == Some("NOAUTH"),
    }
}
