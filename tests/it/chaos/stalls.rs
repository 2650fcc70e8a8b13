//! Watches the machine, not the system: when a process that was ready to run was kept waiting, nobody
//! can call fans in time, and the drill must not blame them.
//!
//! Two signs count: this thread slept far longer than it asked to, or a thread of the server or of an
//! admitter stood in the run queue for long (Linux says so). What a process does while it runs is its
//! own affair and excuses nothing.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often it looks.
const EVERY: Duration = Duration::from_millis(20);
/// How often it looks at the run queue.
const QUEUE_EVERY: u32 = 5;
/// Waiting longer than this, of so short a time, is standing still.
const LATE_MAX: Duration = Duration::from_millis(40);

/// From when to when the machine stood still, milliseconds of its clock.
pub(crate) type Stall = (i64, i64);

/// A watch that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Whose threads are looked at.
    pids: Arc<Mutex<Vec<u32>>>,
    seen: Arc<Mutex<Vec<Stall>>>,
    stop: Arc<AtomicBool>,
}

impl Watch {
    pub(crate) fn begin() -> Self {
        let watch = Self {
            pids: Arc::default(),
            seen: Arc::default(),
            stop: Arc::default(),
        };
        let (pids, seen) = (Arc::clone(&watch.pids), Arc::clone(&watch.seen));
        let stop = Arc::clone(&watch.stop);
        std::thread::spawn(move || look(&pids, &seen, &stop));
        watch
    }

    /// From now on these processes are looked at.
    pub(crate) fn look_at(&self, pids: Vec<u32>) {
        *self.pids.lock().unwrap() = pids;
    }

    /// What was seen since somebody asked last.
    pub(crate) fn so_far(&self) -> Vec<Stall> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn look(pids: &Mutex<Vec<u32>>, seen: &Mutex<Vec<Stall>>, stop: &AtomicBool) {
    let mut round = 0u32;
    let mut waited = BTreeMap::new();
    let (mut looked_at, mut queue_at) = (Instant::now(), Instant::now());
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(EVERY);
        let since = looked_at.elapsed();
        looked_at = Instant::now();
        if EVERY + LATE_MAX < since {
            seen.lock().unwrap().push(ended_now(since));
        }
        round += 1;
        if round.is_multiple_of(QUEUE_EVERY) {
            let now = run_queue(&pids.lock().unwrap());
            let longest = now.iter().filter_map(|(thread, total)| {
                let before = waited.get(thread)?;
                Some(*total - *before)
            });
            let late = longest.max().unwrap_or(Duration::ZERO);
            if LATE_MAX < late {
                seen.lock().unwrap().push(ended_now(queue_at.elapsed()));
            }
            (waited, queue_at) = (now, Instant::now());
        }
    }
}

fn ended_now(length: Duration) -> Stall {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let ms = |length: Duration| i64::try_from(length.as_millis()).unwrap();
    (ms(now) - ms(length), ms(now))
}

/// How long each thread of these processes has stood in the run queue in all of its life.
fn run_queue(pids: &[u32]) -> BTreeMap<u32, Duration> {
    let threads = pids.iter().flat_map(|pid| {
        let folder = fs::read_dir(format!("/proc/{pid}/task"));
        folder.into_iter().flatten().flatten()
    });
    let waited = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let nanos = text.split_whitespace().nth(1)?.parse().ok()?;
        let id = thread.file_name().to_str()?.parse().ok()?;
        Some((id, Duration::from_nanos(nanos)))
    });
    waited.collect()
}
