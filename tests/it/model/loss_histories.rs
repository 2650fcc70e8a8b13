//! Promise 3 on random histories: losses while fans join, are called, buy and leave, while what SQL
//! has lags behind, and while menders die or sleep between any two of their steps. Nobody's number
//! changes, none is given twice, and whose end is copied is never called again. With presence and with
//! a draw, whose steps may lie on both sides of a loss.

use std::collections::BTreeMap;

use proptest::prelude::*;

use catraca::base::ids::{Number, Place};
use catraca::room::draw::{Draw, Table};
use catraca::room::fold::Fold;
use catraca::room::model::command::{
    Claimed, Command, Folded, Joined, Mend, Mended, Restored, RoomState, Settings,
};
use catraca::room::model::{Standing, State};

use crate::model::world::{Sql, World, announced, fan, new_room, seed_of, settings};

/// One thing that happens.
#[derive(Debug, Clone)]
enum Event {
    Wait(u64),
    Join(u64),
    Tick(u64),
    Poll(u64),
    Consume(u64),
    Leave(u64),
    Copy,
    /// The fan shows up, where that is asked for.
    Touch(u64),
    /// The next step of the draw that is missing, in the room or in SQL.
    Draw,
    Lose(Loss),
}

/// A loss, and how the menders fare: after how many steps each but the last stops, and whether it
/// dies there or goes on when the last has finished.
#[derive(Debug, Clone)]
struct Loss {
    what: What,
    stops: Vec<(usize, bool)>,
}

#[derive(Debug, Clone, Copy)]
enum What {
    /// All data is gone.
    All,
    /// It is as it was some events ago.
    Rewound,
    /// Nothing is gone: the server was started again.
    Nothing,
}

fn loss() -> impl Strategy<Value = Loss> {
    let what = prop_oneof![Just(What::All), Just(What::Rewound), Just(What::Nothing)];
    let stops = proptest::collection::vec((0usize..12, any::<bool>()), 0..3);
    (what, stops).prop_map(|(what, stops)| Loss { what, stops })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0u64..2_000).prop_map(Event::Wait),
        8 => (0u64..40).prop_map(Event::Join),
        6 => (0u64..4).prop_map(Event::Tick),
        8 => (0u64..40).prop_map(Event::Poll),
        1 => (0u64..40).prop_map(Event::Consume),
        3 => Just(Event::Copy),
        1 => (0u64..40).prop_map(Event::Leave),
        3 => (0u64..40).prop_map(Event::Touch),
        3 => Just(Event::Draw),
        1 => loss().prop_map(Event::Lose),
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
            Restored::Known(Claimed::Returned { place }) => {
                let table = world.table.as_ref();
                let drawn = table.map_or(Place(number.0), |table| table.place(*number));
                prop_assert_eq!(place, drawn);
            }
            Restored::Known(Claimed::Admitted { .. } | Claimed::Gone(_)) => {}
            Restored::Known(Claimed::Unknown)
            | Restored::Void
            | Restored::Ahead
            | Restored::Placeless
            | Restored::OutOfMemory => {
                prop_assert!(false, "fan {} was refused: {:?}", n, answer);
            }
        }
        Ok(())
    }
}

/// Takes steps of a mend, so many at most; the ones it would have taken then, if it is not done.
fn mend_up_to(world: &mut World, sql: &mut Sql, steps_max: usize) -> Option<Vec<Mend>> {
    let mut steps = vec![sql.begin()];
    let mut is_copied = false;
    for _ in 0..steps_max {
        let step = steps.remove(0);
        match world.mend(step) {
            Mended::Found { entries, .. } => match entries.last() {
                Some(last) => {
                    steps.push(sql.left_after(last.seq));
                    sql.keep(entries);
                }
                None => (is_copied, steps) = (true, sql.rest(0)),
            },
            Mended::Done if steps.is_empty() && !is_copied => steps.push(sql.left_after(0)),
            Mended::Done if steps.is_empty() => {
                sql.mended = sql.generation;
                return None;
            }
            Mended::Done => {}
            Mended::Stale => panic!("nobody has overtaken this mend"),
        }
    }
    Some(steps)
}

fn lose(world: &mut World, sql: &mut Sql, older: &State, loss: &Loss) -> Result<(), TestCaseError> {
    match loss.what {
        What::All => world.room = State::default(),
        What::Rewound => world.room = older.clone(),
        What::Nothing => {}
    }
    let before = world.room.clone();
    let is_kept = before.is_whole() && before.facts().generation.0 == sql.mended;
    world.room.lose();
    let mut asleep = Vec::new();
    for (steps, sleeps) in &loss.stops {
        match mend_up_to(world, sql, *steps) {
            Some(rest) if *sleeps => asleep.extend(rest),
            Some(_) => {}
            None => world.room.lose(),
        }
    }
    let left = mend_up_to(world, sql, usize::MAX);
    prop_assert_eq!(left, None);
    let whole = world.room.clone();
    for step in asleep {
        prop_assert_eq!(world.mend(step), Mended::Stale);
    }
    prop_assert_eq!(&world.room, &whole);
    if is_kept && matches!(loss.what, What::Nothing) {
        // Whoever came back by pass alone has to show it again; the others stand where they stood.
        for (fan, standing) in before.fans() {
            let is_by_pass = matches!(standing, Standing::Returned { .. });
            let after = whole.standing(fan);
            prop_assert!(
                after == Some(standing) || is_by_pass,
                "{}: {:?}, was {:?}",
                fan,
                after,
                standing
            );
        }
    }
    Ok(())
}

/// Takes the next step of the draw that is missing, as whoever leads does.
fn draw_on(world: &mut World, sql: &mut Sql) {
    match (world.board().draw, sql.draw) {
        (None, _) => drop(world.freeze()),
        (Some(frozen), None) => sql.draw = Some(frozen),
        (Some(_), Some(Draw { size, seed: None })) => {
            sql.draw = Some(Draw {
                size,
                seed: Some(seed_of(size)),
            });
        }
        (Some(_), Some(_)) => drop(world.open_draw()),
    }
}

/// Whoever names places goes by the board, as gateways and admitters do.
fn read_board(world: &mut World) {
    let draw = world.room.facts().draw;
    let drawn = draw.and_then(|draw| Some((draw.seed?, draw.size)));
    let known = world
        .table
        .as_ref()
        .map(|table| (table.seed(), table.size()));
    if known != drawn {
        world.table = drawn.map(|(seed, size)| Table::new(&seed, size));
    }
}

/// A new room that may issue a few numbers only: after a loss all of them take part in a draw.
fn small_room(settings: Settings, state: RoomState) -> World {
    let [begin, mut finish] = new_room(settings, state);
    if let Mend::Finish(finish) = &mut finish {
        finish.ceiling = Number(100);
    }
    World::born([begin, finish])
}

/// Whose turn is over by the copied ledger, theirs is over in the room.
fn ends_hold(world: &World, sql: &Sql) -> Result<(), TestCaseError> {
    let mut fold = Fold::default();
    sql.ledger.values().for_each(|entry| fold.read(entry));
    for (fan, folded) in fold.fans {
        if let Folded::Ended(why) = folded {
            prop_assert_eq!(world.room.standing(fan), Some(Standing::Ended(why)));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_loss_moves_nobody(
        events in proptest::collection::vec(event(), 1..120),
        draws in any::<bool>(),
        require_presence in any::<bool>(),
    ) {
        let settings = Settings {
            require_presence,
            draw: draws.then(announced),
            ..settings()
        };
        let state = if draws { RoomState::Early } else { RoomState::Open };
        let mut world = small_room(settings, state);
        let mut sql = Sql::of(&mut world);
        if draws {
            world.join_all(&[90, 91, 92]);
            world.verb(RoomState::Open);
            sql.verb = Some((2, RoomState::Open));
        }
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
                Event::Tick(want) => drop(world.tick_drawn(*want, 5)),
                Event::Touch(n) => drop(world.say(&Command::Touch { fans: vec![fan(*n)] })),
                Event::Draw if draws => draw_on(&mut world, &mut sql),
                Event::Draw => {}
                Event::Poll(n) => told.poll(&mut world, *n)?,
                Event::Consume(n) => drop(world.say(&Command::Consume { fan: fan(*n) })),
                Event::Copy => sql.copy(&mut world),
                Event::Leave(n) => drop(world.say(&Command::Leave { fan: fan(*n) })),
                Event::Lose(loss) => lose(&mut world, &mut sql, &older, loss)?,
            }
            read_board(&mut world);
            prop_assert_eq!(world.room.check(), Ok(()));
            ends_hold(&world, &sql)?;
            if i % 10 == 0 {
                older = world.room.clone();
            }
        }
        for n in told.numbers.keys() {
            told.poll(&mut world, *n)?;
        }
    }
}
