//! What the shop decides about turns reaches the rooms, whoever is away meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use catraca::base::ids::{FanId, ShowId};
use catraca::base::time::Timestamp;
use catraca::event::{Event, HoldPlaced};
use catraca::log::consume::Consuming;
use catraca::room::model::command::{Command, Outcome, RoomState};
use catraca::room::model::{State, apply};
use catraca::room::{self, Rooms};
use catraca::stock::turns::{GROUP, Turns};

use crate::contract::desk::{Desk, T0, facts};
use crate::model::world::{new_room, settings};
use crate::support::database::on_every_database;

on_every_database! {
    Desk:
    a_confirmed_order_uses_its_fans_turn_once_the_room_is_back,
    a_hold_prolongs_its_fans_turn_by_the_time_that_is_left,
    a_crowd_of_holds_asks_the_room_for_its_time_once,
}

/// A room that remembers what it was told, and can be away. Its time is an hour behind.
#[derive(Debug)]
struct Room {
    away: Mutex<bool>,
    state: Mutex<State>,
    told: Mutex<Vec<Command>>,
    /// How often it was asked for its board.
    boards: AtomicU64,
}

const ROOM_TIME: Timestamp = Timestamp::from_unix_ms(1_799_996_400_000);

impl Room {
    fn open() -> Arc<Self> {
        let mut state = State::default();
        for step in new_room(settings(), RoomState::Open) {
            apply(&mut state, ROOM_TIME, &Command::Mend(step));
        }
        Arc::new(Self {
            away: Mutex::new(false),
            state: Mutex::new(state),
            told: Mutex::default(),
            boards: AtomicU64::new(0),
        })
    }

    fn told(&self) -> Vec<Command> {
        self.told.lock().unwrap().clone()
    }
}

#[async_trait]
impl room::Store for Room {
    async fn apply(&self, _: &ShowId, command: &Command) -> Result<Outcome, room::StoreError> {
        if *self.away.lock().unwrap() {
            return Err(room::StoreError::Unfenced);
        }
        if *command == Command::Board {
            self.boards.fetch_add(1, Ordering::Relaxed);
        } else {
            self.told.lock().unwrap().push(command.clone());
        }
        Ok(apply(&mut self.state.lock().unwrap(), ROOM_TIME, command))
    }

    async fn shows(&self) -> Result<Vec<ShowId>, room::StoreError> {
        Ok(Vec::new())
    }
}

fn telling(desk: &Desk, room: &Arc<Room>) -> Consuming<Turns> {
    let turns = Turns::new(Rooms::new(room.clone()), desk.inbox(), desk.time());
    Consuming::new(turns, desk.log(), desk.inbox(), desk.time())
}

async fn a_confirmed_order_uses_its_fans_turn_once_the_room_is_back(desk: Desk) {
    let room = Room::open();
    let order = facts(desk.order());
    let fan: FanId = order.customer.id.parse().unwrap();
    desk.write(Event::OrderPlaced(order.clone()), 1).await;
    desk.write(Event::OrderConfirmed(order), 2).await;
    desk.relay_all().await;

    *room.away.lock().unwrap() = true;
    let mut away = telling(&desk, &room);
    for _ in 0..20 {
        desk.clock.advance_ms(1_000);
        away.step().await.unwrap();
    }
    assert_eq!(desk.count("select count(*) from dead_letters").await, 0);

    *room.away.lock().unwrap() = false;
    desk.clock.advance_ms(60_000);
    telling(&desk, &room).step().await.unwrap();
    assert_eq!(room.told(), [Command::Consume { fan }]);
    telling(&desk, &room).step().await.unwrap();
    assert_eq!(room.told().len(), 1, "the offset is kept");
    let lag = desk.log().lag(GROUP).await.unwrap();
    assert_eq!(lag.iter().map(|lag| lag.records).sum::<u64>(), 0);
}

/// A hold of so many milliseconds from the beginning, into the log.
async fn hold(desk: &Desk, fan: Option<FanId>, lasts_ms: u64) {
    let order = facts(desk.order());
    let hold = HoldPlaced {
        hold_id: desk.ids.hold(T0),
        show_id: order.event.id,
        seats: order.seats,
        total: order.total,
        expires_at: T0.plus_ms(lasts_ms),
        fan_id: fan,
    };
    desk.write(Event::HoldPlaced(hold), 1).await;
}

/// The room is told by its own time; of a hold that is over, or of one of which nobody knows whose it is,
/// it is not told at all.
async fn a_hold_prolongs_its_fans_turn_by_the_time_that_is_left(desk: Desk) {
    let (room, fan) = (Room::open(), FanId([7; 16]));
    for (fan, lasts_ms) in [(Some(fan), 240_000), (Some(fan), 1_000), (None, 240_000)] {
        hold(&desk, fan, lasts_ms).await;
    }
    desk.relay_all().await;
    desk.clock.advance_ms(1_000);
    telling(&desk, &room).step().await.unwrap();
    let until = ROOM_TIME.plus_ms(239_000 + 30_000);
    assert_eq!(room.told(), [Command::Extend { fan, until }]);
    let lag = desk.log().lag(GROUP).await.unwrap();
    assert_eq!(lag.iter().map(|lag| lag.records).sum::<u64>(), 0);
}

/// What time it is there is asked once a second, however many holds there are; and however long ago that
/// was, turns last as long as they should.
async fn a_crowd_of_holds_asks_the_room_for_its_time_once(desk: Desk) {
    let room = Room::open();
    let mut telling = telling(&desk, &room);
    for (wait_ms, asked) in [(0, 1), (999, 1), (1, 2), (5_000, 3)] {
        desk.clock.advance_ms(wait_ms);
        let told = room.told().len();
        for fan in 0..20 {
            hold(&desk, Some(FanId([fan; 16])), 240_000).await;
        }
        desk.relay_all().await;
        telling.step().await.unwrap();
        assert_eq!(room.told().len(), told + 20);
        assert_eq!(
            room.boards.load(Ordering::Relaxed),
            asked,
            "{wait_ms} ms later"
        );
    }
    let untils = room.told().into_iter().map(|command| match command {
        Command::Extend { until, .. } => until,
        other => panic!("{other:?}"),
    });
    // The room's own clock stands still here, and ours does not.
    let lasts = [240_000, 240_000, 239_000, 234_000].map(|ms| ROOM_TIME.plus_ms(ms + 30_000));
    let expected = lasts.iter().flat_map(|until| [*until; 20]);
    assert!(untils.eq(expected), "{:?}", room.told());
}
