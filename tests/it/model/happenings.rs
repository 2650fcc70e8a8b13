//! What happens to a room in its life: normal days, losses, mends, passes shown.

use proptest::prelude::*;

use catraca::base::ids::{Edition, Generation, Number, Place};
use catraca::room::model::command::{
    Cause, Command, Ended, Folded, Measured, Restoring, RoomState, Stock, Tick,
};

use crate::model::histories::{Event, event};
use crate::model::world::{at, fan, tick};

/// One thing that happens to both rooms.
#[derive(Debug, Clone)]
pub(crate) enum Happening {
    Daily(Event),
    Say(Box<Command>),
    /// Fans with ids of this very moment join, between others who may be known.
    Mint(Vec<Option<u64>>),
    Verb(RoomState),
    Hours([Option<i64>; 3]),
    Guard(u64),
    /// The operator announces a draw, or takes it back.
    Announce(bool),
    /// The operator asks fans to be there, or no longer.
    Presence(bool),
    /// The opening of a draw, as far as so many steps, with what is wrong about the last.
    Opening(usize, Wrong),
    /// A tick that wants so many calls and names so many places of the draw.
    TickDrawn(u64, usize, Wrong),
    /// Somebody tells the time.
    Wait(u64),
    /// As long as something lasts, to the millisecond; or one more.
    WaitFor(Lasting, u64),
    /// The data is lost, or too old to be trusted.
    Lose,
    /// A mend begins: of the next generation, or once more of this one.
    Begin {
        generations: u64,
        is_found: bool,
        editions: u64,
    },
    /// The ledger is copied up to this entry, and so many more are asked for.
    Copy(u64, usize),
    /// Where SQL's ledger says that these fans are, with the place that each had.
    Fold(Vec<(u64, Folded)>),
    /// These fans show their passes; a few pass ahead of the room, or of another edition.
    Restore(Vec<(u64, Pass)>),
    Finish(RoomState, [u64; 4], Option<Stock>),
}

/// What is wrong with what is said of a draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    Nothing,
    Seed,
    /// Its size, or the `serving` that a tick assumes.
    Number,
}

/// What lasts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lasting {
    Window,
    Slot,
    Ticket,
    Lease,
    Presence,
}

/// What is wrong with a pass.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pass {
    Good,
    OfAnotherEdition,
    OfAnotherGeneration,
    OfNoNumber,
    OfALaterNumber,
    /// Shown by somebody who knows of no draw.
    Placeless,
    /// The place is none that a draw gave.
    OfNoPlace,
}

impl Pass {
    /// A good pass, with that wrong about it. `n` is any number.
    pub(crate) fn of(self, good: Restoring, n: u64) -> Restoring {
        match self {
            Pass::Good => good,
            Pass::OfAnotherEdition => Restoring {
                edition: Edition(good.edition.0 + 1),
                ..good
            },
            Pass::OfAnotherGeneration => Restoring {
                generation: Generation(good.generation.0 + 1),
                ..good
            },
            Pass::OfNoNumber => Restoring {
                number: Number(0),
                ..good
            },
            Pass::OfALaterNumber => Restoring {
                number: Number(1_000),
                ..good
            },
            Pass::Placeless => Restoring {
                place: None,
                ..good
            },
            Pass::OfNoPlace => Restoring {
                place: Some(Place(1_000 * (n % 2))),
                ..good
            },
        }
    }
}

fn stock() -> impl Strategy<Value = Stock> {
    (0u64..6, 0u64..8, 0u64..3, 0i64..60_000).prop_map(|(version, free, held, as_of)| Stock {
        version,
        free,
        held,
        sold: 40 - free,
        as_of: at(as_of),
    })
}

fn measured() -> impl Strategy<Value = Measured> {
    let cause = proptest::option::of((0..7usize).prop_map(|n| Cause::ALL[n]));
    (0u64..9_000, 0u64..500, cause, 0u64..3_000).prop_map(|(pace, spread, cause, seats)| Measured {
        pace_milli: pace,
        spread_milli: spread,
        cause,
        seats_per_fan_milli: seats,
    })
}

fn folded() -> impl Strategy<Value = (u64, Folded)> {
    let ended = prop_oneof![Just(Ended::Used), Just(Ended::Left), Just(Ended::Revoked)];
    (0u64..40, 0u8..4, 1i64..60_000, ended).prop_map(|(n, kind, until, why)| {
        let (until, place) = (at(until), Place(0));
        let folded = match kind {
            0 => Folded::Called { until, place },
            1 => Folded::Claimed { until, place },
            2 => Folded::Returned { place },
            _ => Folded::Ended(why),
        };
        (n, folded)
    })
}

fn lasting() -> impl Strategy<Value = Lasting> {
    prop_oneof![
        3 => Just(Lasting::Window),
        1 => Just(Lasting::Slot),
        1 => Just(Lasting::Ticket),
        1 => Just(Lasting::Lease),
        1 => Just(Lasting::Presence),
    ]
}

fn wrong() -> impl Strategy<Value = Wrong> {
    prop_oneof![6 => Just(Wrong::Nothing), 1 => Just(Wrong::Seed), 1 => Just(Wrong::Number)]
}

fn state() -> impl Strategy<Value = RoomState> {
    (0..RoomState::ALL.len()).prop_map(|n| RoomState::ALL[n])
}

fn pass() -> impl Strategy<Value = (u64, Pass)> {
    let pass = prop_oneof![
        9 => Just(Pass::Good),
        1 => Just(Pass::OfAnotherEdition),
        1 => Just(Pass::OfAnotherGeneration),
        1 => Just(Pass::OfNoNumber),
        1 => Just(Pass::OfALaterNumber),
        1 => Just(Pass::Placeless),
        1 => Just(Pass::OfNoPlace),
    ];
    (0u64..40, pass)
}

/// Anything of all that.
pub(crate) fn happening() -> impl Strategy<Value = Happening> {
    let say = |command| Happening::Say(Box::new(command));
    let hour = || proptest::option::of(8_000i64..40_000);
    prop_oneof![
        30 => event().prop_map(Happening::Daily),
        3 => proptest::collection::vec(proptest::option::of(0u64..40), 1..6)
            .prop_map(Happening::Mint),
        2 => (0u64..8, measured()).prop_map(move |(want, measured)| {
            say(Command::Tick(Tick { measured, ..tick(want) }))
        }),
        3 => proptest::collection::vec(pass(), 0..5).prop_map(Happening::Restore),
        2 => stock().prop_map(move |stock| say(Command::Stock(stock))),
        1 => (0u64..80).prop_map(move |n| say(Command::RaiseCeiling { ceiling: Number(n) })),
        2 => proptest::collection::vec((0u64..45).prop_map(fan), 0..6)
            .prop_map(move |fans| say(Command::Check { fans })),
        2 => Just(say(Command::Board)),
        1 => (0usize..30).prop_map(move |max| say(Command::Ledger { max })),
        1 => (0u64..60).prop_map(move |through| say(Command::Trim { through })),
        2 => proptest::collection::vec((0u64..45).prop_map(fan), 0..9)
            .prop_map(move |fans| say(Command::Touch { fans })),
        1 => any::<bool>().prop_map(Happening::Announce),
        1 => any::<bool>().prop_map(Happening::Presence),
        2 => (0usize..4, wrong()).prop_map(|(steps, wrong)| Happening::Opening(steps, wrong)),
        9 => (0u64..9, 0usize..20, wrong())
            .prop_map(|(want, names, wrong)| Happening::TickDrawn(want, names, wrong)),
        1 => state().prop_map(Happening::Verb),
        1 => (hour(), hour(), hour()).prop_map(|(a, b, c)| Happening::Hours([a, b, c])),
        1 => (0u64..50).prop_map(Happening::Guard),
        2 => (0u64..6_000).prop_map(Happening::Wait),
        4 => (lasting(), 0u64..2).prop_map(|(lasting, more)| Happening::WaitFor(lasting, more)),
        1 => Just(Happening::Lose),
        2 => (0u64..3, any::<bool>(), 0u64..12).prop_map(|(generations, is_found, editions)| {
            Happening::Begin { generations, is_found, editions: editions / 11 }
        }),
        2 => (0u64..30, 0usize..5).prop_map(|(through, max)| Happening::Copy(through, max)),
        2 => proptest::collection::vec(folded(), 0..5).prop_map(Happening::Fold),
        3 => (state(), [0u64..40, 0u64..40, 0u64..50, 0u64..4_000], proptest::option::of(stock()))
            .prop_map(|(state, numbers, stock)| Happening::Finish(state, numbers, stock)),
    ]
}
