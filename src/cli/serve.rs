//! `catraca up`: every role in one process; `catraca gateway`, `admitter`, …: one role.

use tokio::signal::unix::{SignalKind, signal};

use crate::app::alone::{self, Role};
use crate::app::{self, App, StartError};
use crate::cli::settings::loaded;
use crate::cli::{CONFIG, ConfigArgs, FAILED, OK, UNAVAILABLE, complain, print, tell};
use crate::config::Config;
use crate::supervisor::Verdict;
use crate::telemetry;

/// Carries out `catraca up`.
pub async fn up(args: &ConfigArgs) -> u8 {
    let config = match loaded(args) {
        Ok(loaded) => loaded.config,
        Err(error) => {
            complain(&error);
            return CONFIG;
        }
    };
    let app = match start(&config, "info").await {
        Ok(app) => app,
        Err(code) => return code,
    };
    print(&app.greeting());
    end(app.run(asked()).await)
}

/// Carries out `catraca gateway`, `catraca admitter` and so on.
pub async fn alone(role: Role, args: &ConfigArgs) -> u8 {
    let config = match loaded(args) {
        Ok(loaded) => loaded.config,
        Err(error) => {
            complain(&error);
            return CONFIG;
        }
    };
    telemetry::start_log(&app::log_filter("info"));
    outlive_hangups();
    match alone::start(role, &config).await {
        Ok(alone) => {
            print(&alone.greeting());
            end(alone.run(asked()).await)
        }
        Err(error) => refused(&error),
    }
}

/// One line for a person, and the exit code.
fn refused(error: &StartError) -> u8 {
    tell(&format!("catraca: {error}"));
    match error.code() {
        CONFIG => CONFIG,
        _ => UNAVAILABLE,
    }
}

/// Starts the log (`quiet` is its filter without `RUST_LOG`) and every role; where that fails, one
/// line and the exit code.
pub(super) async fn start(config: &Config, quiet: &str) -> Result<App, u8> {
    telemetry::start_log(&app::log_filter(quiet));
    outlive_hangups();
    app::start(config).await.map_err(|error| refused(&error))
}

/// The exit code that a verdict comes to.
pub(super) fn end(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Asked => OK,
        Verdict::TaskEnded(..) | Verdict::OutOfGrace => {
            tell(&format!("catraca: {verdict}"));
            FAILED
        }
    }
}

/// From now on SIGHUP does not end the process. It asks for certificates to be read anew, which whoever has
/// some hears by itself, and asks for nothing where nobody has any.
fn outlive_hangups() {
    if let Err(error) = signal(SignalKind::hangup()) {
        tracing::warn!("SIGHUP would end this process: {error}");
    }
}

/// Done when the process is asked to stop: Ctrl-C or SIGTERM.
pub(super) async fn asked() {
    let terminate = signal(SignalKind::terminate());
    let interrupt = signal(SignalKind::interrupt());
    let (Ok(mut terminate), Ok(mut interrupt)) = (terminate, interrupt) else {
        return std::future::pending().await; // then only SIGKILL ends it
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
