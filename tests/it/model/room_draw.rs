//! The draw: who takes part, who is next, and what a loss may take of it.

use std::collections::BTreeSet;

use catraca::base::ids::{FanId, Number, Place};
use catraca::room::model::Standing;
use catraca::room::model::command::{
    Change, Claimed, Command, Draw, DrawOpened, Drawn, Frozen, Joined, Mended, Outcome, Restored,
    RoomState, Tick, Ticked, Why,
};
use catraca::room::position::{places_to_name, position};

use crate::model::world::{Sql, World, announced, fan, seed_of, settings, tick};

/// An early room whose draw is to come, with so many fans.
fn early(fans: u64) -> World {
    let mut settings = settings();
    settings.draw = Some(announced());
    (settings.rate, settings.capacity) = (500, 1_000_000);
    let mut world = World::begin(settings, RoomState::Early);
    world.join_all(&(1..=fans).collect::<Vec<_>>());
    world
}

/// The same, and its draw is open.
fn drawn(fans: u64) -> World {
    let mut world = early(fans);
    world.verb(RoomState::Open);
    assert_eq!(world.freeze(), Frozen::At { size: fans });
    assert_eq!(world.open_draw(), DrawOpened::Now);
    world
}

/// The fans that the ledger says were called, with their places, in order.
fn called(world: &mut World) -> Vec<(FanId, Place)> {
    let entries = world.copy_ledger().into_iter();
    let fans = entries.flat_map(|entry| match entry.change {
        Change::Called(called) => called.fans,
        _ => Vec::new(),
    });
    fans.collect()
}

fn place_of(world: &World, n: u64) -> Place {
    world.table.as_ref().unwrap().place(Number(n))
}

#[test]
fn opening_waits_for_the_draw() {
    let mut world = early(9);
    assert_eq!(world.freeze(), Frozen::NotDue);
    assert_eq!(world.tick(5).why, Why::State);
    world.verb(RoomState::Open);
    let step = world.tick(5);
    assert_eq!(
        (step.state, step.opening, step.draw),
        (RoomState::Early, true, None)
    );
    assert_eq!(world.freeze(), Frozen::At { size: 9 });
    // Who comes now is late; asking again changes nothing.
    assert_eq!(world.join(10), Joined::New { number: Number(10) });
    assert_eq!(world.freeze(), Frozen::At { size: 9 });
    assert_eq!(
        world.board().draw,
        Some(Draw {
            size: 9,
            seed: None
        })
    );
    assert_eq!(world.tick(5).count, 0);

    assert_eq!(world.open_draw(), DrawOpened::Now);
    assert_eq!(world.open_draw(), DrawOpened::Before);
    let step = world.tick_drawn(3, 9);
    assert_eq!(
        (step.state, step.opening, step.count),
        (RoomState::Open, false, 3)
    );
}

#[test]
fn the_operator_may_think_better_of_it() {
    let mut world = early(9);
    world.verb(RoomState::Open);
    world.freeze();
    world.verb(RoomState::Paused);
    assert_eq!(world.open_draw(), DrawOpened::Now);
    assert_eq!(world.tick_drawn(3, 9).state, RoomState::Paused);
    world.verb(RoomState::Open);
    assert_eq!(world.tick_drawn(3, 9).count, 3);
}

#[test]
fn the_hour_opens_the_draw_too() {
    let mut world = early(3);
    let opens_at = world.now.plus_ms(5_000);
    world.set(|settings| settings.opens_at = Some(opens_at));
    assert!(!world.tick(1).opening);
    world.wait(5_000);
    assert!(world.tick(1).opening);
}

#[test]
fn exactly_the_next_places_are_called_and_the_late_behind_them() {
    let mut world = drawn(30);
    world.join_all(&[31, 32]);
    for n in [4, 9, 30] {
        world.say(&Command::Leave { fan: fan(n) });
    }
    world.wait(1_000);
    let mut expected: Vec<(Place, u64)> = (1..=32)
        .filter(|n| ![4, 9, 30].contains(n))
        .map(|n| (place_of(&world, n), n))
        .collect();
    expected.sort();
    while 0 < world.tick_drawn(4, 7).count {}
    let expected: Vec<(FanId, Place)> = expected
        .into_iter()
        .map(|(place, n)| (fan(n), place))
        .collect();
    assert_eq!(called(&mut world), expected);
    assert_eq!(world.board().serving, Place(32));
}

#[test]
fn a_tick_that_goes_by_something_else_calls_nobody() {
    let mut world = drawn(9);
    world.tick_drawn(2, 2);
    let good = world.next_places(9).unwrap();
    let rows = [
        Drawn {
            serving: Place(1),
            ..good.clone()
        },
        Drawn {
            seed: seed_of(8),
            ..good.clone()
        },
    ];
    for drawn in rows {
        let told = world.say(&Command::Tick(Tick {
            drawn: Some(drawn),
            ..tick(3)
        }));
        let Outcome::Ticked(Ticked::Leader(step)) = told else {
            panic!("{told:?}");
        };
        assert_eq!(
            (step.why, step.count, step.serving),
            (Why::Moved, 0, Place(2))
        );
    }
    // Who knows no draw calls those who came back, and learns of it.
    let step = world.tick(3);
    assert_eq!((step.why, step.count), (Why::Looked, 0));
    assert_eq!(step.draw.and_then(|draw| draw.seed), Some(good.seed));
}

#[test]
fn who_is_called_keeps_the_place_and_joins_by_it() {
    let mut world = drawn(9);
    world.tick_drawn(1, 1);
    let first = world.table.as_ref().unwrap().number(Place(1)).0;
    assert_eq!(world.join(first), Joined::Drawn { place: Place(1) });
    world.wait(60_000);
    assert_eq!(world.claim(first), Claimed::Returned { place: Place(1) });
    assert_eq!(world.join(first), Joined::Drawn { place: Place(1) });
    world.tick(1);
    let recalled = called(&mut world);
    assert_eq!(recalled, [(fan(first), Place(1)), (fan(first), Place(1))]);
}

/// Half or nine tenths leave after the opening; the rate holds to the last of those who stayed, and
/// nobody's position rises.
#[test]
fn leavers_do_not_slow_the_calling() {
    for leavers_of_ten in [5, 9] {
        let mut world = drawn(20_000);
        for n in (1..=20_000).filter(|n| n % 10 < leavers_of_ten) {
            world.say(&Command::Leave { fan: fan(n) });
        }
        let stayed: BTreeSet<FanId> = (1..=20_000)
            .filter(|n| leavers_of_ten <= n % 10)
            .map(fan)
            .collect();
        let mut seen = BTreeSet::new();
        let watched: Vec<u64> = (1..=20_000).filter(|n| n % 100 == 99).collect();
        let mut told: Vec<u64> = vec![u64::MAX; watched.len()];
        while seen.len() < stayed.len() {
            let board = world.board();
            for (n, before) in watched.iter().zip(&mut told) {
                let now = position(&board, place_of(&world, *n));
                assert!(now <= *before, "fan {n} rose from {before} to {now}");
                *before = now;
            }
            let mut in_second = 0;
            for _ in 0..10 {
                world.wait(101);
                let named = places_to_name(&board, 55);
                in_second += world.tick_drawn(55, named).count;
            }
            let now_called = called(&mut world);
            seen.extend(now_called.iter().map(|(fan, _)| *fan));
            let rest = stayed.len() - seen.len();
            assert!(
                475 <= in_second || rest == 0,
                "{in_second} calls, {rest} to come"
            );
        }
        assert_eq!(seen, stayed);
    }
}

/// The same where fans come late, miss their call and come back, and all data is lost in between: some
/// show their passes at once, and a tenth only when serving has passed them.
#[test]
fn neither_do_the_late_the_lost_and_those_who_miss_their_call() {
    for leavers_of_ten in [5, 9] {
        let mut world = drawn(10_000);
        world.set(|settings| settings.claim_ms = 2_000);
        let mut sql = Sql::of(&mut world);
        sql.draw = world.room.facts().draw;
        let late: Vec<u64> = (10_001..=10_300).collect();
        world.join_all(&late);
        for n in (1..=10_000).filter(|n| n % 10 < leavers_of_ten) {
            world.say(&Command::Leave { fan: fan(n) });
        }
        let mut seen = BTreeSet::new();
        seen.extend(a_second_of_calls(&mut world, &mut sql));
        sql.mended = 0; // nothing that is found counts
        world.room.lose();
        for step in sql.mend(1_001) {
            assert_eq!(world.mend(step), Mended::Done);
        }
        let stayed = (1..=10_300).filter(|n| leavers_of_ten <= n % 10 || 10_000 < *n);
        let stayed: Vec<u64> = stayed.filter(|n| !seen.contains(&fan(*n))).collect();
        let (mut out, back): (Vec<u64>, Vec<u64>) = stayed.iter().partition(|n| *n / 10 % 10 == 3);
        for n in back {
            assert_eq!(world.restore(n, n), Restored::Waiting);
        }
        world.wait(1_001);
        // Whoever was called before the loss has missed the call, and is next.
        for fan in seen.clone() {
            let claim = Command::Claim { fans: vec![fan] };
            world.wait(1);
            world.say(&claim);
        }
        world.wait(2_000);
        while world.board().waiting + out.len() as u64 > 0 {
            let waiting = world.board().waiting;
            let calls = a_second_of_calls(&mut world, &mut sql);
            assert!(
                475.min(waiting) <= calls.len() as u64,
                "{} calls, {waiting} wait",
                calls.len()
            );
            seen.extend(calls);
            let serving = world.board().serving;
            let is_passed = |n: &mut u64| place_of(&world, *n) <= serving;
            for n in out.extract_if(.., is_passed).collect::<Vec<_>>() {
                assert_eq!(world.restore(n, n), Restored::Returned);
            }
        }
        assert!(stayed.iter().all(|n| seen.contains(&fan(*n))));
    }
}

/// Ten ticks, and all that they called.
fn a_second_of_calls(world: &mut World, sql: &mut Sql) -> Vec<FanId> {
    for _ in 0..10 {
        world.wait(101);
        let named = places_to_name(&world.board(), 55);
        world.tick_drawn(55, named);
    }
    let entries = world.copy_ledger();
    sql.keep(entries.clone());
    sql.known = world.board().issued.0;
    let fans = entries.into_iter().flat_map(|entry| match entry.change {
        Change::Called(called) => called.fans,
        _ => Vec::new(),
    });
    fans.map(|(fan, _)| fan).collect()
}

#[test]
fn the_opening_survives_a_loss_between_any_two_steps() {
    for lost_after in 0..5 {
        let mut world = early(20);
        let mut sql = Sql::of(&mut world);
        (sql.known, sql.mended) = (20, 0); // nothing that is found counts
        world.verb(RoomState::Open);
        sql.verb = Some((2, RoomState::Open));
        let lose = |world: &mut World, sql: &mut Sql, step: u64| {
            if step == lost_after {
                world.room.lose();
                for step in sql.mend(0) {
                    assert_eq!(world.mend(step), Mended::Done);
                }
                let numbers: Vec<Restored> = (1..=20).map(|n| world.restore(n, n)).collect();
                assert!(
                    numbers.iter().all(|told| *told == Restored::Waiting),
                    "{numbers:?}"
                );
            }
        };
        lose(&mut world, &mut sql, 0);
        assert!(world.tick(5).opening, "lost after {lost_after}");
        assert!(matches!(world.freeze(), Frozen::At { .. }));
        // Lost before SQL knows who takes part: frozen again.
        lose(&mut world, &mut sql, 1);
        let Frozen::At { size } = world.freeze() else {
            panic!("not due")
        };
        assert!(20 <= size);
        sql.draw = Some(Draw { size, seed: None });
        lose(&mut world, &mut sql, 2);
        assert_eq!(world.freeze(), Frozen::At { size });
        sql.draw = Some(Draw {
            size,
            seed: Some(seed_of(size)),
        });
        world.table = None;
        if lost_after == 3 {
            world.open_draw();
            lose(&mut world, &mut sql, 3);
            assert_eq!(world.open_draw(), DrawOpened::Before);
        } else {
            assert_eq!(world.open_draw(), DrawOpened::Now);
        }
        lose(&mut world, &mut sql, 4);
        world.wait(2_000);
        while world.tick_drawn(5, 2_000).serving < Place(size) {
            world.wait(100);
        }
        let places: Vec<Place> = called(&mut world)
            .into_iter()
            .map(|(_, place)| place)
            .collect();
        assert_eq!(places.len(), 20, "lost after {lost_after}");
        assert!(places.is_sorted());
    }
}

#[test]
fn a_pass_comes_back_with_its_place() {
    let mut world = drawn(20);
    let mut sql = Sql::of(&mut world);
    sql.draw = world.room.facts().draw;
    world.tick_drawn(8, 8);
    sql.copy(&mut world);
    sql.mended = 0; // nothing that is found counts
    world.room.lose();
    for step in sql.mend(0) {
        world.mend(step);
    }
    for n in 1..=20 {
        let place = place_of(&world, n);
        let told = world.restore(n, n);
        if place <= Place(8) {
            // The ledger knows them: called, and the slot still kept.
            assert!(
                matches!(told, Restored::Known(Claimed::Admitted { .. })),
                "{told:?}"
            );
        } else {
            assert_eq!(told, Restored::Waiting);
        }
    }
    let table = world.table.take();
    assert_eq!(world.restore(99, 5), Restored::Placeless);
    world.table = table;
    world.wait(2_000);
    world.tick_drawn(1, 1);
    let (_, place) = called(&mut world)[0];
    assert_eq!(place, Place(9));
    assert!(matches!(
        world
            .room
            .standing(fan(world.table.as_ref().unwrap().number(Place(9)).0)),
        Some(Standing::Called { .. })
    ));
}
