//! Stock: counted from the seats, said once per change, and the room always knows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use catraca::base::ids::{FanId, IdSource, ShowId};
use catraca::base::limits::STOCK_REPEAT_MS;
use catraca::base::time::Clock;
use catraca::event::{Event, HoldPlaced, codec};
use catraca::room::model::command::{Command, Outcome, Stock};
use catraca::room::{self, Rooms};
use catraca::stock::count::Sale;
use catraca::stock::step::{Counter, Parts};
use catraca::stock::store::{Saved, Statement};

use crate::contract::desk::{Desk, facts};
use crate::support::database::{self, on_every_database};

on_every_database! {
    Desk:
    the_last_seat_is_said_once_and_versions_are_contiguous,
    a_statement_has_the_sections_in_order,
    the_room_hears_again_before_it_looks_stale_and_after_a_restart,
    a_room_that_could_not_be_told_is_told_with_the_next_step,
    an_older_count_never_takes_the_place_of_a_newer_one,
}

/// A room that remembers what it was told about stock.
#[derive(Debug, Default)]
struct Listening {
    deaf: Mutex<bool>,
    heard: Mutex<Vec<Stock>>,
}

#[async_trait]
impl room::Store for Listening {
    async fn apply(&self, _: &ShowId, command: &Command) -> Result<Outcome, room::StoreError> {
        if *self.deaf.lock().unwrap() {
            return Err(room::StoreError::Unfenced);
        }
        let Command::Stock(stock) = command else {
            panic!("{command:?}");
        };
        self.heard.lock().unwrap().push(*stock);
        Ok(Outcome::Done)
    }

    async fn shows(&self) -> Result<Vec<ShowId>, room::StoreError> {
        Ok(Vec::new())
    }
}

impl Listening {
    fn last(&self) -> (u64, u64, u64, u64) {
        let heard = self.heard.lock().unwrap();
        let stock = heard.last().unwrap();
        (stock.version, stock.free, stock.held, stock.sold)
    }
}

fn parts(desk: &Desk, room: &Arc<Listening>) -> Parts {
    Parts {
        store: desk.stores.stock.clone(),
        log: desk.log(),
        inbox: desk.inbox(),
        rooms: Rooms::new(room.clone()),
        clock: desk.time(),
        ids: Arc::new(IdSource::seeded(9)),
    }
}

/// A show with two seats in A and one in B.
async fn show_of_three(desk: &Desk) {
    desk.run(
        "insert into sections values ('stadium-show', 'A', 0, true, 100, 'BRL'),
                                     ('stadium-show', 'B', 1, true, 100, 'BRL');
         insert into seats values ('stadium-show', 'A', 1, 'A-1', 'free', null),
                                  ('stadium-show', 'A', 2, 'A-2', 'free', null),
                                  ('stadium-show', 'B', 1, 'B-1', 'free', null);",
    )
    .await;
}

/// The event of a hold, into the log.
async fn hold(desk: &Desk) {
    let order = facts(desk.order());
    let event = Event::HoldPlaced(HoldPlaced {
        hold_id: desk.ids.hold(desk.clock.now()),
        show_id: order.event.id,
        seats: order.seats,
        total: order.total,
        expires_at: desk.clock.now(),
        fan_id: Some(FanId([7; 16])),
    });
    desk.write(event, 1).await;
    desk.relay_all().await;
}

/// Type and version of everything the show has said, in order.
async fn said(desk: &Desk) -> Vec<(String, i64)> {
    let sql =
        "select type, aggregate_version from outbox where aggregatetype = 'show' order by seq";
    database::all(&desk.db, sql).await
}

async fn the_last_seat_is_said_once_and_versions_are_contiguous(desk: Desk) {
    show_of_three(&desk).await;
    let room = Arc::new(Listening::default());
    let mut counter = Counter::new(parts(&desk, &room));
    assert_eq!(
        counter.step().await.unwrap().changed,
        1,
        "a new show is counted"
    );
    assert_eq!(room.last(), (1, 3, 0, 0));
    for (seats, expected) in [
        (
            "update seats set state = 'held', hold_id = 'h' where section = 'A'",
            (2, 1, 2, 0),
        ),
        (
            "update seats set state = 'sold' where section = 'A'",
            (3, 1, 0, 2),
        ),
        (
            "update seats set state = 'sold', hold_id = 'i' where section = 'B'",
            (4, 0, 0, 3),
        ),
    ] {
        desk.run(seats).await;
        assert_eq!(
            counter.step().await.unwrap().counted,
            0,
            "nobody has said so"
        );
        hold(&desk).await;
        assert_eq!(counter.step().await.unwrap().changed, 1);
        assert_eq!(room.last(), expected);
    }
    hold(&desk).await;
    assert_eq!(counter.step().await.unwrap().changed, 0);
    let mut versions = BTreeMap::new();
    for (i, (kind, version)) in (1..).zip(said(&desk).await) {
        assert_eq!(version, i);
        *versions.entry(kind).or_insert(0) += 1;
    }
    let expected = [
        ("ShowSoldOut".to_owned(), 1),
        ("StockChanged".to_owned(), 4),
    ];
    assert_eq!(versions, BTreeMap::from(expected));
    desk.relay_all().await;
    assert_eq!(
        counter.step().await.unwrap().counted,
        0,
        "its own events are no news"
    );
}

async fn a_statement_has_the_sections_in_order(desk: Desk) {
    show_of_three(&desk).await;
    let room = Arc::new(Listening::default());
    Counter::new(parts(&desk, &room)).step().await.unwrap();
    let (payload,): (String,) = database::all(&desk.db, "select payload from outbox")
        .await
        .remove(0);
    let Event::StockChanged(stock) = codec::from_json(&payload, 1, None).unwrap().event else {
        panic!("{payload}");
    };
    let sections: Vec<_> = stock
        .sections
        .iter()
        .map(|s| (s.name.as_str(), s.free))
        .collect();
    assert_eq!(sections, [("A", 2), ("B", 1)]);
}

async fn the_room_hears_again_before_it_looks_stale_and_after_a_restart(desk: Desk) {
    show_of_three(&desk).await;
    let room = Arc::new(Listening::default());
    let mut counter = Counter::new(parts(&desk, &room));
    counter.step().await.unwrap();
    desk.clock.advance_ms(STOCK_REPEAT_MS - 1);
    counter.step().await.unwrap();
    assert_eq!(room.heard.lock().unwrap().len(), 1);
    desk.clock.advance_ms(1);
    counter.step().await.unwrap();
    let mut restarted = Counter::new(parts(&desk, &room));
    desk.clock.advance_ms(1);
    restarted.step().await.unwrap();
    let heard = room.heard.lock().unwrap().clone();
    assert_eq!(heard.len(), 3);
    assert!(heard.iter().all(|stock| stock.version == 1), "{heard:?}");
    assert!(heard.is_sorted_by(|a, b| a.as_of < b.as_of), "{heard:?}");
    assert_eq!(said(&desk).await.len(), 1, "nothing changed");
    let as_of = desk.count("select as_of_ms from show_stock").await;
    assert_eq!(as_of, desk.clock.now().as_millis());
}

async fn a_room_that_could_not_be_told_is_told_with_the_next_step(desk: Desk) {
    show_of_three(&desk).await;
    let room = Arc::new(Listening::default());
    *room.deaf.lock().unwrap() = true;
    let mut counter = Counter::new(parts(&desk, &room));
    assert_eq!(counter.step().await.unwrap().untold, 1);
    *room.deaf.lock().unwrap() = false;
    assert_eq!(counter.step().await.unwrap().untold, 0);
    assert_eq!(room.last(), (1, 3, 0, 0));
}

async fn an_older_count_never_takes_the_place_of_a_newer_one(desk: Desk) {
    show_of_three(&desk).await;
    let store = desk.stores.stock.clone();
    let show = store.shows().await.unwrap().remove(0);
    let statement = |against: u64, version: u64| Statement {
        sale: Sale::On,
        show: show.clone(),
        against,
        stock: catraca::stock::count::Stock {
            version,
            ..Default::default()
        },
        as_of: desk.clock.now(),
        events: Vec::new(),
    };
    for (against, version, saved) in [
        (7, 8, Saved::Overtaken),
        (0, 1, Saved::Now),
        (0, 1, Saved::Overtaken),
        (1, 2, Saved::Now),
        (1, 2, Saved::Overtaken),
    ] {
        let said = [statement(against, version)];
        assert_eq!(store.save("stock", &said, &[]).await.unwrap(), [saved]);
    }
}
