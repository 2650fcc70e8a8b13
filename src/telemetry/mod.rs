//! What the system says about itself: its log, its metrics, and where it is asked for its spans.

pub mod metrics;
pub mod otlp;
pub mod phase;
pub mod traces;

use std::io::IsTerminal;

use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;

/// The metrics of the process, ready to be printed.
#[derive(Debug, Clone)]
pub struct Exposition(PrometheusHandle);

impl Exposition {
    /// Collects metrics from now on. Once a process.
    ///
    /// # Errors
    /// [`BuildError`] where another recorder is installed.
    pub fn install() -> Result<Self, BuildError> {
        Ok(Self(builder()?.install_recorder()?))
    }

    /// A recorder that nobody writes to, for tests that start several systems in one process.
    ///
    /// # Errors
    /// [`BuildError`] where the buckets are refused.
    pub fn detached() -> Result<Self, BuildError> {
        Ok(Self(builder()?.build_recorder().handle()))
    }

    /// The Prometheus text format.
    pub fn render(&self) -> String {
        self.0.render()
    }

    /// Folds what histograms have gathered. Due every few seconds, or they grow.
    pub fn upkeep(&self) {
        self.0.run_upkeep();
    }
}

fn builder() -> Result<PrometheusBuilder, BuildError> {
    let buckets = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    ];
    PrometheusBuilder::new().set_buckets(&buckets)
}

/// Starts the log on standard error: pretty on a terminal, JSON elsewhere. `filter` is `RUST_LOG`'s
/// syntax; a bad one falls back to `info`.
pub fn start_log(filter: &str) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    // A second start, in tests, keeps the first log.
    let started = if std::io::stderr().is_terminal() {
        log.with_target(false).try_init()
    } else {
        log.json().flatten_event(true).try_init()
    };
    if let Err(error) = started {
        tracing::debug!("the log was started before: {error}");
    }
}
