//! Where rooms are kept, as `room.url` says it.
//!
//! ```text
//! redis://[user[:password]@]host[:port][/database]
//! redis+sentinel://[user[:password]@]host[:port],host[:port]../primary[/database]
//! redis+cluster://[user[:password]@]host[:port],host[:port]..
//! ```
//!
//! With `rediss` instead of `redis` everything goes through TLS, the sentinels' answers included.

use redis::io::tcp::TcpSettings;
use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, TlsCertificates};

use crate::base::secret::Secret;
use crate::driver::redis::fault::RedisError;

/// Which servers there are, and how one gets in.
#[derive(Debug, Clone)]
pub(super) struct Address {
    pub(super) topology: Topology,
    /// `host:port` of those named: the server, sentinels, or some nodes of the cluster.
    pub(super) hosts: Vec<String>,
    pub(super) login: Login,
    /// The sentinels' own; they need not have one.
    pub(super) sentinel_login: Login,
    tls: Option<Tls>,
}

/// How servers stand together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Topology {
    /// One server.
    One,
    /// Sentinels know which server is the primary of this name.
    Sentinel(String),
    /// Each server has some of the slots.
    Cluster,
}

/// What a connection says first.
#[derive(Debug, Clone, Default)]
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) database: i64,
}

/// Whom to believe.
#[derive(Debug, Clone)]
struct Tls {
    /// Certificates in PEM; none: those that the machine trusts.
    ca: Option<Vec<u8>>,
}

impl Address {
    /// Reads an address. `ca`: PEM certificates to trust instead of the machine's.
    ///
    /// # Errors
    /// [`RedisError::Address`], without any secret in it.
    pub(super) fn parse(url: &str, ca: Option<Vec<u8>>) -> Result<Self, RedisError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("no scheme"))?;
        let (is_tls, kind) = match scheme.split_once('+').unwrap_or((scheme, "")) {
            ("redis", kind) => (false, kind),
            ("rediss", kind) => (true, kind),
            _ => return Err(wrong("the scheme must be redis or rediss")),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), authority),
        };
        let (topology, database, port) = match kind {
            "" => (Topology::One, path, 6379),
            "sentinel" => {
                let (primary, database) = path.split_once('/').unwrap_or((path, ""));
                if primary.is_empty() {
                    return Err(wrong("the path must be the name of the primary"));
                }
                (Topology::Sentinel(primary.to_owned()), database, 26379)
            }
            "cluster" if path.is_empty() => (Topology::Cluster, "", 6379),
            "cluster" => return Err(wrong("a cluster has no databases")),
            _ => {
                return Err(wrong(
                    "the scheme must end in +sentinel, +cluster or neither",
                ));
            }
        };
        if topology == Topology::One && hosts.contains(',') {
            return Err(wrong("several hosts need redis+sentinel or redis+cluster"));
        }
        let mut login = Login::default();
        let mut named = Vec::new();
        for host in hosts.split(',') {
            // The library knows how to read one.
            let one = format!("redis://{user}{host}/{database}");
            let info = one.into_connection_info();
            let info = info.map_err(|_| wrong("a host, port, user or database is malformed"))?;
            let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
            named.push(match info.addr() {
                ConnectionAddr::Tcp(host, _) if !has_port => at(host, port),
                ConnectionAddr::Tcp(host, port) => at(host, *port),
                _ => return Err(wrong("a host is missing")),
            });
            let settings = info.redis_settings();
            login = Login {
                user: settings.username().map(str::to_owned),
                password: settings.password().map(Secret::new),
                database: settings.db(),
            };
        }
        let sentinel_login = sentinel_login(query, &topology)?;
        Ok(Self {
            topology,
            hosts: named,
            login,
            sentinel_login,
            tls: is_tls.then_some(Tls { ca }),
        })
    }

    /// A client for a server at `host:port`. It does not log in: that is said alone and first, for
    /// a server that refuses it may leave everything after it unanswered.
    ///
    /// # Errors
    /// [`RedisError::Address`] where there is no such place, or the certificates cannot be read.
    pub(super) fn client(&self, host_port: &str) -> Result<Client, RedisError> {
        let unusable = |error: redis::RedisError| RedisError::Address(error.to_string());
        let scheme = if self.tls.is_some() {
            "rediss"
        } else {
            "redis"
        };
        let info = format!("{scheme}://{host_port}").into_connection_info();
        let info = info.map_err(unusable)?;
        // Nagle's algorithm, which the library leaves on, would hold back every second command.
        let settings = info.redis_settings().clone().set_skip_set_lib_name();
        let info: ConnectionInfo = info
            .set_tcp_settings(TcpSettings::default().set_nodelay(true))
            .set_redis_settings(settings);
        match &self.tls {
            None => Client::open(info).map_err(unusable),
            Some(tls) => {
                let certificates = TlsCertificates {
                    client_tls: None,
                    root_cert: tls.ca.clone(),
                };
                Client::build_with_tls(info, certificates).map_err(unusable)
            }
        }
    }
}

/// `host:port`, as in a URL.
pub(super) fn at(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

fn sentinel_login(query: &str, topology: &Topology) -> Result<Login, RedisError> {
    let mut login = Login::default();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match (&*name, topology) {
            ("sentinel_user", Topology::Sentinel(_)) => login.user = Some(value.into_owned()),
            ("sentinel_password", Topology::Sentinel(_)) => {
                login.password = Some(Secret::new(value));
            }
            _ => return Err(wrong("the query has a name that means nothing here")),
        }
    }
    Ok(login)
}

fn wrong(what: &str) -> RedisError {
    RedisError::Address(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_who_and_how() {
        for (url, topology, hosts) in [
            ("redis://r", Topology::One, &["r:6379"][..]),
            ("redis://u:p%40q@[::1]:7/2", Topology::One, &["[::1]:7"]),
            (
                "redis+sentinel://a,b:7/main?sentinel_password=x",
                Topology::Sentinel("main".to_owned()),
                &["a:26379", "b:7"],
            ),
            (
                "rediss+cluster://:p@a:1,b",
                Topology::Cluster,
                &["a:1", "b:6379"],
            ),
        ] {
            let address = Address::parse(url, None).unwrap();
            assert_eq!(address.topology, topology, "{url}");
            assert_eq!(address.hosts, hosts, "{url}");
            assert_eq!(address.tls.is_some(), url.starts_with("rediss"), "{url}");
        }
        let login = Address::parse("redis://u:p%40q@r/2", None).unwrap().login;
        assert_eq!(login.user.as_deref(), Some("u"));
        assert_eq!(login.password.unwrap().expose(), "p@q");
        assert_eq!(login.database, 2);
    }

    #[test]
    fn what_is_no_address_is_refused_without_its_secrets() {
        for url in [
            "r:6379",
            "http://u:hidden@r",
            "redis://",
            "redis://u:hidden@r:port",
            "redis://u:hidden@r/first",
            "redis://a,b",
            "redis://r?sentinel_user=hidden",
            "redis+sentinel://a",
            "redis+sentinel://a/main?hidden=1",
            "redis+cluster://a/1",
            "redis+ring://a",
        ] {
            let error = Address::parse(url, None).map(drop).unwrap_err().to_string();
            assert!(!error.contains("hidden"), "{url}: {error}");
        }
    }
}
