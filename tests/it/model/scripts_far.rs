//! What no history is long enough for, told to the scripts in single cases: how far a tick looks, how
//! much may be uncopied; a join that lies about where its fan's id comes from; and what chance seldom finds.

use catraca::base::limits::{LEDGER_UNCOPIED_MAX, PRESENT_MS, TICK_LOOKED_MAX};
use catraca::room::Store;
use catraca::room::in_redis::InRedis;
use catraca::room::in_redis::scripts::ScriptClock;
use catraca::room::keys::Key;
use catraca::room::model::Standing;
use catraca::room::model::command::{
    Command, Joined, Joining, Origin, Outcome, RoomState, Step, Stock, Ticked, Why,
};
use tokio::runtime::Runtime;

use crate::model::happenings::{Happening, Ordeal, Wrong};
use crate::model::twins::Twins;
use crate::model::world::{announced, at, fan, stock, tick};
use crate::support::need::{REDIS, VALKEY};
use crate::support::redis::Server;

/// On each kind of server: an open room that asks for presence, told to the definition as well.
fn on_both(case: fn(Twins<'_>)) {
    for need in [&REDIS, &VALKEY] {
        let Some(server) = Server::start(need) else {
            continue;
        };
        let runtime = Runtime::new().unwrap();
        let url = server.url();
        let connected = runtime.block_on(InRedis::connect_on(&url, ScriptClock::Key));
        let scripts = connected.unwrap();
        let mut twins = Twins::new(ScriptClock::Key, &runtime, &scripts, &server);
        twins.generation = 1;
        twins.begin(0).unwrap();
        twins.settings.require_presence = true;
        twins.settings.waiting_max = 5_000;
        let open = twins.finish(RoomState::Open, [0, 0, 9_000, 0], None);
        open.unwrap();
        case(twins);
    }
}

fn join(twins: &mut Twins<'_>, fans: &[u64], origin: Origin) {
    for part in fans.chunks(500) {
        let joining = part.iter().map(|n| Joining {
            fan: fan(*n),
            origin,
        });
        let joining = joining.collect();
        twins.say(&Command::Join { joining }).unwrap();
    }
}

#[test]
fn a_script_looks_as_far_as_the_definition() {
    on_both(|mut twins| {
        let fans: Vec<u64> = (1..TICK_LOOKED_MAX + 50).collect();
        join(&mut twins, &fans, Origin::Known);
        twins.now = twins.now.plus_ms(PRESENT_MS);
        let here = fans[fans.len() - 1];
        let touch = Command::Touch {
            fans: vec![fan(here)],
        };
        twins.say(&touch).unwrap();
        for _ in 0..2 {
            twins.say(&Command::Tick(tick(5))).unwrap();
        }
        twins.compare().unwrap();
        // As many have not shown up since: a tick forgets as many as it looks at.
        let touch = |n: &u64| vec![fan(*n)];
        let again: Vec<u64> = (2_000..2_000 + TICK_LOOKED_MAX + 50).collect();
        join(&mut twins, &again, Origin::Known);
        for fans in again.chunks(500) {
            let fans = fans.iter().flat_map(touch).collect();
            twins.say(&Command::Touch { fans }).unwrap();
        }
        twins.now = twins.now.plus_ms(PRESENT_MS + 1);
        twins.say(&Command::Tick(tick(0))).unwrap();
        twins.compare().unwrap();
    });
}

#[test]
fn a_script_calls_nobody_while_too_much_is_uncopied() {
    on_both(|mut twins| {
        join(&mut twins, &[1, 2], Origin::Known);
        let fill = "for _ = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'a', '1') end";
        let most = LEDGER_UNCOPIED_MAX;
        let ledger = Key::Ledger.of(&twins.show);
        let fill = redis::Script::new(fill);
        fill.key(ledger)
            .arg(most)
            .invoke::<()>(&mut twins.redis)
            .unwrap();
        let lead = || -> Step {
            let command = Command::Tick(tick(1));
            let told = twins.scripts.apply(&twins.show, &command);
            match twins.runtime.block_on(told).unwrap() {
                Outcome::Ticked(Ticked::Leader(step)) => step,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(lead().count, 1);
        let held = lead();
        assert_eq!((held.count, held.why), (0, Why::Unarchived));
    });
}

/// The definition looks everybody up; a script that is told it need not finds out all the same.
#[test]
fn a_lie_about_an_id_gives_nobody_a_second_number() {
    on_both(|mut twins| {
        join(&mut twins, &[1, 2], Origin::Known);
        let [of_first, of_second] = [1, 2].map(|n| twins.numbers[&fan(n)]);
        let (minted, known) = (Origin::Minted, Origin::Known);
        let joining = [(2, minted), (3, minted), (1, known)];
        let joining = joining.map(|(n, origin)| Joining {
            fan: fan(n),
            origin,
        });
        let command = Command::Join {
            joining: joining.into(),
        };
        let told = twins.scripts.apply(&twins.show, &command);
        let Outcome::Joined(told) = twins.runtime.block_on(told).unwrap() else {
            panic!("another answer");
        };
        let kept = |number| Joined::Kept { number };
        assert_eq!((told[0], told[2]), (kept(of_second), kept(of_first)));
        assert!(
            matches!(told[1], Joined::New { number } if of_second < number),
            "{told:?}"
        );
    });
}

#[test]
fn an_admission_is_extended_as_far_as_it_may_be_and_not_for_nothing() {
    on_both(|mut twins| {
        join(&mut twins, &[1], Origin::Known);
        let fans = vec![fan(1)];
        twins.say(&Command::Tick(tick(1))).unwrap();
        twins.say(&Command::Claim { fans }).unwrap();
        for more_ms in [0, 1, 100_000] {
            let Some(Standing::Admitted { until, .. }) = twins.room.standing(fan(1)) else {
                panic!("the fan is inside");
            };
            let until = until.plus_ms(more_ms);
            let fan = fan(1);
            twins.say(&Command::Extend { fan, until }).unwrap();
            twins.compare().unwrap();
        }
    });
}

/// What the operator has overruled is old news, however late it is said again.
#[test]
fn an_operator_overrules_a_stock_for_good() {
    on_both(|mut twins| {
        let none_left = |as_of| Stock {
            as_of: at(as_of),
            ..stock(1, 0, 0)
        };
        twins.say(&Command::Stock(none_left(1_000))).unwrap();
        let reopens = Happening::Verbs(vec![RoomState::Open]);
        twins.happen(&reopens).unwrap();
        twins.say(&Command::Stock(none_left(2_000))).unwrap();
        twins.compare().unwrap();
    });
}

/// A later word of the shop overrules the operator: at once, or as soon as the room is open again.
#[test]
fn the_shop_has_the_last_word() {
    on_both(|mut twins| {
        let none_left = |version| Command::Stock(stock(version, 0, 0));
        twins.say(&none_left(1)).unwrap();
        twins.configure(Some(RoomState::Open)).unwrap();
        twins.say(&Command::Tick(tick(1))).unwrap();
        assert_eq!(twins.room.facts().state, RoomState::Open, "overruled");
        twins.say(&none_left(2)).unwrap();
        assert_eq!(twins.room.facts().state, RoomState::SoldOut);
        twins.compare().unwrap();

        twins.configure(Some(RoomState::Open)).unwrap();
        twins.configure(Some(RoomState::Paused)).unwrap();
        twins.say(&none_left(3)).unwrap();
        twins.configure(Some(RoomState::Open)).unwrap();
        assert_eq!(twins.room.facts().state, RoomState::Open);
        twins.say(&Command::Tick(tick(1))).unwrap();
        assert_eq!(twins.room.facts().state, RoomState::SoldOut);
        twins.compare().unwrap();
    });
}

/// SQL knew nothing of the draw at the first loss and has it at the second: its empty places are no gap.
#[test]
fn a_gap_inside_a_draw_is_none() {
    on_both(|mut twins| {
        twins.begin_anew([1, 1], 0).unwrap();
        twins.settings.draw = Some(announced());
        let early = twins.finish(RoomState::Early, [0, 1, 30, 0], None);
        early.unwrap();
        join(&mut twins, &[1, 2, 3, 4, 5], Origin::Known);
        let frozen = Happening::Opening(2, Wrong::Nothing);
        twins.happen(&frozen).unwrap();
        let last = twins.numbers[&fan(5)].0;
        for (steps, wrong, known) in [(3, Wrong::Seed, last - 3), (4, Wrong::Nothing, last)] {
            let ordeal = Ordeal {
                steps,
                wrong,
                known,
                more: 0,
                folds: Vec::new(),
                everybody: None,
                passes: Vec::new(),
            };
            twins.lose_and_mend(ordeal).unwrap();
            twins.compare().unwrap();
        }
    });
}

/// Nobody had a number when the room was mended, and it is lost again, and found.
#[test]
fn a_room_without_numbers_is_lost_after_its_mend() {
    on_both(|mut twins| {
        for happening in [
            Happening::LoseAndMend(vec![Ordeal {
                steps: 3,
                wrong: Wrong::Nothing,
                known: 0,
                more: 0,
                folds: Vec::new(),
                everybody: None,
                passes: Vec::new(),
            }]),
            Happening::Lose,
            Happening::Begin {
                generations: 1,
                is_found: true,
                editions: 0,
            },
        ] {
            twins.happen(&happening).unwrap();
            twins.compare().unwrap();
        }
    });
}
