import assert from "node:assert/strict";
import { test } from "node:test";
import { Visit } from "../visit.js";

const BOARD = {
  show: "s", name: "S", state: "open", cause: null, edition: 1, generation: 1, serving: 0,
  issued: 100, gaps: [], pace: 10, eta: { spread: 0.2 }, reach: null, opens_in_ms: null,
  message: {}, shop_url: null, poll: { board_ms: 5000, restore_per_s: 10 },
  as_of: "2027-03-14T10:00:00Z",
};
const JOINED = { fan: "f", number: 50, place: 50, position: 50, state: "waiting", pass: "P" };
const ok = (body) => ({ status: 200, body });

/** A world with one page in it: what it asked, what it remembers, what it is answered. */
function world({ board = BOARD, stored = {}, answers = {} } = {}) {
  const w = {
    board, stored, asked: [], now: 0, online: true,
    answers: { join: () => ok(JOINED), status: () => ok({}), leave: () => ({ status: 204 }), ...answers },
  };
  const ask = (name) => async (...given) => {
    w.asked.push([name, ...given]);
    if (!w.online) throw new TypeError("no network");
    return name === "board" ? (w.boardAnswer ?? ok(w.board)) : w.answers[name](...given);
  };
  w.visit = new Visit({
    api: { board: ask("board"), join: ask("join"), status: ask("status"), leave: ask("leave") },
    memory: { load: () => structuredClone(w.stored), save: (me) => { w.stored = structuredClone(me); } },
    clock: () => w.now, random: () => 0.5, newKey: () => "K".repeat(24), alone: (work) => work(),
  });
  w.count = (name) => w.asked.filter(([asked]) => asked === name).length;
  w.state = () => w.visit.facts().state;
  w.run = async (ms) => {
    for (const end = w.now + ms; w.now < end;) w.now += Math.min(await w.visit.step(), end - w.now);
  };
  return w;
}

const kept = (more) => ({
  ...JOINED, edition: 1, generation: 1, serving: 0, start: 50, ...more,
});

test("joins once and then lives on the board", async () => {
  const w = world();
  await w.run(60_000);
  assert.equal(w.count("join"), 1);
  assert.equal(w.count("status"), 0, "a waiting fan costs the room nothing");
  assert.ok(10 <= w.count("board") && w.count("board") <= 16);
  assert.equal(w.state(), "waiting");
  assert.equal(w.stored.pass, "P");
  assert.equal(w.stored.key, undefined);
});

test("a lost join is asked again with the same key, also by the next page", async () => {
  const lost = { join: () => { throw new TypeError("cut"); } };
  const w = world({ answers: lost });
  await w.run(20_000);
  assert.ok(2 <= w.count("join"));
  assert.equal(w.visit.facts().notice, "lost");
  const next = world({ stored: w.stored, answers: lost });
  await next.run(1_000);
  const keys = [...w.asked, ...next.asked].filter(([name]) => name === "join").map(([, key]) => key);
  assert.equal(new Set(keys).size, 1);
});

test("a refresh keeps the place and does not join again", async () => {
  const w = world({ stored: kept() });
  await w.run(1_000);
  assert.equal(w.count("join"), 0);
  assert.equal(w.visit.facts().number, 50);
});

test("a slower copy of the board makes no position rise", async () => {
  const w = world({ stored: kept() });
  w.board = { ...BOARD, serving: 30 };
  await w.run(1_000);
  assert.equal(w.visit.facts().position, 20);
  w.board = { ...BOARD, serving: 25, as_of: "2027-03-14T10:00:01Z" };
  await w.run(10_000);
  assert.equal(w.visit.facts().position, 20);
});

test("asks status when its place is reached, and as often as it is told", async () => {
  const turn = { state: "admitted", place: 50, serving: 50, poll_after_ms: 10_000, enter: "https://x/", ticket_expires_in_ms: 300_000 };
  const w = world({ stored: kept(), answers: { status: () => ok(turn) } });
  await w.run(10_000);
  assert.equal(w.count("status"), 0);
  w.board = { ...BOARD, serving: 50, as_of: "2027-03-14T10:00:10Z" };
  await w.run(60_000);
  assert.ok(5 <= w.count("status") && w.count("status") <= 7, `${w.count("status")}`);
  assert.equal(w.state(), "admitted");
  const [, pass, serving] = w.asked.find(([name]) => name === "status");
  assert.deepEqual([pass, serving], ["P", 50]);
});

test("near its turn it shows that somebody is there, where the show asks for that", async () => {
  const waiting = { state: "waiting", place: 50, serving: 0, poll_after_ms: 60_000 };
  const near_s = 120;
  const polls = async (board, stored) => {
    const w = world({ board, stored, answers: { status: () => ok(waiting) } });
    await w.run(10 * near_s * 1_000);
    return w.count("status");
  };
  const asking = { ...BOARD, poll: { ...BOARD.poll, near_s } };
  const count = await polls(asking, kept());
  assert.ok(40 <= count && count <= 44, `every near_s / 4: ${count}`);
  assert.equal(await polls(BOARD, kept()), 0, "nobody asks for it");
  assert.equal(await polls(asking, kept({ place: 5_000, number: 5_000 })), 0, "far away");
  assert.equal(await polls({ ...asking, state: "paused" }, kept()), 0, "nobody is called");
});

test("the end of a turn is asked for when it comes, and kept over a refresh", async () => {
  let left = 5_000;
  const status = () => ok(0 < left
    ? { state: "admitted", place: 50, poll_after_ms: 60_000, enter: null, ticket_expires_in_ms: left }
    : { state: "gone", reason: "expired" });
  const w = world({ stored: kept({ serving: 50 }), answers: { status } });
  await w.run(2_000);
  assert.equal(w.state(), "admitted");
  left = 0;
  await w.run(6_000);
  assert.equal(w.state(), "gone");
  const next = world({ stored: w.stored });
  await next.run(10_000);
  assert.deepEqual([next.state(), next.count("join")], ["gone", 0]);
  next.visit.joinAgain();
  await next.run(1_000);
  assert.deepEqual([next.state(), next.count("join")], ["waiting", 1]);
});

test("after a loss the pass is shown once, the front first", async () => {
  const back = { state: "waiting", place: 50, serving: 5, poll_after_ms: 5000 };
  const w = world({ stored: kept({ serving: 20, position: 30 }), answers: { status: () => ok(back) } });
  w.board = { ...BOARD, generation: 2, serving: 5 };
  await w.run(5_000);
  assert.equal(w.count("status"), 0, "30 places at 10 a second, and up to 5 s");
  assert.deepEqual([w.state(), w.visit.facts().position], ["restoring", 30]);
  await w.run(30_000);
  assert.equal(w.count("status"), 1);
  assert.deepEqual([w.state(), w.visit.facts().position], ["waiting", 45]);
});

test("a pass of another edition is void, and the fan decides", async () => {
  const w = world({ stored: kept(), answers: { status: () => ({ status: 401, body: {} }) } });
  w.board = { ...BOARD, edition: 2 };
  await w.run(30_000);
  assert.deepEqual([w.state(), w.count("join")], ["none", 0]);
  assert.equal(w.visit.facts().notice, "void");
});

test("Retry-After is obeyed, and the last position stays", async () => {
  const w = world({ stored: kept() });
  w.board = { ...BOARD, serving: 10 };
  await w.run(1_000);
  w.boardAnswer = { status: 503, body: {}, retryAfterMs: 30_000 };
  await w.run(20_000);
  assert.equal(w.count("board"), 2);
  const { notice, position, state } = w.visit.facts();
  assert.deepEqual([notice, position, state], ["busy", 40, "waiting"]);
  w.boardAnswer = null;
  await w.run(30_000);
  assert.equal(w.visit.facts().notice, null);
});

test("without a connection it waits longer and longer", async () => {
  const w = world({ stored: kept() });
  w.online = false;
  await w.run(600_000);
  assert.ok(w.count("board") < 40, `${w.count("board")}`);
  assert.equal(w.visit.facts().notice, "lost");
});

test("after a long sleep it asks status once", async () => {
  const w = world({ stored: kept(), answers: { status: () => ok({ state: "waiting", place: 50, serving: 3, poll_after_ms: 5000 }) } });
  await w.run(10_000);
  w.visit.wake(3_600_000);
  await w.run(30_000);
  assert.equal(w.count("status"), 1);
});

test("joins when the door opens, not before", async () => {
  const w = world();
  Object.defineProperty(w, "board", {
    get: () => (w.now < 8_000 ? { ...BOARD, state: "scheduled", opens_in_ms: 8_000 - w.now } : BOARD),
  });
  await w.run(7_900);
  assert.deepEqual([w.state(), w.count("join")], ["scheduled", 0]);
  await w.run(1_500);
  assert.equal(w.count("join"), 1);
});

test("a full line is asked again, slowly, and said so", async () => {
  const full = { status: 503, body: { type: "urn:catraca:problem:full" }, retryAfterMs: 10_000 };
  const w = world({ answers: { join: () => full } });
  await w.run(25_000);
  assert.ok(w.count("join") <= 3);
  assert.equal(w.visit.facts().notice, "full");
});

test("what the board says is what a fan in line is shown", async () => {
  for (const [board, state] of [
    ["early", "early"], ["open", "waiting"], ["paused", "paused"], ["sold_out", "sold_out"],
    ["closed", "closed"], ["restoring", "restoring"], ["off", "off"],
  ]) {
    const w = world({ stored: kept(), board: { ...BOARD, state: board } });
    await w.run(100);
    assert.equal(w.state(), state);
  }
});

test("a turn outlives the sale: sold out ends no admission", async () => {
  const turn = { state: "admitted", place: 50, poll_after_ms: 5000, enter: null, ticket_expires_in_ms: 60_000 };
  const w = world({ stored: kept({ serving: 50 }), board: { ...BOARD, serving: 50, state: "sold_out" }, answers: { status: () => ok(turn) } });
  await w.run(1_000);
  assert.equal(w.state(), "admitted");
});

test("two tabs are one fan", async () => {
  const w = world();
  const other = world();
  await w.run(1_000);
  other.stored = w.stored; // the first tab was faster, after the second had looked
  await other.run(1_000);
  assert.equal(other.count("join"), 0);
  assert.equal(other.visit.facts().number, 50);
});

test("leaving gives up the place, also when it was gone already", async () => {
  for (const status of [204, 401, 404]) {
    const w = world({ stored: kept(), answers: { leave: () => ({ status, body: null }) } });
    await w.run(1_000);
    await w.visit.leave();
    assert.deepEqual([w.state(), w.stored.pass], ["gone", undefined]);
  }
  const w = world({ stored: kept(), answers: { leave: () => ({ status: 503, body: null }) } });
  await w.run(1_000);
  await w.visit.leave();
  assert.deepEqual([w.state(), w.visit.facts().notice], ["waiting", "busy"]);
});

test("an unknown show is said plainly", async () => {
  const w = world();
  w.boardAnswer = { status: 404, body: {} };
  await w.run(1_000);
  assert.deepEqual([w.state(), w.count("join")], ["missing", 0]);
});

test("no hurry of the fan's undercuts Retry-After", async () => {
  const w = world({ stored: kept() });
  w.boardAnswer = { status: 429, body: {}, retryAfterMs: 30_000 };
  await w.run(1_000);
  for (let at = 0; at < 20; at += 1) {
    w.visit.wake(7_000);
    w.visit.hurry();
    await w.run(1_000);
  }
  assert.equal(w.count("board"), 1);
  await w.run(15_000);
  assert.equal(w.count("board"), 2);
});

test("a fan who is gone asks seldom", async () => {
  const w = world({ stored: { gone: "used" } });
  await w.run(600_000);
  assert.ok(w.count("board") <= 13, `${w.count("board")}`);
  assert.equal(w.count("join") + w.count("status"), 0);
});

test("garbage in the memory heals by one question", async () => {
  const back = { state: "waiting", place: 50, serving: 3, poll_after_ms: 5000 };
  const w = world({ stored: { pass: "P" }, answers: { status: () => ok(back) } });
  await w.run(10_000);
  assert.equal(w.count("status"), 1);
  assert.deepEqual([w.state(), w.visit.facts().position], ["waiting", 47]);
});

test("a challenge is answered, and the join asked again with the same key", async () => {
  const refused = {
    status: 429, retryAfterMs: 60_000,
    body: { type: "urn:catraca:problem:challenge-required", challenge: "C" },
  };
  const join = (key, proof) => (proof === "proof of C" ? ok(JOINED) : refused);
  const w = world({ answers: { join } });
  w.visit.answering = async (challenge) => {
    assert.equal(w.visit.facts().notice, "check");
    return `proof of ${challenge}`;
  };
  await w.run(2_000);
  const joins = w.asked.filter(([name]) => name === "join");
  assert.deepEqual(joins.map(([, , proof]) => proof), [undefined, "proof of C"]);
  assert.equal(new Set(joins.map(([, key]) => key)).size, 1);
  assert.deepEqual([w.state(), w.visit.facts().notice], ["waiting", null]);
});

test("a browser that can do no sums waits as it is told", async () => {
  const refused = {
    status: 429, retryAfterMs: 20_000,
    body: { type: "urn:catraca:problem:challenge-required", challenge: "C" },
  };
  const w = world({ answers: { join: () => refused } });
  w.visit.answering = async () => { throw new Error("no"); };
  await w.run(60_000);
  assert.ok(2 <= w.count("join") && w.count("join") <= 4, `${w.count("join")}`);
});

test("a sum that takes a while is no reason to hurry after it", async () => {
  const refused = (retryAfterMs) => ({
    status: 429, retryAfterMs,
    body: { type: "urn:catraca:problem:challenge-required", challenge: "C" },
  });
  const full = { status: 503, body: { type: "urn:catraca:problem:full" }, retryAfterMs: 30_000 };
  const asked = [];
  const join = (key, proof) => {
    asked.push(w.now);
    return proof ? full : refused(60_000);
  };
  const w = world({ answers: { join } });
  w.visit.answering = async () => {
    w.now += 45_000; // an old phone
    return "proof";
  };
  await w.run(47_000);
  assert.deepEqual([asked.length, w.visit.facts().notice], [2, "full"]);
  await w.run(25_000);
  assert.equal(asked.length, 2, "Retry-After counts from the answer, not from before the sum");
  await w.run(60_000);
  assert.ok(3 <= asked.length);
});

test("a slow answer is dated by its arrival", async () => {
  const turn = {
    state: "admitted", place: 50, poll_after_ms: 60_000, enter: null, ticket_expires_in_ms: 20_000,
  };
  const status = () => {
    w.now += 9_000;
    return ok(turn);
  };
  const w = world({ stored: kept({ serving: 50 }), answers: { status } });
  await w.visit.step();
  assert.equal(w.visit.facts().left_ms, 20_000);
});

test("a sum that does not come out is said, and done again in time", async () => {
  const refused = {
    status: 429, retryAfterMs: 20_000,
    body: { type: "urn:catraca:problem:challenge-required", challenge: "C" },
  };
  const w = world({ answers: { join: (key, proof) => (proof ? ok(JOINED) : refused) } });
  let tries = 0;
  w.visit.answering = async () => {
    tries += 1;
    if (tries === 1) throw new TypeError("the file did not come");
    return "proof";
  };
  await w.run(2_000);
  assert.deepEqual([tries, w.visit.facts().notice], [1, "check_error"]);
  await w.run(60_000);
  assert.deepEqual([tries, w.state(), w.visit.facts().notice], [2, "waiting", null]);
});
