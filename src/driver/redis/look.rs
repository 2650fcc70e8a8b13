//! What a server says of itself, and whether it can keep what it is told.

use redis::aio::MultiplexedConnection;

use crate::base::outage::Outage;
use crate::driver::redis::fault::RedisError;

/// The oldest server that has what the scripts use.
const VERSION_MIN: u64 = 7;

/// What was seen of a server that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// Whether it stops writing when it has lost its replicas.
    pub(super) is_guarded: bool,
    /// Whether replicas follow it now.
    pub(super) has_replicas: bool,
}

/// Refuses a server that cannot keep what it is told.
///
/// # Errors
/// The outage.
pub(super) async fn look_at(connection: &mut MultiplexedConnection) -> Result<Seen, RedisError> {
    let text: String = redis::cmd("INFO").query_async(connection).await?;
    read(&text)
}

fn read(info: &str) -> Result<Seen, RedisError> {
    let says = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.strip_prefix(':'))
            .map_or("", str::trim)
    };
    let version = says("redis_version");
    let major = version.split('.').next().and_then(|text| text.parse().ok());
    if major.is_none_or(|major: u64| major < VERSION_MIN) {
        let detail = format!("version {version} is older than {VERSION_MIN}.0");
        return Err(RedisError::away(Outage::Version, detail));
    }
    if says("redis_mode") == "sentinel" {
        let what = "a sentinel answers there; its scheme is redis+sentinel://".to_owned();
        return Err(RedisError::Address(what));
    }
    let policy = says("maxmemory_policy");
    if policy != "noeviction" {
        let detail = format!("maxmemory-policy is {policy}, it must be noeviction");
        return Err(RedisError::away(Outage::Evicts, detail));
    }
    if says("role") != "master" {
        let primary = format!("{}:{}", says("master_host"), says("master_port"));
        let detail = format!("it is a replica of {primary}");
        return Err(RedisError::away(Outage::ReadOnly, detail));
    }
    Ok(Seen {
        // There is such a line only where min-replicas-to-write and min-replicas-max-lag are set.
        is_guarded: !says("min_slaves_good_slaves").is_empty(),
        has_replicas: !matches!(says("connected_slaves"), "" | "0"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n# Memory\r\n\
        maxmemory_policy:noeviction\r\n# Replication\r\nrole:master\r\nconnected_slaves:1\r\n\
        min_slaves_good_slaves:1\r\n";

    #[test]
    fn a_server_is_refused_for_what_it_is() {
        let seen = Seen {
            is_guarded: true,
            has_replicas: true,
        };
        assert_eq!(read(GOOD).unwrap(), seen);
        let alone = GOOD.replace("slaves:1", "slaves:0");
        let unguarded = alone.replace("min_slaves_good_slaves:0\r\n", "");
        let seen = Seen {
            is_guarded: false,
            has_replicas: false,
        };
        assert_eq!(read(&unguarded).unwrap(), seen);
        for (from, to, word) in [
            ("7.0.15", "6.2.9", "version"),
            ("redis_version:7.0.15", "", "version"),
            ("noeviction", "allkeys-lru", "evicts"),
            ("role:master", "role:slave", "read_only"),
        ] {
            let error = read(&GOOD.replace(from, to)).unwrap_err();
            assert_eq!(error.outage().map(Outage::word), Some(word), "{to}");
        }
        let sentinel = read(&GOOD.replace("standalone", "sentinel")).unwrap_err();
        assert!(matches!(sentinel, RedisError::Address(_)), "{sentinel}");
    }
}
