//! Which server of a cluster has a key: a table of slots, corrected by every redirect.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redis::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::base::outage::Outage;
use crate::driver::redis::address::{Address, at};
use crate::driver::redis::call::{Call, Way};
use crate::driver::redis::fault::{Redirect, RedisError};
use crate::driver::redis::guard::Guard;
use crate::driver::redis::node::{Errand, Lane, Node, pause};

/// Slots of a cluster.
const SLOTS: u16 = 16_384;
/// How long one node may take to say who has which slot. Short: there are others.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// The ways to the nodes of a cluster.
#[derive(Debug)]
pub(super) struct Cluster {
    address: Address,
    guard: Arc<Guard>,
    table: RwLock<Table>,
    asking: Mutex<Asking>,
    is_doubted: AtomicBool,
}

/// Who has what.
#[derive(Debug, Default)]
struct Table {
    /// By slot; empty before the first answer.
    owners: Vec<Option<Arc<Node>>>,
    nodes: BTreeMap<String, Arc<Node>>,
}

/// When the table is asked for again, and of whom.
#[derive(Debug, Default)]
struct Asking {
    not_before: Option<Instant>,
    turn: usize,
}

impl Cluster {
    pub(super) fn new(address: Address, guard: Arc<Guard>) -> Self {
        Self {
            address,
            guard,
            table: RwLock::default(),
            asking: Mutex::default(),
            is_doubted: AtomicBool::new(true),
        }
    }

    /// The table may be wrong by now.
    pub(super) fn doubt(&self) {
        self.is_doubted.store(true, Ordering::Relaxed);
    }

    /// The node that has this key.
    ///
    /// # Errors
    /// [`RedisError::Away`] where nobody says who has it, or nobody has.
    pub(super) async fn node_of(&self, key: &str) -> Result<Arc<Node>, RedisError> {
        let slot = slot_of(key);
        if !self.is_doubted.load(Ordering::Relaxed)
            && let Some(owner) = self.owner(slot)
        {
            return Ok(owner);
        }
        let asked = self.refresh().await;
        match (self.owner(slot), asked) {
            (Some(owner), _) => Ok(owner),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => {
                let detail = format!("nobody serves slot {slot}");
                Err(RedisError::away(Outage::Moving, detail))
            }
        }
    }

    /// Every node that has slots.
    ///
    /// # Errors
    /// As [`Cluster::node_of`].
    pub(super) async fn nodes(&self) -> Result<Vec<Arc<Node>>, RedisError> {
        self.refresh().await?;
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        Ok(table.nodes.values().cloned().collect())
    }

    /// Where a redirect from this node leads.
    ///
    /// # Errors
    /// [`RedisError::Address`] where it leads nowhere.
    pub(super) fn follow(
        &self,
        key: &str,
        from: &Node,
        redirect: &Redirect,
    ) -> Result<(Arc<Node>, Way), RedisError> {
        match redirect {
            Redirect::Asked(to) => Ok((self.node_at(&full(to, from))?, Way::Asking)),
            Redirect::Moved(to) => {
                let node = self.node_at(&full(to, from))?;
                // One slot is corrected now, the others with the next question.
                self.doubt();
                let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
                if let Some(owner) = table.owners.get_mut(usize::from(slot_of(key))) {
                    *owner = Some(Arc::clone(&node));
                }
                Ok((node, Way::Straight))
            }
        }
    }

    fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.owners.get(usize::from(slot)).cloned().flatten()
    }

    /// The node at `host:port`, known or new.
    fn node_at(&self, place: &str) -> Result<Arc<Node>, RedisError> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = table.nodes.get(place) {
            return Ok(Arc::clone(known));
        }
        let node = Arc::new(Node::new(&self.address, place, Arc::clone(&self.guard))?);
        table.nodes.insert(place.to_owned(), Arc::clone(&node));
        Ok(node)
    }

    /// Asks one node after the other for the table, unless that was done a moment ago.
    async fn refresh(&self) -> Result<(), RedisError> {
        let mut asking = self.asking.lock().await;
        if asking.not_before.is_some_and(|at| Instant::now() < at) {
            return Ok(());
        }
        let places = self.places();
        let mut last = RedisError::away(Outage::Away, "the cluster has no nodes");
        for _ in &places {
            let turn = asking.turn;
            asking.turn = turn.wrapping_add(1); // before the question: who asks may go away meanwhile
            let place = &places[turn % places.len()];
            match self.slots_from(place).await {
                Ok(ranges) => {
                    self.learn(&ranges)?;
                    self.is_doubted.store(false, Ordering::Relaxed);
                    asking.not_before = Some(Instant::now() + pause());
                    asking.turn = turn; // who has answered is asked again
                    return Ok(());
                }
                Err(error) => last = error,
            }
        }
        asking.not_before = Some(Instant::now() + pause());
        Err(last)
    }

    /// Whom to ask: those that have slots, then those that the address names.
    fn places(&self) -> Vec<String> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let mut places: Vec<String> = table.nodes.keys().cloned().collect();
        for named in &self.address.hosts {
            if !places.contains(named) {
                places.push(named.clone());
            }
        }
        places
    }

    async fn slots_from(&self, place: &str) -> Result<Vec<Range>, RedisError> {
        let node = self.node_at(place)?;
        let command = redis::cmd("CLUSTER").arg("SLOTS").take();
        let errand = Errand {
            call: Call::Command(&command),
            lane: Lane::Step,
            until: Instant::now() + ANSWER_MAX,
        };
        let answer = match node.call(&errand, Way::Straight).await {
            Err(RedisError::Foreign(error)) => return Err(RedisError::Address(error.to_string())),
            answer => answer?,
        };
        ranges(answer, &node).ok_or_else(|| {
            let detail = format!("{place} does not say who has which slot");
            RedisError::away(Outage::Moving, detail)
        })
    }

    /// Takes the answer for the truth: nodes that have no slots any more are forgotten.
    fn learn(&self, ranges: &[Range]) -> Result<(), RedisError> {
        let mut owners = vec![None; usize::from(SLOTS)];
        let mut nodes = BTreeMap::new();
        for range in ranges {
            let node = self.node_at(&range.place)?;
            for slot in range.first..=range.last.min(SLOTS - 1) {
                owners[usize::from(slot)] = Some(Arc::clone(&node));
            }
            nodes.insert(range.place.clone(), node);
        }
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Table { owners, nodes };
        Ok(())
    }
}

/// Slots in a row and the primary that has them.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
    place: String,
}

/// Reads the answer of `CLUSTER SLOTS` as this node gave it.
fn ranges(answer: Value, from: &Node) -> Option<Vec<Range>> {
    let Value::Array(entries) = answer else {
        return None;
    };
    let read = |entry: Value| {
        let Value::Array(parts) = entry else {
            return None;
        };
        let mut parts = parts.into_iter();
        let (first, last) = (number(parts.next()?)?, number(parts.next()?)?);
        let Value::Array(primary) = parts.next()? else {
            return None;
        };
        let mut primary = primary.into_iter();
        let host: Option<String> = redis::from_redis_value(primary.next()?).ok()?;
        let port = number(primary.next()?)?;
        let place = full(&at(&host.unwrap_or_default(), port), from);
        Some(Range { first, last, place })
    };
    entries.into_iter().map(read).collect()
}

fn number(value: Value) -> Option<u16> {
    redis::from_redis_value(value).ok()
}

/// A place without a host is at the host of whoever named it.
fn full(place: &str, from: &Node) -> String {
    let (host, port) = place.rsplit_once(':').unwrap_or((place, ""));
    let (own, _) = from.at.rsplit_once(':').unwrap_or((&from.at, ""));
    match host {
        "" => format!("{own}:{port}"),
        host if host.contains(':') && !host.starts_with('[') => format!("[{host}]:{port}"),
        host => format!("{host}:{port}"),
    }
}

/// The slot of a key: CRC-16 of what stands in its first braces, or of all of it.
fn slot_of(key: &str) -> u16 {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'));
    let hashed = match tag {
        Some((tag, _)) if !tag.is_empty() => tag,
        Some(_) | None => key,
    };
    let crc = hashed.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            let carried = crc & 0x8000 != 0;
            (crc << 1) ^ if carried { 0x1021 } else { 0 }
        })
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_slot_that_every_redis_gives_it() {
        // CRC-16/XMODEM of the digits 1 to 9 is 0x31C3, says the specification of Redis Cluster.
        assert_eq!(slot_of("123456789"), 0x31c3);
        assert_eq!(slot_of(""), 0);
        assert_eq!(slot_of("catraca:{gala}:room"), slot_of("gala"));
        assert_eq!(
            slot_of("catraca:{gala}:room"),
            slot_of("catraca:{gala}:queue")
        );
        assert_eq!(slot_of("{}{gala}"), slot_of("{}{gala}"));
        assert_ne!(slot_of("{}{gala}"), slot_of("gala"));
    }
}
