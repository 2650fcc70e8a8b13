//! What happens to a room in its life: normal days, losses, mends, passes shown. Most lives are calm,
//! for what a loss has taken away shows no difference any more.

use proptest::prelude::*;

use catraca::base::ids::{Edition, Generation, Number, Place};
use catraca::room::model::command::{
    Cause, Command, Ended, Folded, Measured, Restoring, RoomState, Stock, Tick,
};

use crate::model::histories::{Event, event};
use crate::model::targets::{Moment, Turn, moment, turn};
use crate::model::world::{at, fan, tick};

/// One thing that happens to both rooms.
#[derive(Debug, Clone)]
pub(crate) enum Happening {
    Daily(Event),
    Say(Box<Command>),
    /// It happens to somebody who stands in a way that it can happen to.
    Turn(Turn),
    /// That moment comes, or the millisecond before or after it.
    OnTheDot((Moment, usize), u64, Turn),
    /// Fans with ids of this very moment join, between others who may be known.
    Mint(Vec<Option<u64>>),
    /// The operator says these, one after the other.
    Verbs(Vec<RoomState>),
    /// Stock and capacity let the same number in, for so many seats a fan.
    StockAsCapacity(u64),
    /// What the operator said last arrives again, with another state; the same version, or only the
    /// same verb.
    Again(RoomState, u64),
    Hours([Option<i64>; 3]),
    /// Hours that come at this very moment.
    HoursNow,
    Guard(u64),
    /// The operator announces a draw, or takes it back.
    Announce(bool),
    /// These fans show up; as long as that counts, and so many more milliseconds, pass; a tick.
    Sleep(Vec<u64>, u64),
    /// The opening of a draw, as far as so many steps, with what is wrong about the last.
    Opening(usize, Wrong),
    /// So many windows in which ticks go through the draw, and the called buy.
    DrawThrough(usize),
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
    /// The ledger is copied up to this entry, and so many more are asked for; by a mender so many
    /// generations behind.
    Copy(u64, usize, u64),
    /// Where SQL's ledger says that these fans are, with the place that each had; said by a mender so
    /// many generations behind.
    Fold(Vec<(u64, Folded)>, u64),
    /// These fans show their passes; a few pass ahead of the room, or of another edition.
    Restore(Vec<(u64, Pass)>),
    Finish(RoomState, [u64; 4], Option<Stock>),
    LoseAndMend(Vec<Ordeal>),
}

/// The data is lost, and mended as far as so many steps.
#[derive(Debug, Clone)]
pub(crate) struct Ordeal {
    pub(crate) steps: usize,
    /// What SQL has wrong of the draw.
    pub(crate) wrong: Wrong,
    /// How many of the numbers SQL knows of, and how many more the room may have issued.
    pub(crate) known: u64,
    pub(crate) more: u64,
    pub(crate) folds: Vec<Vec<(u64, Folded)>>,
    /// Everybody comes back, each with such a pass.
    pub(crate) everybody: Option<Pass>,
    /// And these do.
    pub(crate) passes: Vec<(u64, Pass)>,
}

/// What is wrong with what is said of a draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    Nothing,
    Seed,
    /// Its size, or the `serving` that a tick assumes.
    Number,
    /// A tick names who took no part.
    More,
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
    /// Of the number that the fan had before a loss.
    First,
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
            Pass::Good | Pass::First => good,
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
    let free = prop_oneof![1 => Just(0u64), 2 => 0u64..12];
    (0u64..6, free, 0u64..3, 0i64..4).prop_map(|(version, free, held, as_of)| Stock {
        version,
        free,
        held,
        sold: 40 - free,
        as_of: at(as_of * 15_000),
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
    prop_oneof![
        6 => Just(Wrong::Nothing),
        2 => Just(Wrong::Seed),
        1 => Just(Wrong::Number),
        2 => Just(Wrong::More),
    ]
}

fn state() -> impl Strategy<Value = RoomState> {
    (0..RoomState::ALL.len()).prop_map(|n| RoomState::ALL[n])
}

pub(crate) fn pass() -> impl Strategy<Value = (u64, Pass)> {
    let pass = prop_oneof![
        9 => Just(Pass::Good),
        3 => Just(Pass::First),
        1 => Just(Pass::OfAnotherEdition),
        1 => Just(Pass::OfAnotherGeneration),
        1 => Just(Pass::OfNoNumber),
        1 => Just(Pass::OfALaterNumber),
        1 => Just(Pass::Placeless),
        1 => Just(Pass::OfNoPlace),
    ];
    (0u64..40, pass)
}

fn ordeal() -> impl Strategy<Value = Ordeal> {
    // So few that some are folded twice.
    let folded = folded().prop_map(|(n, folded)| (n % 8, folded));
    let folds = proptest::collection::vec(proptest::collection::vec(folded, 0..6), 0..3);
    let everybody = proptest::option::of(pass().prop_map(|(_, pass)| pass));
    let passes = proptest::collection::vec(pass(), 0..30);
    let more = prop_oneof![0u64..3, Just(30u64)];
    let numbers = (2usize..6, wrong(), 0u64..40, more);
    (numbers, folds, everybody, passes).prop_map(|(numbers, folds, everybody, passes)| {
        let (steps, wrong, known, more) = numbers;
        Ordeal {
            steps,
            wrong,
            known,
            more,
            folds,
            everybody,
            passes,
        }
    })
}

/// One, or two of which the second may find what the first has left.
fn ordeals() -> impl Strategy<Value = Happening> {
    proptest::collection::vec(ordeal(), 1..3).prop_map(Happening::LoseAndMend)
}

fn verbs() -> impl Strategy<Value = Happening> {
    let ended = prop_oneof![
        2 => Just(RoomState::SoldOut),
        1 => Just(RoomState::Closed),
        1 => Just(RoomState::Open),
    ];
    prop_oneof![
        3 => Just(vec![RoomState::Open]),
        1 => state().prop_map(|state| vec![state]),
        1 => proptest::collection::vec(ended, 2..4),
    ]
    .prop_map(Happening::Verbs)
}

/// What happens while nothing is lost and the show is open, or will be again in a moment.
fn calm() -> impl Strategy<Value = Happening> {
    let say = |command| Happening::Say(Box::new(command));
    let on_the_dot = ((moment(), 0usize..40), 0u64..3, turn());
    let restore = proptest::collection::vec(pass(), 0..5);
    let long_lease = (0u64..12, 2_000u64..9_000).prop_map(move |(want, lease_ttl_ms)| {
        say(Command::Tick(Tick {
            lease_ttl_ms,
            ..tick(want)
        }))
    });
    prop_oneof![
        30 => event().prop_map(Happening::Daily),
        20 => turn().prop_map(Happening::Turn),
        12 => on_the_dot.prop_map(|(when, off_ms, turn)| Happening::OnTheDot(when, off_ms, turn)),
        3 => proptest::collection::vec(proptest::option::of(0u64..40), 1..6)
            .prop_map(Happening::Mint),
        2 => (0u64..8, measured()).prop_map(move |(want, measured)| {
            say(Command::Tick(Tick { measured, ..tick(want) }))
        }),
        1 => long_lease,
        2 => restore.prop_map(Happening::Restore),
        3 => stock().prop_map(move |stock| say(Command::Stock(stock))),
        2 => proptest::collection::vec((0u64..45).prop_map(fan), 0..6)
            .prop_map(move |fans| say(Command::Check { fans })),
        2 => Just(say(Command::Board)),
        1 => (0usize..30).prop_map(move |max| say(Command::Ledger { max })),
        1 => (0u64..60).prop_map(move |through| say(Command::Trim { through })),
        2 => (proptest::collection::vec(0u64..40, 0..9), 0u64..2)
            .prop_map(|(fans, more)| Happening::Sleep(fans, more)),
        2 => (0usize..6, wrong()).prop_map(|(steps, wrong)| Happening::Opening(steps, wrong)),
        1 => (1u64..3).prop_map(Happening::StockAsCapacity),
        8 => (0u64..9, 0usize..7, wrong())
            .prop_map(|(want, names, wrong)| Happening::TickDrawn(want, names, wrong)),
        1 => (1usize..6).prop_map(Happening::DrawThrough),
        1 => (state(), 0u64..2).prop_map(|(state, news)| Happening::Again(state, news)),
        5 => (lasting(), 0u64..2).prop_map(|(lasting, more)| Happening::WaitFor(lasting, more)),
    ]
}

/// Anything of all that, and what an operator or a loss does.
fn stormy() -> impl Strategy<Value = Happening> {
    let say = |command| Happening::Say(Box::new(command));
    let hour = || proptest::option::of(8_000i64..40_000);
    prop_oneof![
        40 => calm(),
        1 => (0u64..80).prop_map(move |n| say(Command::RaiseCeiling { ceiling: Number(n) })),
        1 => any::<bool>().prop_map(Happening::Announce),
        4 => verbs(),
        1 => (hour(), hour(), hour()).prop_map(|(a, b, c)| Happening::Hours([a, b, c])),
        1 => Just(Happening::HoursNow),
        1 => (0u64..50).prop_map(Happening::Guard),
        1 => (0u64..6_000).prop_map(Happening::Wait),
        1 => Just(Happening::Lose),
        2 => (0u64..3, any::<bool>(), 0u64..12).prop_map(|(generations, is_found, editions)| {
            Happening::Begin { generations, is_found, editions: editions / 11 }
        }),
        2 => (0u64..30, 0usize..5, 0u64..6)
            .prop_map(|(through, max, behind)| Happening::Copy(through, max, behind / 5)),
        3 => ordeals(),
        2 => (proptest::collection::vec(folded(), 0..5), 0u64..6)
            .prop_map(|(folded, behind)| Happening::Fold(folded, behind / 5)),
        3 => (state(), [0u64..40, 0u64..40, 0u64..50, 0u64..4_000], proptest::option::of(stock()))
            .prop_map(|(state, numbers, stock)| Happening::Finish(state, numbers, stock)),
    ]
}

/// Days on which an operator is at work, and now and then something is lost.
fn eventful() -> impl Strategy<Value = Happening> {
    prop_oneof![
        60 => calm(),
        4 => verbs(),
        1 => any::<bool>().prop_map(Happening::Announce),
        1 => Just(Happening::HoursNow),
        1 => (0u64..50).prop_map(Happening::Guard),
        2 => ordeals(),
    ]
}

/// What happens to one room.
pub(crate) fn life() -> impl Strategy<Value = Vec<Happening>> {
    use proptest::collection::vec;
    prop_oneof![
        1 => vec(calm(), 1..150),
        2 => vec(eventful(), 1..150),
        1 => vec(stormy(), 1..150),
    ]
}
