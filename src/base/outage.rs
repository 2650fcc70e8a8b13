//! Why a server that we need does not do what it is asked: one word each, the same in an answer, on
//! a metric and in readiness.

/// What keeps a server from serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// Nobody answers there, or the connection broke.
    Away,
    /// It did not answer in time.
    Slow,
    /// It is reading its data and will be there soon.
    Starting,
    /// It takes no writes: it is a replica.
    ReadOnly,
    /// It takes no writes while so few replicas follow it.
    TooFewReplicas,
    /// It has no memory for more.
    OutOfMemory,
    /// It takes no more connections.
    OutOfConnections,
    /// It cannot write to its disk.
    DiskError,
    /// A script of somebody else's occupies it.
    Occupied,
    /// What was asked about lies on another server, or is on its way there.
    Moving,
    /// It does not accept the password.
    Password,
    /// The user may not do this.
    Forbidden,
    /// It lacks what we use.
    Version,
    /// It may throw away what it was told to keep.
    Evicts,
}

impl Outage {
    /// Every one.
    pub const ALL: [Self; 14] = [
        Self::Away,
        Self::Slow,
        Self::Starting,
        Self::ReadOnly,
        Self::TooFewReplicas,
        Self::OutOfMemory,
        Self::OutOfConnections,
        Self::DiskError,
        Self::Occupied,
        Self::Moving,
        Self::Password,
        Self::Forbidden,
        Self::Version,
        Self::Evicts,
    ];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Away => "away",
            Self::Slow => "slow",
            Self::Starting => "starting",
            Self::ReadOnly => "read_only",
            Self::TooFewReplicas => "too_few_replicas",
            Self::OutOfMemory => "out_of_memory",
            Self::OutOfConnections => "out_of_connections",
            Self::DiskError => "disk_error",
            Self::Occupied => "occupied",
            Self::Moving => "moving",
            Self::Password => "password",
            Self::Forbidden => "forbidden",
            Self::Version => "version",
            Self::Evicts => "evicts",
        }
    }

    /// Whether it lasts until an operator changes the server or our configuration. Then a process
    /// need not even start.
    pub const fn is_lasting(self) -> bool {
        match self {
            Self::Password | Self::Forbidden | Self::Version | Self::Evicts => true,
            Self::Away
            | Self::Slow
            | Self::Starting
            | Self::ReadOnly
            | Self::TooFewReplicas
            | Self::OutOfMemory
            | Self::OutOfConnections
            | Self::DiskError
            | Self::Occupied
            | Self::Moving => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_outage_has_a_word_of_its_own() {
        let words: BTreeSet<&str> = Outage::ALL.iter().map(|outage| outage.word()).collect();
        assert_eq!(words.len(), Outage::ALL.len());
        let lasting: Vec<&str> = Outage::ALL
            .iter()
            .filter(|outage| outage.is_lasting())
            .map(|outage| outage.word())
            .collect();
        assert_eq!(lasting, ["password", "forbidden", "version", "evicts"]);
    }
}
