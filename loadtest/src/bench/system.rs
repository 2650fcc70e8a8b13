//! What is measured: a server for the room, and Catraca's own program beside it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use anyhow::{Context, bail, ensure};

use crate::bench::machine::{Process, SERVER_CORE, cpu, free_port};
use crate::bench::resp::Connection;

/// How long a process may take to answer for the first time.
const START_MAX: Duration = Duration::from_secs(20);
/// How long a role may take to end when it is asked to; a gateway drains for 10 s at most.
const END_MAX: Duration = Duration::from_secs(15);
const TOKEN: &str = "bench-admin-token";
/// SHA-256 of [`TOKEN`].
const TOKEN_SHA256: &str = "623bd2be1ca30473f9d2430a4579f17300654830b88e21f862c5f8ca13b65536";

/// The join that everybody writes first.
pub(super) const NAIVE: &str = "\
local found = redis.call('ZSCORE', KEYS[2], ARGV[1])
if found then return tonumber(found) end
local number = redis.call('INCR', KEYS[1])
redis.call('ZADD', KEYS[2], number, ARGV[1])
return number
";

/// A private Redis or Valkey on the core of what is measured; nothing on disk.
#[derive(Debug)]
pub(super) struct RoomServer {
    process: Process,
    pub(super) address: SocketAddr,
}

impl RoomServer {
    pub(super) fn start(program: &Path, folder: &Path) -> anyhow::Result<Self> {
        let port = free_port()?;
        let words = format!(
            "--port {port} --bind 127.0.0.1 --save  --appendonly no --maxmemory-policy noeviction"
        );
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let log = folder.join("room-server.log");
        let process = Process::start(SERVER_CORE, program, &words, &[], &log)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        wait_for("the room's server", || {
            Connection::open(address)?.say("PING").map(drop)
        })?;
        Ok(Self { process, address })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(super) fn connection(&self) -> anyhow::Result<Connection> {
        Connection::open(self.address)
    }

    pub(super) fn cpu(&self) -> anyhow::Result<Duration> {
        cpu(self.pid())
    }
}

/// One role of the program, started and, when the value goes, ended as an operator would: what the program
/// writes at its end, as where its functions are counted, is written.
#[derive(Debug)]
pub(super) struct Role {
    process: Process,
    /// Where the role listens; 0 where it does not.
    pub(super) door: SocketAddr,
    admin: SocketAddr,
}

impl Role {
    /// Starts a role; `more` is added to its configuration.
    pub(super) fn start(
        word: &str,
        program: &Path,
        room: &RoomServer,
        folder: &Path,
        more: &str,
    ) -> anyhow::Result<Self> {
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let (door, admin) = (local(free_port()?), local(free_port()?));
        let config = folder.join(format!("{word}.toml"));
        let tokens = format!(
            "[[admin.tokens]]\nname = \"bench\"\nrole = \"admin\"\nsha256 = \"{TOKEN_SHA256}\"\n"
        );
        std::fs::write(&config, tokens + more)?;
        let words = [
            word.to_owned(),
            "--config".to_owned(),
            config.display().to_string(),
            "--data-dir".to_owned(),
            folder.display().to_string(),
        ];
        let env = [
            ("CATRACA__ROOM__URL", format!("redis://{}/", room.address)),
            (
                "CATRACA__KEYS__SECRET",
                "a secret of the bench, long enough for it".to_owned(),
            ),
            ("CATRACA__GATEWAY__LISTEN", door.to_string()),
            (
                "CATRACA__GATEWAY__TRUSTED_PROXIES",
                "127.0.0.0/8".to_owned(),
            ),
            ("CATRACA__ADMIN__LISTEN", admin.to_string()),
            ("RUST_LOG", "error".to_owned()),
        ];
        let log = folder.join(format!("{word}.log"));
        let mut role = Self {
            process: Process::start(SERVER_CORE, program, &words, &env, &log)?,
            door,
            admin,
        };
        wait_for(word, || {
            ensure!(role.process.runs(), "it ended: see {}", log.display());
            let (status, _) = ask(role.admin, "GET", "/readyz", "")?;
            ensure!(status == 200, "not ready: {status}");
            Ok(())
        })?;
        Ok(role)
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Whether it still runs.
    pub(super) fn runs(&mut self) -> bool {
        self.process.runs()
    }

    pub(super) fn cpu(&self) -> anyhow::Result<Duration> {
        cpu(self.pid())
    }

    /// Stands still until [`Role::go_on`].
    pub(super) fn stand_still(&self) -> anyhow::Result<()> {
        self.process.signal("STOP")
    }

    pub(super) fn go_on(&self) -> anyhow::Result<()> {
        self.process.signal("CONT")
    }

    /// Creates a show, and waits until its room is born.
    pub(super) fn create(&self, show: &str, settings: &str) -> anyhow::Result<()> {
        let path = format!("/admin/v1/shows/{show}");
        let (status, body) = ask(self.admin, "PUT", &path, settings)?;
        ensure!(status == 201, "creating a show: {status} {body}");
        wait_for("the show's room", || {
            let (_, body) = ask(self.admin, "GET", &path, "")?;
            ensure!(body.contains("\"state\":\"early\""), "not born: {body}");
            ensure!(!body.contains("unfenced"), "not whole: {body}");
            Ok(())
        })
    }

    /// Waits until a gateway knows a show.
    pub(super) fn wait_for_show(&self, show: &str) -> anyhow::Result<()> {
        let path = format!("/v1/shows/{show}/board");
        wait_for("the show's board", || {
            let (status, _) = ask(self.door, "GET", &path, "")?;
            ensure!(status == 200, "no board: {status}");
            Ok(())
        })
    }

    /// `open`, `pause`, as an operator says it.
    pub(super) fn verb(&self, show: &str, verb: &str) -> anyhow::Result<()> {
        let path = format!("/admin/v1/shows/{show}/{verb}");
        let (status, body) = ask(self.admin, "POST", &path, "")?;
        ensure!(status == 200, "{verb}: {status} {body}");
        Ok(())
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        // One that stands still hears of it when it goes on. Whoever has ended by itself hears nothing, and
        // whoever does not end in time is killed.
        for signal in ["TERM", "CONT"] {
            drop(self.process.signal(signal));
        }
        let end = Instant::now() + END_MAX;
        while self.runs() && Instant::now() < end {
            pause();
        }
    }
}

/// What `catraca` and the script of a join are.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) catraca: PathBuf,
    pub(super) join: String,
}

/// Asks until it answers.
pub(super) fn wait_for(
    what: &str,
    mut done: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let end = Instant::now() + START_MAX;
    loop {
        match done() {
            Ok(()) => return Ok(()),
            Err(error) if end < Instant::now() => {
                return Err(error.context(format!("{what} does not answer")));
            }
            Err(_) => pause(),
        }
    }
}

/// Between two questions.
#[expect(clippy::disallowed_methods, reason = "a bench is alone on its thread")]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

/// One request to an operators' listener, on a connection of its own.
fn ask(to: SocketAddr, method: &str, path: &str, body: &str) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(START_MAX))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {to}\r\nauthorization: Bearer {TOKEN}\r\n\
         connection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        bail!("no answer: {text}");
    };
    let status = head.split(' ').nth(1).context("no status")?;
    Ok((status.parse()?, body.to_owned()))
}
