//! The program itself, as a child process.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use catraca::app::alone::Role;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

/// How long a verb may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// What processes of one sale have in common.
pub(crate) const SECRET: &str = "a secret that every process of the sale has";

/// What a verb came to.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Variables of the environment, by name.
pub(crate) type Env<'a> = [(&'a str, &'a str)];

/// The same, for processes that are started again and again.
pub(crate) type Variables = Vec<(&'static str, String)>;

fn catraca<S: AsRef<OsStr>>(words: &[S], env: &Env<'_>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catraca"));
    command
        .args(words)
        .env_remove("RUST_LOG")
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Runs a verb to its end, in this folder.
pub(crate) async fn run_in<S: AsRef<OsStr>>(folder: &Path, words: &[S], env: &Env<'_>) -> Ended {
    run_within(PATIENCE, folder, words, env).await
}

/// The same, where it may take so long.
pub(crate) async fn run_within<S: AsRef<OsStr>>(
    patience: Duration,
    folder: &Path,
    words: &[S],
    env: &Env<'_>,
) -> Ended {
    let mut command = catraca(words, env);
    command.current_dir(folder);
    let output = tokio::time::timeout(patience, command.output()).await;
    let output = output.expect("the verb ends").unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Sends a process a signal, by `kill`'s word for it.
pub(crate) async fn signal(id: u32, word: &str) {
    let killed = Command::new("kill").args([word, &id.to_string()]).status();
    assert!(killed.await.unwrap().success());
}

/// Asks a process to stop; its exit code.
async fn terminate(mut child: Child) -> Option<i32> {
    signal(child.id().expect("it runs"), "-TERM").await;
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
    ended.expect("it stops").unwrap().code()
}

/// A server that has said where it listens.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    _out: Lines<BufReader<ChildStdout>>,
    pub(crate) gateway: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) orders: SocketAddr,
}

impl Server {
    /// Starts `catraca up` on this folder and waits for its greeting. Where `env` names no ports,
    /// the system chooses them.
    pub(crate) async fn up(folder: &Path, env: &Env<'_>) -> Self {
        Self::up_by(folder, &[], env, Stdio::inherit()).await
    }

    /// The same with further words, and with its log where it is wanted.
    pub(crate) async fn up_by(folder: &Path, more: &[&str], env: &Env<'_>, log: Stdio) -> Self {
        let mut all = vec![
            ("CATRACA__GATEWAY__LISTEN", "127.0.0.1:0"),
            ("CATRACA__ADMIN__LISTEN", "127.0.0.1:0"),
            ("CATRACA__ORDERS__LISTEN", "127.0.0.1:0"),
            ("CATRACA__GATEWAY__TRUSTED_PROXIES", "127.0.0.0/8"),
            ("RUST_LOG", "error"),
        ];
        all.extend_from_slice(env);
        let mut words = vec!["up".as_ref(), "--data-dir".as_ref(), folder.as_os_str()];
        words.extend(more.iter().map(OsStr::new));
        let mut child = catraca(&words, &all)
            .envs(all.iter().copied())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next = async |name: &str| {
            let line = tokio::time::timeout(PATIENCE, out.next_line()).await;
            let line = line.expect("a greeting").unwrap().expect("a greeting");
            assert!(line.trim_start().starts_with(name), "{line}");
            let address = line.split("://").nth(1).unwrap();
            let address = address.split(['/', ' ']).next().unwrap();
            address.parse().unwrap()
        };
        let (gateway, admin) = (next("gateway").await, next("admin API").await);
        let orders = next("orders").await;
        Self {
            child,
            _out: out,
            gateway,
            admin,
            orders,
        }
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Its log, where it was started with a pipe for it.
    pub(crate) fn log(&mut self) -> ChildStderr {
        self.child.stderr.take().expect("its log is piped")
    }

    /// Dies at once, as with `kill -9`.
    pub(crate) async fn die(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Sends it a signal, by `kill`'s word for it.
    pub(crate) async fn signal(&self, word: &str) {
        signal(self.id(), word).await;
    }

    /// Asks it to stop, as a service manager does; the exit code.
    pub(crate) async fn terminate(self) -> Option<i32> {
        terminate(self.child).await
    }
}

/// A process of one role that has said where it listens. It dies with the value.
#[derive(Debug)]
pub(crate) struct Alone {
    child: Child,
    _out: Lines<BufReader<ChildStdout>>,
    greeting: Vec<String>,
}

impl Alone {
    /// Starts one on this folder, with these variables, and waits for its greeting.
    pub(crate) async fn start(role: Role, folder: &Path, env: &[(&str, String)]) -> Self {
        let all = [
            ("CATRACA__KEYS__SECRET", SECRET),
            ("CATRACA__ADMIN__LISTEN", "127.0.0.1:0"),
            ("CATRACA__ORDERS__LISTEN", "127.0.0.1:0"),
            ("CATRACA__GATEWAY__LISTEN", "127.0.0.1:0"),
            ("CATRACA__GATEWAY__TRUSTED_PROXIES", "127.0.0.0/8"),
            ("RUST_LOG", "error"),
        ];
        let words = [
            role.word().as_ref(),
            "--data-dir".as_ref(),
            folder.as_os_str(),
        ];
        let mut child = catraca(&words, &[])
            .envs(all)
            .envs(env.iter().map(|(name, value)| (*name, value)))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut greeting: Vec<String> = Vec::new();
        while !greeting.last().is_some_and(|line| line.contains("metrics")) {
            let line = tokio::time::timeout(PATIENCE, out.next_line()).await;
            greeting.push(line.expect("a greeting").unwrap().expect("a greeting"));
        }
        Self {
            child,
            _out: out,
            greeting,
        }
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Dies at once, as with `kill -9`.
    pub(crate) async fn die(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Asks it to stop, as a service manager does; the exit code.
    pub(crate) async fn terminate(self) -> Option<i32> {
        terminate(self.child).await
    }

    /// The address after this word of the greeting.
    pub(crate) fn address(&self, word: &str) -> String {
        let line = self.greeting.iter().find(|line| line.contains(word));
        let line = line.unwrap_or_else(|| panic!("{word} in {:?}", self.greeting));
        line.split("http://").nth(1).unwrap().to_owned()
    }
}
