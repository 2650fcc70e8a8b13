//! Why Redis did not do what it was asked: every code of its own, sorted by what helps.

use redis::ErrorKind;

use crate::base::outage::Outage;

/// Why a server did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum RedisError {
    /// The address is not one, or what is there is of another kind.
    #[error("not the address of a Redis server: {0}")]
    Address(String),
    /// The server does not serve just now. What was asked may or may not have been done.
    #[error("Redis did not answer ({}): {detail}", .outage.word())]
    Away {
        /// What keeps it.
        outage: Outage,
        /// What it said.
        detail: String,
    },
    /// Another server of the cluster serves the key. Nothing was done.
    #[error("Redis has the key elsewhere: {0:?}")]
    Elsewhere(Redirect),
    /// A key holds data of another kind than ours, or a script of ours is wrong about it.
    #[error("Redis holds foreign data")]
    Foreign(#[source] redis::RedisError),
}

/// Who serves a key instead: `host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redirect {
    /// From now on.
    Moved(String),
    /// For this one question: the key may have moved already.
    Asked(String),
}

impl RedisError {
    /// An outage, and what shows it.
    pub(super) fn away(outage: Outage, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self::Away { outage, detail }
    }

    /// What keeps the server, if that is what is wrong.
    pub fn outage(&self) -> Option<Outage> {
        match self {
            Self::Away { outage, .. } => Some(*outage),
            Self::Elsewhere(_) => Some(Outage::Moving),
            Self::Address(_) | Self::Foreign(_) => None,
        }
    }

    /// The same for somebody else.
    pub(super) fn alike(&self) -> Self {
        match self {
            Self::Address(what) => Self::Address(what.clone()),
            Self::Away { outage, detail } => Self::away(*outage, detail.clone()),
            Self::Elsewhere(redirect) => Self::Elsewhere(redirect.clone()),
            Self::Foreign(error) => Self::Foreign(error.clone()),
        }
    }
}

impl From<redis::RedisError> for RedisError {
    fn from(error: redis::RedisError) -> Self {
        let to = error.redirect_node().map(|(to, _)| to.to_owned());
        match (error.code(), to) {
            (Some("MOVED"), Some(to)) => Self::Elsewhere(Redirect::Moved(to)),
            (Some("ASK"), Some(to)) => Self::Elsewhere(Redirect::Asked(to)),
            _ => match outage_of(&error) {
                Some(outage) => Self::away(outage, error.to_string()),
                None => Self::Foreign(error),
            },
        }
    }
}

/// What an error of the server or of the library means; none where the server works and what it has
/// does not fit what it was asked.
fn outage_of(error: &redis::RedisError) -> Option<Outage> {
    let text = error.to_string();
    if text.contains("max number of clients") {
        return Some(Outage::OutOfConnections); // ERR, as if it were about what was asked
    }
    // ERR, as if the script were wrong; the second since Redis 7.2 and in Valkey.
    let forbids = [
        "The user executing the script can't",
        "ACL failure in script",
    ];
    if forbids.iter().any(|words| text.contains(words)) {
        return Some(Outage::Forbidden);
    }
    if text.contains("nknown command") || text.contains("command called from script") {
        return Some(Outage::Version); // ERR; an operator may have renamed it
    }
    if text.contains("Script killed by user") {
        return Some(Outage::Occupied); // ERR; an operator has ended a script that took too long
    }
    if error.kind() == ErrorKind::AuthenticationFailed {
        return Some(Outage::Password);
    }
    match error.code() {
        // What fails inside a script comes as ERR or, from a command in it, as its own code.
        Some("ERR" | "WRONGTYPE" | "CROSSSLOT") => None,
        Some("OOM") => Some(Outage::OutOfMemory),
        Some("READONLY" | "MASTERDOWN") => Some(Outage::ReadOnly),
        Some("NOREPLICAS") => Some(Outage::TooFewReplicas),
        Some("MISCONF") => Some(Outage::DiskError),
        Some("LOADING") => Some(Outage::Starting),
        Some("BUSY") => Some(Outage::Occupied),
        Some("MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN") => Some(Outage::Moving),
        Some("NOAUTH" | "WRONGPASS") => Some(Outage::Password),
        Some("NOPERM") => Some(Outage::Forbidden),
        Some(_) | None => Some(Outage::Away),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> RedisError {
        let answer = redis::parse_redis_value(format!("-{line}\r\n").as_bytes());
        let error = answer.and_then(|value| value.extract_error()).unwrap_err();
        RedisError::from(error)
    }

    #[test]
    fn every_code_has_its_meaning() {
        for (line, word) in [
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                "out_of_memory",
            ),
            (
                "READONLY You can't write against a read only replica.",
                "read_only",
            ),
            ("MASTERDOWN Link with MASTER is down", "read_only"),
            (
                "NOREPLICAS Not enough good replicas to write.",
                "too_few_replicas",
            ),
            (
                "MISCONF Redis is configured to save RDB snapshots",
                "disk_error",
            ),
            ("LOADING Redis is loading the dataset in memory", "starting"),
            ("BUSY Redis is busy running a script.", "occupied"),
            (
                "TRYAGAIN Multiple keys request during rehashing of slot",
                "moving",
            ),
            ("CLUSTERDOWN Hash slot not served", "moving"),
            ("NOAUTH Authentication required.", "password"),
            ("WRONGPASS invalid username-password pair", "password"),
            ("NOPERM this user has no permissions", "forbidden"),
            ("ERR max number of clients reached", "out_of_connections"),
            (
                "ERR The user executing the script can't run this command or subcommand",
                "forbidden",
            ),
            (
                "ERR ACL failure in script: User clerk has no permissions to run the 'get' command",
                "forbidden",
            ),
            (
                "ERR unknown command 'INFO', with args beginning with:",
                "version",
            ),
            (
                "ERR Unknown Redis command called from script script: 3d2",
                "version",
            ),
            (
                "ERR Error running script (call to f_3d2): @user_script:1: \
                 Script killed by user with SCRIPT KILL...",
                "occupied",
            ),
            (
                "ERR Script killed by user with SCRIPT KILL. script: 3d2, on @user_script:4.",
                "occupied",
            ),
            ("SOMETHING new", "away"),
        ] {
            let outage = said(line).outage();
            assert_eq!(outage.map(Outage::word), Some(word), "{line}");
        }
        for line in [
            "ERR user_script:7: attempt to compare nil with number",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        ] {
            assert!(matches!(said(line), RedisError::Foreign(_)), "{line}");
        }
    }

    #[test]
    fn a_redirect_says_where_to_go() {
        let to = "127.0.0.1:7001".to_owned();
        let moved = said("MOVED 3999 127.0.0.1:7001");
        assert!(matches!(moved, RedisError::Elsewhere(Redirect::Moved(at)) if at == to));
        let asked = said("ASK 3999 127.0.0.1:7001");
        assert!(matches!(asked, RedisError::Elsewhere(Redirect::Asked(at)) if at == to));
    }
}
