//! Runs the long tasks of a process and decides when it ends.
//!
//! The first task to end, in any way, ends them all: a relay that returned is as dead as one that
//! panicked, and a restarted process is easier to reason about than a half-alive one. Doors (the
//! listeners) stop first and drain, then the loops finish their current step.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::telemetry::phase::Phase;

/// How the life of a process ended.
#[derive(Debug)]
pub enum Verdict {
    /// Somebody asked it to stop, and everything ended in time.
    Asked,
    /// A task ended by itself: its name, and why.
    TaskEnded(&'static str, anyhow::Error),
    /// Asked to stop, but something did not end within the grace period.
    OutOfGrace,
}

/// The long tasks of a process.
#[derive(Debug)]
pub struct Supervisor {
    doors: JoinSet<Ended>,
    loops: JoinSet<Ended>,
    stop_doors: CancellationToken,
    stop_loops: CancellationToken,
    phase: watch::Sender<Phase>,
    grace: Duration,
}

#[derive(Debug)]
struct Ended {
    name: &'static str,
    how: anyhow::Result<()>,
}

impl Supervisor {
    /// A supervisor that gives its tasks so long to end when asked to.
    pub fn new(grace: Duration) -> Self {
        Self {
            doors: JoinSet::new(),
            loops: JoinSet::new(),
            stop_doors: CancellationToken::new(),
            stop_loops: CancellationToken::new(),
            phase: watch::Sender::new(Phase::Starting),
            grace,
        }
    }

    /// Tells a listener when to stop accepting and drain.
    pub fn door_stop(&self) -> CancellationToken {
        self.stop_doors.clone()
    }

    /// Tells a loop when to end after its current step.
    pub fn loop_stop(&self) -> CancellationToken {
        self.stop_loops.clone()
    }

    /// The phase, for readiness.
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Starts a listener.
    pub fn door(
        &mut self,
        name: &'static str,
        task: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        self.doors.spawn(async move {
            Ended {
                name,
                how: task.await,
            }
        });
    }

    /// Starts a loop.
    pub fn background(
        &mut self,
        name: &'static str,
        task: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        self.loops.spawn(async move {
            Ended {
                name,
                how: task.await,
            }
        });
    }

    /// Runs until `asked` is done or a task ends, then stops everything: doors first.
    pub async fn run(mut self, asked: impl Future<Output = ()>) -> Verdict {
        self.phase.send_replace(Phase::Ready);
        let verdict = tokio::select! {
            biased;
            () = asked => Verdict::Asked,
            Some(ended) = self.doors.join_next() => verdict_of(ended),
            Some(ended) = self.loops.join_next() => verdict_of(ended),
        };
        let in_time = tokio::time::timeout(self.grace, self.stop_all())
            .await
            .is_ok();
        self.phase.send_replace(Phase::Stopped);
        match verdict {
            Verdict::Asked if !in_time => Verdict::OutOfGrace,
            Verdict::Asked | Verdict::TaskEnded(..) | Verdict::OutOfGrace => verdict,
        }
    }

    async fn stop_all(&mut self) {
        self.phase.send_replace(Phase::Draining);
        self.stop_doors.cancel();
        drain(&mut self.doors).await;
        self.phase.send_replace(Phase::Stopping);
        self.stop_loops.cancel();
        drain(&mut self.loops).await;
    }
}

async fn drain(tasks: &mut JoinSet<Ended>) {
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(Ended { how: Ok(()), .. }) => {}
            Ok(Ended {
                name,
                how: Err(error),
            }) => {
                tracing::warn!(task = name, "task ended badly while stopping: {error:#}");
            }
            Err(error) => tracing::warn!("task panicked while stopping: {error}"),
        }
    }
}

fn verdict_of(ended: Result<Ended, JoinError>) -> Verdict {
    match ended {
        Ok(Ended { name, how: Ok(()) }) => {
            Verdict::TaskEnded(name, anyhow::anyhow!("it returned without being asked to"))
        }
        Ok(Ended {
            name,
            how: Err(error),
        }) => Verdict::TaskEnded(name, error),
        Err(error) => Verdict::TaskEnded("a task", error.into()),
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("stopped as asked"),
            Self::TaskEnded(name, error) => write!(f, "{name} ended: {error:#}"),
            Self::OutOfGrace => f.write_str("stopped, but not everything ended in time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_task_to_end_ends_them_all() {
        let mut supervisor = Supervisor::new(Duration::from_secs(5));
        let stop = supervisor.loop_stop();
        supervisor.background("patient", async move {
            stop.cancelled().await;
            Ok(())
        });
        supervisor.background("hasty", async { anyhow::bail!("had enough") });
        let verdict = supervisor.run(std::future::pending()).await;
        assert_eq!(verdict.to_string(), "hasty ended: had enough");
    }

    #[tokio::test]
    async fn doors_stop_before_loops() {
        let mut supervisor = Supervisor::new(Duration::from_secs(5));
        let (doors, loops) = (supervisor.door_stop(), supervisor.loop_stop());
        let phase = supervisor.phase();
        let seen = loops.clone();
        supervisor.door("gateway", async move {
            doors.cancelled().await;
            anyhow::ensure!(
                !seen.is_cancelled(),
                "loops must still run while doors drain"
            );
            Ok(())
        });
        supervisor.background("relay", async move {
            loops.cancelled().await;
            Ok(())
        });
        assert!(matches!(supervisor.run(async {}).await, Verdict::Asked));
        assert_eq!(*phase.borrow(), Phase::Stopped);
    }

    #[tokio::test(start_paused = true)]
    async fn grace_bounds_the_end() {
        let mut supervisor = Supervisor::new(Duration::from_secs(1));
        supervisor.background("stubborn", std::future::pending());
        assert!(matches!(
            supervisor.run(async {}).await,
            Verdict::OutOfGrace
        ));
    }
}
