//! Presence: who is not there is passed over, and loses nothing.

use catraca::base::limits::{PRESENT_MS, TICK_LOOKED_MAX};
use catraca::room::model::Standing;
use catraca::room::model::command::{Change, Claimed, Command, Outcome, RoomState, Touched, Why};

use crate::model::world::{World, fan, settings};

/// An open room that asks fans to be there, a minute after its opening, with so many fans.
fn open(fans: u64) -> World {
    let mut settings = settings();
    (settings.require_presence, settings.capacity) = (true, 1_000_000);
    let mut world = World::begin(settings, RoomState::Open);
    world.join_all(&(1..=fans).collect::<Vec<_>>());
    world.wait(PRESENT_MS);
    world
}

fn touch(world: &mut World, fans: &[u64]) -> Vec<Touched> {
    let fans = fans.iter().map(|n| fan(*n)).collect();
    match world.say(&Command::Touch { fans }) {
        Outcome::Touched(answers) => answers,
        other => panic!("{other:?}"),
    }
}

fn absent(world: &mut World) -> usize {
    let entries = world.copy_ledger().into_iter();
    let counts = entries.map(|entry| match entry.change {
        Change::Absent { fans } => fans.len(),
        _ => 0,
    });
    counts.sum()
}

#[test]
fn the_absent_take_no_slot_and_are_next_on_return() {
    let mut world = open(5);
    assert_eq!(
        touch(&mut world, &[2, 4, 9]),
        [Touched::Waiting, Touched::Waiting, Touched::Elsewhere]
    );
    let step = world.tick(2);
    assert_eq!((step.count, step.live, step.serving.0), (2, 2, 4));
    assert_eq!(absent(&mut world), 2);
    for n in [1, 3] {
        let until = world.now;
        let standing = world.room.standing(fan(n));
        assert!(matches!(standing, Some(Standing::Called { until: ended, .. }) if ended == until));
    }
    // They come back in any order, and are called by place, before number 5.
    for n in [3, 1] {
        assert!(matches!(world.claim(n), Claimed::Returned { .. }));
    }
    touch(&mut world, &[5]);
    assert_eq!(world.tick(1).count, 1);
    assert!(matches!(
        world.claim(1),
        Claimed::Admitted { first: true, .. }
    ));
    assert_eq!(world.tick(2).count, 2);
}

#[test]
fn showing_up_counts_for_a_minute() {
    let mut world = open(2);
    touch(&mut world, &[1]);
    world.wait(PRESENT_MS);
    assert_eq!(world.tick(1).count, 1);
    touch(&mut world, &[2]);
    world.wait(PRESENT_MS + 1);
    assert_eq!((world.tick(1).count, absent(&mut world)), (0, 1));
}

#[test]
fn nobody_is_absent_in_the_first_minute() {
    let mut world = open(3);
    world.verb(RoomState::Paused);
    world.verb(RoomState::Open);
    world.wait(PRESENT_MS - 1);
    assert_eq!(world.tick(1).count, 1);
    world.wait(1);
    assert_eq!((world.tick(1).count, world.room.facts().seen.len()), (0, 0));
}

#[test]
fn a_tick_looks_at_so_many_and_says_so() {
    let fans = TICK_LOOKED_MAX + 50;
    let mut world = open(fans);
    touch(&mut world, &[fans]);
    let step = world.tick(5);
    assert_eq!((step.count, step.why, step.waiting), (0, Why::Looked, 50));
    assert_eq!(absent(&mut world) as u64, TICK_LOOKED_MAX);
    assert_eq!(world.tick(5).count, 1);
}

#[test]
fn who_no_longer_shows_up_is_forgotten() {
    let mut world = open(2_000);
    world.set(|settings| settings.rate = 0);
    touch(&mut world, &(1..=2_000).collect::<Vec<_>>());
    world.wait(PRESENT_MS + 1);
    for left in [1_000, 0, 0] {
        world.tick(1);
        assert_eq!(world.room.facts().seen.len(), left);
    }
    world.set(|settings| settings.require_presence = false);
    assert_eq!(touch(&mut world, &[7]), [Touched::Waiting]);
    assert!(world.room.facts().seen.is_empty());
}
