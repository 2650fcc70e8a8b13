//! The admitter and a draw: sealed, frozen, held and called, whatever is lost in between.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use catraca::admitter::ledger::entry_of;
use catraca::base::ids::{Edition, FanId, Generation, Number, Place};
use catraca::room::draw::{Table, commitment, seed};
use catraca::room::in_redis::InRedis;
use catraca::room::model::command::{Board, Change, Frozen, Restored, Restoring, RoomState};
use catraca::show::Show;
use catraca::show::draw::{DrawFact, Entered};

use crate::contract::admitter::{Site, World};
use crate::support::database::{self, on_every_database};
use crate::support::need::REDIS;
use crate::support::redis::Server;

const PLAIN: &str = r#"{"name": "Show", "rate": 50, "draw": true}"#;
const WITH_BEACON: &str =
    r#"{"name": "Show", "rate": 50, "draw": true, "beacon": "drand quicknet, round 912"}"#;

impl World {
    async fn kept(&self) -> Show {
        self.shows.get(&self.show).await.unwrap().unwrap()
    }

    async fn board(&self) -> Board {
        self.rooms.board(&self.show).await.unwrap()
    }

    /// A show with a draw, early, and these fans in line.
    async fn early(&mut self, settings: &str, fans: u64) -> Vec<FanId> {
        self.create(settings).await;
        self.step_until(async |w| {
            let board = w.rooms.board(&w.show).await;
            board.is_ok_and(|board| board.state == RoomState::Early)
        })
        .await;
        let mut joined = Vec::new();
        for _ in 0..fans {
            joined.push(self.join().await);
        }
        joined
    }

    async fn ask_to_open(&self) {
        let open = RoomState::Open.word();
        let written = self.shows.verb(&self.show, &self.change(open), open).await;
        written.unwrap().unwrap();
    }

    async fn until_frozen(&mut self) {
        self.step_until(async |w| w.kept().await.draw.unwrap().size.is_some())
            .await;
    }

    async fn until_open(&mut self) {
        self.step_until(async |w| {
            let board = w.rooms.board(&w.show).await;
            board.is_ok_and(|board| board.state == RoomState::Open)
        })
        .await;
    }

    async fn enter(&self, value: &str) -> Option<Entered> {
        let change = self.change("beacon");
        let entered = self.shows.enter_beacon(&self.show, &change, value);
        entered.await.unwrap()
    }

    /// Whom the ledger says were called, in order, with their places.
    async fn called(&self) -> Vec<(FanId, Place)> {
        let after = (Generation(0), 0);
        let rows = self.shows.ledger(&self.show, Edition(1), after, 10_000);
        let rows = rows.await.unwrap();
        let entries = rows.iter().map(|row| entry_of(row).unwrap());
        entries
            .filter_map(|entry| match entry.change {
                Change::Called(called) => Some(called.fans),
                _ => None,
            })
            .flatten()
            .collect()
    }

    /// The table of a draw that has been held, its seal checked.
    async fn table(&self) -> Table {
        let (show, board) = (self.kept().await, self.board().await);
        let (draw, beacon) = (show.draw.unwrap(), show.settings.beacon);
        let announced = board.settings.draw.unwrap();
        let revealed = announced.revealed.unwrap();
        let beacon = beacon.unwrap_or_default();
        assert_eq!(announced.commitment, draw.sealed.commitment);
        let sealed = commitment(&self.show, &revealed.secret, &beacon);
        assert_eq!(announced.commitment, sealed);
        let size = draw.size.unwrap().0;
        let value = revealed.beacon_value.unwrap_or_default();
        let drawn = seed(&self.show, &revealed.secret, &value, size);
        assert_eq!(
            (draw.seed, board.draw.unwrap().seed),
            (Some(drawn), Some(drawn))
        );
        assert_eq!(board.draw.unwrap().size, size);
        Table::new(&drawn, size)
    }

    /// Comes back with the pass of a number.
    async fn restore(&self, fan: FanId, number: u64, table: &Table) -> Restored {
        let board = self.board().await;
        let number = Number(number);
        let restoring = Restoring {
            fan,
            number,
            edition: Edition(1),
            generation: board.generation,
            place: (number.0 <= table.size()).then(|| table.place(number)),
        };
        self.rooms.restore(&self.show, restoring).await.unwrap()
    }
}

on_every_database! {
    Site:
    fans_are_called_in_the_order_of_the_draw,
    the_beacon_is_waited_for_and_entered_once,
    fans_are_called_in_the_order_of_the_draw_on_redis,
    a_loss_between_any_two_steps_changes_no_place,
    numbers_that_nobody_holds_keep_nobody_waiting,
    a_show_with_presence_tells_its_room,
}

impl Site {
    /// Where there was no show before.
    async fn anew(&self) -> World {
        for table in ["shows", "draws", "room_ledger", "room_mends"] {
            database::run(&self.db, &format!("delete from {table}")).await;
        }
        self.without_room().await
    }

    /// The same after everything that the embedded room keeps was lost.
    async fn lose(&self, world: World) -> World {
        drop(world);
        self.without_room().await
    }
}

async fn fans_are_called_in_the_order_of_the_draw(site: Site) {
    is_drawn(site.world().await).await;
}

async fn fans_are_called_in_the_order_of_the_draw_on_redis(site: Site) {
    let Some(server) = Server::start(&REDIS) else {
        return;
    };
    let room = InRedis::connect(&server.url()).await.unwrap();
    is_drawn(World::on(&site.db, Arc::new(room))).await;
}

async fn is_drawn(mut world: World) {
    let fans = world.early(PLAIN, 40).await;
    let announced = world.board().await.settings.draw.unwrap();
    assert_eq!(announced.revealed, None, "nothing is revealed before");
    for fan in &fans[30..] {
        world.rooms.leave(&world.show, *fan).await.unwrap();
    }
    world.ask_to_open().await;
    world.until_open().await;
    let late = world.join().await;
    world
        .step_until(async |w| w.called().await.len() == 31)
        .await;

    let table = world.table().await;
    assert_eq!(table.size(), 40);
    let mut expected: Vec<(FanId, Place)> = (1..)
        .map(Number)
        .zip(&fans[..30])
        .map(|(number, fan)| (*fan, table.place(number)))
        .collect();
    expected.sort_by_key(|(_, place)| *place);
    expected.push((late, Place(41)));
    assert_eq!(world.called().await, expected);
}

async fn the_beacon_is_waited_for_and_entered_once(site: Site) {
    let mut world = site.world().await;
    let fans = world.early(WITH_BEACON, 3).await;
    assert_eq!(world.enter("5f3a0c").await, Some(Entered::TooEarly));
    world.ask_to_open().await;
    world.until_frozen().await;
    for _ in 0..5 {
        let pause = world.admitter.step().await;
        tokio::time::sleep(pause).await;
    }
    let board = world.board().await;
    assert_eq!(board.state, RoomState::Early, "nothing is held without it");
    assert_eq!(board.draw.unwrap().seed, None);
    let late = world.join().await;

    assert_eq!(world.enter("5f3a0c").await, Some(Entered::Now));
    assert_eq!(world.enter("5f3a0c").await, Some(Entered::Before));
    assert_eq!(world.enter("other").await, Some(Entered::Other));
    world.until_open().await;
    assert_eq!(world.table().await.size(), 3, "who came later took no part");
    world
        .step_until(async |w| w.called().await.len() == 4)
        .await;
    let called: Vec<FanId> = world.called().await.iter().map(|(fan, _)| *fan).collect();
    let first: BTreeSet<FanId> = called[..3].iter().copied().collect();
    assert_eq!(first, fans.into_iter().collect());
    assert_eq!(called[3], late);
}

/// A room lost after each step of an opening. What SQL had is the draw; what it had not, begins anew.
async fn a_loss_between_any_two_steps_changes_no_place(site: Site) {
    for step in 0..5 {
        let mut world = site.anew().await;
        let fans = world.early(WITH_BEACON, 5).await;
        let before = world.kept().await.draw.unwrap();
        if 0 < step {
            world.ask_to_open().await;
            // The hour has come in the room, and the leader dies before it does anything about it.
            let show = world.kept().await;
            let asked = catraca::admitter::settings::configure(&show);
            world.rooms.configure(&world.show, asked).await.unwrap();
            let frozen = world.rooms.freeze(&world.show).await.unwrap();
            assert_eq!(frozen, Frozen::At { size: 5 });
        }
        if 1 < step {
            world.until_frozen().await;
        }
        if 2 < step {
            assert_eq!(world.enter("5f3a0c").await, Some(Entered::Now));
        }
        let drawn = seed(&world.show, &before.sealed.secret, "5f3a0c", 5);
        if 3 < step {
            let fact = DrawFact::Seed(drawn);
            world
                .shows
                .keep_draw(&world.show, Edition(1), fact)
                .await
                .unwrap();
        }

        let mut world = site.lose(world).await;
        world
            .step_until(async |w| w.rooms.board(&w.show).await.is_ok())
            .await;
        world.ask_to_open().await; // also ends the wait for those who were lost
        if step <= 1 {
            // Nothing was kept: whoever takes part now is frozen anew.
            world.until_frozen().await;
        }
        if step <= 2 {
            world.enter("5f3a0c").await;
        }
        world.until_open().await;
        let kept = world.kept().await.draw.unwrap();
        assert_eq!(kept.sealed, before.sealed, "step {step}");
        let table = world.table().await;
        if 1 < step {
            assert_eq!((table.size(), table.seed()), (5, drawn), "step {step}");
        }
        assert!(5 <= table.size(), "step {step}");
        for (fan, number) in fans.iter().zip(1..) {
            let restored = world.restore(*fan, number, &table).await;
            let is_back = matches!(restored, Restored::Waiting | Restored::Returned);
            assert!(is_back, "step {step}: {restored:?}");
        }
        world
            .step_until(async |w| w.called().await.len() == 5)
            .await;
        for (fan, place) in world.called().await {
            let number = 1 + fans.iter().position(|known| *known == fan).unwrap();
            assert_eq!(place, table.place(Number(number as u64)), "step {step}");
        }
    }
}

/// Lost while it was early, a room draws for a million numbers of which a hundred are held. The admitter does not
/// rest between looking at them: their fans are called in about the time that the rate gives.
async fn numbers_that_nobody_holds_keep_nobody_waiting(site: Site) {
    let Some(server) = Server::start(&REDIS) else {
        return;
    };
    let room = InRedis::connect(&server.url()).await.unwrap();
    let mut world = World::on(&site.db, Arc::new(room));
    let fans = world.early(PLAIN, 100).await;
    server.tell(&["flushall"]);
    world
        .step_until(async |w| w.rooms.board(&w.show).await.is_ok())
        .await;
    for (fan, number) in fans.iter().zip(1..) {
        let (board, number) = (world.board().await, Number(number));
        let restoring = Restoring {
            fan: *fan,
            number,
            edition: Edition(1),
            generation: board.generation,
            place: None,
        };
        let restored = world.rooms.restore(&world.show, restoring).await.unwrap();
        assert!(matches!(restored, Restored::Waiting), "{restored:?}");
    }
    world.ask_to_open().await;
    world.until_open().await;
    let mut rested = Duration::ZERO;
    while 0 < world.board().await.waiting {
        let pause = world.admitter.step().await;
        tokio::time::sleep(pause).await;
        rested += pause;
    }
    assert!(1_000_000 < world.board().await.draw.unwrap().size);
    let windows = Duration::from_secs(fans.len() as u64 / 50);
    assert!(rested < 2 * windows, "{rested:?}");
}

async fn a_show_with_presence_tells_its_room(site: Site) {
    let mut world = site.world().await;
    let settings = r#"{"name": "Show", "rate": 50, "require_presence": true}"#;
    world.early(settings, 0).await;
    assert!(world.board().await.settings.require_presence);
    assert_eq!(world.board().await.settings.draw, None);
}
