//! Confirmed orders end their admissions, whoever is away meanwhile.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use catraca::base::ids::{FanId, ShowId};
use catraca::event::Event;
use catraca::log::consume::Consuming;
use catraca::room::model::command::{Command, Consumed, Outcome};
use catraca::room::{self, Rooms};
use catraca::stock::used::{GROUP, Used};

use crate::contract::desk::{Desk, facts};
use crate::support::database::on_every_database;

on_every_database! {
    Desk:
    a_confirmed_order_uses_its_fans_turn_once_the_room_is_back,
}

/// A room that remembers whose turns are used, and can be away.
#[derive(Debug, Default)]
struct Room {
    away: Mutex<bool>,
    used: Mutex<Vec<FanId>>,
}

#[async_trait]
impl room::Store for Room {
    async fn apply(&self, _: &ShowId, command: &Command) -> Result<Outcome, room::StoreError> {
        if *self.away.lock().unwrap() {
            return Err(room::StoreError::Unfenced);
        }
        let Command::Consume { fan } = command else {
            panic!("{command:?}");
        };
        let mut used = self.used.lock().unwrap();
        let consumed = if used.contains(fan) {
            Consumed::Before
        } else {
            Consumed::Now
        };
        used.push(*fan);
        Ok(Outcome::Consumed(consumed))
    }

    async fn shows(&self) -> Result<Vec<ShowId>, room::StoreError> {
        Ok(Vec::new())
    }
}

fn using(desk: &Desk, room: &Arc<Room>) -> Consuming<Used> {
    let used = Used::new(Rooms::new(room.clone()), desk.inbox());
    Consuming::new(used, desk.log(), desk.inbox(), desk.time())
}

async fn a_confirmed_order_uses_its_fans_turn_once_the_room_is_back(desk: Desk) {
    let room = Arc::new(Room::default());
    let order = facts(desk.order());
    let fan: FanId = order.customer.id.parse().unwrap();
    desk.write(Event::OrderPlaced(order.clone()), 1).await;
    desk.write(Event::OrderConfirmed(order), 2).await;
    desk.relay_all().await;

    *room.away.lock().unwrap() = true;
    let mut away = using(&desk, &room);
    for _ in 0..20 {
        desk.clock.advance_ms(1_000);
        away.step().await.unwrap();
    }
    assert_eq!(desk.count("select count(*) from dead_letters").await, 0);

    *room.away.lock().unwrap() = false;
    desk.clock.advance_ms(60_000);
    using(&desk, &room).step().await.unwrap();
    assert_eq!(*room.used.lock().unwrap(), [fan]);
    using(&desk, &room).step().await.unwrap();
    assert_eq!(room.used.lock().unwrap().len(), 1, "the offset is kept");
    let lag = desk.log().lag(GROUP).await.unwrap();
    assert_eq!(lag.iter().map(|lag| lag.records).sum::<u64>(), 0);
}
