//! Which rows of a partition go now, which wait, and which can never be sent.
//!
//! Version v + 1 of a key waits until v has its mark or goes before it in the same batch. A row that
//! can never be sent is quarantined, and the later versions of its key with it: only the key waits,
//! and neither the scan nor the floor stands still for it.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::ids::FencingToken;
use crate::base::time::Timestamp;
use crate::event::codec;

/// A partition that a relay holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// 0 to `PARTITIONS` − 1.
    pub partition: u16,
    /// Rises with each new holder.
    pub token: FencingToken,
    /// When it ends, unless it is renewed.
    pub until: Timestamp,
}

/// What a partition has to send.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The rows, by `seq`.
    pub rows: Vec<Unsent>,
    /// Every row of the partition up to this `seq` is marked, quarantined or among `rows`, and none
    /// will be added.
    pub through: u64,
    /// Below which `seq` that was known already.
    pub floor: u64,
    /// The highest `seq` that was given out, whatever the partition.
    pub given_out: u64,
    /// The place of the first record of the topic that events go to now.
    pub begins: u64,
}

/// A row of the outbox without a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsent {
    /// Its place in the outbox.
    pub seq: u64,
    /// Names the event for ever.
    pub id: String,
    /// The event's `type`.
    pub kind: String,
    /// The kind of thing that changed, and which one: rows of one key keep their order.
    pub key: (String, String),
    /// 1, 2, 3… within the key.
    pub version: u64,
    /// The event as it will be sent.
    pub payload: String,
    /// W3C trace context of the request that caused it.
    pub trace: Option<String>,
    /// When it became true.
    pub at: Timestamp,
    /// How the version before stands.
    pub before: Before,
}

/// How the version before a row's own stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// It has its mark; or there is none, this being the first; or it had and was cleaned up.
    Sent,
    /// It has no mark yet, or is not there yet.
    Unsent,
    /// It is quarantined.
    Quarantined,
}

/// What a relay does with a partition in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The partition, and the token under which it is held.
    pub lease: Lease,
    /// The rows to send, in this order.
    pub send: Vec<Unsent>,
    /// Where a log other than the outbox has put them; empty: they get the next offsets here.
    pub offsets: Vec<u64>,
    /// The rows that cannot be sent, and why.
    pub quarantine: Vec<(u64, String)>,
    /// Up to where every row is then marked or quarantined.
    pub floor: u64,
    /// Which topic its rows are sent to, by the place of its first record.
    pub begins: u64,
}

impl Batch {
    /// The rows that it leaves with a mark or in quarantine, each with the partition.
    pub fn settled(&self) -> impl Iterator<Item = (u16, u64)> {
        let sent = self.send.iter().map(|row| row.seq);
        let kept = self.quarantine.iter().map(|(seq, _)| *seq);
        sent.chain(kept).map(|seq| (self.lease.partition, seq))
    }
}

/// A batch, and how many rows of the page wait for an earlier version of their key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What to do now.
    pub batch: Batch,
    /// Rows that wait.
    pub waiting: u64,
}

/// Plans the next batch of a partition.
pub fn plan(lease: Lease, page: Page) -> Plan {
    let mut batch = Batch {
        lease,
        send: Vec::new(),
        offsets: Vec::new(),
        quarantine: Vec::new(),
        floor: page.through,
        begins: page.begins,
    };
    // The highest version of each key that goes in this batch, and the keys that are stuck.
    let mut sent = BTreeMap::new();
    let mut stuck = BTreeSet::new();
    let mut waiting = 0;
    for row in page.rows {
        let key = row.key.clone();
        let goes_after = sent.get(&key) == Some(&row.version.saturating_sub(1));
        if row.before == Before::Quarantined || stuck.contains(&key) {
            stuck.insert(key);
            let reason = "an earlier version of its key is quarantined";
            batch.quarantine.push((row.seq, reason.to_owned()));
        } else if row.before == Before::Unsent && !goes_after {
            waiting += 1;
            batch.floor = batch.floor.min(row.seq - 1);
        } else if codec::check_json(&row.payload).is_err() {
            stuck.insert(key);
            let reason = "its payload is not JSON";
            batch.quarantine.push((row.seq, reason.to_owned()));
        } else {
            sent.insert(key, row.version);
            batch.send.push(row);
        }
    }
    Plan { batch, waiting }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Lease = Lease {
        partition: 0,
        token: FencingToken(1),
        until: Timestamp::from_unix_ms(0),
    };

    fn row(seq: u64, key: &str, version: u64, before: Before) -> Unsent {
        Unsent {
            seq,
            id: format!("event-{seq}"),
            kind: "OrderPlaced".to_owned(),
            key: ("order".to_owned(), key.to_owned()),
            version,
            payload: "{}".to_owned(),
            trace: None,
            at: Timestamp::from_unix_ms(0),
            before,
        }
    }

    fn check(rows: Vec<Unsent>, send: &[u64], quarantine: &[u64], floor: u64) {
        let page = Page {
            rows,
            through: 100,
            floor: 0,
            given_out: 100,
            begins: 0,
        };
        let rows = page.rows.len() as u64;
        let Plan { batch, waiting } = plan(LEASE, page);
        let sent: Vec<u64> = batch.send.iter().map(|row| row.seq).collect();
        let stuck: Vec<u64> = batch.quarantine.iter().map(|(seq, _)| *seq).collect();
        assert_eq!((&*sent, &*stuck, batch.floor), (send, quarantine, floor));
        let settled = u64::try_from(send.len() + quarantine.len()).unwrap();
        assert_eq!(waiting, rows - settled);
    }

    #[test]
    fn a_version_waits_for_the_one_before() {
        use Before::{Quarantined, Sent, Unsent};
        check(vec![], &[], &[], 100);
        check(
            vec![row(1, "a", 1, Sent), row(2, "a", 2, Unsent)],
            &[1, 2],
            &[],
            100,
        );
        // Out of order in the table: the later version waits for the next step, others go.
        check(
            vec![
                row(1, "a", 2, Unsent),
                row(2, "b", 1, Sent),
                row(3, "a", 1, Sent),
            ],
            &[2, 3],
            &[],
            0,
        );
        // A version that is not there at all holds up its key and the floor, and nobody else.
        check(
            vec![row(7, "a", 5, Unsent), row(8, "b", 1, Sent)],
            &[8],
            &[],
            6,
        );
        check(
            vec![row(4, "a", 2, Quarantined), row(5, "a", 3, Unsent)],
            &[],
            &[4, 5],
            100,
        );
    }

    #[test]
    fn what_is_not_json_stops_its_key_only() {
        let bad = Unsent {
            payload: "{\"type\":".to_owned(),
            ..row(2, "a", 2, Before::Unsent)
        };
        check(
            vec![
                row(1, "a", 1, Before::Sent),
                bad,
                row(3, "b", 1, Before::Sent),
                row(4, "a", 3, Before::Unsent),
            ],
            &[1, 3],
            &[2, 4],
            100,
        );
    }
}
