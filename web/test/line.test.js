import assert from "node:assert/strict";
import { test } from "node:test";
import {
  backoffMs, eta, isOlder, jitter, pickLanguage, position, returnAfterMs,
} from "../line.js";

test("a position is a subtraction, and numbers nobody holds do not count", () => {
  const gap = { first: 101, last: 200, missing: 90 };
  for (const [place, serving, gaps, expected] of [
    [45_000, 0, [], 45_000],
    [10, 10, [], 1],
    [10, 99, [], 1],
    [300, 50, [gap], 160], // the whole gap lies ahead: 90 of it are nobody
    [300, 150, [gap], 110], // the ten restored ones may all lie in the part that is left
    [300, 200, [gap], 100],
    [150, 100, [gap], 10], // a restored fan inside the gap: nine others may be
    [50, 10, [gap], 40], // in front of it
    [300, 195, [gap], 105],
  ]) {
    assert.equal(position(place, serving, { gaps }), expected, `${place} at ${serving}`);
  }
});

test("a position never rises while serving rises", () => {
  const gaps = [{ first: 20, last: 60, missing: 30 }, { first: 80, last: 80, missing: 1 }];
  for (const place of [10, 40, 61, 100]) {
    let before = Infinity;
    for (let serving = 0; serving < 120; serving += 1) {
      const now = position(place, serving, { gaps });
      assert.ok(now <= before, `place ${place}, serving ${serving}`);
      before = now;
    }
  }
});

test("45,000 at 500 a second is 90 seconds, give or take the spread", () => {
  assert.deepEqual(eta(45_000, 0, { pace: 500, eta: { spread: 0.2 } }), { low_s: 72, high_s: 108 });
  assert.deepEqual(eta(20, 10, { pace: 1, eta: null }), { low_s: 5, high_s: 15 });
  const unmeasured = { pace: null, rate: 30, window_ms: 1000 };
  assert.deepEqual(eta(3_000, 0, unmeasured, 500_000), { low_s: 480, high_s: 720 });
  assert.equal(eta(10, 0, { pace: null, rate: 0, window_ms: 1000 }), null);
  // Half of a draw's places are empty: the measured pace passes them too, the rate does not.
  const draw = { seed: "x", size: 1_000, empty: 500 };
  assert.deepEqual(eta(601, 0, { pace: 10, draw }), { low_s: 48, high_s: 74 });
  assert.deepEqual(eta(601, 0, { pace: null, rate: 5, window_ms: 1000, draw }), { low_s: 48, high_s: 74 });
});

test("empty places of a draw are shared out evenly, and no position rises as they are passed", () => {
  const draw = { seed: "x", size: 10, empty: 5 };
  for (const [place, serving, expected] of [[1, 0, 1], [5, 0, 3], [10, 0, 6], [11, 0, 6], [12, 10, 2], [10, 9, 1]]) {
    assert.equal(position(place, serving, { draw }), expected, `${place} at ${serving}`);
  }
  assert.equal(position(5, 0, { draw: { ...draw, seed: undefined } }), 5);
  const size = 9;
  for (let held = 1; held < 2 ** size; held += 1) {
    for (let place = 1; place <= size; place += 1) {
      if (!(held & (1 << place - 1))) continue;
      let before = Infinity;
      for (let serving = 0; serving < place; serving += 1) {
        let empty = 0;
        for (let p = serving + 1; p <= size; p += 1) empty += held & (1 << p - 1) ? 0 : 1;
        const now = position(place, serving, { draw: { seed: "x", size, empty } });
        assert.ok(1 <= now && now <= before, `${held.toString(2)}: ${place} at ${serving}`);
        before = now;
      }
    }
  }
});

test("the front comes back first after a loss: two million in a hundred seconds", () => {
  assert.equal(returnAfterMs(2_000_000, 20_000, 0), 100_000);
  assert.ok(returnAfterMs(1, 20_000, 0.999) < 5_001);
});

test("pauses grow, stay bounded, and never undercut Retry-After", () => {
  assert.ok(backoffMs(1, 0, 0.999) <= 3_000);
  assert.ok(backoffMs(50, 0, 0.999) <= 61_000);
  assert.ok(30_000 <= backoffMs(1, 30_000, 0));
  assert.equal(jitter(5000, 0), 4000);
  assert.equal(Math.round(jitter(5000, 1)), 6000);
});

test("a cached copy does not turn the clock back", () => {
  const older = { as_of: "2027-03-14T10:00:07Z" };
  const newer = { as_of: "2027-03-14T10:00:07.5Z" };
  assert.equal(isOlder(older, newer), true);
  assert.equal(isOlder(newer, older), false);
  assert.equal(isOlder(older, null), false);
});

test("a language is found by its first part", () => {
  const ours = ["en", "es", "pt-BR"];
  assert.equal(pickLanguage([null, "pt-PT", "en"], ours), "pt-BR");
  assert.equal(pickLanguage(["es", "pt-BR"], ours), "es");
  assert.equal(pickLanguage([null, "de", "constructor"], ours), "en");
});
