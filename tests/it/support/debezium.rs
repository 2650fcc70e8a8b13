//! Debezium's own engine with our connector's configuration, run by plain Java, gone with the test.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::support::need::{DEBEZIUM, JAVA};

/// What the connector of `deploy/debezium/` is to have otherwise, by name.
pub(crate) type Changes<'a> = [(&'a str, String)];

/// What is needed to run it. `None` where this machine may do without.
pub(crate) fn find() -> Option<(PathBuf, PathBuf)> {
    Some((JAVA.find()?, DEBEZIUM.find()?))
}

/// An engine that reads its slot.
#[derive(Debug)]
pub(crate) struct Engine {
    child: Child,
    input: Option<ChildStdin>,
}

impl Engine {
    /// Starts one and waits until it reads. `brokers` is `host:port`.
    pub(crate) fn start(brokers: &str, changes: &Changes<'_>) -> Option<Self> {
        let (java, jars) = find()?;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/debezium");
        let mut child = Command::new(java)
            .args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .arg("-cp")
            .arg(jars.join("*"))
            .arg(folder.join("Engine.java"))
            .arg(folder.join("outbox.json"))
            .arg(brokers)
            .args(
                changes
                    .iter()
                    .map(|(name, value)| format!("{name}={value}")),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let polling = said.lines().any(|line| line.unwrap() == "polling");
        assert!(polling, "Debezium's engine ended");
        Some(Self {
            input: child.stdin.take(),
            child,
        })
    }

    /// Ends it in order: what it has sent is confirmed.
    pub(crate) fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.input.take());
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
