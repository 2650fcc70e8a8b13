//! Promise 3: what a loss takes, ledger and passes bring back.

use catraca::base::ids::{Edition, Generation, Number, Place};
use catraca::room::model::command::{
    AfterRevoke, Claimed, Command, Configure, Ended, Folded, Gap, Gone, Joined, Mend, Mended,
    Outcome, Restored, Restoring, RoomState, Why,
};
use catraca::room::model::{Standing, State};
use catraca::room::position::position;

use crate::model::world::{Sql, World, at, fan, settings};

/// Ten fans in line, what SQL has copied of them, and all data gone.
pub(crate) fn lost(before: impl FnOnce(&mut World)) -> (World, Sql) {
    let mut world = World::open(settings());
    let mut sql = Sql::of(&mut world);
    world.join_all(&(1..=10).collect::<Vec<_>>());
    before(&mut world);
    sql.copy(&mut world);
    world.room = State::default();
    (world, sql)
}

/// Lets a mender do all its steps.
pub(crate) fn mend(world: &mut World, sql: &mut Sql, restoring_ms: u64) {
    let begin = sql.begin();
    assert_eq!(world.mend(begin), Mended::Done);
    copy_what_is_left(world, sql);
    for step in sql.rest(restoring_ms) {
        assert_eq!(world.mend(step), Mended::Done);
    }
    sql.mended = sql.generation;
}

/// Copies what a room that is being mended still holds of its ledger; the last number it had issued.
pub(crate) fn copy_what_is_left(world: &mut World, sql: &mut Sql) -> Number {
    let mut through = 0;
    loop {
        let Mended::Found {
            issued, entries, ..
        } = world.mend(sql.left_after(through))
        else {
            panic!("the mend was overtaken");
        };
        let Some(last) = entries.last() else {
            return issued;
        };
        through = last.seq;
        sql.keep(entries);
    }
}

#[test]
fn every_kind_of_fan_comes_back_to_where_they_stood() {
    let (mut world, mut sql) = lost(|world| {
        world.tick(6);
        for n in [1, 2, 3, 4] {
            world.claim(n);
        }
        world.say(&Command::Consume { fan: fan(2) });
        world.say(&Command::Leave { fan: fan(3) });
        world.say(&Command::Revoke {
            fans: vec![fan(4)],
            then: AfterRevoke::Out,
        });
    });
    mend(&mut world, &mut sql, 0);
    let until = at(10_000 + 300_000);
    let known = |claimed| Restored::Known(claimed);
    let rows = [
        (
            "admitted",
            1,
            known(Claimed::Admitted {
                until,
                first: false,
            }),
        ),
        ("bought", 2, known(Claimed::Gone(Gone::Used))),
        ("left", 3, known(Claimed::Gone(Gone::Left))),
        ("revoked", 4, known(Claimed::Gone(Gone::Revoked))),
        (
            "called and unclaimed",
            5,
            known(Claimed::Admitted { until, first: true }),
        ),
        ("waiting", 7, Restored::Waiting),
    ];
    for (name, n, expected) in rows {
        assert_eq!(world.restore(n, n), expected, "{name}");
    }
    assert_eq!(
        world.room.standing(fan(7)),
        Some(Standing::Waiting { number: Number(7) })
    );
    assert_eq!(
        world.restore(7, 7),
        known(Claimed::Waiting { number: Number(7) })
    );
}

#[test]
fn expired_returned_and_late_fans_come_back_too() {
    let (mut world, mut sql) = lost(|world| {
        world.tick(3);
        world.claim(1);
        world.wait(60_000);
        world.claim(2);
    });
    mend(&mut world, &mut sql, 0);
    world.wait(240_000);
    let known = |claimed| Restored::Known(claimed);
    assert_eq!(world.restore(1, 1), known(Claimed::Gone(Gone::Expired)));
    assert_eq!(
        world.restore(2, 2),
        known(Claimed::Returned { place: Place(2) })
    );
    assert_eq!(
        world.restore(3, 3),
        known(Claimed::Returned { place: Place(3) })
    );
    assert_eq!(world.tick(2).count, 2);
    let called = Standing::Called {
        until: world.now.plus_ms(60_000),
        place: Place(2),
    };
    assert_eq!(world.room.standing(fan(2)), Some(called));
}

#[test]
fn a_revoked_fan_who_was_sent_back_is_still_in_line() {
    let (mut world, mut sql) = lost(|world| {
        world.tick(2);
        world.claim(2);
        world.say(&Command::Revoke {
            fans: vec![fan(2)],
            then: AfterRevoke::Returned,
        });
    });
    mend(&mut world, &mut sql, 0);
    assert_eq!(world.claim(2), Claimed::Returned { place: Place(2) });
    // And an admission that was only folded can be revoked with its place.
    let (mut world, mut sql) = lost(|world| {
        world.tick(2);
        world.claim(2);
    });
    mend(&mut world, &mut sql, 0);
    world.say(&Command::Revoke {
        fans: vec![fan(2)],
        then: AfterRevoke::Returned,
    });
    assert_eq!(world.claim(2), Claimed::Returned { place: Place(2) });
}

#[test]
fn a_pass_is_good_for_its_edition_and_for_what_the_room_can_know() {
    let (mut world, mut sql) = lost(|_| {});
    mend(&mut world, &mut sql, 0);
    let pass = Restoring {
        fan: fan(7),
        number: Number(7),
        edition: Edition(1),
        generation: Generation(1),
        place: None,
    };
    let rows = [
        (
            Restoring {
                edition: Edition(0),
                ..pass
            },
            Restored::Void,
        ),
        (
            Restoring {
                edition: Edition(2),
                ..pass
            },
            Restored::Void,
        ),
        (
            Restoring {
                number: Number(0),
                ..pass
            },
            Restored::Void,
        ),
        (
            Restoring {
                generation: Generation(3),
                ..pass
            },
            Restored::Ahead,
        ),
        (
            Restoring {
                number: Number(1_000_001),
                ..pass
            },
            Restored::Ahead,
        ),
        (
            Restoring {
                generation: Generation(2),
                ..pass
            },
            Restored::Waiting,
        ),
    ];
    for (pass, expected) in rows {
        assert_eq!(world.show(pass), expected, "{pass:?}");
    }
}

#[test]
fn the_same_fan_twice_in_a_batch_gets_one_place() {
    let (mut world, mut sql) = lost(|_| {});
    mend(&mut world, &mut sql, 0);
    let (edition, generation) = (Edition(1), Generation(1));
    let pass = Restoring {
        fan: fan(7),
        number: Number(7),
        edition,
        generation,
        place: None,
    };
    let outcome = world.say(&Command::Restore {
        restoring: vec![pass, pass],
    });
    let again = Restored::Known(Claimed::Waiting { number: Number(7) });
    assert_eq!(outcome, Outcome::Restored(vec![Restored::Waiting, again]));
    let board = world.board();
    assert_eq!((board.waiting, board.gaps[0].restored), (1, 0));
}

/// A fan asked again for a number, without the pass of the first, after the room had lost them.
#[test]
fn of_two_numbers_the_first_counts() {
    let (mut world, mut sql) = lost(|_| {});
    mend(&mut world, &mut sql, 5_000);
    let Joined::New { number: second } = world.join(2) else {
        panic!("the room knows nobody");
    };
    assert!(Number(7) < second);
    assert_eq!(world.restore(2, 2), Restored::Waiting);
    let first = Claimed::Waiting { number: Number(2) };
    assert_eq!(world.claim(2), first);
    // Whichever is shown from now on, there is one place, and it is the first.
    assert_eq!(world.restore(2, second.0), Restored::Known(first));
    assert_eq!(world.restore(2, 2), Restored::Known(first));
    assert_eq!(world.board().waiting, 1);

    // Serving has passed the first: they are next.
    let Joined::New { number: second } = world.join(3) else {
        panic!("the room knows nobody");
    };
    world.wait(5_000);
    assert_eq!(world.tick(1).count, 1);
    let serving = world.board().serving;
    assert!(
        Place(3) <= serving && serving < Place(second.0),
        "{serving}"
    );
    assert_eq!(world.restore(3, 3), Restored::Returned);
    let next = Claimed::Returned { place: Place(3) };
    assert_eq!(world.claim(3), next);
}

#[test]
fn nobody_is_called_until_they_had_time_to_come_back() {
    let (mut world, mut sql) = lost(|_| {});
    mend(&mut world, &mut sql, 5_000);
    assert_eq!(world.board().state, RoomState::Restoring);
    assert_eq!(world.restore(2, 2), Restored::Waiting);
    world.wait(4_999);
    assert_eq!(world.tick(9).why, Why::State);
    assert_eq!(
        world.board().serving,
        Place(0),
        "an empty place is not a passed one"
    );
    assert_eq!(world.restore(1, 1), Restored::Waiting);
    world.wait(1);
    assert_eq!(world.tick(1).state, RoomState::Open);
    assert!(
        matches!(world.claim(1), Claimed::Admitted { .. }),
        "1 was called first"
    );
}

#[test]
fn the_operator_may_end_the_wait() {
    let (mut world, mut sql) = lost(|_| {});
    sql.settings.rate = 3;
    mend(&mut world, &mut sql, 60_000);
    world.restore(1, 1);
    let (version, settings) = (5_000, sql.settings.clone());
    let verb = Some((version, RoomState::Open));
    let configure = Configure {
        version,
        settings,
        verb,
    };
    world.say(&Command::Configure(configure));
    let step = world.tick(1);
    assert_eq!(
        (step.state, step.why),
        (RoomState::Open, Why::Rate),
        "the first window is burned"
    );
    world.wait(1_001);
    assert_eq!(world.tick(1).count, 1);
}

#[test]
fn numbers_that_nobody_holds_are_a_gap() {
    let (mut world, mut sql) = lost(|_| {});
    mend(&mut world, &mut sql, 0);
    let gap = Gap {
        first: Number(11),
        last: Number(1_000_000),
        restored: 0,
    };
    assert_eq!(world.board().gaps, [gap]);
    // Number 12 was issued after the last checkpoint.
    assert_eq!(world.restore(12, 12), Restored::Waiting);
    assert_eq!(
        world.join(50),
        Joined::New {
            number: Number(1_000_001)
        }
    );
    let board = world.board();
    assert_eq!(board.gaps, [Gap { restored: 1, ..gap }]);
    assert_eq!(
        position(&board, Place(1_000_001)),
        12,
        "ten who may come back, and one"
    );
    assert_eq!(position(&board, Place(12)), 11);
    world.tick(1);
    let board = world.board();
    assert_eq!(board.serving, Place(1_000_000));
    assert!(board.gaps.is_empty(), "passed");
    assert_eq!(position(&board, Place(1_000_001)), 1);
}

#[test]
fn a_found_queue_counts_if_it_is_of_the_last_mended_generation() {
    for (mended, kept) in [(1, 10), (0, 0), (2, 0)] {
        let mut world = World::open(settings());
        let mut sql = Sql::of(&mut world);
        world.join_all(&(1..=10).collect::<Vec<_>>());
        sql.mended = mended;
        world.room.lose();
        assert_eq!(world.say(&Command::Board), Outcome::Unfenced);
        for step in sql.mend(0) {
            world.mend(step);
        }
        assert_eq!(world.board().waiting, kept, "mended {mended}");
    }
}

#[test]
fn a_mender_that_slept_is_overtaken() {
    let (mut world, mut sql) = lost(|_| {});
    let slept = sql.mend(0);
    let second = sql.mend(0);
    assert_eq!(world.mend(slept[0].clone()), Mended::Done);
    assert_eq!(world.mend(second[0].clone()), Mended::Done);
    for step in &slept {
        assert_eq!(world.mend(step.clone()), Mended::Stale);
    }
    assert_eq!(world.say(&Command::Board), Outcome::Unfenced);
    for step in second.iter().chain(second.last()) {
        assert_eq!(
            world.mend(step.clone()),
            Mended::Done,
            "the last may be asked again"
        );
    }
    let whole = world.clone();
    for step in &slept {
        assert_eq!(world.mend(step.clone()), Mended::Stale);
    }
    assert_eq!(world.room, whole.room);
    world.room.lose();
    let late = Mend::Fold {
        generation: Generation(3),
        folded: vec![(fan(1), Folded::Ended(Ended::Used))],
    };
    assert_eq!(world.mend(late), Mended::Stale, "a second loss");
}
