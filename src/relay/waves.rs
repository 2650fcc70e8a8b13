//! What of a batch may go to Kafka at once: of each key one row. The next one of the key goes when the one
//! before has been acknowledged, so no failure in between, and no second copy of a row, can turn two
//! versions around.

use std::collections::{BTreeMap, BTreeSet};

use crate::relay::plan::{Batch, Unsent};

/// A batch on its way.
#[derive(Debug)]
pub struct Sending {
    batch: Batch,
    /// By index: at which offset a row was acknowledged.
    acknowledged: BTreeMap<usize, u64>,
    /// By index: why a row can never be sent.
    refused: BTreeMap<usize, String>,
    /// Keys of which a row was not acknowledged: nothing more of them goes.
    stopped: BTreeSet<(String, String)>,
}

impl Sending {
    /// A batch of which nothing has gone yet.
    pub fn new(batch: Batch) -> Self {
        Self {
            batch,
            acknowledged: BTreeMap::new(),
            refused: BTreeMap::new(),
            stopped: BTreeSet::new(),
        }
    }

    /// The rows that go now, by index: of each key the first that was not acknowledged.
    pub fn wave(&self) -> Vec<usize> {
        let mut keys = BTreeSet::new();
        let mut wave = Vec::new();
        for (index, row) in self.batch.send.iter().enumerate() {
            let is_free =
                !self.acknowledged.contains_key(&index) && !self.stopped.contains(&row.key);
            if is_free && keys.insert(&row.key) {
                wave.push(index);
            }
        }
        wave
    }

    /// The partition that all of it goes to.
    pub fn partition(&self) -> u16 {
        self.batch.lease.partition
    }

    /// A row of a wave.
    pub fn row(&self, index: usize) -> &Unsent {
        &self.batch.send[index]
    }

    /// It is in the log, at this offset.
    pub fn acknowledged(&mut self, index: usize, offset: u64) {
        self.acknowledged.insert(index, offset);
    }

    /// It can never be sent.
    pub fn refused(&mut self, index: usize, reason: String) {
        self.refused.insert(index, reason);
        self.unsure(index);
    }

    /// Nobody knows whether it is in the log: it goes again in a later step.
    pub fn unsure(&mut self, index: usize) {
        self.stopped.insert(self.batch.send[index].key.clone());
    }

    /// What can be marked of the batch: rows that were acknowledged, with their offsets, and those that
    /// were refused. The floor stays below the rest.
    pub fn into_marks(self) -> Batch {
        let Batch {
            lease,
            send,
            mut quarantine,
            mut floor,
            begins,
            ..
        } = self.batch;
        let (mut acknowledged, mut offsets) = (Vec::new(), Vec::new());
        for (index, row) in send.into_iter().enumerate() {
            if let Some(offset) = self.acknowledged.get(&index) {
                offsets.push(*offset);
                acknowledged.push(row);
            } else if let Some(reason) = self.refused.get(&index) {
                quarantine.push((row.seq, reason.clone()));
            } else {
                floor = floor.min(row.seq - 1);
            }
        }
        Batch {
            lease,
            send: acknowledged,
            offsets,
            quarantine,
            floor,
            begins,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::FencingToken;
    use crate::base::time::Timestamp;
    use crate::relay::plan::{Before, Lease};

    /// Rows 1, 2, 3… of these keys.
    fn sending(keys: &[&str]) -> Sending {
        let row = |(seq, key): (u64, &&str)| Unsent {
            seq,
            id: format!("event-{seq}"),
            kind: "OrderPlaced".to_owned(),
            key: ("order".to_owned(), (*key).to_owned()),
            version: seq,
            payload: "{}".to_owned(),
            trace: None,
            at: Timestamp::default(),
            before: Before::Sent,
        };
        Sending::new(Batch {
            lease: Lease {
                partition: 2,
                token: FencingToken(1),
                until: Timestamp::default(),
            },
            send: (1..).zip(keys).map(row).collect(),
            offsets: Vec::new(),
            quarantine: Vec::new(),
            floor: 100,
            begins: 0,
        })
    }

    fn marks(sending: Sending) -> (Vec<(u64, u64)>, Vec<u64>, u64) {
        let batch = sending.into_marks();
        let sent = batch.send.iter().map(|row| row.seq);
        (
            sent.zip(batch.offsets).collect(),
            batch.quarantine.iter().map(|(seq, _)| *seq).collect(),
            batch.floor,
        )
    }

    #[test]
    fn a_key_has_one_row_under_way() {
        let mut sending = sending(&["a", "b", "a", "a", "c", "b"]);
        for (wave, first) in [
            (vec![0, 1, 4], 10),
            (vec![2, 5], 20),
            (vec![3], 30),
            (vec![], 0),
        ] {
            assert_eq!(sending.wave(), wave);
            for (index, offset) in wave.into_iter().zip(first..) {
                sending.acknowledged(index, offset);
            }
        }
        let all = vec![(1, 10), (2, 11), (3, 20), (4, 30), (5, 12), (6, 21)];
        assert_eq!(marks(sending), (all, vec![], 100));
    }

    #[test]
    fn after_a_failure_nothing_more_of_the_key_goes() {
        let mut sending = sending(&["a", "b", "a", "b", "c"]);
        sending.unsure(0);
        sending.acknowledged(1, 7);
        sending.refused(4, "too large".to_owned());
        assert_eq!(sending.wave(), [3]);
        sending.acknowledged(3, 8);
        assert_eq!(sending.wave(), [0_usize; 0]);
        // Rows 1 and 3 are unsent: the floor stays below the first of them.
        assert_eq!(marks(sending), (vec![(2, 7), (4, 8)], vec![5], 0));
    }
}
