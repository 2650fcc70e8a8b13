//! Three admitters, each a process of its own behind a cable that can be cut: killed, stopped and
//! woken by pid.

use std::env;
use std::fs::{File, OpenOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::chaos::wrong_clock::{ORDERS, Orders, PROGRAM};
use crate::support::client::Client;
use crate::support::cut::Cut;
use crate::support::free_port;

/// How many there are.
pub(crate) const SIZE: usize = 3;
/// How far the clocks of those with a wrong one are ahead: an hour, nothing, an hour behind.
const AHEAD_MS: [i64; SIZE] = [3_600_000, 0, -3_600_000];

/// Which program the admitters are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// `catraca admitter`, as shipped.
    Shipped,
    /// The same loop, with clocks that are wrong, on a server whose clock the drill may set.
    WrongClock,
}

/// One admitter.
#[derive(Debug)]
struct Member {
    child: Child,
    cable: Cut,
    /// Where it hears operators; the one with a wrong clock hears nobody.
    admin: u16,
}

/// All of them, over one server and one database.
#[derive(Debug)]
pub(crate) struct Crew {
    program: Program,
    folder: PathBuf,
    members: Vec<Member>,
}

impl Crew {
    /// The first of them.
    pub(crate) async fn start(program: Program, folder: &Path, server: SocketAddr) -> Self {
        let mut crew = Self {
            program,
            folder: folder.to_owned(),
            members: Vec::new(),
        };
        crew.add(server).await;
        crew
    }

    /// One more, until there are all.
    pub(crate) async fn add(&mut self, server: SocketAddr) {
        let cable = Cut::before(server).await;
        let admin = free_port();
        let child = self.spawn(self.members.len(), cable.address(), admin);
        self.members.push(Member {
            child,
            cable,
            admin,
        });
    }

    /// The pids of all.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.members
            .iter()
            .map(|member| member.child.id())
            .collect()
    }

    /// Who goes by this name among the holders of leases; none who lives.
    pub(crate) fn place_of(&self, holder: &str) -> Option<usize> {
        let pid: u32 = holder.split('-').nth(1)?.parse().ok()?;
        self.pids().iter().position(|own| *own == pid)
    }

    /// The cable of a member.
    pub(crate) fn cable(&self, place: usize) -> &Cut {
        &self.members[place].cable
    }

    /// Kills a member, as with `kill -9`.
    pub(crate) fn kill(&mut self, place: usize) {
        let child = &mut self.members[place].child;
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts a member anew, in the place of one that was killed.
    pub(crate) fn replace(&mut self, place: usize) {
        let Member { cable, admin, .. } = &self.members[place];
        self.members[place].child = self.spawn(place, cable.address(), *admin);
    }

    /// An operator tells whoever hears them.
    pub(crate) async fn tell(&self, line: &str, body: &Value) {
        let token = std::fs::read_to_string(self.folder.join("admin-token")).unwrap();
        let bearer = format!("Bearer {}", token.trim());
        let headers = [("authorization", bearer.as_str())];
        let mut answers = Vec::new();
        for member in &self.members {
            let door = Client::of(format!("http://127.0.0.1:{}", member.admin));
            match door.try_ask(line, &headers, body).await {
                Ok((status, _)) if status.is_success() => return,
                answer => answers.push(answer),
            }
        }
        panic!("{line} {body}: {answers:?}");
    }

    /// `STOP` or `CONT`.
    pub(crate) fn signal(&self, place: usize, signal: &str) {
        let pid = self.members[place].child.id().to_string();
        let signal = format!("-{signal}");
        let status = Command::new("kill").args([&signal, &pid]).status();
        assert!(status.unwrap().success(), "kill {signal} {pid}");
    }

    /// Asks everybody to stop, as a service manager does, and waits: leaders copy the rest of their
    /// ledgers. How many requests were cut.
    pub(crate) fn end(mut self) -> usize {
        for place in 0..SIZE {
            match self.program {
                Program::Shipped => self.signal(place, "TERM"),
                Program::WrongClock => drop(self.members[place].child.stdin.take()),
            }
        }
        for member in &mut self.members {
            member.child.wait().unwrap();
        }
        let cut = self.members.iter().map(|member| member.cable.done());
        cut.sum()
    }

    fn spawn(&self, place: usize, room: SocketAddr, admin: u16) -> Child {
        let room = format!("redis://{room}/");
        let mut command = match self.program {
            Program::Shipped => self.shipped(&room, admin),
            Program::WrongClock => self.with_wrong_clock(&room, AHEAD_MS[place]),
        };
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(self.log(place))
            .spawn()
            .unwrap()
    }

    fn shipped(&self, room: &str, admin: u16) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_catraca"));
        command
            .args(["admitter", "--data-dir"])
            .arg(&self.folder)
            .env("CATRACA__ROOM__URL", room)
            .env("CATRACA__ADMIN__LISTEN", format!("127.0.0.1:{admin}"))
            .env("CATRACA__KEYS__SECRET", "x".repeat(32))
            .env("RUST_LOG", "warn");
        command
    }

    fn with_wrong_clock(&self, room: &str, ahead_ms: i64) -> Command {
        let orders = Orders {
            room: room.to_owned(),
            database: self.folder.join("catraca.db"),
            ahead_ms,
        };
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", PROGRAM, "--nocapture"])
            .env(ORDERS, serde_json::to_string(&orders).unwrap());
        command
    }

    /// What a member says goes where a person can find it while the drill runs.
    fn log(&self, place: usize) -> File {
        let path = self.folder.join(format!("admitter-{place}.log"));
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for member in &mut self.members {
            // It may be dead already; there is nothing to do about either.
            drop(member.child.kill());
            drop(member.child.wait());
        }
    }
}
