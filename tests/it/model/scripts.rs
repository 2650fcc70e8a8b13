//! The scripts are the definition: random histories are told to both, every answer is the same, and
//! so is everything that is left in the end. One history in ten is told on the server's own clock, as
//! it runs in life; the others on one that is set by hand and jumps.

use std::env;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tokio::runtime::Runtime;

use catraca::room::in_redis::InRedis;
use catraca::room::in_redis::scripts::ScriptClock;
use catraca::room::model::command::RoomState;

use crate::model::happenings::life;
use crate::model::twins::Twins;
use crate::model::world::announced;
use crate::support::need::{Need, REDIS, VALKEY};
use crate::support::redis::Server;

/// How many histories are told when nobody asks for more.
const CASES: u32 = 400;
/// The variable that asks for more.
const CASES_VARIABLE: &str = "CATRACA_MODEL_CASES";

fn tell_both(need: &Need) {
    let Some(server) = Server::start(need) else {
        return;
    };
    let cases = env::var(CASES_VARIABLE).map_or(CASES, |cases| cases.parse().unwrap());
    let runtime = Runtime::new().unwrap();
    let url = server.url();
    let on = |clock| {
        let connected = runtime.block_on(InRedis::connect_on(&url, clock));
        connected.unwrap()
    };
    let (by_hand, on_own) = (on(ScriptClock::Key), on(ScriptClock::Server));
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    // Half of them begin early, with a draw to come; most of these hold it soon.
    let draws = prop_oneof![3 => Just(None), 1 => Just(Some(0)), 2 => (1u64..20).prop_map(Some)];
    let asks = proptest::bool::weighted(0.3);
    let histories = ((proptest::bool::weighted(0.1), asks), draws, life());
    let told = TestRunner::new(config).run(&histories, |((is_own, asks), draws, history)| {
        let (clock, scripts) = if is_own {
            (ScriptClock::Server, &on_own)
        } else {
            (ScriptClock::Key, &by_hand)
        };
        let mut twins = Twins::new(clock, &runtime, scripts, &server);
        twins.generation = 1;
        twins.begin(0)?;
        twins.settings.require_presence = asks;
        twins.settings.draw = draws.map(|_| announced());
        match draws {
            None => twins.finish(RoomState::Open, [0, 0, 150, 0], None)?,
            Some(fans) => {
                twins.finish(RoomState::Early, [0, 1, 30, 0], None)?;
                twins.hold_draw(fans)?;
            }
        }
        for happening in &history {
            twins.happen(happening)?;
        }
        twins.compare()
    });
    if let Err(error) = told {
        panic!("{}: {error}", need.what);
    }
}

#[test]
fn scripts_on_redis_say_what_the_definition_says() {
    tell_both(&REDIS);
}

#[test]
fn scripts_on_valkey_say_what_the_definition_says() {
    tell_both(&VALKEY);
}
