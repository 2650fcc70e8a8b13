//! Menders and servers that refuse, are replaced half-way, or live on beside their successor.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use async_trait::async_trait;
use catraca::base::ids::{Generation, ShowId};
use catraca::base::outage::Outage;
use catraca::base::time::SystemClock;
use catraca::room::in_memory::InMemory;
use catraca::room::model::command::{Command, Joined, Joining, Mend, Origin, Outcome, RoomState};
use catraca::room::{Away, Rooms, Store, StoreError};

use crate::contract::admitter::World;

/// What happens to a step of a mend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It is refused.
    RefuseBegin,
    /// It is done, nobody hears of it, and the next server is the primary.
    LoseFinish,
}

/// Servers of which one is the primary.
#[derive(Debug)]
struct Servers {
    all: Vec<Arc<dyn Store>>,
    primary: AtomicUsize,
    faults: Mutex<VecDeque<Fault>>,
}

impl Servers {
    async fn open(folder: &Path, count: usize) -> Arc<Self> {
        let mut all: Vec<Arc<dyn Store>> = Vec::new();
        for n in 0..count {
            let path = folder.join(format!("room-{n}.db"));
            let room = InMemory::open(&path, Arc::new(SystemClock)).await;
            all.push(Arc::new(room.unwrap()));
        }
        Arc::new(Self {
            all,
            primary: AtomicUsize::new(0),
            faults: Mutex::default(),
        })
    }

    fn fails_over(&self) {
        self.primary.fetch_add(1, Ordering::Relaxed);
    }

    fn meets(&self, command: &Command) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap();
        let is_met = matches!(
            (faults.front()?, command),
            (Fault::RefuseBegin, Command::Mend(Mend::Begin { .. }))
                | (Fault::LoseFinish, Command::Mend(Mend::Finish(_)))
        );
        is_met.then(|| faults.pop_front())?
    }
}

fn unavailable(outage: Outage) -> StoreError {
    let failure = anyhow!("as the test has it");
    StoreError::Unavailable(Away { outage, failure })
}

#[async_trait]
impl Store for Servers {
    async fn apply(&self, show: &ShowId, command: &Command) -> Result<Outcome, StoreError> {
        let primary = &self.all[self.primary.load(Ordering::Relaxed)];
        match self.meets(command) {
            None => primary.apply(show, command).await,
            Some(Fault::RefuseBegin) => Err(unavailable(Outage::TooFewReplicas)),
            Some(Fault::LoseFinish) => {
                primary.apply(show, command).await?;
                self.fails_over();
                Err(unavailable(Outage::Slow))
            }
        }
    }

    async fn shows(&self) -> Result<Vec<ShowId>, StoreError> {
        self.all[0].shows().await
    }
}

async fn number(rooms: &Rooms, world: &World) -> u64 {
    let joining = Joining {
        fan: world.ids.fan(),
        origin: Origin::Minted,
    };
    match rooms.join(&world.show, joining).await.unwrap() {
        Joined::New { number } => number.0,
        joined => panic!("{joined:?}"),
    }
}

async fn is_whole(world: &mut World) -> Generation {
    world
        .step_until(async |w| w.rooms.board(&w.show).await.is_ok())
        .await;
    let board = world.rooms.board(&world.show).await.unwrap();
    board.generation
}

const SHOW: &str = r#"{"name": "Show", "rate": 50}"#;

#[tokio::test]
async fn a_mender_who_is_refused_goes_on_with_what_was_begun() {
    let folder = tempfile::tempdir().unwrap();
    let servers = Servers::open(folder.path(), 2).await;
    let mut world = World::open_on(folder.path(), servers.clone()).await;
    world.create(SHOW).await;
    world.verb(RoomState::Open).await;
    servers.fails_over();
    *servers.faults.lock().unwrap() = [Fault::RefuseBegin; 5].into();
    assert_eq!(
        is_whole(&mut world).await,
        Generation(2),
        "one life, not six"
    );
}

#[tokio::test]
async fn two_servers_are_never_whole_in_one_life() {
    let folder = tempfile::tempdir().unwrap();
    let servers = Servers::open(folder.path(), 3).await;
    let mut world = World::open_on(folder.path(), servers.clone()).await;
    world.create(SHOW).await;
    world.verb(RoomState::Open).await;
    servers.fails_over();
    *servers.faults.lock().unwrap() = [Fault::RefuseBegin, Fault::LoseFinish].into();
    assert_eq!(is_whole(&mut world).await, Generation(3));
    let [cut_off, new] = [1, 2].map(|n: usize| Rooms::new(servers.all[n].clone()));
    assert_ne!(number(&cut_off, &world).await, number(&new, &world).await);
}

/// Longer than an admitter doubts whether a room lives elsewhere.
const DOUBT: Duration = Duration::from_secs(7);

#[tokio::test]
async fn a_primary_that_was_replaced_is_left_alone_while_its_successor_lives() {
    let folder = tempfile::tempdir().unwrap();
    let servers = Servers::open(folder.path(), 2).await;
    let alone = servers.all[0].clone();
    let mut world = World::open_on(folder.path(), servers.clone()).await;
    world.create(SHOW).await;
    world.verb(RoomState::Open).await;
    let mut left_behind = World::open_on(folder.path(), alone).await;
    left_behind.admitter.step().await;

    servers.fails_over();
    assert_eq!(is_whole(&mut world).await, Generation(2));
    let since = Instant::now();
    let both_step = async {
        while since.elapsed() < DOUBT {
            let pause = world.admitter.step().await;
            left_behind.admitter.step().await;
            tokio::time::sleep(pause).await;
        }
    };
    both_step.await;
    let life = async |world: &World| {
        let show = world.shows.get(&world.show).await.unwrap().unwrap();
        (show.generation, show.mended)
    };
    assert_eq!(life(&world).await, (Generation(2), Generation(2)));

    // The successor is gone, and nobody says so but by silence.
    left_behind
        .step_until(async |w| life(w).await == (Generation(3), Generation(3)))
        .await;
}
