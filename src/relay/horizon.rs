//! From where a relay looks for rows, and up to where it need never look again, where many write at once
//! and rows appear in the order of commits, not of `seq`.
//!
//! A transaction has its id before it takes a `seq`. So whoever has a later id than a mark's transaction
//! takes a `seq` above all that were given out before that mark. That is all that is remembered of a mark,
//! and it answers both questions: rows that appear belong to transactions that ran at the last look, or
//! are later still; and what was given out before a mark is all there once nobody runs who is as old.
//!
//! A transaction that stays open costs the others nothing, and a look through what has come since its
//! beginning when it ends. All of this may be forgotten: whoever knows nothing looks from the floor. So it
//! is where another server answers, or the same after a restart: ids may have gone back; and for a
//! partition that somebody else had meanwhile, or of which a row was released from quarantine.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::ids::FencingToken;

/// What a look at the database has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// Names the life of the server that has answered.
    pub server: String,
    /// The fencing token of the partition. Whoever releases a row that was settled raises it.
    pub token: FencingToken,
    /// Ids from here on were not known yet.
    pub next_id: u64,
    /// Transactions with lower ids that had not ended.
    pub running: BTreeSet<u64>,
    /// The highest `seq` that was given out.
    pub last_seq: u64,
}

impl Look {
    /// By a snapshot as PostgreSQL writes it: `xmin:xmax:xip,xip`. `None`: it is none.
    pub fn of(
        (server, token): (String, FencingToken),
        snapshot: &str,
        last_seq: u64,
    ) -> Option<Self> {
        let mut parts = snapshot.split(':').skip(1);
        let next_id = parts.next()?.parse().ok()?;
        let running = parts.next()?.split(',').filter(|id| !id.is_empty());
        let running = running.map(|id| id.parse().ok()).collect::<Option<_>>()?;
        Some(Self {
            server,
            token,
            next_id,
            running,
            last_seq,
        })
    }
}

/// What this process knows of the outbox.
#[derive(Debug, Default)]
pub struct Horizon {
    server: String,
    /// Marks that matter yet, by the id of their transaction: what was given out before.
    marks: BTreeMap<u64, u64>,
    given_out: u64,
    partitions: BTreeMap<u16, Seen>,
}

/// What was seen of a partition.
#[derive(Debug, Default)]
struct Seen {
    look: Look,
    /// Rows that were read and are neither marked nor quarantined.
    open: BTreeSet<u64>,
    /// There may be more rows above this one.
    more_after: Option<u64>,
}

impl Horizon {
    /// Above which `seq` all rows of the partition are that have no mark, for whoever reads now. Until they
    /// are [`Horizon::read`] nothing is known of it.
    pub fn after(&mut self, partition: u16, look: &Look) -> u64 {
        if self.server != look.server {
            *self = Self {
                server: look.server.clone(),
                ..Self::default()
            };
        }
        self.given_out = look.last_seq;
        let seen = self.partitions.remove(&partition);
        let Some(seen) = seen.filter(|seen| seen.look.token == look.token) else {
            return 0;
        };
        let mut ended = seen.look.running.difference(&look.running);
        let oldest = ended.next().copied().unwrap_or(seen.look.next_id);
        let open = seen.open.first().map_or(u64::MAX, |seq| seq - 1);
        let more = seen.more_after.unwrap_or(u64::MAX);
        given_out_before(&self.marks, oldest).min(open).min(more)
    }

    /// Up to which `seq` no row will be added, for whoever has this look.
    pub fn settled(&self, look: &Look) -> u64 {
        let oldest = look.running.first().copied().unwrap_or(look.next_id);
        given_out_before(&self.marks, oldest)
    }

    /// These rows of a partition were read after this look, and they may be all that there are.
    pub fn read(&mut self, partition: u16, look: Look, rows: BTreeSet<u64>, is_all: bool) {
        let seen = Seen {
            look,
            more_after: rows.last().copied().filter(|_| !is_all),
            open: rows,
        };
        self.partitions.insert(partition, seen);
        self.forget();
    }

    /// The highest `seq` that is known to be given out.
    pub fn given_out(&self) -> u64 {
        self.given_out
    }

    /// A transaction of this id, which began when so much had been given out, has marked or quarantined
    /// these rows.
    pub fn marked(
        &mut self,
        (id, given_out): (u64, u64),
        rows: impl IntoIterator<Item = (u16, u64)>,
    ) {
        self.marks.insert(id, given_out);
        for (partition, seq) in rows {
            if let Some(seen) = self.partitions.get_mut(&partition) {
                seen.open.remove(&seq);
            }
        }
    }

    /// Of all marks only those matter that are the last before somebody who may still add rows.
    fn forget(&mut self) {
        let looks = self.partitions.values().map(|seen| &seen.look);
        let ids = looks.flat_map(|look| look.running.iter().chain([&look.next_id]));
        let kept: BTreeSet<u64> = ids
            .filter_map(|id| self.marks.range(..id).next_back())
            .map(|(mark, _)| *mark)
            .collect();
        let newest = self.marks.last_key_value().map(|(mark, _)| *mark);
        self.marks
            .retain(|mark, _| kept.contains(mark) || Some(*mark) == newest);
    }
}

/// What was given out before the last mark that is older than this transaction. Its own rows are above.
fn given_out_before(marks: &BTreeMap<u64, u64>, id: u64) -> u64 {
    let before = marks.range(..id).next_back();
    before.map_or(0, |(_, last_seq)| *last_seq)
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// A database with one partition: transactions that run, rows that can be seen, and those marked.
    #[derive(Debug, Default)]
    struct World {
        last_id: u64,
        last_completed: u64,
        last_seq: u64,
        running: BTreeMap<u64, Vec<u64>>,
        visible: BTreeSet<u64>,
        marked: BTreeSet<u64>,
    }

    impl World {
        fn begin(&mut self) -> u64 {
            self.last_id += 1;
            self.running.insert(self.last_id, Vec::new());
            self.last_id
        }

        fn write(&mut self, id: u64) {
            self.last_seq += 1;
            self.running.get_mut(&id).unwrap().push(self.last_seq);
        }

        fn end(&mut self, id: u64, commits: bool) {
            let rows = self.running.remove(&id).unwrap();
            self.last_completed = self.last_completed.max(id);
            if commits {
                self.visible.extend(rows);
            }
        }

        /// As PostgreSQL says it: whoever began after the last that ended is not known yet.
        fn look(&self) -> Look {
            let next_id = self.last_completed + 1;
            let running = self.running.keys().copied();
            Look {
                server: "one".to_owned(),
                token: FencingToken(1),
                next_id,
                running: running.filter(|id| *id < next_id).collect(),
                last_seq: self.last_seq,
            }
        }

        /// One step of a relay that takes at most so many rows, and marks some of them.
        fn step(&mut self, horizon: &mut Horizon, max: usize, random: &mut SmallRng) {
            let look = self.look();
            let after = horizon.after(0, &look);
            let settled = horizon.settled(&look);
            let unmarked: Vec<u64> = self.visible.difference(&self.marked).copied().collect();
            assert!(
                unmarked.iter().all(|seq| after < *seq),
                "{unmarked:?} after {after}"
            );
            for rows in self.running.values() {
                assert!(
                    rows.iter().all(|seq| settled < *seq),
                    "{rows:?} settled {settled}"
                );
            }
            let rows: BTreeSet<u64> = unmarked.iter().copied().take(max).collect();
            let is_all = rows.len() < max;
            if random.random_range(0..10) == 0 {
                return; // it could not be read
            }
            horizon.read(0, look, rows.clone(), is_all);
            let sent: Vec<u64> = rows
                .into_iter()
                .filter(|_| random.random_range(0..4) != 0)
                .collect();
            if !sent.is_empty() {
                let given_out = horizon.given_out();
                let id = self.begin();
                self.end(id, true);
                self.marked.extend(&sent);
                horizon.marked((id, given_out), sent.into_iter().map(|seq| (0, seq)));
            }
        }
    }

    #[test]
    fn a_snapshot_is_read() {
        let read = |text: &str| {
            let look = Look::of(("one".to_owned(), FencingToken(1)), text, 3)?;
            Some((look.next_id, look.running.into_iter().collect::<Vec<_>>()))
        };
        assert_eq!(read("10:20:10,14,15"), Some((20, vec![10, 14, 15])));
        assert_eq!(read("10:10:"), Some((10, vec![])));
        for bad in ["", "10", "10:x:", "10:20:a"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn no_row_is_ever_overlooked() {
        for seed in 0..300 {
            let mut random = SmallRng::seed_from_u64(seed);
            let (mut world, mut horizon) = (World::default(), Horizon::default());
            for _ in 0..200 {
                let running: Vec<u64> = world.running.keys().copied().collect();
                let some =
                    (!running.is_empty()).then(|| running[random.random_range(0..running.len())]);
                match (random.random_range(0..6), some) {
                    (0, _) => {
                        world.begin();
                    }
                    (1 | 2, Some(id)) => world.write(id),
                    (3, Some(id)) => world.end(id, random.random_range(0..5) != 0),
                    _ => world.step(&mut horizon, 5, &mut random),
                }
            }
        }
    }

    #[test]
    fn an_open_transaction_costs_the_others_nothing() {
        let (mut world, mut horizon) = (World::default(), Horizon::default());
        let held = world.begin();
        world.write(held);
        let step = |world: &mut World, horizon: &mut Horizon| {
            let look = world.look();
            let (after, settled) = (horizon.after(0, &look), horizon.settled(&look));
            let rows: BTreeSet<u64> = world.visible.difference(&world.marked).copied().collect();
            horizon.read(0, look, rows.clone(), true);
            let given_out = horizon.given_out();
            let id = world.begin();
            world.end(id, true);
            world.marked.extend(&rows);
            horizon.marked((id, given_out), rows.into_iter().map(|seq| (0, seq)));
            (after, settled)
        };
        for n in 1..1_000 {
            let id = world.begin();
            world.write(id);
            world.end(id, true);
            let (after, settled) = step(&mut world, &mut horizon);
            // It looks at the rows of one or two steps, however long it has been.
            assert!(n < 3 || n - 2 <= after, "{after} in step {n}");
            assert_eq!(settled, 0);
            assert!(horizon.marks.len() < 5, "{:?}", horizon.marks);
        }
        world.end(held, true);
        assert_eq!(
            step(&mut world, &mut horizon).0,
            0,
            "then it looks for what that has written"
        );
        step(&mut world, &mut horizon);
        let (after, settled) = step(&mut world, &mut horizon);
        assert!(900 < after && 900 < settled, "{after}, {settled}");
    }

    /// A world in which fifty rows were written and some of them marked, and what is known of it.
    fn known() -> (World, Horizon) {
        let (mut world, mut horizon) = (World::default(), Horizon::default());
        let mut random = SmallRng::seed_from_u64(1);
        for _ in 0..50 {
            let id = world.begin();
            world.write(id);
            world.end(id, true);
            world.step(&mut horizon, 5, &mut random);
        }
        (world, horizon)
    }

    #[test]
    fn what_another_server_said_is_forgotten() {
        let (world, mut horizon) = known();
        let look = Look {
            server: "another".to_owned(),
            ..world.look()
        };
        assert!(0 < horizon.settled(&world.look()));
        assert_eq!((horizon.after(0, &look), horizon.settled(&look)), (0, 0));
    }

    #[test]
    fn what_was_read_before_a_row_was_released_is_forgotten() {
        let (world, mut horizon) = known();
        assert!(0 < horizon.after(0, &world.look()));
        let (world, mut horizon) = known();
        let look = Look {
            token: FencingToken(2),
            ..world.look()
        };
        assert_eq!(horizon.after(0, &look), 0);
        assert!(0 < horizon.settled(&look), "which is not by partition");
    }
}
