//! Menders and servers that refuse, are replaced half-way, or live on beside their successor.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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

use crate::chaos::loss::fate::Sql;
use crate::contract::admitter::{Site, World};
use crate::support::database::{self, on_every_database};

on_every_database! {
    Site:
    a_mender_who_is_refused_goes_on_with_what_was_begun,
    two_servers_are_never_whole_in_one_life,
    a_first_life_that_nobody_has_told_of_counts,
    a_primary_that_was_replaced_is_left_alone_while_its_successor_lives,
    silence_while_sql_is_away_says_nothing,
}

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

async fn a_mender_who_is_refused_goes_on_with_what_was_begun(site: Site) {
    let servers = Servers::open(site.folder.path(), 2).await;
    let mut world = World::on(&site.db, servers.clone());
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

async fn two_servers_are_never_whole_in_one_life(site: Site) {
    let servers = Servers::open(site.folder.path(), 3).await;
    let mut world = World::on(&site.db, servers.clone());
    world.create(SHOW).await;
    world.verb(RoomState::Open).await;
    servers.fails_over();
    *servers.faults.lock().unwrap() = [Fault::RefuseBegin, Fault::LoseFinish].into();
    assert_eq!(is_whole(&mut world).await, Generation(3));
    let [cut_off, new] = [1, 2].map(|n: usize| Rooms::new(servers.all[n].clone()));
    assert_ne!(number(&cut_off, &world).await, number(&new, &world).await);
}

async fn a_first_life_that_nobody_has_told_of_counts(site: Site) {
    let servers = Servers::open(site.folder.path(), 2).await;
    let mut world = World::on(&site.db, servers.clone());
    *servers.faults.lock().unwrap() = [Fault::LoseFinish].into();
    world.create(SHOW).await;
    let open = world.change("open");
    world.shows.verb(&world.show, &open, "open").await.unwrap();
    assert_eq!(is_whole(&mut world).await, Generation(2));
    let first = Rooms::new(servers.all[0].clone());
    let opened = first.board(&world.show).await.unwrap();
    assert_eq!(opened.state, RoomState::Open, "it was born");
    let board = world.rooms.board(&world.show).await.unwrap();
    assert_eq!(board.state, RoomState::Restoring, "it may be calling");
    let lives = "select generation, copied_at_ms < found_at_ms from room_mends order by 1";
    let lives: Vec<(i64, bool)> = database::all(&site.db, lives).await;
    assert_eq!(lives, [(1, false), (2, true)], "what the first did is lost");
}

/// Longer than an admitter doubts whether a room lives elsewhere.
const DOUBT: Duration = Duration::from_secs(7);
/// Long enough for everybody to look at SQL, and for a leader to write to it.
const LOOK: Duration = Duration::from_secs(2);

async fn steps(world: &mut World, how_long: Duration) {
    let since = Instant::now();
    while since.elapsed() < how_long {
        let pause = world.admitter.step().await;
        tokio::time::sleep(pause).await;
    }
}

async fn both_step(one: &mut World, other: &mut World, how_long: Duration) {
    let since = Instant::now();
    while since.elapsed() < how_long {
        one.admitter.step().await;
        let pause = other.admitter.step().await;
        tokio::time::sleep(pause.min(Duration::from_millis(100))).await;
    }
}

/// Generation and last mend, as SQL has them.
async fn life(world: &World) -> (Generation, Generation) {
    let show = world.shows.get(&world.show).await.unwrap().unwrap();
    (show.generation, show.mended)
}

async fn a_primary_that_was_replaced_is_left_alone_while_its_successor_lives(site: Site) {
    let servers = Servers::open(site.folder.path(), 2).await;
    let alone = servers.all[0].clone();
    let mut world = World::on(&site.db, servers.clone());
    world.create(SHOW).await;
    world.verb(RoomState::Open).await;
    let mut left_behind = World::on(&site.db, alone);
    left_behind.admitter.step().await;

    servers.fails_over();
    assert_eq!(is_whole(&mut world).await, Generation(2));
    both_step(&mut left_behind, &mut world, DOUBT).await;
    assert_eq!(life(&world).await, (Generation(2), Generation(2)));

    // The successor is gone, and nobody says so but by silence.
    left_behind
        .step_until(async |w| life(w).await == (Generation(3), Generation(3)))
        .await;
}

async fn silence_while_sql_is_away_says_nothing(site: Site) {
    let servers = Servers::open(site.folder.path(), 2).await;
    let is_away = Arc::new(AtomicBool::new(false));
    let reaches = |inner| {
        let (is_away, fate) = (is_away.clone(), None);
        Arc::new(Sql {
            inner,
            is_away,
            fate,
        })
    };
    let direct = World::on(&site.db, servers.clone());
    let mut world = World::with(reaches(direct.shows.clone()), servers.clone());
    world.create(SHOW).await;
    world.verb(RoomState::Open).await;
    let mut left_behind = World::with(reaches(direct.shows), servers.all[0].clone());
    left_behind.admitter.step().await;

    servers.fails_over();
    assert_eq!(is_whole(&mut world).await, Generation(2));
    both_step(&mut left_behind, &mut world, LOOK).await;
    is_away.store(true, Ordering::SeqCst);
    both_step(&mut left_behind, &mut world, DOUBT).await;
    is_away.store(false, Ordering::SeqCst);
    // The leader has not written yet when the other looks.
    steps(&mut left_behind, Duration::from_millis(1_500)).await;
    assert_eq!(life(&world).await, (Generation(2), Generation(2)));
    both_step(&mut left_behind, &mut world, LOOK).await;
    assert_eq!(life(&world).await, (Generation(2), Generation(2)));
}
