//! Which server to ask, and what to do about its refusal: the one place that knows the topologies.

use std::sync::Arc;

use crate::base::outage::Outage;
use crate::driver::redis::address::{Address, Topology};
use crate::driver::redis::call::Way;
use crate::driver::redis::cluster::Cluster;
use crate::driver::redis::fault::RedisError;
use crate::driver::redis::guard::Guard;
use crate::driver::redis::node::Node;
use crate::driver::redis::sentinel::Sentinel;
use crate::telemetry::metrics;

/// The way to whoever has a key.
#[derive(Debug)]
pub(super) enum Route {
    One(Arc<Node>),
    Sentinel(Sentinel),
    Cluster(Cluster),
}

/// What to do after an error.
#[derive(Debug)]
pub(super) enum Next {
    /// It is the caller's.
    GiveUp,
    /// Nothing was done: ask there.
    Go(Arc<Node>, Way),
    /// Nothing was done, and in a moment somebody else may have the key.
    AskAgain,
}

impl Route {
    pub(super) fn to(address: Address, guard: Arc<Guard>) -> Result<Self, RedisError> {
        for host in &address.hosts {
            address.client(host)?; // certificates and names are refused now, not at the first call
        }
        Ok(match address.topology.clone() {
            Topology::One => Self::One(Arc::new(Node::new(&address, &address.hosts[0], guard)?)),
            Topology::Sentinel(name) => Self::Sentinel(Sentinel::new(address, name, guard)),
            Topology::Cluster => Self::Cluster(Cluster::new(address, guard)),
        })
    }

    /// Whoever has this key.
    pub(super) async fn node_of(&self, key: &str) -> Result<Arc<Node>, RedisError> {
        match self {
            Self::One(node) => Ok(Arc::clone(node)),
            Self::Sentinel(sentinel) => sentinel.primary().await,
            Self::Cluster(cluster) => cluster.node_of(key).await,
        }
    }

    /// Everybody who has keys.
    pub(super) async fn nodes(&self) -> Result<Vec<Arc<Node>>, RedisError> {
        match self {
            Self::One(node) => Ok(vec![Arc::clone(node)]),
            Self::Sentinel(sentinel) => Ok(vec![sentinel.primary().await?]),
            Self::Cluster(cluster) => cluster.nodes().await,
        }
    }

    /// What to do after this node refused or did not answer.
    pub(super) fn after(&self, key: &str, node: &Node, error: &RedisError) -> Next {
        if let (Self::Cluster(cluster), RedisError::Elsewhere(redirect)) = (self, error) {
            metrics::redis_redirect();
            return match cluster.follow(key, node, redirect) {
                Ok((node, way)) => Next::Go(node, way),
                Err(_) => Next::GiveUp,
            };
        }
        match (self, error.outage()) {
            (Self::One(_), _) | (_, None) => Next::GiveUp,
            (Self::Sentinel(_) | Self::Cluster(_), Some(outage)) => self.after_outage(outage),
        }
    }

    fn after_outage(&self, outage: Outage) -> Next {
        match outage {
            // Refused before anything was done, by somebody who may not be the primary any more.
            Outage::ReadOnly | Outage::Moving => {
                self.doubt();
                Next::AskAgain
            }
            Outage::Away | Outage::Slow | Outage::Starting | Outage::TooFewReplicas => {
                self.doubt();
                Next::GiveUp
            }
            Outage::OutOfMemory
            | Outage::OutOfConnections
            | Outage::DiskError
            | Outage::Occupied
            | Outage::Password
            | Outage::Forbidden
            | Outage::Version
            | Outage::Evicts => Next::GiveUp,
        }
    }

    fn doubt(&self) {
        match self {
            Self::One(_) => {}
            Self::Sentinel(sentinel) => sentinel.doubt(),
            Self::Cluster(cluster) => cluster.doubt(),
        }
    }
}
