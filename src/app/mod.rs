//! Puts the parts together: the only place that knows which backend is behind a port.
//!
//! Everything that can be refused is tried before anything starts: folder, keys, databases, ports.
//! `backends.rs` opens the stores, `database.rs` those in SQL; `roles.rs` lists every door and every
//! loop of a process, `groups.rs` those of consumers; `alone.rs` starts one role of them.

pub mod alone;
pub mod backends;
pub mod data_dir;
pub mod database;
mod door;
mod groups;
pub mod openapi;
pub mod roles;

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::app::backends::Backends;
use crate::app::data_dir::DataDir;
use crate::app::database::Database;
use crate::base::ids::IdSource;
use crate::base::secret::Secret;
use crate::config::Config;
use crate::driver::postgres_url;
use crate::gateway;
use crate::gateway::boards::Boards;
use crate::show::Store as ShowStore;
use crate::supervisor::{Supervisor, Verdict};

/// Why a process did not start, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartError {
    code: u8,
    line: String,
}

impl StartError {
    /// A port, a folder or a server is missing: exit code 69.
    pub fn unavailable(line: impl Into<String>) -> Self {
        Self {
            code: 69,
            line: line.into(),
        }
    }

    /// The configuration is wrong: exit code 78.
    pub fn config(line: impl Into<String>) -> Self {
        Self {
            code: 78,
            line: line.into(),
        }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl std::error::Error for StartError {}

/// The ports of a process, bound before anything else starts.
#[derive(Debug)]
pub struct Listeners {
    /// Fans.
    pub gateway: TcpListener,
    /// Operators.
    pub admin: TcpListener,
    /// The gateway, as far as the shop is concerned.
    pub orders: TcpListener,
}

impl Listeners {
    /// Where they listen, the ports that the system chose for port 0 included.
    fn addresses(&self) -> Result<Addresses, StartError> {
        let of = |listener: &TcpListener| {
            listener
                .local_addr()
                .map_err(|error| StartError::unavailable(error.to_string()))
        };
        Ok(Addresses {
            gateway: of(&self.gateway)?,
            admin: of(&self.admin)?,
            orders: of(&self.orders)?,
        })
    }
}

/// Where a process listens.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// Fans.
    pub gateway: SocketAddr,
    /// Operators.
    pub admin: SocketAddr,
    /// The shop's back end.
    pub orders: SocketAddr,
}

/// A process with everything in it, started but for its run.
#[derive(Debug)]
pub struct App {
    /// Where it listens.
    pub addresses: Addresses,
    /// The gateway's base URL.
    pub gateway_url: String,
    /// Shows in SQL.
    pub shows: Arc<dyn ShowStore>,
    /// What the gateway knows of every show.
    pub boards: Arc<Boards>,
    /// Wakes whoever carries out what an operator decided.
    pub changed: Arc<Notify>,
    /// The generated admin token; none where the configuration names tokens.
    pub admin_token: Option<Secret>,
    supervisor: Supervisor,
    database: Database,
    data_dir: DataDir,
}

/// What `RUST_LOG` asks for; `quiet` where it is not set.
#[expect(clippy::disallowed_methods, reason = "RUST_LOG works as users expect")]
pub fn log_filter(quiet: &str) -> String {
    std::env::var("RUST_LOG").unwrap_or_else(|_| quiet.to_owned())
}

/// What the environment says of OpenTelemetry, by its names.
#[expect(
    clippy::disallowed_methods,
    reason = "OTEL_* work as in every other program"
)]
pub(super) fn otel(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Whether a process can be started with this configuration, as far as that can be told without
/// touching anything: what `catraca config check` says.
///
/// # Errors
/// [`StartError`] with the key that is wrong.
pub fn check(config: &Config) -> Result<(), StartError> {
    let secret = &config.keys.secret;
    if secret.expose().is_empty() {
        backends::keys_of(config, &Secret::new(IdSource::random().secret()))?; // as at a first start
    } else {
        backends::keys_of(config, secret)?;
    }
    door::tls(config)?;
    let (upstreams, routes) = door::upstreams(config, config.orders.listen)?;
    gateway::check(&config.gateway, &upstreams, &routes).map_err(StartError::config)?;
    if config.database_is_postgres() {
        postgres_url::check(&config.database.url).map_err(|error| {
            let error = anyhow::Error::from(error);
            StartError::config(format!("database.url: {error:#}"))
        })?;
    }
    backends::provider(config)?;
    backends::open_seller(config)?;
    Ok(())
}

/// Starts every role in this process.
///
/// # Errors
/// [`StartError`]: nothing is left half started.
pub async fn start(config: &Config) -> Result<App, StartError> {
    check(config)?;
    let data_dir = DataDir::take(&config.data_dir)?;
    let backends = Backends::open(config, &data_dir).await?;
    assemble(config, data_dir, backends).await
}

/// Starts every role over these backends.
///
/// # Errors
/// As [`start`].
pub async fn assemble(
    config: &Config,
    data_dir: DataDir,
    backends: Backends,
) -> Result<App, StartError> {
    let listeners = Listeners {
        gateway: bind("gateway.listen", config.gateway.listen).await?,
        admin: bind("admin.listen", config.admin.listen).await?,
        orders: bind("orders.listen", config.orders.listen).await?,
    };
    roles::all(config, data_dir, backends, listeners)
}

async fn bind(key: &str, address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|error| {
        StartError::unavailable(format!("{key}: cannot listen on {address}: {error}"))
    })
}

impl App {
    /// Runs until `asked` is done or a task ends; then everything stops.
    pub async fn run(self, asked: impl Future<Output = ()>) -> Verdict {
        let verdict = self.supervisor.run(asked).await;
        self.database.close().await;
        drop(self.data_dir);
        verdict
    }

    /// What a person needs to know at the start.
    pub fn greeting(&self) -> String {
        let Addresses { admin, orders, .. } = self.addresses;
        let mut lines = vec![
            format!("  gateway       {}", self.gateway_url),
            format!("  admin API     http://{admin}/admin/v1/shows"),
            format!("  orders        http://{orders} (only the gateway may call it)"),
            format!("  metrics       http://{admin}/metrics"),
            format!("  data          {}", self.data_dir.path().display()),
        ];
        if self.admin_token.is_some() {
            let file = self.data_dir.file(roles::ADMIN_TOKEN);
            lines.push(format!(
                "  admin token   in {} (role admin)",
                file.display()
            ));
        }
        lines.join("\n")
    }
}
