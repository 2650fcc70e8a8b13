//! Every refusal, on random histories: it comes exactly where its reason is, and it writes nothing.

use proptest::prelude::*;

use catraca::base::ids::{Edition, Generation, Number};
use catraca::base::time::Timestamp;
use catraca::room::model::Standing;
use catraca::room::model::command::{
    AfterRevoke, Board, Checked, Claimed, Command, Consumed, Extended, Gone, Joined, Joining, Left,
    Mend, Origin, Outcome, Restored, Restoring, Revoked, RoomState, Tick, Ticked,
};

use crate::model::world::{World, at, fan, new_room, settings, stock, tick};

/// Fewer numbers than fans, so that they run out.
const CEILING: Number = Number(12);

/// One thing that happens.
#[derive(Debug, Clone)]
enum Event {
    Wait(u64),
    Ask(u64, Ask),
    Tick(u8),
    Stock(u64),
    WaitingMax(u64),
    Verb(RoomState),
}

/// What a fan, or somebody about a fan, may ask.
#[derive(Debug, Clone)]
enum Ask {
    Join,
    Claim,
    Check,
    Extend(i64),
    Consume,
    Leave,
    Revoke(AfterRevoke),
    Restore { edition: u64, generation: u64 },
}

fn event() -> impl Strategy<Value = Event> {
    let ask = prop_oneof![
        6 => Just(Ask::Join),
        4 => Just(Ask::Claim),
        2 => Just(Ask::Check),
        2 => (0i64..30_000).prop_map(Ask::Extend),
        1 => Just(Ask::Consume),
        1 => Just(Ask::Leave),
        1 => Just(Ask::Revoke(AfterRevoke::Returned)),
        1 => Just(Ask::Revoke(AfterRevoke::Out)),
        2 => (1u64..3, 1u64..3).prop_map(|(edition, generation)| Ask::Restore { edition, generation }),
    ];
    let verb = prop_oneof![
        4 => Just(RoomState::Open),
        1 => Just(RoomState::Paused),
        1 => Just(RoomState::Closed),
        1 => Just(RoomState::Off),
    ];
    prop_oneof![
        12 => (0u64..20, ask).prop_map(|(n, ask)| Event::Ask(n, ask)),
        4 => (0u8..2).prop_map(Event::Tick),
        4 => (0u64..1_500).prop_map(Event::Wait),
        1 => (0u64..3).prop_map(Event::Stock),
        1 => (0u64..10).prop_map(Event::WaitingMax),
        1 => verb.prop_map(Event::Verb),
    ]
}

fn command(n: u64, standing: Option<Standing>, ask: &Ask) -> Command {
    let fans = vec![fan(n)];
    let fan = fan(n);
    match *ask {
        Ask::Join => Command::Join {
            joining: vec![Joining {
                fan,
                origin: Origin::Known,
            }],
        },
        Ask::Claim => Command::Claim { fans },
        Ask::Check => Command::Check { fans },
        Ask::Extend(until) => Command::Extend {
            fan,
            until: at(until),
        },
        Ask::Consume => Command::Consume { fan },
        Ask::Leave => Command::Leave { fan },
        Ask::Revoke(then) => Command::Revoke { fans, then },
        Ask::Restore {
            edition,
            generation,
        } => Command::Restore {
            restoring: vec![Restoring {
                fan,
                number: pass_of(standing),
                edition: Edition(edition),
                generation: Generation(generation),
                place: None,
            }],
        },
    }
}

/// The number in a fan's pass. Passes are signed, so nobody shows another's; who never joined here has
/// theirs from a later life of the room.
fn pass_of(standing: Option<Standing>) -> Number {
    match standing {
        None => Number(CEILING.0 + 1),
        Some(Standing::Waiting { number }) => number,
        Some(
            Standing::Called { place, .. }
            | Standing::Admitted { place, .. }
            | Standing::Returned { place },
        ) => Number(place.0),
        Some(Standing::Ended(_)) => Number(1),
    }
}

/// Why this must be refused, by what can be seen from outside; none where it must not be.
fn reason(ask: &Ask, standing: Option<Standing>, board: &Board) -> Option<&'static str> {
    let over = over(standing, board.now);
    match ask {
        Ask::Join if standing.is_some() => over,
        Ask::Join => no_new_fan(board),
        Ask::Claim => standing.map_or(Some("unknown"), |_| over),
        Ask::Check | Ask::Extend(_) => match standing {
            Some(Standing::Admitted { until, .. }) if board.now < until => None,
            _ => Some("not live"),
        },
        // An admission that ran out may have bought.
        Ask::Consume if over == Some("expired") => None,
        Ask::Consume | Ask::Leave | Ask::Revoke(AfterRevoke::Out) => {
            standing.map_or(Some("unknown"), |_| over.and(Some("before")))
        }
        Ask::Revoke(AfterRevoke::Returned) => match standing {
            None => Some("unknown"),
            Some(Standing::Waiting { .. } | Standing::Returned { .. }) => Some("before"),
            Some(_) => over.and(Some("before")),
        },
        Ask::Restore { edition, .. } if Edition(*edition) != board.edition => Some("void"),
        Ask::Restore { generation, .. }
            if board.generation < Generation(*generation) || standing.is_none() =>
        {
            Some("ahead")
        }
        Ask::Restore { .. } => over,
    }
}

/// The fan's turn is over.
fn over(standing: Option<Standing>, now: Timestamp) -> Option<&'static str> {
    match standing? {
        Standing::Ended(_) => Some("ended"),
        Standing::Admitted { until, .. } if until <= now => Some("expired"),
        _ => None,
    }
}

/// Why the room takes nobody anew.
fn no_new_fan(board: &Board) -> Option<&'static str> {
    match board.state {
        RoomState::Scheduled => Some("scheduled"),
        RoomState::SoldOut => Some("sold out"),
        RoomState::Closed => Some("closed"),
        RoomState::Off => Some("off"),
        _ if board.settings.waiting_max <= board.waiting => Some("full"),
        _ if board.ceiling <= board.issued => Some("busy"),
        _ => None,
    }
}

/// The refusal in an answer, in the words of [`reason`].
fn refusal(outcome: &Outcome) -> Option<&'static str> {
    let gone = |gone| match gone {
        Gone::Expired => Some("expired"),
        _ => Some("ended"),
    };
    match outcome {
        Outcome::Joined(answers) => match answers[0] {
            Joined::Gone(why) => gone(why),
            Joined::Busy => Some("busy"),
            Joined::Full => Some("full"),
            Joined::Scheduled { .. } => Some("scheduled"),
            Joined::Refused(RoomState::SoldOut) => Some("sold out"),
            Joined::Refused(RoomState::Closed) => Some("closed"),
            Joined::Refused(_) => Some("off"),
            _ => None,
        },
        Outcome::Claimed(answers) => match answers[0] {
            Claimed::Gone(why) => gone(why),
            Claimed::Unknown => Some("unknown"),
            _ => None,
        },
        Outcome::Checked(answers) => (answers[0] == Checked::NotLive).then_some("not live"),
        Outcome::Extended(answer) => (*answer == Extended::NotLive).then_some("not live"),
        Outcome::Consumed(Consumed::Before) | Outcome::Left(Left::Before) => Some("before"),
        Outcome::Consumed(Consumed::Unknown) | Outcome::Left(Left::Unknown) => Some("unknown"),
        Outcome::Revoked(answers) => match answers[0] {
            Revoked::Now => None,
            Revoked::Before => Some("before"),
            Revoked::Unknown => Some("unknown"),
        },
        Outcome::Restored(answers) => match answers[0] {
            Restored::Void => Some("void"),
            Restored::Ahead => Some("ahead"),
            Restored::Known(Claimed::Gone(why)) => gone(why),
            _ => None,
        },
        _ => None,
    }
}

fn ask(world: &mut World, n: u64, ask: &Ask) -> Result<(), TestCaseError> {
    let board = world.board();
    let (standing, revision) = (world.room.standing(fan(n)), world.room.revision());
    let outcome = world.say(&command(n, standing, ask));
    let refused = refusal(&outcome);
    prop_assert_eq!(refused, reason(ask, standing, &board), "{:?}", outcome);
    if refused.is_some() {
        prop_assert_eq!(world.room.standing(fan(n)), standing);
        prop_assert_eq!(world.room.revision(), revision, "a refusal wrote something");
    }
    Ok(())
}

/// Only the leader calls, and only in an open room.
fn tick_as(world: &mut World, holder: u8) -> Result<(), TestCaseError> {
    let (board, holder) = (world.board(), holder.to_string());
    let other = board.leader.filter(|leader| *leader != holder);
    let revision = world.room.revision();
    let ticked = world.say(&Command::Tick(Tick { holder, ..tick(3) }));
    match (&ticked, other) {
        (Outcome::Ticked(Ticked::Follower { holder }), Some(other)) => {
            prop_assert_eq!(holder, &other);
            prop_assert_eq!(
                world.room.revision(),
                revision,
                "a follower wrote something"
            );
        }
        (Outcome::Ticked(Ticked::Leader(step)), None) => {
            prop_assert!(
                step.count == 0 || step.state == RoomState::Open,
                "{:?}",
                step
            );
        }
        _ => prop_assert!(false, "{:?}", ticked),
    }
    Ok(())
}

fn happen(world: &mut World, event: &Event) -> Result<(), TestCaseError> {
    match event {
        Event::Wait(ms) => world.wait(*ms),
        Event::Ask(n, what) => ask(world, *n, what)?,
        Event::Tick(holder) => tick_as(world, *holder)?,
        Event::Stock(free) => {
            let version = world.board().stock.map_or(1, |told| told.version + 1);
            world.say(&Command::Stock(stock(version, *free, 0)));
        }
        Event::WaitingMax(max) => world.set(|settings| settings.waiting_max = *max),
        Event::Verb(state) => world.verb(*state),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_refusal_has_its_reason_and_writes_nothing(
        begins in prop_oneof![1 => Just(RoomState::Scheduled), 1 => Just(RoomState::Early), 3 => Just(RoomState::Open)],
        events in proptest::collection::vec(event(), 1..150),
    ) {
        let mut settings = settings();
        (settings.claim_ms, settings.ticket_ttl_ms, settings.waiting_max) = (1_000, 3_000, 8);
        let [begin, mut finish] = new_room(settings, begins);
        if let Mend::Finish(finish) = &mut finish {
            finish.ceiling = CEILING;
        }
        let mut world = World::born([begin, finish]);
        for event in &events {
            happen(&mut world, event)?;
        }
    }
}
