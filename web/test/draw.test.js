import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { commitment, isAsSealed, places, seed, sha256 } from "../draw.js";

// The same bytes as for src/room/draw.rs.
const golden = new URL("../../tests/golden/draw.json", import.meta.url);
const { draws } = JSON.parse(readFileSync(golden, "utf8"));

test("the page draws what everybody draws", async () => {
  assert.ok(5 < draws.length);
  for (const row of draws) {
    assert.equal(commitment(row.show, row.secret, row.beacon), row.commitment);
    assert.equal(seed(row.show, row.secret, row.beacon_value, row.size), row.seed);
    const table = (await places(row.seed, row.size)).slice(1);
    if (row.places) assert.deepEqual([...table], row.places);
    const bytes = new DataView(new ArrayBuffer(4 * table.length));
    table.forEach((place, at) => bytes.setUint32(4 * at, place));
    assert.equal(createHash("sha256").update(bytes).digest("hex"), row.places_sha256);
  }
});

test("SHA-256 is SHA-256, also where a block ends", () => {
  for (const length of [0, 1, 54, 55, 56, 63, 64, 65, 119, 120, 1000]) {
    const bytes = Uint8Array.from({ length }, (_, at) => at * 7);
    assert.equal(sha256(bytes), createHash("sha256").update(bytes).digest("hex"), `${length}`);
  }
});

test("the page stays awake while it draws", async () => {
  let pauses = 0;
  await places(draws[0].seed, 100_000, async () => { pauses += 1; });
  assert.equal(pauses, 5);
});

test("a draw that is not the sealed one is noticed", () => {
  const row = draws.at(-1);
  const draw = { ...row };
  assert.equal(isAsSealed(row.show, draw, row.commitment), true);
  assert.equal(isAsSealed(row.show, draw, undefined), true);
  assert.equal(isAsSealed(row.show, { ...draw, seed: undefined }, row.commitment), null);
  assert.equal(isAsSealed(row.show, null, row.commitment), null);
  for (const change of [
    { secret: "ff".repeat(32) }, { size: row.size + 1 }, { seed: "00".repeat(32) },
    { beacon: `${row.beacon}x` }, { beacon_value: `${row.beacon_value}x` },
  ]) assert.equal(isAsSealed(row.show, { ...draw, ...change }, row.commitment), false);
  assert.equal(isAsSealed(row.show, draw, "11".repeat(32)), false);
});
