//! Holds what stands in the topic against what was committed.

use std::collections::{BTreeMap, BTreeSet};

use catraca::event::partition;

use crate::chaos::relay::writers::Written;
use crate::support::kafka::Record;

/// A stretch of time in which what Kafka had taken may have been left without its mark, in milliseconds
/// since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unsure {
    pub(crate) from_ms: i64,
    pub(crate) to_ms: i64,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) orders: usize,
    pub(crate) events: usize,
    /// Second and later copies.
    pub(crate) copies: usize,
    /// From commit to topic, of each event, in milliseconds, in the order of their commits.
    pub(crate) took_ms: Vec<(i64, i64)>,
}

fn header(record: &Record, name: &str) -> String {
    let value = record.headers.get(name).cloned();
    String::from_utf8(value.unwrap_or_else(|| panic!("{name} in {record:?}"))).unwrap()
}

/// Nothing is missing and nothing is there that was never committed; each key is on its partition, its
/// first copies in order; and a copy is of an event that came to Kafka while nobody was sure of it.
pub(crate) fn hold(records: &[Record], written: &Written, unsure: &[Unsure]) -> Found {
    let mut found = Found::default();
    let mut first: BTreeMap<String, &Record> = BTreeMap::new();
    let mut versions: BTreeMap<String, u64> = BTreeMap::new();
    let mut took_ms = Vec::new();
    for record in records {
        let (id, key) = (
            header(record, "ce_id"),
            String::from_utf8(record.key.clone()).unwrap(),
        );
        assert!(!written.rolled_back.contains(&id), "{id} was rolled back");
        let committed = written.committed.get(&id);
        let committed = committed.unwrap_or_else(|| panic!("{id} was never written"));
        assert_eq!(committed.key, key);
        assert_eq!(record.partition, partition::of_key(&key));
        let version: u64 = header(record, "ce_aggregateversion").parse().unwrap();
        assert_eq!(committed.version, version);
        let Some(before) = first.get(&id) else {
            let last = versions.insert(key.clone(), version).unwrap_or_default();
            assert_eq!(last + 1, version, "{key} is turned around");
            took_ms.push((committed.at_ms, record.at_ms - committed.at_ms));
            first.insert(id, record);
            continue;
        };
        assert_eq!(
            (&before.payload, &before.headers),
            (&record.payload, &record.headers)
        );
        let is_told = |u: &Unsure| u.from_ms <= before.at_ms && before.at_ms <= u.to_ms;
        let at_ms = before.at_ms;
        assert!(
            unsure.iter().any(is_told),
            "{id} of {at_ms} stands twice: {unsure:?}"
        );
        found.copies += 1;
    }
    let there: BTreeSet<&String> = first.keys().collect();
    let missing: Vec<_> = written
        .committed
        .iter()
        .filter(|(id, _)| !there.contains(id))
        .collect();
    assert!(missing.is_empty(), "lost: {missing:?}");
    took_ms.sort_unstable();
    found.orders = versions.len();
    found.events = first.len();
    found.took_ms = took_ms;
    found
}

/// Of so many of a hundred no more than this.
pub(crate) fn percentile(took_ms: &[(i64, i64)], percent: usize) -> i64 {
    let mut took_ms: Vec<i64> = took_ms.iter().map(|(_, took)| *took).collect();
    took_ms.sort_unstable();
    let at = (took_ms.len() * percent / 100).min(took_ms.len().saturating_sub(1));
    took_ms.get(at).copied().unwrap_or_default()
}
