//! Promise 4 from below: what the rate allows is used, whatever rate and window.

use proptest::prelude::*;

use catraca::admitter::pace::{Pace, Seen};
use catraca::base::limits::TICK_EVERY_MS;

use crate::model::witness::Witness;
use crate::model::world::{World, fan, settings};

const WINDOWS: u64 = 10;

/// Ticks as the admitter does, late by up to `late_ms`, and returns the fewest calls in any ten
/// windows.
fn fewest_calls(rate: u64, window_ms: u64, late_ms: &[u64]) -> u64 {
    let mut settings = settings();
    (settings.rate, settings.window_ms, settings.capacity) = (rate, window_ms, u64::MAX);
    let mut world = World::open(settings);
    let crowd: Vec<u64> = (0..40 * rate).collect();
    let mut witness = Witness::default();
    witness.rate(world.now, rate);
    for (n, answer) in crowd.iter().zip(world.join_all(&crowd)) {
        witness.joined(fan(*n), answer).unwrap();
    }
    let mut pace = Pace::default();
    let seen = Seen {
        rate,
        window_ms,
        free: None,
        sold: None,
    };
    let from = world.now.plus_ms(window_ms);
    let to = from.plus_ms(2 * WINDOWS * window_ms);
    let mut late = late_ms.iter().cycle();
    let mut since_ms = TICK_EVERY_MS;
    while world.now < to {
        let asked = pace.ask(seen, since_ms);
        let step = world.tick(asked);
        pace.after(world.now, asked, &step, seen);
        for entry in world.copy_ledger() {
            witness.read(&entry).unwrap();
        }
        let rest = step
            .free_in_ms
            .map_or(TICK_EVERY_MS, |free| free.clamp(1, TICK_EVERY_MS));
        since_ms = rest + late.next().copied().unwrap_or(0);
        world.wait(since_ms);
    }
    witness.fewest(from, to, WINDOWS)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_rate_is_used(
        rate in 1u64..300,
        window_ms in 800u64..5_000,
        late_ms in proptest::collection::vec(0u64..20, 7),
    ) {
        let permille = if rate < 20 { 900 } else { 950 };
        let least = rate * WINDOWS * permille / 1_000;
        let fewest = fewest_calls(rate, window_ms, &late_ms);
        prop_assert!(least <= fewest, "{} calls of {}", fewest, rate * WINDOWS);
    }
}

#[test]
fn the_demo_rate_is_used() {
    for rate in [1, 10, 30, 500] {
        let fewest = fewest_calls(rate, 1_000, &[0, 1, 2]);
        assert!(
            rate * WINDOWS * 95 / 100 <= fewest,
            "{fewest} calls at {rate}/s"
        );
    }
}

/// The slowest rate of the drill that kills leaders: ten of its windows are longer than a round there.
#[test]
fn thirty_a_minute_are_called() {
    let (rate, window_ms) = (30, 60_000);
    for late_ms in [&[0, 1, 2][..], &[19, 7]] {
        let fewest = fewest_calls(rate, window_ms, late_ms);
        assert!(
            rate * WINDOWS * 95 / 100 <= fewest,
            "{fewest} calls, late by {late_ms:?}"
        );
    }
}
