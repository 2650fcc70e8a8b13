//! The fake's line: numbers, calls by the clock, slots that lapse.

use std::collections::{BTreeSet, HashMap};

use super::Flaw;

/// One fan in the fake's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Queue,
    /// Called; the slot lapses at this millisecond.
    Called(u64),
    Returned,
    /// Let in until this millisecond.
    Inside(u64),
    Gone,
}

#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) flaw: Flaw,
    pub(crate) claim_ms: u64,
    pub(crate) rate: u64,
    pub(crate) sold_out_at: Option<u64>,
    fans: Vec<(u64, Place)>,
    by_key: HashMap<String, usize>,
    queue: BTreeSet<(u64, usize)>,
    returned: BTreeSet<(u64, usize)>,
    issued: u64,
    serving: u64,
    ticked_at: u64,
}

impl Room {
    pub(crate) fn new(flaw: Flaw, rate: u64, claim_ms: u64, now: u64) -> Self {
        Self {
            flaw,
            claim_ms,
            rate,
            sold_out_at: None,
            fans: Vec::new(),
            by_key: HashMap::new(),
            queue: BTreeSet::new(),
            returned: BTreeSet::new(),
            issued: 0,
            serving: 0,
            ticked_at: now,
        }
    }

    /// Calls whoever is due: one fan each 1 / rate seconds.
    pub(crate) fn tick(&mut self, now: u64) {
        let every = 1_000 / self.rate;
        while self.ticked_at + every <= now {
            self.ticked_at += every;
            if self.sold_out_at.is_some() {
                continue;
            }
            let next = self.returned.pop_first().or_else(|| self.queue.pop_first());
            if let Some((number, fan)) = next {
                self.fans[fan].1 = Place::Called(self.ticked_at + self.claim_ms);
                self.serving = self.serving.max(number);
            }
        }
    }

    /// Joins with a key, a fan already known, or neither. Answers the fan and whether it is new.
    pub(crate) fn join(&mut self, key: Option<&str>, known: Option<usize>) -> (usize, bool) {
        if let Some(fan) = known.or_else(|| key.and_then(|key| self.by_key.get(key).copied())) {
            if self.flaw == Flaw::ForgetsNumbers {
                self.issued += 1;
                self.fans[fan].0 = self.issued;
            }
            return (fan, false);
        }
        let shares = self.flaw == Flaw::SharesNumbers && self.fans.len() % 10 == 9;
        if !shares {
            self.issued += 1;
        }
        let fan = self.fans.len();
        self.fans.push((self.issued, Place::Queue));
        self.queue.insert((self.issued, fan));
        if let Some(key) = key {
            self.by_key.insert(key.to_owned(), fan);
        }
        (fan, true)
    }

    pub(crate) fn number(&self, fan: usize) -> u64 {
        self.fans[fan].0
    }

    pub(crate) fn position(&self, fan: usize) -> u64 {
        let position = self.number(fan).saturating_sub(self.serving).max(1);
        if self.flaw == Flaw::PositionsRise {
            self.ticked_at + position
        } else {
            position
        }
    }

    pub(crate) fn serving(&self) -> u64 {
        self.serving
    }

    pub(crate) fn issued(&self) -> u64 {
        self.issued
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.len() + self.returned.len()
    }

    /// How a fan stands who asks: a claim where they were called.
    pub(crate) fn claim(&mut self, fan: usize, now: u64) -> (&'static str, Option<u64>) {
        let (number, place) = self.fans[fan];
        match place {
            Place::Called(until) if now < until || self.flaw == Flaw::SlotsNeverLapse => {
                self.fans[fan].1 = Place::Inside(now + 60_000);
                ("admitted", Some(now + 60_000))
            }
            Place::Called(_) if self.sold_out_at.is_none() => {
                self.fans[fan].1 = Place::Returned;
                self.returned.insert((number, fan));
                ("standby", None)
            }
            Place::Inside(until) => ("admitted", Some(until)),
            Place::Gone => ("gone", None),
            Place::Queue | Place::Called(_) | Place::Returned if self.sold_out_at.is_some() => {
                ("sold_out", None)
            }
            Place::Returned => ("standby", None),
            Place::Queue | Place::Called(_) => ("waiting", None),
        }
    }

    pub(crate) fn is_inside(&self, fan: usize) -> bool {
        matches!(self.fans[fan].1, Place::Inside(_))
    }

    pub(crate) fn leave(&mut self, fan: usize) {
        let number = self.number(fan);
        self.queue.remove(&(number, fan));
        self.returned.remove(&(number, fan));
        self.fans[fan].1 = Place::Gone;
    }
}
