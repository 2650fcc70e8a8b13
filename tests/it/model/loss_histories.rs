//! Promise 3 on random histories: losses while fans join, are called and buy, and while what SQL has
//! lags behind. Nobody's number changes, and none is given twice.

use std::collections::BTreeMap;

use proptest::prelude::*;

use catraca::base::ids::Number;
use catraca::room::model::State;
use catraca::room::model::command::{Claimed, Command, Joined, Restored};

use crate::model::room_loss::mend;
use crate::model::world::{Sql, World, fan, settings};

/// One thing that happens.
#[derive(Debug, Clone)]
enum Event {
    Wait(u64),
    Join(u64),
    Tick(u64),
    Poll(u64),
    Consume(u64),
    Copy,
    /// All data gone, or as it was some events ago.
    Lose {
        rewound: bool,
    },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0u64..2_000).prop_map(Event::Wait),
        8 => (0u64..40).prop_map(Event::Join),
        6 => (0u64..4).prop_map(Event::Tick),
        8 => (0u64..40).prop_map(Event::Poll),
        1 => (0u64..40).prop_map(Event::Consume),
        3 => Just(Event::Copy),
        1 => any::<bool>().prop_map(|rewound| Event::Lose { rewound }),
    ]
}

/// What the fans were told.
#[derive(Default)]
struct Told {
    numbers: BTreeMap<u64, Number>,
    holders: BTreeMap<Number, u64>,
}

impl Told {
    fn joined(&mut self, n: u64, answer: Joined) -> Result<(), TestCaseError> {
        let (Joined::New { number } | Joined::Kept { number }) = answer else {
            return Ok(());
        };
        let before = *self.numbers.entry(n).or_insert(number);
        prop_assert_eq!(before, number, "fan {} has two numbers", n);
        let holder = *self.holders.entry(number).or_insert(n);
        prop_assert_eq!(holder, n, "{} was given twice", number);
        Ok(())
    }

    /// Asks with the pass, as `status` does, and compares the place.
    fn poll(&self, world: &mut World, n: u64) -> Result<(), TestCaseError> {
        let Some(number) = self.numbers.get(&n) else {
            return Ok(());
        };
        let answer = match world.claim(n) {
            Claimed::Unknown => world.restore(n, number.0),
            known => Restored::Known(known),
        };
        match answer {
            Restored::Waiting | Restored::Returned => {}
            Restored::Known(Claimed::Waiting { number: told }) => prop_assert_eq!(told, *number),
            Restored::Known(Claimed::Returned { place }) => prop_assert_eq!(place.0, number.0),
            Restored::Known(Claimed::Admitted { .. } | Claimed::Gone(_)) => {}
            Restored::Known(Claimed::Unknown)
            | Restored::Void
            | Restored::Ahead
            | Restored::Placeless => {
                prop_assert!(false, "fan {} was refused: {:?}", n, answer);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_loss_moves_nobody(events in proptest::collection::vec(event(), 1..120)) {
        let mut world = World::open(settings());
        let mut sql = Sql::of(&mut world);
        let mut told = Told::default();
        let mut older = world.room.clone();
        for (i, event) in events.iter().enumerate() {
            match event {
                Event::Wait(ms) => world.wait(*ms),
                // Who has a pass shows it; the others are new.
                Event::Join(n) if told.numbers.contains_key(n) => told.poll(&mut world, *n)?,
                Event::Join(n) => {
                    let answer = world.join(*n);
                    told.joined(*n, answer)?;
                }
                Event::Tick(want) => drop(world.tick(*want)),
                Event::Poll(n) => told.poll(&mut world, *n)?,
                Event::Consume(n) => drop(world.say(&Command::Consume { fan: fan(*n) })),
                Event::Copy => sql.copy(&mut world),
                Event::Lose { rewound } => {
                    world.room = if *rewound { older.clone() } else { State::default() };
                    world.room.lose();
                    mend(&mut world, &mut sql, 0);
                }
            }
            prop_assert_eq!(world.room.check(), Ok(()));
            if i % 10 == 0 {
                older = world.room.clone();
            }
        }
        for n in told.numbers.keys() {
            told.poll(&mut world, *n)?;
        }
    }
}
