//! Promises 1, 2, 4, 5 and 6 on random histories: several admitters, clocks that step both ways,
//! rate, window and capacity changed live, fans who come, claim, leave, buy and are thrown out.

use proptest::prelude::*;

use catraca::base::ids::{Edition, Generation, Number};
use catraca::room::model::command::{
    AfterRevoke, Command, Joining, Mend, Origin, Outcome, Restoring, RoomState, Tick,
};

use crate::model::witness::Witness;
use crate::model::world::{World, at, fan, new_room, settings, stock, tick};

/// One thing that happens.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    Clock(i64),
    Say(Box<Command>),
    Rate(u64),
    Window(u64),
    Capacity(u64),
    Verb(RoomState),
}

fn fans() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(0u64..40, 1..6)
}

fn say(command: Command) -> Event {
    Event::Say(Box::new(command))
}

/// What happens to a room on a normal day.
pub(crate) fn event() -> impl Strategy<Value = Event> {
    let ids = |fans: Vec<u64>| fans.into_iter().map(fan).collect::<Vec<_>>();
    let join = move |fans: Vec<u64>| {
        let origin = Origin::Known;
        let joining = fans
            .into_iter()
            .map(|n| Joining {
                fan: fan(n),
                origin,
            })
            .collect();
        say(Command::Join { joining })
    };
    let tick = |(holder, want, lease_ttl_ms): (u8, u64, u64)| {
        let holder = format!("admitter-{holder}");
        say(Command::Tick(Tick {
            holder,
            lease_ttl_ms,
            ..tick(want)
        }))
    };
    let lease = prop_oneof![4 => Just(2_000u64), 1 => 0u64..2_000];
    let then = prop_oneof![Just(AfterRevoke::Returned), Just(AfterRevoke::Out)];
    prop_oneof![
        6 => (-1_500i64..1_500).prop_map(Event::Clock),
        6 => fans().prop_map(join),
        8 => (0u8..3, 0u64..12, lease).prop_map(tick),
        4 => fans().prop_map(move |fans| say(Command::Claim { fans: ids(fans) })),
        1 => (0u64..40).prop_map(|n| say(Command::Leave { fan: fan(n) })),
        1 => (0u64..40).prop_map(|n| say(Command::Consume { fan: fan(n) })),
        1 => (0u64..40, 0i64..90_000)
            .prop_map(|(n, until)| say(Command::Extend { fan: fan(n), until: at(until) })),
        1 => (fans(), then).prop_map(move |(fans, then)| {
            say(Command::Revoke { fans: ids(fans), then })
        }),
        1 => (0u64..20).prop_map(Event::Rate),
        1 => (1u64..3_000).prop_map(Event::Window),
        1 => (0u64..20).prop_map(Event::Capacity),
        1 => prop_oneof![Just(RoomState::Open), Just(RoomState::Paused)].prop_map(Event::Verb),
        1 => Just(Event::Verb(RoomState::Open)),
    ]
}

/// Lets the event happen and shows the witness what became of it.
fn happen(world: &mut World, witness: &mut Witness, event: &Event) -> Result<(), String> {
    match event {
        Event::Clock(ms) => world.now = at((world.now.as_millis() + ms).max(0)),
        Event::Rate(rate) => {
            world.set(|settings| settings.rate = *rate);
            witness.rate(world.room.now(), *rate);
        }
        Event::Window(window_ms) => world.set(|settings| settings.window_ms = *window_ms),
        Event::Capacity(capacity) => world.set(|settings| settings.capacity = *capacity),
        Event::Verb(state) => world.verb(*state),
        Event::Say(command) => {
            let outcome = world.say(command);
            if let (Command::Join { joining }, Outcome::Joined(answers)) = (&**command, outcome) {
                for (joining, answer) in joining.iter().zip(answers) {
                    witness.joined(joining.fan, answer)?;
                }
            }
        }
    }
    world
        .copy_ledger()
        .iter()
        .try_for_each(|entry| witness.read(entry))?;
    world.room.check()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_promises_hold_in_every_history(events in proptest::collection::vec(event(), 1..150)) {
        let mut settings = settings();
        (settings.claim_ms, settings.ticket_ttl_ms, settings.capacity) = (2_000, 5_000, 12);
        let mut world = World::open(settings);
        let mut witness = Witness::default();
        witness.rate(world.now, 10);
        for event in &events {
            happen(&mut world, &mut witness, event).map_err(TestCaseError::fail)?;
        }
    }

    /// Total: nothing that can be said makes the definition panic, and it stays whole.
    #[test]
    fn nothing_said_can_break_a_room(
        commands in proptest::collection::vec((any::<i64>(), anything()), 1..60)
    ) {
        let mut world = World::open(settings());
        for (now, command) in &commands {
            world.now = at(*now);
            world.say(command);
            prop_assert_eq!(world.room.check(), Ok(()));
        }
    }

    /// A journal keeps only the commands that raise the revision: the rest must not be missed.
    #[test]
    fn what_does_not_raise_the_revision_can_be_forgotten(
        events in proptest::collection::vec(event(), 1..100)
    ) {
        let mut world = World::open(settings());
        let mut replayed = world.clone();
        for event in &events {
            let command = match event {
                Event::Clock(ms) => {
                    world.now = at((world.now.as_millis() + ms).max(0));
                    continue;
                }
                Event::Say(command) => command,
                Event::Rate(_) | Event::Window(_) | Event::Capacity(_) | Event::Verb(_) => continue,
            };
            let before = world.room.revision();
            let outcome = world.say(command);
            if before < world.room.revision() {
                replayed.now = world.room.now();
                prop_assert_eq!(replayed.say(command), outcome);
            }
        }
        // One last tick brings back what the journal does not keep.
        let last = Command::Join { joining: vec![Joining { fan: fan(99), origin: Origin::Known }] };
        world.say(&last);
        replayed.now = world.room.now();
        replayed.say(&last);
        let settled = [&mut world, &mut replayed].map(|world| {
            world.now = world.room.now().plus_ms(10_000);
            world.tick(0);
            world.room.fans().collect::<Vec<_>>()
        });
        prop_assert_eq!(&settled[0], &settled[1]);
    }
}

/// Any command at all, with numbers and times of any size.
fn anything() -> impl Strategy<Value = Command> {
    let pass = |(n, number, edition, generation): (u64, u64, u64, u64)| Command::Restore {
        restoring: vec![Restoring {
            fan: fan(n % 40),
            number: Number(number),
            edition: Edition(edition % 3),
            generation: Generation(generation % 3),
            place: None,
        }],
    };
    let mend = |(i, generation, serving): (usize, u64, u64)| {
        let [_, finish] = new_room(settings(), RoomState::Open);
        let Mend::Finish(mut finish) = finish else {
            unreachable!("the second step finishes")
        };
        let generation = Generation(generation % 4);
        finish.generation = generation;
        finish.serving.0 = serving;
        finish.restoring_ms = serving % 3;
        let begin = Mend::Begin {
            edition: Edition(1),
            generation,
            mended: Generation(1),
        };
        Command::Mend([begin, Mend::Finish(finish)][i].clone())
    };
    prop_oneof![
        4 => event().prop_map(|event| match event {
            Event::Say(command) => *command,
            Event::Clock(_)
            | Event::Rate(_)
            | Event::Window(_)
            | Event::Capacity(_)
            | Event::Verb(_) => Command::Board,
        }),
        1 => any::<(u64, u64, u64, u64)>().prop_map(pass),
        1 => (0usize..2, any::<u64>(), any::<u64>()).prop_map(mend),
        1 => any::<(u64, u64, u64)>().prop_map(|(version, free, held)| {
            Command::Stock(stock(version, free, held))
        }),
        1 => any::<u64>().prop_map(|n| Command::RaiseCeiling { ceiling: Number(n) }),
        1 => any::<u64>().prop_map(|through| Command::Trim { through }),
        1 => any::<(u64, i64)>().prop_map(|(n, until)| {
            Command::Extend { fan: fan(n % 40), until: at(until) }
        }),
        1 => (any::<u64>(), any::<u64>()).prop_map(|(want, lease_ttl_ms)| {
            Command::Tick(Tick { lease_ttl_ms, ..tick(want) })
        }),
    ]
}
