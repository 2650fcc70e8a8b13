//! The states of a room: the hours, the verbs, sold out, and every refusal by name.

use catraca::base::ids::Number;
use catraca::base::limits::LEDGER_UNCOPIED_MAX;
use catraca::room::model::command::{
    Cause, Command, Configured, Joined, Measured, Outcome, RoomState, Stock, Ticked, Why,
};
use catraca::room::model::{State, apply};

use crate::model::world::{World, at, settings, stock, tick};

#[test]
fn the_hours_open_and_close_a_show() {
    let mut settings = settings();
    settings.early_at = Some(at(20_000));
    settings.opens_at = Some(at(30_000));
    settings.closes_at = Some(at(40_000));
    let mut world = World::begin(settings, RoomState::Scheduled);
    assert_eq!(
        world.join(1),
        Joined::Scheduled {
            opens_in_ms: Some(10_000)
        }
    );
    for (now, state) in [
        (19_999, RoomState::Scheduled),
        (20_000, RoomState::Early),
        (29_999, RoomState::Early),
        (30_000, RoomState::Open),
        (40_000, RoomState::Closed),
        (99_000, RoomState::Closed),
    ] {
        world.now = at(now);
        assert_eq!(world.tick(0).state, state, "at {now}");
    }
}

#[test]
fn one_late_tick_passes_all_hours_that_have_come() {
    let mut settings = settings();
    (settings.early_at, settings.opens_at) = (Some(at(20_000)), Some(at(30_000)));
    let mut world = World::begin(settings, RoomState::Scheduled);
    world.now = at(35_000);
    assert_eq!(world.tick(0).state, RoomState::Open);
}

#[test]
fn a_schedule_without_an_early_hour_goes_straight_to_open() {
    let mut settings = settings();
    settings.opens_at = Some(at(30_000));
    let mut world = World::begin(settings, RoomState::Scheduled);
    assert_eq!(world.tick(0).state, RoomState::Scheduled);
    assert_eq!(
        world.join(1),
        Joined::Scheduled {
            opens_in_ms: Some(20_000)
        }
    );
    world.now = at(30_000);
    assert_eq!(world.tick(0).state, RoomState::Open);
}

#[test]
fn without_a_schedule_a_show_is_early_until_the_operator_opens_it() {
    let mut world = World::begin(settings(), RoomState::Scheduled);
    assert_eq!(world.tick(0).state, RoomState::Early);
    assert_eq!(world.join(1), Joined::New { number: Number(1) });
    let step = world.tick(5);
    assert_eq!((step.count, step.why), (0, Why::State));
    world.verb(RoomState::Open);
    assert_eq!(world.tick(5).count, 1);
}

#[test]
fn a_verb_overrules_the_hours_that_came_before_it() {
    let mut settings = settings();
    (settings.opens_at, settings.closes_at) = (Some(at(20_000)), Some(at(30_000)));
    let mut world = World::begin(settings, RoomState::Early);
    world.verb(RoomState::Paused);
    world.now = at(25_000);
    assert_eq!(
        world.tick(0).state,
        RoomState::Paused,
        "the opening hour does not resume"
    );
    world.now = at(31_000);
    assert_eq!(
        world.tick(0).state,
        RoomState::Closed,
        "the closing hour comes after the verb"
    );
    world.verb(RoomState::Open);
    assert_eq!(world.tick(0).state, RoomState::Open, "overtime");
}

#[test]
fn an_older_version_changes_nothing() {
    let mut world = World::open(settings());
    let mut older = settings();
    older.rate = 1;
    let configure = catraca::room::model::command::Configure {
        version: 1,
        settings: older,
        verb: None,
    };
    let outcome = world.say(&Command::Configure(configure));
    assert_eq!(outcome, Outcome::Configured(Configured::Before));
    assert_eq!(world.board().settings.rate, 10);
}

#[test]
fn each_state_takes_and_calls_whom_it_should() {
    let new = Joined::New { number: Number(2) };
    let rows = [
        (RoomState::Early, new, 0),
        (RoomState::Open, new, 2),
        (RoomState::Paused, new, 0),
        (RoomState::SoldOut, Joined::Refused(RoomState::SoldOut), 0),
        (RoomState::Closed, Joined::Refused(RoomState::Closed), 0),
        (RoomState::Off, Joined::Refused(RoomState::Off), 0),
    ];
    for (state, joined, called) in rows {
        let mut world = World::open(settings());
        world.join(1);
        world.verb(state);
        assert_eq!(world.join(2), joined, "{state:?}");
        assert_eq!(
            world.join(1),
            Joined::Kept { number: Number(1) },
            "{state:?}"
        );
        assert_eq!(world.tick(5).count, called, "{state:?}");
    }
}

#[test]
fn sold_out_is_entered_by_the_shop_and_left_by_the_operator() {
    let mut world = World::open(settings());
    world.say(&Command::Stock(stock(1, 0, 3)));
    let board = world.board();
    assert_eq!(
        (board.state, board.measured.cause),
        (RoomState::Open, Some(Cause::InCarts))
    );
    world.wait(500);
    world.say(&Command::Stock(stock(2, 0, 0)));
    let board = world.board();
    assert_eq!(
        (board.state, board.sold_out_at),
        (RoomState::SoldOut, Some(at(10_500)))
    );
    world.say(&Command::Stock(stock(3, 5, 0)));
    assert_eq!(
        world.tick(1).state,
        RoomState::SoldOut,
        "seats that came back do not reopen"
    );
    world.verb(RoomState::Open);
    assert_eq!(world.tick(1).state, RoomState::Open);
    assert_eq!(world.board().sold_out_at, None);
}

#[test]
fn an_operator_may_open_a_sold_out_room_until_the_shop_says_it_again() {
    let mut world = World::open(settings());
    world.say(&Command::Stock(stock(1, 0, 0)));
    world.verb(RoomState::Open);
    world.join(1);
    let step = world.tick(1);
    assert_eq!(
        (step.state, step.count, step.why),
        (RoomState::Open, 0, Why::Stock)
    );
    world.say(&Command::Stock(stock(1, 0, 0)));
    assert_eq!(world.tick(1).state, RoomState::Open, "the same statement");
    world.say(&Command::Stock(stock(2, 0, 0)));
    assert_eq!(world.tick(1).state, RoomState::SoldOut);
}

#[test]
fn the_same_statement_later_is_fresher_and_overrules_nobody() {
    let mut world = World::open(settings());
    world.say(&Command::Stock(stock(3, 0, 0)));
    world.verb(RoomState::Open);
    let again = Stock {
        as_of: at(9),
        ..stock(3, 0, 0)
    };
    world.say(&Command::Stock(again));
    world.say(&Command::Stock(stock(2, 5, 0)));
    assert_eq!(world.board().stock, Some(again));
    assert_eq!(world.tick(1).state, RoomState::Open);
}

#[test]
fn a_paused_room_that_sells_out_says_so_when_it_resumes() {
    let mut world = World::open(settings());
    world.verb(RoomState::Paused);
    world.say(&Command::Stock(stock(1, 0, 0)));
    assert_eq!(world.board().state, RoomState::Paused);
    world.verb(RoomState::Open);
    assert_eq!(world.tick(1).state, RoomState::SoldOut);
}

#[test]
fn a_room_without_numbers_is_busy_and_a_full_one_is_full() {
    let mut tight = settings();
    tight.waiting_max = 2;
    let mut world = World::open(tight);
    world.join_all(&[1, 2]);
    assert_eq!(world.join(3), Joined::Full);
    assert_eq!(world.join(2), Joined::Kept { number: Number(2) });

    let mut world = World::open(settings());
    let crowd: Vec<u64> = (1..=3).collect();
    world.join_all(&crowd);
    let fence = world.board().ceiling;
    assert_eq!(fence, Number(1_000_000));
    let mut room = ceiling_of(4);
    assert_eq!(
        room.join_all(&[1, 2, 3, 4, 5])[3..],
        [Joined::New { number: Number(4) }, Joined::Busy]
    );
    room.say(&Command::RaiseCeiling { ceiling: Number(3) });
    assert_eq!(room.join(5), Joined::Busy, "a ceiling never falls");
    room.say(&Command::RaiseCeiling { ceiling: Number(5) });
    assert_eq!(room.join(5), Joined::New { number: Number(5) });
}

fn ceiling_of(ceiling: u64) -> World {
    use catraca::room::model::command::Mend;
    let mut world = World::open(settings());
    world.room = State::default();
    for mut step in crate::model::world::new_room(settings(), RoomState::Open) {
        if let Mend::Finish(finish) = &mut step {
            finish.ceiling = Number(ceiling);
        }
        world.mend(step);
    }
    world
}

#[test]
fn a_rate_of_zero_pauses_the_calls() {
    let mut world = World::open(settings());
    world.join(1);
    world.set(|settings| settings.rate = 0);
    let step = world.tick(5);
    assert_eq!(
        (step.count, step.why, step.free_in_ms),
        (0, Why::Rate, None)
    );
    world.set(|settings| settings.rate = 1);
    assert_eq!(world.tick(5).count, 1);
}

#[test]
fn a_tick_says_what_kept_it_from_more() {
    // rate, capacity, free seats, fans, want; called, why
    let rows = [
        (10, 100, None, 9, 5, 5, Why::Enough),
        (10, 100, None, 3, 5, 3, Why::Empty),
        (4, 100, None, 9, 5, 4, Why::Rate),
        (10, 2, None, 9, 5, 2, Why::Capacity),
        (10, 100, Some(5), 9, 5, 3, Why::Stock),
        (10, 100, Some(1), 9, 5, 1, Why::Stock),
    ];
    for (rate, capacity, free, fans, want, called, why) in rows {
        let mut settings = settings();
        (settings.rate, settings.capacity) = (rate, capacity);
        let mut world = World::open(settings);
        if let Some(free) = free {
            world.say(&Command::Stock(stock(1, free, 0)));
        }
        world.join_all(&(0..fans).collect::<Vec<_>>());
        let step = world.tick(want);
        assert_eq!((step.count, step.why), (called, why));
        assert_eq!(step.free_in_ms.is_some(), why == Why::Rate);
    }
}

#[test]
fn the_guard_counts_on_what_fans_take() {
    // seats per fan in thousandths, guard, called of 40 seats
    let rows = [
        (0, true, 20),
        (1_600, true, 25),
        (100, true, 80),
        (4_000, true, 10),
        (0, false, 99),
    ];
    for (seats_per_fan_milli, stock_guard, called) in rows {
        let mut settings = settings();
        (settings.rate, settings.stock_guard) = (99, stock_guard);
        let mut world = World::open(settings);
        world.say(&Command::Stock(stock(1, 30, 10)));
        world.join_all(&(0..99).collect::<Vec<_>>());
        let measured = Measured {
            seats_per_fan_milli,
            ..Measured::default()
        };
        let asked = catraca::room::model::command::Tick {
            measured,
            ..tick(99)
        };
        let outcome = world.say(&Command::Tick(asked));
        let Outcome::Ticked(Ticked::Leader(step)) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(step.count, called, "{seats_per_fan_milli}");
    }
}

#[test]
fn a_ledger_that_nobody_copies_stops_the_calls_and_not_the_joins() {
    let mut settings = settings();
    settings.claim_ms = 1;
    let mut world = World::open(settings);
    world.join(1);
    for _ in 0..LEDGER_UNCOPIED_MAX.div_ceil(2) {
        // Called, too late, back in line: two entries a turn.
        world.wait(1_001);
        assert_eq!(world.tick(1).count, 1);
        world.wait(2);
        world.claim(1);
    }
    world.wait(1_001);
    assert_eq!(world.tick(1).count, 1);
    world.wait(1_001);
    world.claim(1);
    let step = world.tick(1);
    assert_eq!((step.count, step.why), (0, Why::Unarchived));
    assert!(matches!(world.join(2), Joined::New { .. }));
    world.copy_ledger();
    assert_eq!(world.tick(1).count, 1);
}

#[test]
fn a_missing_room_answers_nothing() {
    let mut room = State::default();
    for command in [
        Command::Board,
        Command::Join {
            joining: Vec::new(),
        },
        Command::Tick(tick(1)),
        Command::Ledger { max: 1 },
        Command::RaiseCeiling { ceiling: Number(5) },
        Command::Stock(stock(1, 1, 1)),
    ] {
        assert_eq!(apply(&mut room, at(0), &command), Outcome::Unfenced);
    }
    assert_eq!(room, State::default());
}
