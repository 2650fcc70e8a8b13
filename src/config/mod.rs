//! Configuration: defaults, then the file, then the environment, then flags; checked once, before
//! any port is opened.
//!
//! `default.toml` is compiled in and is the reference manual: every key is there with its meaning.
//! `layers.rs` puts the four layers on top of each other and remembers where each value came from.

pub mod layers;
pub mod suggest;

mod kafka;
mod place;

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

use crate::base::bound::within;
use crate::base::ids::ShowId;
use crate::base::limits::WAIT_MS_MAX;
use crate::base::secret::Secret;
use crate::driver::redis::Redis;
use crate::gateway::settings::Settings as Gateway;
use crate::gateway::upstreams::{Gate, HostSent, Route};
use crate::token::keyring::{KeyRing, SECRET_BYTES_MIN};

/// The reference manual of the configuration, and its defaults.
pub const DEFAULT: &str = include_str!("default.toml");

/// Everything that can be configured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where SQLite files, the mailbox and generated secrets live.
    pub data_dir: PathBuf,
    /// The shared state of the waiting rooms.
    pub room: Room,
    /// Shows, ledger, orders, outbox, inbox.
    pub database: Url,
    /// The event log.
    pub log: Log,
    /// The public door.
    pub gateway: Gateway,
    /// The operators' door.
    pub admin: Admin,
    /// The shop's own back end.
    pub orders: Orders,
    /// What signs passes and tickets.
    pub keys: Keys,
    /// Messages to buyers.
    pub notify: Notify,
    /// HTTP services behind the gate, by name.
    pub upstreams: std::collections::BTreeMap<String, Upstream>,
    /// Which request goes to which upstream; none: the orders routes.
    #[serde(default)]
    pub routes: Vec<Route>,
}

/// `[room]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Room {
    /// See `default.toml` for the schemes.
    pub url: String,
    /// PEM certificates to trust for TLS to Redis; empty: those that the machine trusts.
    pub ca_file: PathBuf,
    /// How long a room that is mended after a failover waits for the old primary to stop.
    pub split_brain_ms: u64,
}

/// A backend, chosen by its URL.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Url {
    /// See `default.toml` for the schemes.
    pub url: String,
}

/// `[log]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// See `default.toml` for the schemes.
    pub url: String,
    /// The topic, where the log is in Kafka.
    pub topic: String,
    /// Who sends events there.
    pub writer: Writer,
    /// Whether thin events go to a topic beside it.
    pub thin: bool,
    /// PEM certificates to trust for TLS to Kafka; empty: those that the machine trusts.
    pub ca_file: PathBuf,
    /// A PEM certificate of one's own, where Kafka asks for one; empty: none.
    pub cert_file: PathBuf,
    /// Its PEM key.
    pub key_file: PathBuf,
    /// How a user logs in to Kafka; empty: nobody does.
    pub sasl: String,
    /// Who.
    pub user: String,
    /// Their password.
    pub password: Secret,
}

/// `log.writer`: of the two exactly one sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Writer {
    /// Our own relay.
    Relay,
    /// Debezium, which reads PostgreSQL's write-ahead log: change data capture.
    Cdc,
}

/// `[admin]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admin {
    /// Address and port of the operators' listener.
    pub listen: SocketAddr,
    /// Bearer tokens. None: one of role `admin` is generated into the data folder at start.
    pub tokens: Vec<AdminToken>,
}

/// One entry of `[[admin.tokens]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdminToken {
    /// Who acts with it, for the audit.
    pub name: String,
    /// `viewer`, `operator` or `admin`.
    pub role: String,
    /// SHA-256 of the token, hexadecimal.
    pub sha256: String,
}

/// `[orders]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Orders {
    /// Address and port of the back end's listener.
    pub listen: SocketAddr,
    /// How long the sandbox provider takes for a `slow` payment.
    pub sandbox_slow_ms: u64,
}

/// `[keys]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    /// The root secret, at least 32 bytes. Empty: generated into the data folder by `demo` and `up`.
    pub secret: Secret,
    /// The label of the key that signs.
    pub active: String,
    /// Labels of keys that are still accepted.
    pub accepted: Vec<String>,
}

/// `[notify]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notify {
    /// See `default.toml` for the schemes. May have a password.
    pub url: Secret,
    /// PEM certificates to trust for TLS to the provider; empty: those that the machine trusts.
    pub ca_file: PathBuf,
    /// A folder for `.eml` files; empty: `mailbox` in the data folder.
    pub mailbox: PathBuf,
    /// Whom messages come from: an address, with a name or without.
    pub from: String,
}

/// `[upstreams.<name>]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// `http://host:port` or `https://host:port`; none, and only for `orders`: the orders listener of this
    /// process.
    #[serde(default)]
    pub url: Option<url::Url>,
    /// PEM certificates to trust for https; empty: those that the machine trusts.
    #[serde(default)]
    pub ca_file: PathBuf,
    /// Who may pass.
    pub gate: Gate,
    /// The show that guards it; none: `{show}` in the path of its routes.
    #[serde(default)]
    pub show: Option<ShowId>,
    /// Shared with the upstream for the assertion; none: derived from `keys.secret`.
    #[serde(default)]
    pub secret: Option<Secret>,
    /// Whether `Catraca-Admission` and `Catraca-Stock` in its answers are believed.
    #[serde(default)]
    pub trusted: bool,
    /// The host that it is told was asked.
    #[serde(default)]
    pub host: HostSent,
    /// Requests at once; none: `gateway.upstream_in_flight_max`.
    #[serde(default)]
    pub in_flight_max: Option<usize>,
}

/// A configuration that cannot be used, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// `log.url` of the outbox, read in order.
pub const LOG_IN_SQL: &str = "sql:";

/// `notify.url` of a folder.
pub const NOTIFY_IN_MAILBOX: &str = "mailbox:";

/// `room.url` of a room in the process itself.
pub const ROOM_IN_MEMORY: &str = "memory:";

impl Config {
    /// The rules between keys.
    ///
    /// # Errors
    /// The first broken rule, with keys and values.
    pub fn check(&self) -> Result<(), ConfigError> {
        let wrong = |text: String| Err(ConfigError(text));
        if self.room.url != ROOM_IN_MEMORY
            && let Err(error) = Redis::check(&self.room.url)
        {
            // The rest of an address may be a password.
            let scheme = self.room.url.split("//").next().unwrap_or_default();
            return wrong(format!(
                "room.url ({scheme}) must be {ROOM_IN_MEMORY} or lead to Redis: {error}"
            ));
        }
        let kafka = self.log.kafka()?;
        if self.log.writer == Writer::Cdc && (kafka.is_none() || !self.database_is_postgres()) {
            return wrong(format!(
                "log.writer (cdc) needs log.url ({}) to lead to Kafka and database.url to begin with postgres://",
                self.log.url
            ));
        }
        if !self.database.url.starts_with("sqlite:") && !self.database_is_postgres() {
            // The rest of an address may be a password.
            let scheme = self.database.url.split(':').next().unwrap_or_default();
            return wrong(format!(
                "database.url ({scheme}:) must begin with sqlite: or postgres://"
            ));
        }
        self.check_keys()?;
        self.check_waits().map_err(ConfigError)?;
        self.gateway
            .check()
            .map_err(|rule| ConfigError(format!("gateway.{rule}")))?;
        for (name, upstream) in &self.upstreams {
            if upstream.url.is_none() && name != "orders" {
                return wrong(format!("upstreams.{name}.url must be given"));
            }
        }
        for token in &self.admin.tokens {
            if !matches!(token.role.as_str(), "viewer" | "operator" | "admin") {
                let (name, role) = (&token.name, &token.role);
                return wrong(format!(
                    "admin.tokens: role of {name} ({role}) must be viewer, operator or admin"
                ));
            }
            let hex =
                token.sha256.len() == 64 && token.sha256.bytes().all(|b| b.is_ascii_hexdigit());
            if !hex {
                return wrong(format!(
                    "admin.tokens: sha256 of {} must be 64 hex digits",
                    token.name
                ));
            }
        }
        Ok(())
    }

    fn check_waits(&self) -> Result<(), String> {
        let wait = 0..=WAIT_MS_MAX;
        within("room.split_brain_ms", self.room.split_brain_ms, &wait)?;
        within("orders.sandbox_slow_ms", self.orders.sandbox_slow_ms, &wait)
    }

    /// A secret that is given must make a key ring; one that is not is generated at start.
    fn check_keys(&self) -> Result<(), ConfigError> {
        let Keys {
            secret,
            active,
            accepted,
        } = &self.keys;
        let generated = Secret::new("0".repeat(SECRET_BYTES_MIN));
        let secret = match secret.expose() {
            "" => &generated,
            _ => secret,
        };
        match KeyRing::new(secret, active, accepted) {
            Ok(_) => Ok(()),
            Err(error) => Err(ConfigError(error.to_string())),
        }
    }

    /// Whether `database.url` names a PostgreSQL server.
    pub fn database_is_postgres(&self) -> bool {
        let schemes = ["postgres://", "postgresql://"];
        schemes.iter().any(|s| self.database.url.starts_with(s))
    }

    /// The path in `database.url`, of an SQLite file.
    pub fn database_path(&self) -> PathBuf {
        let path = self.database.url.trim_start_matches("sqlite:");
        if path.is_empty() {
            self.data_dir.join("catraca.db")
        } else {
            PathBuf::from(path)
        }
    }

    /// The folder for messages.
    pub fn mailbox(&self) -> PathBuf {
        if self.notify.mailbox.as_os_str().is_empty() {
            self.data_dir.join("mailbox")
        } else {
            self.notify.mailbox.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::layers::load;
    use toml::{Table, Value};

    /// Of these 0 is a number like any other: nothing is waited for, nothing is taken, and no sum is hard.
    const MAY_BE_NONE: [&str; 5] = [
        "room.split_brain_ms",
        "orders.sandbox_slow_ms",
        "gateway.drain_ms",
        "gateway.forward_body_bytes_max",
        "gateway.challenge.level_min",
    ];

    /// The keys of the manual whose values are numbers.
    fn numbers(prefix: &str, table: &Table) -> Vec<String> {
        let each = |(key, value): (&String, &Value)| {
            let key = format!("{prefix}{key}");
            match value {
                Value::Table(below) => numbers(&format!("{key}."), below),
                Value::Integer(_) | Value::Float(_) => vec![key],
                _ => Vec::new(),
            }
        };
        table.iter().flat_map(each).collect()
    }

    #[test]
    fn every_number_has_a_range_and_the_refusal_names_both() {
        let keys = numbers("", &DEFAULT.parse().unwrap());
        assert!(30 < keys.len(), "{keys:?}");
        for key in &keys {
            let with = |number| load(None, &[], &[(key, Value::Integer(number))]);
            let says = with(i64::from(u32::MAX) << 16).unwrap_err().0;
            let is_typed = says.contains("expected u") && says.contains(key); // wider than its type
            let is_ranged = says.starts_with(key) && says.contains(" must be between ");
            assert!(is_typed || is_ranged, "{key}: {says}");
            match with(0) {
                Ok(_) => assert!(MAY_BE_NONE.contains(&key.as_str()), "{key} may be 0"),
                Err(says) => {
                    assert!(
                        says.0.starts_with(key) && says.0.contains("(0) must be between "),
                        "{says}"
                    );
                }
            }
        }
        for key in MAY_BE_NONE {
            assert!(keys.iter().any(|known| known == key), "{key}");
        }
    }
}
