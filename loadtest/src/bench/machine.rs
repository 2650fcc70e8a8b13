//! Processes on cores of their own, and the CPU time that each has used.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};

/// The core of what is measured, and the core of who measures.
pub(super) const SERVER_CORE: &str = "0";
/// See [`SERVER_CORE`].
pub(super) const CLIENT_CORE: &str = "1";

/// A child process that ends with the value.
#[derive(Debug)]
pub(super) struct Process(Child);

impl Process {
    /// Starts a program on this core. Its standard error goes into a file.
    pub(super) fn start(
        core: &str,
        program: &Path,
        words: &[String],
        env: &[(&str, String)],
        log: &Path,
    ) -> anyhow::Result<Self> {
        let child = Command::new("taskset")
            .args(["-c", core])
            .arg(program)
            .args(words)
            .envs(env.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(log)?)
            .spawn()
            .with_context(|| format!("starting {} with taskset", program.display()))?;
        Ok(Self(child))
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// `STOP`, `CONT` or `TERM`.
    pub(super) fn signal(&self, signal: &str) -> anyhow::Result<()> {
        let pid = self.pid().to_string();
        let status = Command::new("kill")
            .args(["-s", signal, &pid])
            .status()
            .context("kill is needed (util-linux)")?;
        ensure!(status.success(), "kill -s {signal} {pid}");
        Ok(())
    }

    /// Whether it still runs.
    pub(super) fn runs(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to do about either.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Puts this process on the core of who measures.
pub(super) fn pin_self() -> anyhow::Result<()> {
    let pid = std::process::id().to_string();
    let pinned = Command::new("taskset")
        .args(["-a", "-c", "-p", CLIENT_CORE, &pid])
        .stdout(Stdio::null())
        .status()
        .context("taskset is needed (util-linux)")?;
    ensure!(pinned.success(), "taskset could not pin this process");
    Ok(())
}

/// CPU time of all threads of a process so far, in user and system mode, to the nanosecond.
pub(super) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let mut total = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).context("reading /proc")? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        let spent: u64 = text
            .split_whitespace()
            .next()
            .context("an empty schedstat")?
            .parse()?;
        total += spent;
    }
    Ok(Duration::from_nanos(total))
}

/// Memory that a process has in use, in bytes.
pub(super) fn memory(pid: u32) -> anyhow::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line
        .and_then(|line| line.trim().strip_suffix(" kB"))
        .context("no VmRSS")?
        .parse()?;
    Ok(kib * 1_024)
}

/// A port that was free a moment ago.
pub(super) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// The middle one.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_found() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!(median(Vec::new()).is_nan());
    }
}
