import assert from "node:assert/strict";
import { test } from "node:test";
import { duration, eta, fill, number, reach, screen } from "../say.js";

// Only what these tests look at. That both pages say the same in every language is tested where
// the real texts are: in the browser.
const t = new Proxy({
  thousands: ",", duration_of_two: "{a} and {b}",
  second_one: "1 second", second_other: "{n} seconds",
  minute_one: "1 minute", minute_other: "{n} minutes",
  hour_one: "1 hour", hour_other: "{n} hours", day_one: "1 day", day_other: "{n} days",
  eta_soon: "soon", eta_up_to: "0-{high}", eta_about: "{low}", eta_range: "{low}-{high}",
  eta_range_long: "{low} to {high}", hours_minutes: "{h}h{m}",
  hours_short: "{h}h", minutes_short: "{m}min",
  reach_likely: "likely {reach}", reach_close: "close {reach}", reach_unlikely: "no {reach}",
}, { get: (table, key) => table[key] ?? key });

test("only the text is filled in", () => {
  assert.equal(fill("a {x} {y} {z}", { x: "{y}", y: 2 }), "a {y} 2 ");
});

test("numbers, durations, ranges and reach as on the page without scripts", () => {
  assert.deepEqual([0, 999, 1000, 1204000].map((n) => number(n, t)),
    ["0", "999", "1,000", "1,204,000"]);
  for (const [ms, said] of [
    [0, "0 seconds"], [1, "1 second"], [61_000, "1 minute and 1 second"], [120_000, "2 minutes"],
    [599_001, "10 minutes"], [600_500, "11 minutes"], [11_100_000, "3 hours and 5 minutes"],
    [90_060_000, "1 day and 1 hour"], [86_460_000, "1 day"],
  ]) assert.equal(duration(ms, t), said);
  for (const [low_s, high_s, said] of [
    [0, 0, "soon"], [30, 60, "soon"], [30, 61, "0-2"], [120, 120, "2"], [150, 290, "2-5"],
    [3000, 5400, "50-90"],
    [3300, 5401, "55min to 1h35"], [5000, 7100, "1h20 to 2h"],
  ]) assert.equal(eta({ low_s, high_s }, t), said);
  for (const [place, said] of [
    [27_900, "likely 31,400"], [31_400, "close 31,400"], [34_600, "no 31,400"],
  ]) assert.equal(reach(31_420, place, t), said);
});

test("an address that would run is no way in", () => {
  for (const enter of ["javascript:alert(1)", "data:text/html,x", "//x", "", null, undefined]) {
    assert.equal(screen({ state: "admitted", enter, left_ms: 1 }, t).enter, null);
  }
  assert.equal(screen({ state: "admitted", enter: "https://x/", left_ms: 1 }, t).enter, "https://x/");
  assert.equal(screen({ state: "closed", enter: "https://x/" }, t).enter, null);
});
