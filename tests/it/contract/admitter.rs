//! The admitter on the embedded room and on Redis, and on either database: shows are born, ticked, copied and mended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use catraca::admitter::Admitter;
use catraca::app::database::Database;
use catraca::base::ids::{Edition, FanId, Generation, IdSource, ShowId};
use catraca::base::limits::LEDGER_COPY_MAX;
use catraca::base::time::{Clock, SystemClock};
use catraca::room::in_memory::InMemory;
use catraca::room::in_redis::InRedis;
use catraca::room::model::command::RoomState;
use catraca::room::model::command::{Joining, Origin, Stock};
use catraca::room::model::outcome::{Claimed, Joined};
use catraca::room::{self, Rooms};
use catraca::show::{Change, Put, Store};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::support::database::{self, on_every_database};
use crate::support::need::REDIS;
use crate::support::redis::Server;

/// Longest wait for anything here.
const PATIENCE: Duration = Duration::from_secs(60);

on_every_database! {
    Site:
    a_show_is_born_opens_and_its_ledger_is_copied,
    a_show_is_born_on_redis,
    the_last_seat_is_sold,
    a_room_whose_journal_is_lost_is_mended_from_the_copied_ledger,
    a_room_that_redis_has_lost_is_mended_from_the_copied_ledger,
    a_leader_whose_ledger_sql_does_not_take_goes_all_the_same,
}

/// Where an admitter works: a database, and a folder for the room's journal.
pub(super) struct Site {
    pub(super) db: Database,
    pub(super) folder: TempDir,
    /// How often the embedded room has lost everything.
    pub(super) losses: AtomicU32,
}

impl Site {
    pub(super) async fn open(db: Database, folder: TempDir) -> Self {
        let losses = AtomicU32::new(0);
        Self { db, folder, losses }
    }

    /// With the embedded room.
    pub(super) async fn world(&self) -> World {
        let losses = self.losses.load(Relaxed);
        let journal = self.folder.path().join(format!("room-{losses}.db"));
        let room = InMemory::open(&journal, Arc::new(SystemClock)).await;
        World::on(&self.db, Arc::new(room.unwrap()))
    }

    /// The same after everything that the embedded room keeps was lost. It is another file from then on, for
    /// connections to the last one may still be closing.
    pub(super) async fn without_room(&self) -> World {
        self.losses.fetch_add(1, Relaxed);
        self.world().await
    }
}

pub(super) struct World {
    pub(super) rooms: Rooms,
    pub(super) shows: Arc<dyn Store>,
    pub(super) admitter: Admitter,
    pub(super) show: ShowId,
    pub(super) ids: IdSource,
}

impl World {
    pub(super) fn on(db: &Database, room: Arc<dyn room::Store>) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let shows = db.stores(&clock, &Arc::new(IdSource::random())).shows;
        Self::with(shows, room)
    }

    pub(super) fn with(shows: Arc<dyn Store>, room: Arc<dyn room::Store>) -> Self {
        let rooms = Rooms::new(room);
        let nudge = Arc::new(Notify::new());
        let admitter = Admitter::new(
            rooms.clone(),
            shows.clone(),
            Arc::new(SystemClock),
            "admitter-1".to_owned(),
            nudge,
        );
        let show = "show".parse().unwrap();
        Self {
            rooms,
            shows,
            admitter,
            show,
            ids: IdSource::random(),
        }
    }

    pub(super) fn change(&self, action: &str) -> Change {
        Change {
            who: "test".to_owned(),
            role: "admin".to_owned(),
            action: action.to_owned(),
            detail: "{}".to_owned(),
            at: SystemClock.now(),
        }
    }

    pub(super) async fn create(&self, settings: &str) {
        let settings = serde_json::from_str(settings).unwrap();
        let put = self
            .shows
            .put(&self.show, &self.change("create"), &settings, None)
            .await
            .unwrap();
        assert!(matches!(put, Put::Created(_)));
    }

    pub(super) async fn verb(&mut self, state: RoomState) {
        self.shows
            .verb(&self.show, &self.change(state.word()), state.word())
            .await
            .unwrap()
            .unwrap();
        self.step_until(async |world| {
            world
                .rooms
                .board(&world.show)
                .await
                .is_ok_and(|board| board.state == state)
        })
        .await;
    }

    pub(super) async fn step_until(&mut self, done: impl AsyncFn(&Self) -> bool) {
        let stepping = async {
            while !done(self).await {
                let pause = self.admitter.step().await;
                tokio::time::sleep(pause).await;
            }
        };
        tokio::time::timeout(PATIENCE, stepping)
            .await
            .expect("it happens in time");
    }

    /// One fan is inside, and SQL knows it.
    pub(super) async fn admit_and_copy(&mut self) -> FanId {
        self.create(SHOW).await;
        self.verb(RoomState::Open).await;
        let fan = self.join().await;
        self.step_until(async |w| w.is_admitted(fan).await).await;
        self.step_until(async |w| {
            let board = w.rooms.board(&w.show).await;
            board.is_ok_and(|board| board.uncopied == 0)
                && w.shows.get(&w.show).await.unwrap().unwrap().issued.0 == 1
        })
        .await;
        fan
    }

    pub(super) async fn join(&self) -> FanId {
        let fan = self.ids.fan();
        let joining = Joining {
            fan,
            origin: Origin::Minted,
        };
        let joined = self.rooms.join(&self.show, joining).await.unwrap();
        assert!(matches!(joined, Joined::New { .. }), "{joined:?}");
        fan
    }

    pub(super) async fn is_admitted(&self, fan: FanId) -> bool {
        matches!(
            self.rooms.claim(&self.show, fan).await,
            Ok(Claimed::Admitted { .. })
        )
    }
}

const SHOW: &str = r#"{"name": "Show", "rate": 50, "capacity": 3,
    "sections": [{"name": "B", "seats": 2, "price": {"amount": 1, "currency": "BRL"}}]}"#;

async fn a_show_is_born_opens_and_its_ledger_is_copied(site: Site) {
    is_born(site.world().await).await;
}

async fn a_show_is_born_on_redis(site: Site) {
    let Some(server) = Server::start(&REDIS) else {
        return;
    };
    let room = InRedis::connect(&server.url()).await.unwrap();
    is_born(World::on(&site.db, Arc::new(room))).await;
}

async fn is_born(mut world: World) {
    world.create(SHOW).await;
    world
        .step_until(async |w| {
            w.rooms
                .board(&w.show)
                .await
                .is_ok_and(|board| board.state == RoomState::Early)
        })
        .await;
    let fans = [world.join().await, world.join().await];
    world.verb(RoomState::Open).await;
    world
        .step_until(async |w| w.is_admitted(fans[0]).await && w.is_admitted(fans[1]).await)
        .await;
    world
        .step_until(async |w| {
            let after = (Generation(0), 0);
            let rows = w
                .shows
                .ledger(&w.show, Edition(1), after, 100)
                .await
                .unwrap();
            rows.iter().filter(|row| row.kind == "claimed").count() == 2
        })
        .await;
    assert_eq!(world.rooms.board(&world.show).await.unwrap().live, 2);
}

async fn the_last_seat_is_sold(site: Site) {
    let mut world = site.world().await;
    world.create(SHOW).await;
    world.verb(RoomState::Open).await;
    let stock = |version, free, held, sold| Stock {
        version,
        free,
        held,
        sold,
        as_of: SystemClock.now(),
    };
    world
        .rooms
        .stock(&world.show, stock(1, 1, 0, 1))
        .await
        .unwrap();
    let (first, second) = (world.join().await, world.join().await);

    // One seat is left, and two are taken by a fan until that is measured: one fan is called.
    world.step_until(async |w| w.is_admitted(first).await).await;
    for _ in 0..5 {
        let pause = world.admitter.step().await;
        tokio::time::sleep(pause).await;
    }
    assert!(
        !world.is_admitted(second).await,
        "the seat is in the first fan's hands"
    );

    // The first fan leaves without it: the next one is called, and buys it.
    world.rooms.leave(&world.show, first).await.unwrap();
    world
        .step_until(async |w| w.is_admitted(second).await)
        .await;
    world
        .rooms
        .stock(&world.show, stock(2, 0, 1, 1))
        .await
        .unwrap();
    assert_eq!(
        world.rooms.board(&world.show).await.unwrap().state,
        RoomState::Open
    );
    world
        .rooms
        .stock(&world.show, stock(3, 0, 0, 2))
        .await
        .unwrap();
    let board = world.rooms.board(&world.show).await.unwrap();
    assert_eq!(board.state, RoomState::SoldOut);
    assert!(board.sold_out_at.is_some());
    let late = Joining {
        fan: world.ids.fan(),
        origin: Origin::Minted,
    };
    let refused = world.rooms.join(&world.show, late).await.unwrap();
    assert_eq!(refused, Joined::Refused(RoomState::SoldOut));
}

async fn a_room_whose_journal_is_lost_is_mended_from_the_copied_ledger(site: Site) {
    let mut world = site.world().await;
    let fan = world.admit_and_copy().await;
    drop(world);
    is_mended(site.without_room().await, fan).await;
}

async fn a_room_that_redis_has_lost_is_mended_from_the_copied_ledger(site: Site) {
    let Some(server) = Server::start(&REDIS) else {
        return;
    };
    let room = InRedis::connect(&server.url()).await.unwrap();
    let mut world = World::on(&site.db, Arc::new(room));
    let fan = world.admit_and_copy().await;
    let mut connection = server.connection();
    redis::cmd("FLUSHALL").exec(&mut connection).unwrap();
    is_mended(world, fan).await;
}

async fn is_mended(mut world: World, fan: FanId) {
    world
        .step_until(async |w| w.rooms.board(&w.show).await.is_ok())
        .await;
    let board = world.rooms.board(&world.show).await.unwrap();
    assert_eq!(
        (board.generation, board.state),
        (Generation(2), RoomState::Restoring)
    );
    assert!(
        world.is_admitted(fan).await,
        "the admission is in the ledger"
    );
    let next = world.join().await;
    assert!(matches!(
        world.rooms.claim(&world.show, next).await.unwrap(),
        Claimed::Waiting { number } if 1 < number.0
    ));
}

/// SQL has given the show to another life of its room, and the ledger of this one has more than a page.
async fn a_leader_whose_ledger_sql_does_not_take_goes_all_the_same(site: Site) {
    let mut world = site.world().await;
    let fan = world.admit_and_copy().await;
    let World {
        rooms,
        show,
        admitter,
        ..
    } = world;
    let now = rooms.board(&show).await.unwrap().now;
    let pages = u64::try_from(LEDGER_COPY_MAX).unwrap() + 10;
    for later in 1..=pages {
        let until = now.plus_ms(310_000 + later);
        rooms.extend(&show, fan, until).await.unwrap();
    }
    database::run(&site.db, "update shows set generation = generation + 1").await;
    let stop = CancellationToken::new();
    stop.cancel();
    let gone = tokio::time::timeout(PATIENCE, admitter.run(stop)).await;
    gone.expect("it goes in time").unwrap();
    let left = rooms.board(&show).await.unwrap().uncopied;
    assert!(
        LEDGER_COPY_MAX < left,
        "{left}: the room keeps what is nowhere else"
    );
}
