// One fan's visit: what is known, what to ask next, and what the answers change.
//
// The page lives on the board, which a CDN serves: it subtracts, and asks `status` only when its
// place is reached, after a long sleep, and after the room's data was lost. `step` does what is due
// and says when it wants to be called again; it may be called at any time. Answers and sums may take
// seconds, so whoever needs the time asks the clock.

import {
  backoffMs, eta, isOlder, jitter, joinable, position, returnAfterMs, sameLine,
} from "./line.js";

const BOARD_MS = 5000;
const IDLE_MS = 60_000;

export class Visit {
  /**
   * Is given:
   * - api `board()`, `join(key, proof)`, `status(pass, serving)`, `leave(pass)`: each answers
   *   `{status, body, retryAfterMs}` and throws where there is no connection
   * - memory `load()` and `save(object)`: outlives the page, shared by its tabs
   * - clock milliseconds that never go back
   * - random a number from 0 to 1
   * - newKey a new Idempotency-Key
   * - alone runs a function while no other tab does
   * - drawing loads `draw.js`, which few shows need
   * - answering works the answer to a challenge out; throws where it cannot
   * - pause lets the page do something else
   */
  constructor(given) {
    Object.assign(this, given);
    this.me = this.memory.load();
    this.board = null; // the newest one seen
    this.opensAt = null;
    this.answer = null; // the last word of `status`, where it was admitted or standby
    this.notice = null; // lost, busy, full, check, check_error, account
    this.missing = false; // no such show
    this.slept = false;
    this.boardAt = 0;
    this.askAt = 0;
    this.returnAt = null;
    this.failures = { board: 0, ask: 0 };
    this.notBefore = { board: 0, ask: 0 }; // what Retry-After asked for
  }

  /** Does what is due; answers with the milliseconds until something is due again. */
  async step() {
    if (this.boardAt <= this.clock()) await this.readBoard();
    const what = this.ask();
    if (what && this.askAt <= this.clock()) await this[what]();
    const next = this.ask() ? Math.min(this.boardAt, this.askAt) : this.boardAt;
    return Math.max(250, next - this.clock());
  }

  ask() {
    if (!this.board || this.missing) return null;
    if (!this.me.pass) {
      const asked = this.me.gone || this.me.void;
      return !asked && joinable(this.board.state) ? "join" : null;
    }
    if (!sameLine(this.me, this.board)) {
      if (this.returnAt === null) {
        const perSecond = this.board.poll?.restore_per_s ?? 20_000;
        this.returnAt = this.clock()
          + returnAfterMs(this.me.position ?? 1, perSecond, this.random());
        this.askAt = Math.max(this.askAt, this.returnAt);
      }
      return "status";
    }
    this.returnAt = null;
    return this.isReached() || this.slept || this.isNear() ? "status" : null;
  }

  isReached() {
    const { place, serving } = this.me;
    return place != null && place <= serving;
  }

  /** Whether it is time to show that somebody is there, where the show asks for that. */
  isNear() {
    const { me, board } = this;
    const near_s = board.poll?.near_s;
    if (!near_s || me.place == null || board.state !== "open") return false;
    const wait = eta(me.place, me.serving, board);
    return wait !== null && wait.low_s <= near_s;
  }

  async readBoard() {
    const answer = await this.call(() => this.api.board(), "board");
    const now = this.clock();
    if (answer.status === 404) this.missing = true;
    if (answer.status !== 200) {
      this.boardAt = answer.retryAt;
      return;
    }
    this.missing = false;
    const board = answer.body;
    const pause = this.me.gone ? IDLE_MS : (board.poll?.board_ms ?? BOARD_MS);
    this.boardAt = now + jitter(pause, this.random());
    if (isOlder(board, this.board)) return;
    this.board = board;
    this.opensAt = board.opens_in_ms == null ? null : now + board.opens_in_ms;
    if (board.state === "scheduled" && this.opensAt !== null) {
      // All who wait for the door look within the same second: chance, not a fast clock, decides.
      const soon = Math.max(this.opensAt, now) + 250 + 1000 * this.random();
      this.boardAt = Math.min(this.boardAt, soon);
    }
    if (!this.me.pass || !sameLine(this.me, board)) return;
    await this.drawn();
    this.advance(board.serving);
  }

  /**
   * Once the board reveals the draw, the page computes its own place and takes nobody's word for it;
   * and whether the draw is the one that was sealed when the fan joined.
   */
  async drawn() {
    const { me, board } = this;
    const { seed, size } = board.draw ?? {};
    if (!seed || (me.seed === seed && typeof me.isAsSealed === "boolean")) return;
    try {
      const { isAsSealed, places } = await this.drawing();
      if (me.seed !== seed) {
        const isIn = me.number <= size;
        me.place = isIn ? (await places(seed, size, this.pause))[me.number] : me.number;
        me.seed = seed;
      }
      me.isAsSealed = isAsSealed(board.show, board.draw, me.commitment);
    } catch {
      // The file did not come: with the next board.
    }
  }

  /** Serving has got so far. Copies of the board differ: the greatest one counts. */
  advance(serving) {
    const before = this.isReached();
    const { me } = this;
    me.serving = Math.max(me.serving, serving);
    if (me.place != null) {
      // Copies of the board differ in how many places they call empty: the least counts.
      me.position = Math.min(me.position ?? Infinity, position(me.place, me.serving, this.board));
      me.start ??= me.position;
    }
    if (!before && this.isReached()) this.askAt = this.earliest("ask");
    this.memory.save(me);
  }

  async join() {
    await this.alone(async () => {
      this.me = this.memory.load();
      if (this.me.pass) return; // another tab was first
      if (!this.me.key) this.remember({ ...this.me, key: this.newKey() });
      let answer = await this.call(() => this.api.join(this.me.key), "ask");
      if (isWord(answer.body, "challenge-required")) answer = await this.prove(answer);
      const { status, body } = answer;
      if (status === 200 || status === 201) {
        const { fan, number, place, pass } = body;
        const { edition, generation, serving, draw } = this.board;
        // No position before a draw.
        const start = body.position ?? (place == null ? undefined : 1);
        this.remember({
          fan, number, place, pass, edition, generation, serving, start, position: start,
          commitment: draw?.commitment,
        });
        await this.drawn();
        this.advance(serving);
        this.notice = null;
        this.askAt = this.clock();
        return;
      }
      this.askAt = answer.retryAt;
      if (isWord(body, "full")) this.notice = "full";
      if (isWord(body, "bad-key")) this.remember({});
      if (isWord(body, "account-required")) {
        this.notice = "account";
        this.askAt = this.clock() + IDLE_MS;
      }
      // Scheduled, sold out or closed by now: the next board says so to everybody.
      if (status === 409) this.boardAt = Math.min(this.boardAt, this.clock() + 1000);
    });
  }

  async prove(refused) {
    this.notice = "check";
    let proof;
    try {
      proof = await this.answering(refused.body.challenge);
    } catch {
      this.notice = "check_error";
      return refused;
    }
    this.notBefore.ask = 0;
    return this.call(() => this.api.join(this.me.key, proof), "ask");
  }

  async status() {
    const answer = await this.call(() => this.api.status(this.me.pass, this.me.serving), "ask");
    const now = this.clock();
    const { status, body } = answer;
    if (status === 401) {
      this.forget({ void: true });
      return;
    }
    if (status !== 200) {
      this.askAt = answer.retryAt;
      return;
    }
    this.slept = false;
    this.returnAt = null;
    const pause = Math.min(60_000, Math.max(1000, body.poll_after_ms ?? BOARD_MS));
    this.askAt = now + jitter(pause, this.random());
    if (body.state === "gone") {
      this.forget({ gone: body.reason ?? "expired" });
      return;
    }
    this.hear(body, now);
    // Four times in the time after which a fan counts as away, so that one lost answer does no harm.
    if (this.isNear()) this.askAt = Math.min(this.askAt, now + this.board.poll.near_s * 250);
  }

  hear(body, now) {
    const { me, board } = this;
    const isSame = sameLine(me, board);
    const serving = isSame ? me.serving : 0;
    me.edition = board.edition;
    me.generation = board.generation;
    if (!me.seed) me.place = body.place ?? me.place;
    me.number ??= me.place;
    me.serving = Math.max(serving, body.serving ?? 0);
    if (me.place != null) {
      const before = isSame ? me.position : undefined;
      me.position = Math.min(before ?? Infinity, position(me.place, me.serving, board));
      me.start = Math.max(me.start ?? 1, me.position);
    }
    this.memory.save(me);
    this.answer = null;
    if (body.state === "standby") this.answer = { state: "standby" };
    if (body.state === "admitted") {
      const endsAt = now + body.ticket_expires_in_ms;
      this.answer = { state: "admitted", enter: body.enter, endsAt };
      this.askAt = Math.min(this.askAt, endsAt + 1000); // so that the end is told when it comes
    }
  }

  async leave() {
    const { status } = await this.call(() => this.api.leave(this.me.pass), "ask");
    if ([204, 401, 404].includes(status)) this.forget({ gone: "left" });
  }

  joinAgain() {
    this.forget({});
    this.hurry();
  }

  reload() {
    const before = this.me.pass;
    this.me = this.memory.load();
    if (this.me.pass === before) return;
    this.answer = null;
    this.askAt = this.earliest("ask");
  }

  wake(awayMs) {
    if (BOARD_MS < awayMs) this.boardAt = Math.min(this.boardAt, this.earliest("board"));
    if (awayMs < IDLE_MS) return;
    this.slept = true;
    this.askAt = Math.min(this.askAt, this.earliest("ask"));
  }

  hurry() {
    this.boardAt = Math.min(this.boardAt, this.earliest("board"));
    this.askAt = Math.min(this.askAt, this.earliest("ask"));
  }

  earliest(kind) {
    return Math.max(this.clock(), this.notBefore[kind]);
  }

  facts() {
    const now = this.clock();
    const { me, board, notice } = this;
    const left_ms = this.answer?.endsAt === undefined ? 0 : Math.max(0, this.answer.endsAt - now);
    const known = {
      state: this.state(), notice: me.void ? "void" : notice,
      number: me.number, place: me.place, position: me.position, start: me.start,
      serving: me.serving ?? board?.serving, reason: me.gone,
      enter: this.answer ? this.answer.enter : board?.shop_url, left_ms,
    };
    if (!board) return known;
    const opens_in_ms = this.opensAt === null ? null : Math.max(0, this.opensAt - now);
    const isOpen = board.state !== "early"; // before, only with an hour of opening
    const beforeMs = isOpen ? 0 : opens_in_ms;
    return {
      ...known, name: board.name, message: board.message,
      eta: me.place && beforeMs !== null ? eta(me.place, me.serving, board, beforeMs) : null,
      cause: board.cause, reach: board.reach, opens_in_ms,
      sold_out_at: board.sold_out_at, isPresenceAsked: Boolean(board.poll?.near_s),
      draw: board.draw && {
        beacon: board.draw.beacon, size: board.draw.size, isHeld: Boolean(board.draw.seed),
        commitment: me.commitment ?? board.draw.commitment, isAsSealed: me.isAsSealed,
      },
    };
  }

  state() {
    const { me, board } = this;
    if (this.missing) return "missing";
    if (me.gone) return "gone";
    if (this.answer) return this.answer.state;
    if (!board) return me.pass && 0 < this.failures.board ? "waiting" : "loading";
    if (me.pass && !sameLine(me, board)) return "restoring";
    if (["scheduled", "sold_out", "closed", "off"].includes(board.state)) return board.state;
    if (me.void) return "none";
    if (!me.pass) return "loading";
    return board.state === "open" ? "waiting" : board.state;
  }

  /** One request: counts failures in a row and keeps off for as long as it is told to. */
  async call(request, kind) {
    let answer;
    try {
      answer = await request();
    } catch {
      answer = { status: 0 };
    }
    const now = this.clock();
    const isAnswer = answer.status !== 0 && answer.status !== 429 && answer.status < 500;
    this.failures[kind] = isAnswer ? 0 : this.failures[kind] + 1;
    if (isAnswer && this.failures.board + this.failures.ask === 0) this.notice = null;
    if (!isAnswer) this.notice = answer.status === 0 ? "lost" : "busy";
    if (answer.retryAfterMs) this.notBefore[kind] = now + answer.retryAfterMs;
    const failures = Math.max(1, this.failures[kind]);
    const retryAt = now + backoffMs(failures, answer.retryAfterMs, this.random());
    return { body: null, ...answer, retryAt };
  }

  remember(me) {
    this.me = me;
    this.memory.save(me);
  }

  forget(tombstone) {
    this.answer = null;
    this.returnAt = null;
    this.remember(tombstone);
  }
}

function isWord(problem, word) {
  return problem?.type === `urn:catraca:problem:${word}`;
}
