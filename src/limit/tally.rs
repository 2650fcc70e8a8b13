//! How many joined in each minute, by network, in bounded memory: whoever makes addresses up makes a count
//! larger, and never the memory.
//!
//! In Redis `lua/part/tally.lua` says the same for all gateways together.

use std::collections::BTreeMap;

use crate::base::time::Timestamp;
use crate::limit::prefix::Network;

/// The length of what is counted together, in milliseconds.
pub const MINUTE_MS: u64 = 60_000;

/// The joins of one show that nobody has told yet.
#[derive(Debug, Default)]
pub struct Tally(BTreeMap<(Timestamp, Network), u64>);

/// The joins of one minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// When the minute begins.
    pub minute: Timestamp,
    /// How many joined from each network; [`Network::rest`] has those of all that found no room.
    pub networks: BTreeMap<Network, u64>,
}

impl Tally {
    /// Counts a join. Where there are `most` counts, one from a network that has none counts for the rest.
    pub fn add(&mut self, now: Timestamp, network: Network, most: usize) {
        let own = (minute_of(now), network);
        let is_full = most <= self.0.len() && !self.0.contains_key(&own);
        let key = if is_full {
            (own.0, Network::rest())
        } else {
            own
        };
        *self.0.entry(key).or_default() += 1;
    }

    /// The minutes that are over, the oldest first.
    pub fn closed(&self, now: Timestamp) -> Vec<Counted> {
        let counts = self.0.iter();
        of_counts(
            now,
            counts.map(|((at, network), joins)| (*at, network.clone(), *joins)),
        )
    }

    /// Lets go of a minute.
    pub fn forget(&mut self, minute: Timestamp) {
        self.0.retain(|(at, _), _| *at != minute);
    }
}

/// The minutes that are over, the oldest first, of counts in any order.
pub fn of_counts(
    now: Timestamp,
    counts: impl Iterator<Item = (Timestamp, Network, u64)>,
) -> Vec<Counted> {
    let mut minutes: BTreeMap<Timestamp, BTreeMap<Network, u64>> = BTreeMap::new();
    for (minute, network, joins) in counts.filter(|(minute, ..)| *minute < minute_of(now)) {
        minutes.entry(minute).or_default().insert(network, joins);
    }
    let counted = minutes.into_iter();
    counted
        .map(|(minute, networks)| Counted { minute, networks })
        .collect()
}

/// The beginning of the minute of an instant.
pub const fn minute_of(at: Timestamp) -> Timestamp {
    let length = MINUTE_MS.cast_signed();
    Timestamp::from_unix_ms(at.as_millis().div_euclid(length) * length)
}

impl Counted {
    /// All joins of the minute.
    pub fn joins(&self) -> u64 {
        self.networks.values().sum()
    }

    /// The networks from which most have joined, at most so many, and by name where as many have.
    pub fn most(&self, networks: usize) -> Vec<(&Network, u64)> {
        let named = self.networks.iter();
        let named = named.filter(|(network, _)| **network != Network::rest());
        let mut most: Vec<(&Network, u64)> = named.map(|(name, joins)| (name, *joins)).collect();
        most.sort_by_key(|(name, joins)| (std::cmp::Reverse(*joins), *name));
        most.truncate(networks);
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);

    fn network(n: usize) -> Network {
        Network(format!("10.0.{n}.0/24"))
    }

    #[test]
    fn a_flood_of_networks_counts_for_the_rest() {
        let mut tally = Tally::default();
        for n in 0..1_000 {
            tally.add(T0, network(n), 3);
        }
        tally.add(T0.plus_ms(59_999), network(1), 3);
        tally.add(T0.plus_ms(60_000), network(1), 3);
        assert_eq!(tally.closed(T0.plus_ms(59_999)), []);
        let closed = tally.closed(T0.plus_ms(60_000));
        let [minute] = &closed[..] else {
            panic!("{closed:?}");
        };
        assert_eq!((minute.minute, minute.joins()), (T0, 1_001));
        assert_eq!(minute.networks.len(), 4, "three, and the rest");
        let most = [(&network(1), 2), (&network(0), 1)];
        assert_eq!(minute.most(2), most);
        tally.forget(T0);
        let next = tally.closed(T0.plus_ms(120_000));
        assert_eq!((next.len(), next[0].joins()), (1, 1));
    }
}
