//! One role in a process of its own, over stores that it shares with others.
//!
//! What wakes a loop early inside one process is not there between processes: every loop also goes
//! by a timer, and that alone is enough. Every process answers for its health on `admin.listen`; those
//! with SQL answer operators there, too.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::admin::health::{self, Health};
use crate::app::backends::{Backends, Front};
use crate::app::data_dir::DataDir;
use crate::app::database::Database;
use crate::app::door;
use crate::app::roles::{self, Roles};
use crate::app::{StartError, bind, check};
use crate::config::{Config, LOG_IN_SQL, ROOM_IN_MEMORY, Writer};
use crate::gateway;
use crate::http::server::serve;
use crate::limit::in_memory::InMemory as Limits;
use crate::room::Rooms;
use crate::supervisor::{Supervisor, Verdict};

/// What a process may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The door. It needs rooms and keys, and no SQL.
    Gateway,
    /// Lets people in, and tells how many came.
    Admitter,
    /// The shop's back end.
    Orders,
    /// Gives each outbox row its offset in the log.
    Relay,
    /// Writes to people.
    Notify,
    /// Tells rooms what is left and who has bought.
    Stock,
    /// Lists what is left.
    Search,
    /// Counts what is sold.
    Analytics,
    /// Sends events again without their facts.
    Thin,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 9] = [
        Self::Gateway,
        Self::Admitter,
        Self::Orders,
        Self::Relay,
        Self::Notify,
        Self::Stock,
        Self::Search,
        Self::Analytics,
        Self::Thin,
    ];

    /// The verb of the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Admitter => "admitter",
            Self::Orders => "orders",
            Self::Relay => "relay",
            Self::Notify => "notify",
            Self::Stock => "stock",
            Self::Search => "search",
            Self::Analytics => "analytics",
            Self::Thin => "thin",
        }
    }
}

/// A process of one role, started but for its run.
#[derive(Debug)]
pub struct Alone {
    role: Role,
    /// Where the role itself listens, if it does: a URL.
    door: Option<String>,
    admin: SocketAddr,
    supervisor: Supervisor,
    database: Option<Database>,
    data_dir: DataDir,
}

/// Starts one role.
///
/// # Errors
/// [`StartError`]: nothing is left half started.
pub async fn start(role: Role, config: &Config) -> Result<Alone, StartError> {
    check(config)?;
    check_shared(role, config)?;
    if role == Role::Relay && config.log.writer == Writer::Cdc {
        return Err(StartError::config(
            "log.writer is cdc: change data capture sends events, and no relay may".to_owned(),
        ));
    }
    if role == Role::Thin && (!config.log.thin || config.log.url == LOG_IN_SQL) {
        return Err(StartError::config(
            "`thin` sends to Kafka, and only with log.thin = true; where the outbox is the log, the view \
             thin_events of the database has the same"
                .to_owned(),
        ));
    }
    let data_dir = DataDir::share(&config.data_dir)?;
    let admin = bind("admin.listen", config.admin.listen).await?;
    match role {
        Role::Gateway => gateway_alone(config, data_dir, admin).await,
        Role::Admitter
        | Role::Orders
        | Role::Relay
        | Role::Notify
        | Role::Stock
        | Role::Search
        | Role::Analytics
        | Role::Thin => with_sql(role, config, data_dir, admin).await,
    }
}

/// Several processes are one system only where they share a room and a secret.
fn check_shared(role: Role, config: &Config) -> Result<(), StartError> {
    let word = role.word();
    if config.room.url == ROOM_IN_MEMORY {
        return Err(StartError::config(format!(
            "room.url ({ROOM_IN_MEMORY}) keeps the room inside one process: `{word}` needs one that \
             processes share; `up` and `demo` run every role in one process"
        )));
    }
    if config.keys.secret.expose().is_empty() {
        return Err(StartError::config(format!(
            "keys.secret must be given: `{word}` must have the same as every other process"
        )));
    }
    Ok(())
}

async fn gateway_alone(
    config: &Config,
    data_dir: DataDir,
    admin: TcpListener,
) -> Result<Alone, StartError> {
    let front = Front::open(config, &data_dir).await?;
    let door = bind("gateway.listen", config.gateway.listen).await?;
    let mut alone = Alone::new(Role::Gateway, config, data_dir, &admin)?;
    alone.door = Some(door::url(config, local(&door)?));
    let supervisor = &mut alone.supervisor;

    let (rooms, exposition) = (
        Rooms::new(Arc::clone(&front.rooms)),
        front.exposition.clone(),
    );
    let limits = Arc::new(Limits::new(&config.gateway.limits));
    let where_orders = (&limits, config.orders.listen);
    let gateway = door::gateway(config, front, rooms.clone(), where_orders)?;
    let health = health::router(Arc::new(Health {
        phase: supervisor.phase(),
        exposition: exposition.clone(),
        rooms,
        shows: None,
        log: None,
    }));
    let stop = supervisor.door_stop();
    let public = gateway::router(Arc::clone(&gateway));
    let served = door::served(config, supervisor, &gateway)?;
    supervisor.door("gateway", serve(door, public, served, stop.clone()));
    supervisor.door("admin", serve(admin, health, roles::own_door(config), stop));
    door::behind(supervisor, &gateway, limits);
    roles::upkeep(supervisor, exposition);
    roles::trace(supervisor, "catraca-gateway");
    Ok(alone)
}

async fn with_sql(
    role: Role,
    config: &Config,
    data_dir: DataDir,
    admin: TcpListener,
) -> Result<Alone, StartError> {
    let backends = Backends::open(config, &data_dir).await?;
    let mut alone = Alone::new(role, config, data_dir, &admin)?;
    alone.database = Some(backends.database.clone());
    let roles = Roles::new(config, &backends);
    let token = roles.admin_token(&alone.data_dir)?;
    // Operators may ask any process with SQL about orders; only that of the shop works on them.
    let orders = roles.orders();
    let operators = roles.admin(token.as_ref(), &alone.supervisor, &orders)?;

    let supervisor = &mut alone.supervisor;
    let stop = supervisor.door_stop();
    let own = roles::own_door(config);
    supervisor.door("admin", serve(admin, operators, own.clone(), stop.clone()));
    let nudge = || Arc::new(Notify::new());
    match role {
        Role::Gateway => {} // has no SQL
        Role::Admitter => roles.admit(supervisor, nudge()),
        Role::Orders => {
            let door = bind("orders.listen", config.orders.listen).await?;
            alone.door = Some(format!("http://{}", local(&door)?));
            supervisor.door("orders", orders.clone().serve(door, own, stop));
            roles.sell(supervisor, &orders);
        }
        Role::Relay => roles.relay(supervisor, nudge(), Vec::new()),
        Role::Notify => roles.notify(supervisor, nudge()),
        Role::Stock => roles.count(supervisor, [nudge(), nudge()], nudge()),
        Role::Search => roles.list(supervisor, nudge()),
        Role::Analytics => roles.analyse(supervisor, nudge()),
        Role::Thin => roles.thin(supervisor, nudge()),
    }
    roles::upkeep(supervisor, backends.exposition.clone());
    roles::trace(supervisor, &format!("catraca-{}", role.word()));
    Ok(alone)
}

fn local(listener: &TcpListener) -> Result<SocketAddr, StartError> {
    let address = listener.local_addr();
    address.map_err(|error| StartError::unavailable(error.to_string()))
}

impl Alone {
    fn new(
        role: Role,
        config: &Config,
        data_dir: DataDir,
        admin: &TcpListener,
    ) -> Result<Self, StartError> {
        Ok(Self {
            role,
            door: None,
            admin: local(admin)?,
            supervisor: Supervisor::new(roles::grace(config)),
            database: None,
            data_dir,
        })
    }

    /// Runs until `asked` is done or a task ends; then everything stops.
    pub async fn run(self, asked: impl Future<Output = ()>) -> Verdict {
        let verdict = self.supervisor.run(asked).await;
        if let Some(database) = self.database {
            database.close().await;
        }
        drop(self.data_dir);
        verdict
    }

    /// What a person needs to know at the start.
    pub fn greeting(&self) -> String {
        let (word, admin) = (self.role.word(), self.admin);
        let door = match &self.door {
            Some(door) => format!("  {word:<13} {door}\n"),
            None => String::new(),
        };
        let api = match self.role {
            Role::Gateway => "health        ",
            Role::Admitter
            | Role::Orders
            | Role::Relay
            | Role::Notify
            | Role::Stock
            | Role::Search
            | Role::Analytics
            | Role::Thin => "admin API     ",
        };
        format!("{door}  {api}http://{admin}\n  metrics       http://{admin}/metrics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::layers;

    #[test]
    fn what_processes_must_share_is_named() {
        let text = |text: &str| toml::Value::String(text.to_owned());
        let redis = ("room.url", text("redis://127.0.0.1:6379"));
        let secret = ("keys.secret", text(&"s".repeat(32)));
        for role in Role::ALL {
            let says = |flags: &[(&str, toml::Value)]| {
                let config = layers::load(None, &[], flags).unwrap().config;
                check_shared(role, &config).map_err(|error| (error.code(), error.to_string()))
            };
            let (code, line) = says(std::slice::from_ref(&secret)).unwrap_err();
            assert!(
                code == 78 && line.starts_with("room.url (memory:)"),
                "{line}"
            );
            let (code, line) = says(std::slice::from_ref(&redis)).unwrap_err();
            assert!(code == 78 && line.starts_with("keys.secret"), "{line}");
            says(&[redis.clone(), secret.clone()]).unwrap();
        }
    }
}
