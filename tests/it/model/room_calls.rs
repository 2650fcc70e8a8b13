//! Who is called, and who may call: order, standby, leases, the room's clock.

use catraca::base::ids::{FencingToken, Number, Place};
use catraca::room::model::command::{Change, Claimed, Command, Joined, Outcome, Tick, Ticked};

use crate::model::world::{World, at, fan, settings, tick};

fn called(world: &mut World) -> Vec<u64> {
    let mut numbers = Vec::new();
    for entry in world.copy_ledger() {
        if let Change::Called(called) = entry.change {
            numbers.extend(called.fans.iter().map(|(_, number)| number.0));
        }
    }
    numbers
}

#[test]
fn a_fan_keeps_the_first_number() {
    let mut world = World::open(settings());
    let kept = Joined::Kept { number: Number(2) };
    let (first, second) = (
        Joined::New { number: Number(1) },
        Joined::New { number: Number(2) },
    );
    assert_eq!(
        world.join_all(&[7, 8, 8, 7]),
        [first, second, kept, Joined::Kept { number: Number(1) }]
    );
    world.tick(1);
    assert_eq!(
        world.join(7),
        Joined::Kept { number: Number(1) },
        "in standby"
    );
    let Claimed::Admitted { until, first: true } = world.claim(7) else {
        panic!("not admitted")
    };
    assert_eq!(world.join(7), Joined::Admitted { until });
}

#[test]
fn who_misses_the_call_is_next_on_return() {
    let mut world = World::open(settings());
    world.join_all(&[1, 2, 3, 4, 5]);
    assert_eq!(world.tick(3).count, 3);
    world.wait(60_000);
    assert_eq!(world.claim(2), Claimed::Returned { place: Place(2) });
    assert_eq!(world.claim(1), Claimed::Returned { place: Place(1) });
    assert_eq!(world.claim(1), Claimed::Returned { place: Place(1) });
    assert_eq!(world.board().standby, 1);
    assert_eq!(called(&mut world), [1, 2, 3]);
    assert_eq!(world.tick(3).count, 3);
    assert_eq!(called(&mut world), [1, 2, 4]);
    world.wait(1_000_000);
    assert_eq!(
        world.claim(3),
        Claimed::Returned { place: Place(3) },
        "standby never lapses"
    );
}

#[test]
fn serving_stands_before_the_lowest_and_at_the_last_of_an_empty_queue() {
    let mut world = World::open(settings());
    world.join_all(&[1, 2, 3, 4]);
    assert_eq!(world.tick(0).serving, Place(0));
    world.say(&Command::Leave { fan: fan(2) });
    assert_eq!(world.tick(1).serving, Place(2), "who left is passed");
    assert_eq!(world.tick(2).serving, Place(4));
    world.join(5);
    assert_eq!(world.tick(0).serving, Place(4));
}

#[test]
fn one_admitter_leads_and_a_takeover_raises_the_token() {
    let mut world = World::open(settings());
    let by = |holder: &str, lease_ttl_ms| {
        Command::Tick(Tick {
            holder: holder.into(),
            lease_ttl_ms,
            ..tick(1)
        })
    };
    let token = |outcome| match outcome {
        Outcome::Ticked(Ticked::Leader(step)) => Some(step.token),
        _ => None,
    };
    assert_eq!(token(world.say(&by("a", 2_000))), Some(FencingToken(1)));
    let follower = Outcome::Ticked(Ticked::Follower { holder: "a".into() });
    world.wait(1_999);
    assert_eq!(world.say(&by("b", 2_000)), follower);
    assert_eq!(token(world.say(&by("a", 2_000))), Some(FencingToken(1)));
    world.wait(1_999);
    assert_eq!(
        world.say(&by("b", 2_000)),
        follower,
        "the lease was renewed"
    );
    world.wait(1);
    assert_eq!(token(world.say(&by("b", 2_000))), Some(FencingToken(2)));
    let follower = Outcome::Ticked(Ticked::Follower { holder: "b".into() });
    assert_eq!(
        world.say(&by("a", 0)),
        follower,
        "only the leader can resign"
    );
    world.say(&by("b", 0));
    assert_eq!(
        token(world.say(&by("a", 2_000))),
        Some(FencingToken(3)),
        "resigned"
    );
    assert_eq!(world.board().leader, Some("a".into()));
}

#[test]
fn two_processes_that_go_by_one_name_do_not_call_more() {
    let mut world = World::open(settings());
    world.join_all(&(0..100).collect::<Vec<_>>());
    let count: u64 = (0..20).map(|_| world.tick(5).count).sum();
    assert_eq!(count, 10);
}

#[test]
fn room_time_never_goes_back_and_never_stands_still() {
    let mut world = World::open(settings());
    world.tick(0);
    world.now = at(4_000);
    world.tick(0);
    assert_eq!(world.room.now(), at(10_000));
    world.wait(300);
    world.tick(0);
    assert_eq!(world.room.now(), at(10_300));
    world.now = at(50_000);
    world.tick(0);
    assert_eq!(world.room.now(), at(56_000), "what was added stays");
}

#[test]
fn capacity_counts_from_the_call_and_frees_with_the_slot() {
    let mut settings = settings();
    settings.capacity = 2;
    let mut world = World::open(settings);
    world.join_all(&[1, 2, 3, 4, 5, 6]);
    assert_eq!(world.tick(5).count, 2);
    world.claim(1);
    world.wait(60_000);
    assert_eq!(world.tick(5).count, 1, "the slot of 2 has lapsed");
    world.say(&Command::Consume { fan: fan(1) });
    assert_eq!(world.tick(5).count, 1, "the order of 1 frees at once");
    world.say(&Command::Leave { fan: fan(3) });
    assert_eq!(world.tick(5).count, 1, "3 left");
    assert_eq!(world.tick(5).live, 2);
}

#[test]
fn a_new_window_begins_with_a_burned_one() {
    let mut world = World::open(settings());
    world.join_all(&(0..100).collect::<Vec<_>>());
    assert_eq!(world.tick(10).count, 10);
    world.set(|settings| settings.window_ms = 500);
    world.set(|settings| settings.rate = 20);
    let step = world.tick(10);
    assert_eq!((step.count, step.free_in_ms), (0, Some(501)));
    world.wait(500);
    assert_eq!(world.tick(10).count, 0);
    world.wait(1);
    assert_eq!(world.tick(20).count, 20);
}
