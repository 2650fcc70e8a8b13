//! What becomes of a fan after the call: claim, check, extend, consume, leave, revoke.

use catraca::base::ids::Place;
use catraca::room::model::command::{
    AfterRevoke, Checked, Claimed, Command, Consumed, Extended, Gone, Joined, Left, Outcome,
    Revoked, RoomState,
};

use crate::model::world::{World, at, fan, settings};

/// Ways to stand in a room, each for the fan of its name.
const WAITING: u64 = 8;
const CALLED: u64 = 1;
const LAPSED: u64 = 2;
const RETURNED: u64 = 3;
const ADMITTED: u64 = 4;
const EXPIRED: u64 = 5;
const USED: u64 = 6;
const LEFT: u64 = 7;
const UNKNOWN: u64 = 99;

/// A room in which somebody stands in each of these ways.
fn everybody() -> World {
    let mut settings = settings();
    settings.ticket_ttl_ms = 30_000;
    let mut world = World::open(settings);
    world.join_all(&[LAPSED, RETURNED, EXPIRED, USED, LEFT]);
    world.tick(5);
    for n in [EXPIRED, USED, LEFT] {
        world.claim(n);
    }
    world.say(&Command::Consume { fan: fan(USED) });
    world.say(&Command::Leave { fan: fan(LEFT) });
    world.wait(60_000);
    world.join_all(&[CALLED, ADMITTED]);
    world.tick(2);
    world.claim(ADMITTED);
    world.claim(RETURNED);
    world.join(WAITING);
    world
}

fn checked(world: &mut World, n: u64) -> Checked {
    match world.say(&Command::Check { fans: vec![fan(n)] }) {
        Outcome::Checked(answers) => answers[0],
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_claim_says_how_the_fan_stands() {
    let until = at(10_000 + 60_000 + 30_000);
    let rows = [
        (
            WAITING,
            Claimed::Waiting {
                number: catraca::base::ids::Number(8),
            },
        ),
        (CALLED, Claimed::Admitted { until, first: true }),
        (LAPSED, Claimed::Returned { place: Place(1) }),
        (RETURNED, Claimed::Returned { place: Place(2) }),
        (
            ADMITTED,
            Claimed::Admitted {
                until,
                first: false,
            },
        ),
        (EXPIRED, Claimed::Gone(Gone::Expired)),
        (USED, Claimed::Gone(Gone::Used)),
        (LEFT, Claimed::Gone(Gone::Left)),
        (UNKNOWN, Claimed::Unknown),
    ];
    for (n, expected) in rows {
        assert_eq!(everybody().claim(n), expected, "{n}");
    }
}

#[test]
fn a_second_join_says_that_the_turn_is_over() {
    let rows = [
        (EXPIRED, Gone::Expired),
        (USED, Gone::Used),
        (LEFT, Gone::Left),
    ];
    for (n, why) in rows {
        assert_eq!(everybody().join(n), Joined::Gone(why));
    }
}

#[test]
fn only_a_claimed_and_live_admission_passes_the_gate() {
    let mut world = everybody();
    for n in [
        WAITING, CALLED, LAPSED, RETURNED, EXPIRED, USED, LEFT, UNKNOWN,
    ] {
        assert_eq!(checked(&mut world, n), Checked::NotLive, "{n}");
    }
    let until = at(100_000);
    assert_eq!(checked(&mut world, ADMITTED), Checked::Live { until });
    world.now = at(99_999);
    assert_eq!(checked(&mut world, ADMITTED), Checked::Live { until });
    world.now = until;
    assert_eq!(checked(&mut world, ADMITTED), Checked::NotLive);
}

#[test]
fn an_admission_outlives_pausing_and_closing() {
    for state in [
        RoomState::Paused,
        RoomState::SoldOut,
        RoomState::Closed,
        RoomState::Off,
    ] {
        let mut world = everybody();
        world.verb(state);
        assert!(
            matches!(checked(&mut world, ADMITTED), Checked::Live { .. }),
            "{state:?}"
        );
        assert!(
            matches!(world.claim(CALLED), Claimed::Admitted { first: true, .. }),
            "{state:?}"
        );
    }
}

#[test]
fn an_extension_is_bounded_and_never_shortens() {
    // now is 70,000, the admission runs until 100,000, a ticket at most 900,000
    let rows = [
        (150_000, 150_000),
        (80_000, 100_000),
        (i64::MAX, 970_000),
        (i64::MIN, 100_000),
    ];
    for (asked, until) in rows {
        let mut world = everybody();
        let extend = Command::Extend {
            fan: fan(ADMITTED),
            until: at(asked),
        };
        for _ in 0..2 {
            let outcome = world.say(&extend);
            assert_eq!(
                outcome,
                Outcome::Extended(Extended::Until(at(until))),
                "{asked}"
            );
        }
    }
    for n in [
        WAITING, CALLED, LAPSED, RETURNED, EXPIRED, USED, LEFT, UNKNOWN,
    ] {
        let extend = Command::Extend {
            fan: fan(n),
            until: at(500_000),
        };
        assert_eq!(
            everybody().say(&extend),
            Outcome::Extended(Extended::NotLive),
            "{n}"
        );
    }
}

#[test]
fn a_use_counts_wherever_the_fan_stands() {
    let rows = [
        (WAITING, Consumed::Now),
        (CALLED, Consumed::Now),
        (LAPSED, Consumed::Now),
        (RETURNED, Consumed::Now),
        (ADMITTED, Consumed::Now),
        (EXPIRED, Consumed::Now),
        (USED, Consumed::Before),
        (LEFT, Consumed::Before),
        (UNKNOWN, Consumed::Unknown),
    ];
    for (n, expected) in rows {
        let mut world = everybody();
        assert_eq!(
            world.say(&Command::Consume { fan: fan(n) }),
            Outcome::Consumed(expected)
        );
        if expected == Consumed::Now {
            assert_eq!(world.claim(n), Claimed::Gone(Gone::Used), "{n}");
        }
    }
}

#[test]
fn a_fan_leaves_from_anywhere() {
    let rows = [
        (WAITING, Left::Now),
        (CALLED, Left::Now),
        (LAPSED, Left::Now),
        (RETURNED, Left::Now),
        (ADMITTED, Left::Now),
        (EXPIRED, Left::Before),
        (USED, Left::Before),
        (LEFT, Left::Before),
        (UNKNOWN, Left::Unknown),
    ];
    for (n, expected) in rows {
        let mut world = everybody();
        assert_eq!(
            world.say(&Command::Leave { fan: fan(n) }),
            Outcome::Left(expected),
            "{n}"
        );
        if expected == Left::Now {
            assert_eq!(
                world.say(&Command::Leave { fan: fan(n) }),
                Outcome::Left(Left::Before)
            );
            assert_eq!(world.claim(n), Claimed::Gone(Gone::Left), "{n}");
        }
    }
}

fn revoked(world: &mut World, n: u64, then: AfterRevoke) -> Revoked {
    match world.say(&Command::Revoke {
        fans: vec![fan(n)],
        then,
    }) {
        Outcome::Revoked(answers) => answers[0],
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_revocation_into_the_line_keeps_the_place() {
    let rows = [
        (WAITING, Revoked::Before),
        (CALLED, Revoked::Now),
        (LAPSED, Revoked::Now),
        (RETURNED, Revoked::Before),
        (ADMITTED, Revoked::Now),
        (EXPIRED, Revoked::Before),
        (USED, Revoked::Before),
        (LEFT, Revoked::Before),
        (UNKNOWN, Revoked::Unknown),
    ];
    for (n, expected) in rows {
        let mut world = everybody();
        assert_eq!(
            revoked(&mut world, n, AfterRevoke::Returned),
            expected,
            "{n}"
        );
        if expected == Revoked::Now {
            assert!(matches!(world.claim(n), Claimed::Returned { .. }), "{n}");
        }
    }
    let mut world = everybody();
    revoked(&mut world, ADMITTED, AfterRevoke::Returned);
    assert_eq!(world.claim(ADMITTED), Claimed::Returned { place: Place(7) });
}

#[test]
fn a_revocation_out_ends_the_turn() {
    for n in [WAITING, CALLED, LAPSED, RETURNED, ADMITTED] {
        let mut world = everybody();
        assert_eq!(
            revoked(&mut world, n, AfterRevoke::Out),
            Revoked::Now,
            "{n}"
        );
        assert_eq!(
            revoked(&mut world, n, AfterRevoke::Out),
            Revoked::Before,
            "{n}"
        );
        assert_eq!(world.claim(n), Claimed::Gone(Gone::Revoked), "{n}");
        assert_eq!(checked(&mut world, n), Checked::NotLive);
    }
    for n in [EXPIRED, USED, LEFT] {
        assert_eq!(
            revoked(&mut everybody(), n, AfterRevoke::Out),
            Revoked::Before,
            "{n}"
        );
    }
    assert_eq!(
        revoked(&mut everybody(), UNKNOWN, AfterRevoke::Out),
        Revoked::Unknown
    );
}
