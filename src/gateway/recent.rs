//! A memory of what was lately seen, bounded by forgetting its older half.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use foldhash::quality::RandomState;

/// Remembers at most `2 × half` things: when the younger half is full, the older one is forgotten.
/// Costs no clock and no list, and whoever floods it only makes us ask again.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    half: usize,
    halves: Mutex<Halves<K, V>>,
}

#[derive(Debug)]
struct Halves<K, V> {
    young: HashMap<K, V, RandomState>,
    old: HashMap<K, V, RandomState>,
}

impl<K: Hash + Eq, V: Clone> Recent<K, V> {
    /// An empty memory for at least `half` things.
    pub(crate) fn new(half: usize) -> Self {
        Self {
            half,
            halves: Mutex::new(Halves {
                young: HashMap::default(),
                old: HashMap::default(),
            }),
        }
    }

    /// What was remembered last under this key.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let halves = self.lock();
        let found = halves.young.get(key).or_else(|| halves.old.get(key));
        found.cloned()
    }

    /// Remembers.
    pub(crate) fn insert(&self, key: K, value: V) {
        let mut halves = self.lock();
        if self.half <= halves.young.len() {
            halves.old = std::mem::take(&mut halves.young);
        }
        halves.young.insert(key, value);
    }

    /// Forgets.
    pub(crate) fn remove(&self, key: &K) {
        let mut halves = self.lock();
        halves.young.remove(key);
        halves.old.remove(key);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Halves<K, V>> {
        self.halves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_young_are_kept_and_the_old_forgotten() {
        let recent = Recent::new(10);
        for n in 0..1_000 {
            recent.insert(n, n);
        }
        let kept = (0..1_000).filter(|n| recent.get(n).is_some()).count();
        assert!((10..=20).contains(&kept), "{kept}");
        assert_eq!(recent.get(&999), Some(999));
        recent.remove(&999);
        assert_eq!(recent.get(&999), None);
    }
}
