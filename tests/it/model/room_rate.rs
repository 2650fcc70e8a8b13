//! Promise 4 from below: what the rate allows is used, whatever rate and window.

use std::time::Duration;

use proptest::prelude::*;

use catraca::admitter::ask::rhythm;
use catraca::admitter::pace::{Pace, Seen};
use catraca::room::model::command::Step;

use crate::model::witness::Witness;
use crate::model::world::{World, fan, settings};

const WINDOWS: u64 = 10;

/// A room with `rate` calls in `window_ms`, a crowd before it, and its leader.
struct Led {
    world: World,
    witness: Witness,
    pace: Pace,
    seen: Seen,
}

impl Led {
    fn open(rate: u64, window_ms: u64) -> Self {
        let mut settings = settings();
        (settings.rate, settings.window_ms, settings.capacity) = (rate, window_ms, u64::MAX);
        let mut world = World::open(settings);
        let crowd: Vec<u64> = (0..40 * rate).collect();
        let mut witness = Witness::default();
        witness.rate(world.now, rate);
        for (n, answer) in crowd.iter().zip(world.join_all(&crowd)) {
            witness.joined(fan(*n), answer).unwrap();
        }
        Self {
            world,
            witness,
            pace: Pace::default(),
            seen: Seen {
                rate,
                window_ms,
                free: None,
                sold: None,
            },
        }
    }

    /// Ticks as the admitter does, late by up to `late_ms`, and returns the fewest calls in any ten
    /// windows that begin later than a window from now.
    fn fewest_calls(mut self, late_ms: &[u64]) -> u64 {
        let window_ms = self.seen.window_ms;
        let from = self.world.now.plus_ms(window_ms);
        let to = from.plus_ms(2 * WINDOWS * window_ms);
        let rhythm = rhythm(window_ms);
        let mut late = late_ms.iter().map(|ms| Duration::from_millis(*ms)).cycle();
        let mut since = rhythm;
        while self.world.now < to {
            let step = self.tick(since);
            let free_in = step.free_in_ms.map(|ms| Duration::from_millis(ms.max(1)));
            since = free_in.map_or(rhythm, |free_in| free_in.min(rhythm));
            since += late.next().unwrap_or_default();
            self.wait(since);
        }
        self.witness.fewest(from, to, WINDOWS)
    }

    fn tick(&mut self, since: Duration) -> Step {
        let asked = self.pace.ask(self.seen, since);
        let step = self.world.tick(asked.want);
        self.pace.after(self.world.now, asked, &step, self.seen);
        self.copy_ledger();
        step
    }

    fn copy_ledger(&mut self) {
        for entry in self.world.copy_ledger() {
            self.witness.read(&entry).unwrap();
        }
    }

    fn wait(&mut self, time: Duration) {
        self.world.wait(u64::try_from(time.as_millis()).unwrap());
    }
}

fn fewest_calls(rate: u64, window_ms: u64, late_ms: &[u64]) -> u64 {
    Led::open(rate, window_ms).fewest_calls(late_ms)
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

/// A window of a tenth of a second is the shortest that can be set.
#[test]
fn the_rate_is_used_in_short_windows() {
    for (rate, window_ms) in [(40, 100), (200, 250), (500, 500)] {
        let fewest = fewest_calls(rate, window_ms, &[0, 1]);
        assert!(
            rate * WINDOWS * 95 / 100 <= fewest,
            "{fewest} calls at {rate} in {window_ms} ms"
        );
    }
}

/// What was called at once, by a tick that came a window late or by somebody in the leader's name, is
/// free at once a window later.
#[test]
fn calls_that_were_made_at_once_are_not_made_at_once_again() {
    for (rate, window_ms) in [(50, 1_000), (500, 1_000), (500, 500)] {
        let mut led = Led::open(rate, window_ms);
        assert_eq!(led.world.tick(rate).count, rate);
        led.copy_ledger();
        led.wait(Duration::from_millis(window_ms));
        let fewest = led.fewest_calls(&[0, 1, 2]);
        assert!(
            rate * WINDOWS * 95 / 100 <= fewest,
            "{fewest} calls at {rate} in {window_ms} ms"
        );

        let mut led = Led::open(rate, window_ms);
        let step = led.tick(Duration::from_millis(window_ms));
        assert_eq!(step.count, rate.div_ceil(4), "a quarter at once");
    }
}
